"""The files that an installation has beside the commands: manual pages, and what shells complete by, where man and the shells look for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shim.dispatch import MODULES

MAN = "share/man/man1"
BASH = "share/bash-completion/completions"
FISH = "share/fish/vendor_completions.d"
ZSH = "share/zsh/site-functions"
# bash looks for a file by the command's name, and has one of ours for all of them.
_BASH_STUB = 'source "${BASH_SOURCE[0]%/*}/shim"\n'
_FISH_STUB = "source (status dirname)/shim.fish\n"


def files(commands: object) -> Iterator[tuple[str, str]]:
    """Path below the prefix, and text. ``commands``: those of `shim`, as Typer knows them."""
    from shim.admin import completion, manual

    for command in MODULES:
        yield f"{MAN}/{command}.1", manual.page(command, commands)
        if command != "shim":
            yield f"{BASH}/{command}", _BASH_STUB
            yield f"{FISH}/{command}.fish", _FISH_STUB
    yield f"{BASH}/shim", completion.script("bash", commands)
    yield f"{FISH}/shim.fish", completion.script("fish", commands)
    yield f"{ZSH}/_shim", completion.script("zsh", commands)


def write(prefix: Path, commands: object) -> list[str]:
    """Writes them below ``prefix``; their paths below it."""
    written = []
    for name, text in files(commands):
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(name)
    return written
