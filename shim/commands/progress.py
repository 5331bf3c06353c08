"""What a command waits for, and how far that has come: a line on a terminal, from the second second on, and gone when it is over.

Never in pipes or files, nor of a command in the background: there ``on_terminal`` gives one that shows nothing. It stands on stderr;
whoever prints lines clears it before.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

AFTER = 1.0  # seconds that a command may take before anything is said
EVERY = 0.25  # seconds at least between two lines
_BAR = 20  # columns
_MIB = 1024 * 1024


class Progress:
    """The line. ``with`` clears it at the end, whatever that is. ``wanted``: whether anybody sees it."""

    def __init__(
        self,
        program: str,
        stream: TextIO,
        clock: Callable[[], float] = monotonic,
        columns: Callable[[], int] | None = None,
    ) -> None:
        self.wanted = True
        self._program = program
        self._stream = stream
        self._clock = clock
        self._columns = columns or _columns
        self._what: dict[str, Any] = {}
        self._since = clock()
        self._shown_at = self._since + AFTER - EVERY  # when the line was there last, as it were
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        self.clear()

    def call(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The controller's reply to ``op``; what it tells meanwhile is shown. The errors of ``client.call``."""
        from shim.control import client

        if not self.wanted:
            return client.call(op, fields)
        return client.call(op, {**fields, "progress": True}, on_event=self.event, idle=self.tick)

    def begin(self, what: str) -> None:
        """From now on that is what is waited for."""
        self.event({"what": what})

    def event(self, event: dict[str, Any]) -> None:
        """What the controller says: ``what``, and as far as it is known ``done`` of ``all``, in ``unit``. Other events are none of this."""
        if event.get("event", "progress") == "progress":
            if event.get("what") != self._what.get("what"):
                self._since = self._clock()
            self._what = event
            self.tick()

    def tick(self) -> None:
        """Shows the line if it is time to: to be called now and then, for the seconds go on."""
        now = self._clock()
        if self._what and now >= self._shown_at + EVERY and _in_foreground(self._stream):
            self._shown_at = now
            text = line(f"{self._program}: ", self._what, now - self._since, self._columns() - 1)
            self._write(f"\r{text}\x1b[K")
            self._shown = True

    def clear(self) -> None:
        """The line is gone, until the next ``tick``."""
        if self._shown:
            self._shown = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._what = {}  # the terminal is gone


class _Unseen(Progress):
    def __init__(self) -> None:
        super().__init__("", sys.stderr)
        self.wanted = False

    def event(self, event: dict[str, Any]) -> None:
        """Nobody sees it."""


def on_terminal(program: str, *, quiet: bool = False) -> Progress:
    """The progress of this command. On anything but a terminal that can erase a line, and for ``quiet``, it shows nothing."""
    stream = sys.stderr
    try:
        seen = not quiet and stream is not None and os.isatty(stream.fileno())
    except (OSError, ValueError):
        seen = False
    if not seen or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return _Unseen()
    return Progress(program, stream)


def line(program: str, event: dict[str, Any], seconds: float, width: int) -> str:
    """The line: what, how far, for how long; no wider than ``width``."""
    tail = f"  {int(seconds) // 60}:{int(seconds) % 60:02}"
    done, whole, unit = int(event.get("done") or 0), int(event.get("all") or 0), str(event.get("unit") or "")
    if whole or done:
        tail = f"  {_amount(done, whole, unit)}{tail}"
    if whole:
        full = min(_BAR, _BAR * done // whole)
        bar = f"  [{'#' * full}{'.' * (_BAR - full)}]"
        if width >= 60:
            tail = bar + tail
    from shim.core.script import printable

    what = printable(program + " ".join(str(event.get("what") or "").split()))
    room = max(0, width - len(tail))
    if _wide(what) > room:
        while what and _wide(what) > room - 1:
            what = what[:-1]
        what += "~"
    return (what + tail)[: max(0, width)]


def _amount(done: int, whole: int, unit: str) -> str:
    if unit == "bytes":
        return f"{done / _MIB:.1f}/{whole / _MIB:.1f} MiB" if whole else f"{done / _MIB:.1f} MiB"
    return (f"{done}/{whole} {unit}" if whole else f"{done} {unit}").rstrip()


def _wide(text: str) -> int:
    """The columns that the text takes at most: letters that are not ASCII may take two."""
    return len(text) if text.isascii() else sum(1 if letter.isascii() else 2 for letter in text)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def _in_foreground(stream: TextIO) -> bool:
    """Whether the terminal is this command's now: of one in the background (``sbatch --wait … &``) nothing is shown."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True  # it is not our session's terminal
