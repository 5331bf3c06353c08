"""One timer for everything that is due at a known time: it wakes the controller at the earliest of these times, and not before."""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from contextlib import suppress

from shim.job import libc
from shim.job.simulated_time import SimulatedClock

SOON = 5.0  # seconds: what is due within them is not worth a look at the clock
_LONGEST = 3600.0  # seconds after which it is looked what is due, whatever happens
_UNWATCHED = 60.0  # the same where the kernel does not tell that the clock was set, or that the machine slept


class Alarm:
    """Calls ``ring`` at the earliest of the times it was given, and when the clock was set. ``clock`` gives seconds since the epoch."""

    def __init__(self, loop: AbstractEventLoop, clock: Callable[[], float], ring: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._ring = ring
        self._handle: TimerHandle | None = None
        self.due: float | None = None
        self._watch: int | None = None  # tells that the clock was set; -1: the kernel does not

    def set(self, due: float | None) -> None:
        """The next moment at which something is due (None: nothing is); replaces the one before."""
        if due == self.due and (self._handle is not None or due is None):
            return
        self.cancel()
        self.due = due
        if due is not None:
            if isinstance(self._clock, SimulatedClock):
                self._watched()  # before the look at the clock
            delay = max(due - self._clock(), 0.001)
            if delay > SOON:
                delay = min(delay, _LONGEST if self._watched() else _UNWATCHED)
            self._handle = self._loop.call_later(delay, self._rings)

    def _watched(self) -> bool:
        """Whether it will be heard that the clock is set: from the first time on that something is due later."""
        if self._watch is None:
            try:
                own = self._clock
                self._watch = own.watch() if isinstance(own, SimulatedClock) else libc.watch_clock()
                self._loop.add_reader(self._watch, self._was_set)
            except OSError:
                self._watch = -1
        return self._watch >= 0

    def _was_set(self) -> None:
        assert self._watch is not None
        with suppress(OSError):  # ECANCELED is the news
            os.read(self._watch, 4096)
        self.cancel()
        self._ring()

    def cancel(self) -> None:
        """Nothing rings until the next ``set``."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self.due = None

    def close(self) -> None:
        """Nothing rings any more."""
        self.cancel()
        if self._watch is not None and self._watch >= 0:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
        self._watch = -1

    def _rings(self) -> None:
        self._handle = None
        self.due = None
        self._ring()
