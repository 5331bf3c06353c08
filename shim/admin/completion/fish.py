"""Completion for fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shim.admin.completion.offered import Offered
from shim.core.options.getopt import REQUIRED

# A list's last item is completed: what is before it stays.
_FUNCTION = r"""
function __shim_ask
    set -l before (string replace -r '^--[^=]*=' '' -- (commandline -ct) | string match -r '^.*,')
    set -q before[1]; or set before ''
    for one in ($argv 2>/dev/null)
        echo $before$one
    end
end
"""


def lines(commands: Sequence[Offered]) -> Iterator[str]:
    """The script, to be sourced."""
    yield "# Completion of the Slurm commands; made by `shim completion fish`."
    yield _FUNCTION.strip("\n")
    for one in commands:
        yield from _command(one, commands)


def _command(one: Offered, commands: Sequence[Offered]) -> Iterator[str]:
    program, _, rest = one.command.partition(" ")
    here = f"complete -c {program}"
    below = [other for other in commands if other.command.rpartition(" ")[0] == one.command]
    condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in rest.split())
    if below:
        names = " ".join(other.command.rpartition(" ")[2] for other in below)
        condition += ("; and " if condition else "") + f"not __fish_seen_subcommand_from {names}"
    if condition:
        here += f" -n {_quoted(condition)}"
    for other in below:
        yield f"{here} -f -a {other.command.rpartition(' ')[2]} -d {_quoted(other.help)}"
    if one.asked and not below:
        yield f"{here} -f -a {_asked(one.asked)}"
    for option in one.options:
        words = f" -l {option.long[2:]}" + (f" -s {option.short[1:]}" if option.short else "")
        if option.asked:
            words += f" -x -a {_asked(option.asked)}"
        elif option.arity == REQUIRED:
            words += " -r"
        yield f"{here}{words}" + (f" -d {_quoted(option.help)}" if option.help else "")


def _asked(command: str) -> str:
    if command.startswith("echo "):
        return _quoted(command.removeprefix("echo "))
    return _quoted(f"(__shim_ask {command})")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
