"""What commands print: lines on stdout in a single write, and lines on stderr after stdout was flushed."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.errors import ShimError


def put(lines: list[str]) -> None:
    """Writes lines to stdout in a single write."""
    if lines and sys.stdout is not None:
        sys.stdout.write("\n".join(lines) + "\n")


def say(program: str, *lines: str) -> None:
    """Prints lines on stderr as ShimError words them: after the program's name, or bare after a NUL."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(
            "".join(f"{line[1:]}\n" if line.startswith("\0") else f"{program}: {line}\n" for line in lines)
        )
        sys.stderr.flush()
    except OSError:
        pass  # stderr is closed or full: there is nowhere left to say it


def flush_output() -> None:
    """Flushes stdout and stderr, before a child process or a descriptor writes to the same files."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def complain(program: str, lines: list[str]) -> None:
    """Lines on stderr that do not end the command, after what was printed so far; ``program`` may be empty."""
    if lines and sys.stderr is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        name = f"{program}: " if program else ""
        sys.stderr.write("".join(f"{name}{line}\n" for line in lines))


def say_error(program: str, error: ShimError) -> int:
    """Says on stderr why a part of a listing is missing; the exit code. The other parts are printed."""

    sys.stdout.flush()
    say(program, *error.lines)
    return error.code


def not_found(line: str) -> int:
    """Says on stdout, as scontrol does, that something is not there; the exit code."""
    put([line])
    return 1


def date_line(now: float) -> str:
    """The line above a long listing: ``Fri Nov 20 17:22:43 2026``."""
    return time.ctime(now)
