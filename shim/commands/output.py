"""What commands print: lines on stdout in a single write, and lines on stderr after stdout was flushed."""

from __future__ import annotations

import _io
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.errors import ShimError


class Messages(_io.TextIOWrapper):
    """Standard error. What cannot be written to it is lost and changes nothing, as with the messages of Slurm's commands; ``gone`` tells that it was so."""

    gone = False

    def write(self, text: str) -> int:
        """As usual, but for errors."""
        try:
            return super().write(text)
        except OSError:
            return self._lost(text)

    def flush(self) -> None:
        """As usual, but for errors."""
        try:
            super().flush()
        except OSError:
            self._lost("")

    def _lost(self, text: str) -> int:
        self.gone = True
        silence(2)  # or it would be tried again
        return len(text)


def silence(number: int) -> None:
    """Points a standard stream to /dev/null: the interpreter would fail to flush the rest of its buffer at its end, and print an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def put(lines: list[str]) -> None:
    """Writes lines to stdout in a single write."""
    if lines and sys.stdout is not None:
        sys.stdout.write("\n".join(lines) + "\n")


def say(program: str, *lines: str) -> None:
    """Prints lines on stderr, after what was printed so far, as ShimError words them: after the program's name, or bare after a NUL and without a name."""
    if not lines or sys.stderr is None:
        return
    if sys.stdout is not None:
        sys.stdout.flush()
    name = f"{program}: " if program else ""
    sys.stderr.write("".join(f"{line[1:]}\n" if line.startswith("\0") else f"{name}{line}\n" for line in lines))
    sys.stderr.flush()


def flush_output() -> None:
    """Flushes stdout and stderr, before a child process or a descriptor writes to the same files."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def say_error(program: str, error: ShimError) -> int:
    """Says on stderr why a part of a listing is missing; the exit code. The other parts are printed."""
    say(program, *error.lines)
    return error.code


def not_found(line: str) -> int:
    """Says on stdout, as scontrol does, that something is not there; the exit code."""
    put([line])
    return 1


def date_line(now: float) -> str:
    """The line above a long listing: ``Fri Nov 20 17:22:43 2026``."""
    return time.ctime(now)
