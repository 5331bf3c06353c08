"""How fast requests may follow one another: a token bucket, and a pause when the server asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Pace:
    """``rate`` requests a second after a burst of ``burst``; first come, first served. One event loop only."""

    def __init__(
        self,
        rate: float = 20.0,
        burst: int = 40,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._step = 1.0 / rate
        self._slack = self._step * (burst - 1)
        self._clock = clock
        self._sleep = sleep
        self._due = float("-inf")  # when the next request would go out if none might go early

    def _now(self) -> float:
        return self._clock() if self._clock else asyncio.get_running_loop().time()

    async def turn(self) -> None:
        """Returns when a request may be sent."""
        now = self._now()
        due = max(self._due, now)
        self._due = due + self._step
        wait = due - self._slack - now
        if wait > 0:
            await self._sleep(wait)

    def pause(self, seconds: float) -> None:
        """The server is busy: nothing more for this long, and no burst after it."""
        self._due = max(self._due, self._now() + seconds + self._slack)
