"""Idle leaders: the controller keeps the connections of leaders whose runs are over, and gives them the next run on the same node.

This is the short way. On the long way (``shim.job.agent.spares``) the controller asks the fork server, which passes a new
connection on to the same process. An idle leader ends when its connection is closed: LINGER seconds after its run, or with
the controller. A leader that cannot serve again, because its run has changed its place, ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from shim.control.backends.local.line import Line
from shim.job.agent.spares import LINGER


class IdleLeaders:
    """The connections that may be used again, by the place of their agents. ``on_gone(folder)``: one has ended that had a ``folder``."""

    def __init__(self, on_gone: Callable[[str], None]) -> None:
        self._on_gone = on_gone
        self._lines: dict[Line, tuple[str, float]] = {}  # the one that waits longest first: its place, and until when
        self._timer: asyncio.TimerHandle | None = None

    def add(self, place: str, line: Line) -> None:
        """Adds a leader that was ordered to keep this connection."""
        loop = asyncio.get_running_loop()
        line.turn_to(_not_asked, lambda: self._lost(line))
        self._lines[line] = (place, loop.time() + LINGER)
        if self._timer is None:
            self._timer = loop.call_later(LINGER, self._let_go)

    def take(self, place: str) -> Line | None:
        """The connection of a leader at this place, the last to work: most of its memory is in the caches. None: there is none."""
        for line in reversed(self._lines):
            if self._lines[line][0] == place:
                del self._lines[line]
                return line
        return None

    def close(self) -> None:
        """Lets all of them go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, {}
        for line in lines:
            line.close()
            self._ended(line)

    def _let_go(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for line, (_place, until) in list(self._lines.items()):
            if until > loop.time():
                self._timer = loop.call_at(until, self._let_go)
                return
            del self._lines[line]
            line.close()
            self._ended(line)

    def _lost(self, line: Line) -> None:
        self._lines.pop(line, None)
        self._ended(line)

    def _ended(self, line: Line) -> None:
        folder, line.folder = line.folder, ""
        if folder:
            self._on_gone(folder)


def _not_asked(_message: Mapping[str, Any]) -> None:
    """What is left of the last run: that an order was obeyed."""
