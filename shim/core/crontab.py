"""A user's table of recurring jobs, as scrontab edits it: its entries, and the lines that are taken out of service.

Each entry becomes a job; the lines ``#SCRON`` in front of it are its options, and of it alone. ``NAME=value`` is put wherever the commands
behind it have ``$NAME``.
"""

from __future__ import annotations

from shim.core import script
from shim.core.errors import ShimError
from shim.core.formats.cron import CronError, Schedule, parse, split
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

MAGIC = "#SCRON"
DISABLED = "#DISABLED: "  # in front of the lines of an entry whose job was cancelled
BAD = "#BAD: "  # in front of the lines with a mistake, when the table is edited again


class Entry(Value):
    """A job to be: ``first`` and ``last`` are its lines, from 1; ``options`` the number and the words of each line that has some; ``when`` as it was written."""

    first: int
    last: int
    options: Tuple[Tuple[int, Tuple[str, ...]], ...] = ()
    when: str
    schedule: Schedule
    command: str
    script: str


class BadLine(ShimError):
    """A line with a mistake, ``number`` from 1."""

    def __init__(self, number: int, *lines: str) -> None:
        super().__init__(*lines)
        self.number = number


def entries(text: str) -> List[Entry]:
    """The entries of the table. Raises BadLine with Slurm's words for the first mistake."""
    found: List[Entry] = []
    variables: Dict[str, str] = {}
    options: List[Tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if line.startswith(MAGIC):
            options.append((number, line))
        elif bare and not bare.startswith("#") and not _assigns(bare, variables):
            found.append(_entry(number, line, options, variables))
            options = []
    return found


def _entry(number: int, line: str, options: List[Tuple[int, str]], variables: Dict[str, str]) -> Entry:
    try:
        when, command = split(line)
        schedule = parse(when)
    except CronError as error:
        hint = [f"error: {error.hint}"] if error.hint else []
        raise BadLine(number, *hint, "error: something is broken") from None
    command = expanded(command.rstrip(), variables)
    said = "".join(f"{line}\n" for _, line in options)
    return Entry(
        first=options[0][0] if options else number,
        last=number,
        options=tuple((at, tuple(script.split(line[len(MAGIC) :], "crontab", at))) for at, line in options),
        when=when,
        schedule=schedule,
        command=command,
        script="#!/bin/sh\n# This job was submitted through scrontab\n"
        f"{said}# crontab time request was: '{when}'\n{command}\n",
    )


def _assigns(line: str, variables: Dict[str, str]) -> bool:
    """Whether the line defines a variable, which is noted."""
    name, equals, value = line.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier():
        return False
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    variables[name] = value
    return True


def expanded(command: str, variables: Dict[str, str]) -> str:
    """The command with the values of the variables that are known; ``\\$NAME``, ``${NAME}`` and other names stay."""
    head, *parts = command.split("$")
    done = head
    for part in parts:
        length = next((at for at, letter in enumerate(part) if not (letter.isalnum() or letter == "_")), len(part))
        name = part[:length]
        escaped = done.endswith("\\")
        done += f"${part}" if escaped or name not in variables else variables[name] + part[length:]
    return done


def marked(text: str, first: int, last: int, mark: str) -> str:
    """The table with ``mark`` in front of these lines."""
    lines = text.split("\n")
    return "\n".join(mark + line if first <= number <= last else line for number, line in enumerate(lines, 1))
