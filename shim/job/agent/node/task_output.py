"""A step's output on its way from the tasks' pipes to the leader, within the step's credit.

Without credit nothing is read: the pipes fill, and the tasks wait as they would for a slow terminal.
"""

from __future__ import annotations

import os

from shim.job.wire import CHUNK, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.link import Link
    from shim.job.loop import Loop


class Output:
    """The output of one step on this node. ``on_idle()`` is called whenever the last open stream has ended."""

    def __init__(self, step: int, link: Link, loop: Loop, on_idle: Callable[[], None]) -> None:
        self._step = step
        self._link = link
        self._loop = loop
        self._on_idle = on_idle
        self._credit = WINDOW
        self._streams: dict[int, tuple[int, int]] = {}  # descriptor -> rank, stream
        self._reading = True
        self._last = False  # an empty pipe has ended

    @property
    def idle(self) -> bool:
        """Whether every stream has ended and all of it was sent."""
        return not self._streams

    def add(self, fd: int, rank: int, stream: int) -> None:
        """Pass on what comes from ``fd`` (owned from now on) as ``stream`` of task ``rank``."""
        os.set_blocking(fd, False)
        self._streams[fd] = (rank, stream)
        if self._reading:
            self._watch(fd)

    def say(self, rank: int, stream: int, text: str) -> None:
        """Words of the agent's own on a task's stream: few, so they need no credit, but the leader counts them."""
        data = os.fsencode(text)
        self._credit -= len(data)
        self._link.send_data(self._step, rank, stream, data)

    def credit(self, count: int) -> None:
        """The leader has passed ``count`` bytes on."""
        self._credit += count
        if self._credit > 0 and not self._reading:
            self._reading = True
            for fd in list(self._streams):
                if self._last:
                    self._empty(fd)
                else:
                    self._watch(fd)

    def give_up(self) -> None:
        """No process of the step is left, so no byte can come any more: take what is in the pipes, then end the streams.

        A stream may never end by itself, when somebody outside the step has its pipe: a service, say, that a command in the
        step started. Without credit the rest waits for it.
        """
        self._last = True
        for fd in list(self._streams):
            self._empty(fd)

    def close(self) -> None:
        """Drop everything."""
        for fd in list(self._streams):
            self._loop.forget(fd)
            os.close(fd)
        self._streams.clear()

    def _watch(self, fd: int) -> None:
        def ready() -> None:
            self._read(fd)

        self._loop.reader(fd, ready)

    def _empty(self, fd: int) -> None:
        while self._read(fd):
            pass

    def _read(self, fd: int) -> bool:
        """Pass one piece on; False when there is none now."""
        if fd not in self._streams:
            return False
        if self._credit <= 0:
            self._pause()
            return False
        rank, stream = self._streams[fd]
        try:
            data = os.read(fd, min(CHUNK, self._credit))
        except BlockingIOError:
            if not self._last:
                return False
            data = b""
        except OSError:
            data = b""  # EIO: the last process has left the terminal
        self._link.send_data(self._step, rank, stream, data)
        self._credit -= len(data)
        if not data:
            self._ended(fd)
        return bool(data)

    def _ended(self, fd: int) -> None:
        self._loop.forget(fd)
        del self._streams[fd]
        os.close(fd)
        if not self._streams:
            self._on_idle()

    def _pause(self) -> None:
        self._reading = False
        for fd in self._streams:
            self._loop.reader(fd, None)
