"""Simulated time: the clock of a throw-away cluster, which a test moves on (``shim/testing``).

A state folder that holds the file ``simulated-time`` has a clock of its own: this machine's, and the seconds that are in the
file. Nobody else writes that file, so that no other cluster's time can be wrong. The kernel tells controller and agents when it
changes. Whatever counts a job's time goes by this clock: times that are shown, time limits, ``--signal``, ``--begin``, KillWait. What
waits for a process or a connection goes by the machine's.
"""

from __future__ import annotations

import os
from _heapq import heappop, heappush
from _struct import Struct
from time import time

from shim.job import libc
from shim.job.loop import Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.loop import Loop

VARIABLE = "SHIM_SIMULATED_TIME"  # set for commands: that it is worth while to look for the file, which no others do
_FILE = "simulated-time"
_SECONDS = Struct("<d")


def path(folder: str) -> str:
    """The file of the state folder ``folder``."""
    return os.path.join(folder, _FILE)


def move(folder: str, seconds: float) -> None:
    """From now on the folder's clock is ``seconds`` ahead of this machine's; whoever goes by the clock is told. OSError."""
    file = os.open(path(folder), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(file, _SECONDS.pack(seconds), 0)
    finally:
        os.close(file)


def clock(folder: str) -> SimulatedClock | None:
    """The clock of a state folder, where it has one of its own."""
    try:
        return SimulatedClock(path(folder))
    except OSError:
        return None


class SimulatedClock:
    """To be called like ``time.time``. OSError where there is no such file."""

    def __init__(self, file: str) -> None:
        self._path = file
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def __call__(self) -> float:
        return time() + self.ahead()

    def ahead(self) -> float:
        """Seconds by which it is ahead of this machine's."""
        held = os.pread(self._file, _SECONDS.size, 0)
        return float(_SECONDS.unpack(held)[0]) if len(held) == _SECONDS.size else 0.0

    def watch(self) -> int:
        """A descriptor that can be read whenever the clock was moved. OSError."""
        return libc.watch_writes([self._path])

    def close(self) -> None:
        """Gives the file back."""
        os.close(self._file)


class SimulatedTimers:
    """The timers of a loop, by a simulated clock: what is due when it is moved is called in order, each in a turn of its own."""

    def __init__(self, loop: Loop, clock: SimulatedClock) -> None:
        self.clock = clock
        self._loop = loop
        self._timers: list[Timer] = []
        self._order = 0
        self._next: Timer | None = None
        self._watch = clock.watch()
        loop.reader(self._watch, self._moved)

    def now(self) -> float:
        """Seconds; never goes back."""
        return self._loop.now() + self.clock.ahead()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """As ``Loop.call_at``, ``when`` by ``now``."""
        self._order += 1
        timer = Timer(when, callback, self._order)
        heappush(self._timers, timer)
        self._arm()
        return timer

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """As ``Loop.call_later``."""
        return self.call_at(self.now() + delay, callback)

    def close(self) -> None:
        """Nothing is called any more."""
        self._timers.clear()
        self._disarm()
        self._loop.forget(self._watch)
        os.close(self._watch)
        self.clock.close()

    def _moved(self) -> None:
        try:
            os.read(self._watch, 4096)
        except BlockingIOError:
            pass
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        while self._timers and self._timers[0].callback is None:
            heappop(self._timers)
        if self._timers:
            self._next = self._loop.call_at(self._timers[0].when - self.clock.ahead(), self._due)

    def _disarm(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _due(self) -> None:
        callback = None
        if self._timers and self._timers[0].when <= self.now():
            callback = heappop(self._timers).callback
        self._arm()
        if callback is not None:
            callback()
