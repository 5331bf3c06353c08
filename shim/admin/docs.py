"""`./dev docs`: the pages that are made from tables. ``--check`` fails when a page is not what the tables say."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from shim.admin.top import draw, example
from shim.admin.top.keys import KEYS
from shim.control.config_words import CLUSTER, PARTITION, TOP, Word
from shim.core.options.getopt import Option
from shim.core.options.grammar import OLD, VERSIONS, Grammar
from shim.core.options.help import spelling
from shim.core.options.query_options import ROWS
from shim.core.options.query_options import options_of as query_options_of
from shim.core.options.submit_options import COMMANDS, options_of
from shim.core.options.support import support_of, support_of_row
from shim.dispatch import MODULES

DOCS = Path(__file__).resolve().parents[2] / "docs"


# The commands of Slurm that are not here, and what becomes of them.
ABSENT = {
    "sview": "not there: no graphical interface",
}


def pages() -> dict[str, str]:
    """Every generated page and picture: file name in docs/ -> its text."""
    shown = example.lines()
    return {
        "configuration.md": "\n".join(_configuration()) + "\n",
        "support.md": _support(),
        "top.md": "\n".join(_top([draw.plain(line) for line in shown])) + "\n",
        "images/top.svg": draw.picture(shown, example.SIZE[0]),
    }


def _top(shown: Iterable[str]) -> Iterator[str]:
    yield from _TOP.split("\n")
    yield "| keys | |"
    yield "| --- | --- |"
    yield from (f"| {' '.join(f'`{key}`' for key in keys.replace(',', '').split())} | {what} |" for keys, what in KEYS)
    yield ""
    yield from _TOP_AS_TEXT.split("\n")
    yield "```text"
    yield from shown
    yield "```"


_TOP = """\
# shim top

<!-- Made by `./dev docs` from shim/admin/docs.py, keys.py and example.py of shim/admin/top. -->

`shim top` shows all clusters on one page that keeps itself up to date: what is in use of each and was in the last hour, the nodes, the queue,
and of the selected job why it waits and when it is expected to start, or what it uses and the last lines of its output. Keys act on the
selected job. It needs a terminal of 40x8 or more, and shows more columns on a wide one; 80x24 is enough.

![a page of shim top](images/top.svg)

The figures are those of `squeue`, `sinfo`, `sstat` and `shim why`, read by the same code. What keys do to a job is done by Slurm's own
commands (`scancel`, `scontrol hold` …), on every kind of cluster; what they say is on the last line. Expected starts are for jobs that
use all of their time limits. The curve is of CPUs, and of GPUs where there are any, that the last runs of jobs have held; of a real Slurm
no past is known here.
"""
_TOP_AS_TEXT = """\
`shim top --once` prints one page as text, as large as `COLUMNS` and `LINES` say, the terminal, or 80x24: for scripts, and where
there is no terminal. Without colours: `NO_COLOR=1`. Where the locale is not UTF-8, bars and names are ASCII.

## What it costs

It is told, and asks nobody: the kernel reports (inotify) that the controller has written to the job index, and `PRAGMA data_version` whether
that changed anything; then the index is read, at most four times a second, and less often where that takes long. Of ten thousand
jobs only those that are on the page, or hold nodes, are decoded. Output is read when its file has grown, the controller's end is
told by the kernel, and a new one is started where jobs wait or run. Only changed lines are sent to the terminal. Three things
are asked for: `sstat` of the selected job every ten seconds while it runs; a real Slurm's `squeue` and `sinfo` every five seconds, or
every twenty times as long as they took; where the kernel has no watches left, or the index is not there yet, the index once a second.

`./dev bench --only top` measures, at ten thousand jobs, the time to the first page and what the controller does while it is watched.

Whatever ends it (a key, `^C`, SIGTERM, SIGHUP, a fault of ours) the terminal is as it was before, and so it is while it is suspended by
`^Z`; SIGKILL alone leaves no time for that (`reset` mends the terminal).

## As text
"""


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
            yield f"| `{word.name}` | {word.type} | {_default(word)} | {_meaning(word)} |"


def _meaning(word: Word) -> str:
    return ": ".join(part for part in (word.slurm, word.text) if part)


def _default(word: Word) -> str:
    if word.default in (None, (), ""):
        return ""
    if isinstance(word.default, bool):
        return f"`{str(word.default).lower()}`"
    return f"`{word.default}`"


_PREFACE = """\
# What is supported

<!-- Made by `./dev docs` from shim/core/options/. -->

Every option of Slurm's commands, and what becomes of it. None is ignored silently: it is **honoured**;
**approximated** (read, checked and shown; the table says what is missing); **inert** (it has nothing to act on here); or
**refused** with an error that names it. `shim explain SCRIPT` says the same for one script. A cluster with the `slurm` backend
is a real Slurm: it gets every command line as it is.

Of the local backend as a whole: nodes are virtual, share the machine's ports and files, and are not separated by
cgroups ([local-backend.md](local-backend.md)). There is no accounting: account and QOS are recorded and have no limits.
A requeued job waits `requeue_delay` seconds (1; Slurm: 120).

## Levels

`slurm_version` in the configuration says whose options there are: `22.05` (the default) or `25.11`. At 22.05 the newer ones are
unknown and take no part in abbreviations, as on that release; at 25.11 they have their meaning, and those marked "22.05 only"
are gone. `--version` of every command follows (`slurm 22.05.8`, `slurm 25.11.0`), because scripts ask for it to learn which
options they may use. What commands print is that of 22.05 at both releases.

## What -v says

`-v`, `-vv` and `-vvv` print the lines of Slurm that tell of options, jobs, steps and their tasks; those that tell of what there is none of here are left out: plugins that are loaded
(`select/…`, `auth/munge`, `hash/k12`, the inside of `mpi/pmi2`), the threads and sockets between srun and slurmd (`net_stream_listen`, `_file_readable`, `eio_message_socket_accept`) and remote procedure calls.
"""
_PLUGINS = """
## Options of plugins

A site's plugins add options of their own. By default they are unknown, as on a Slurm without the plugin. In the configuration:

```toml
[plugins]
pyxis = true                                # the options of the table below
ignore = ["uenv=", "view=", "turbo"]        # accepted without effect; `=`: with a value, `[=]`: with or without one
map = { edf = "container-image", long = "time=2-00:00:00" }    # another name for an option; a flag that stands for a value
```

Where nothing at all is configured those of pyxis are there as soon as a program for containers is ([containers.md](containers.md)).

What is ignored is named by `-v` and `shim explain`. `ignore` and `map` win over `pyxis`, so that scripts made for containers
can be tried where there are none: `ignore = ["container-image=", "container-mounts="]`.
"""


class Row:
    """One option: its spelling, the commands that take it, their variables, and the releases that have it."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.commands: list[str] = []
        self.variables: list[str] = []
        self.releases: list[str] = []

    def line(self) -> str:
        """The row of the table."""
        variables = " ".join(f"`{name}`" for name in self.variables)
        return f"| `{spelling(self.option)}` | {' '.join(self.commands)} | {variables} | {self._outcome('local')} | {self._outcome('kubernetes')} | {self._note()} |"

    def _outcome(self, backend: str) -> str:
        outcome, reason = support_of(self.option, backend)
        if backend != "local" and reason == support_of(self.option)[1]:
            reason = ""
        if self.option.field != self.option.long:
            reason = f"the same as --{self.option.field}" if backend == "local" else ""
        return outcome + (f": {reason}" if reason else "")

    def _note(self) -> str:
        if len(self.releases) == len(VERSIONS):
            return ""
        return "22.05 only" if self.releases == [OLD] else "25.11"


def rows(pyxis: bool = False) -> list[Row]:
    """Every option of sbatch, srun and salloc of any release, by name; with ``pyxis`` those of that plugin alone."""
    found: dict[tuple[str, str], Row] = {}
    for release in VERSIONS:
        for command in COMMANDS:
            for option in _options(command, release, pyxis):
                row = found.setdefault((option.long, option.short), Row(option))
                _add(row.commands, [command])
                _add(row.releases, [release])
                _add(row.variables, option.env)
    return [found[key] for key in sorted(found)]


def _options(command: str, release: str, pyxis: bool) -> Iterable[Option]:
    table = options_of(command, Grammar(release=release))
    if not pyxis:
        return table
    return [one for one in options_of(command, Grammar(release=release, pyxis=True)) if one.long not in table.by_name]


def _add(seen: list[str], more: Iterable[str]) -> None:
    seen.extend(name for name in more if name not in seen)


def _support() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _PREFACE
    yield "## Options of sbatch, srun and salloc"
    yield ""
    yield from _table(rows())
    yield _PLUGINS
    yield from _table(rows(pyxis=True))
    yield from _queries()
    yield "## Commands that are not here"
    yield ""
    yield from (f"* `{name}`: {why}." for name, why in ABSENT.items() if name not in MODULES)


def _queries() -> Iterator[str]:
    """What becomes of the options of the commands that look or act on jobs, the same on every backend of ours."""
    yield ""
    yield "## Options of the other commands"
    yield ""
    yield "| command | option | variables | what becomes of it |"
    yield "| --- | --- | --- | --- |"
    for command in ROWS:
        table = query_options_of(command)
        later = [option for option in query_options_of(command, newer=True) if option.long not in table.by_name]
        for option in sorted([*table, *later], key=lambda option: option.long):
            if option.long in ("help", "usage", "version"):
                continue
            outcome, reason = support_of_row(option.row if option in later else table.by_name[option.field])
            if option.field != option.long:
                reason = f"the same as --{option.field}"
            variables = " ".join(f"`{name}`" for name in option.env)
            yield f"| {command} | `{spelling(option)}` | {variables} | {outcome}{f': {reason}' if reason else ''} |"
    yield ""


def _table(found: Iterable[Row]) -> Iterator[str]:
    yield "| option | commands | variables | local | kubernetes | release |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in found:
        yield row.line()


def main(argv: list[str]) -> int:
    """Writes the pages, or with ``--check`` compares them."""
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"written: docs/{name}")
    if stale and "--check" in argv:
        print(f"out of date: {', '.join(stale)}; run ./dev docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
