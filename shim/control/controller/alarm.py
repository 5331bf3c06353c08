"""One timer for all that time alone will change: the earliest known moment, and no wake-up before it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

# A clock that was set back, or a machine that slept, is noticed after this at the latest. Seconds.
_LONGEST = 3600.0


class Alarm:
    """Calls ``ring`` at the earliest of the moments it was told. ``clock`` gives seconds since the epoch."""

    def __init__(self, loop: AbstractEventLoop, clock: Callable[[], float], ring: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._ring = ring
        self._handle: TimerHandle | None = None
        self.due: float | None = None

    def set(self, due: float | None) -> None:
        """The next moment at which something is due (None: nothing is); replaces the one before."""
        if due == self.due and (self._handle is not None or due is None):
            return
        self.cancel()
        self.due = due
        if due is not None:
            delay = min(max(due - self._clock(), 0.001), _LONGEST)
            self._handle = self._loop.call_later(delay, self._rings)

    def cancel(self) -> None:
        """Nothing rings until the next ``set``."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self.due = None

    def _rings(self) -> None:
        self._handle = None
        self.due = None
        self._ring()
