"""`./dev docs`: the pages that are made from tables. ``--check`` fails when a page is not what the tables say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from shim.admin import support_page
from shim.control.config_words import CLUSTER, PARTITION, TOP, Word

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    """Every generated page: file name in docs/ -> its text."""
    return {"configuration.md": "\n".join(_configuration()) + "\n", "support.md": support_page.text()}


def _configuration() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "<!-- Made by `./dev docs` from shim/control/config_words.py. -->"
    yield ""
    yield "Nothing needs to be configured: without a file there is one cluster, `local`, this machine as virtual nodes that become as many"
    yield "and as large as jobs ask ([local-backend.md](local-backend.md)), or the real Slurm that this machine is set up for"
    yield "([real-slurm.md](real-slurm.md)). `shim init SCRIPT…` writes a file for these scripts, `shim init slurm.conf` one for a site's shape."
    yield ""
    yield "Files, later ones win: `/etc/shim/config.toml`, `$XDG_CONFIG_HOME/shim/config.toml` (`~/.config/shim/config.toml`),"
    yield "the file that `$SHIM_CONFIG` names. Then variables: `SHIM_DEFAULT`, and `SHIM_<CLUSTER>_<WORD>`, e.g."
    yield "`SHIM_LOCAL_NODES=2`. `shim config --origin` shows each value and where it comes from. An unknown word is an error."
    yield "A configuration names programs to run. So the user's own file is read only if it, and every level that leads to it, belongs to its user or root"
    yield "and nobody else can write to it (levels above may be sticky); another one is taken for one that is not there, as `root` with a user's HOME"
    yield "finds it. Every command says so on stderr, `shim doctor` too. `SHIM_CONFIG` may name a file that others own or write, for instance a"
    yield "project's: who names it trusts them. Root is refused such a file."
    yield "A changed configuration counts for whatever is submitted, moved or updated next, also in a shell that has another one (`SHIM_CONFIG`)"
    yield "than the last; that is then said. What active jobs need of the old one stays for them ([controller.md](internals/controller.md#another-configuration))."
    yield ""
    yield "```toml"
    yield '[clusters.local]\nbackend = "local"\nnode_names = "n[1-4]"\ncpus = 8\nmemory = "16000M"\n'
    yield '[[clusters.local.node]]\nnames = "n[3-4]"\ngpus = "a100:4"\n'
    yield "[clusters.local.partitions.debug]\ndefault = true\n"
    yield '[clusters.local.partitions.gpu]\nnodes = "n[3-4]"\nmax_time = "2:00:00"'
    yield "```"
    for title, words in (
        ("Top level", TOP),
        ("A cluster: `[clusters.NAME]`", CLUSTER),
        ("A partition: `[clusters.NAME.partitions.PARTITION]`", PARTITION),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield "| word | type | default | meaning |"
        yield "| --- | --- | --- | --- |"
        for word in words:
            yield f"| `{word.name}` | {word.type} | {_default(word)} | {word.text} |"


def _default(word: Word) -> str:
    if word.default is None or word.default in ((), ""):
        return ""
    if isinstance(word.default, bool):
        return f"`{str(word.default).lower()}`"
    return f"`{word.default}`"


def main(argv: list[str]) -> int:
    """Writes the pages, or with ``--check`` compares them."""
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.write_text(text)
            print(f"written: docs/{name}")
    if stale and "--check" in argv:
        print(f"out of date: {', '.join(stale)}; run ./dev docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
