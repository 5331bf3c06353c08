"""How many requests may be under way at a time. The server says how many it bears: by refusing one (429) with the time to wait.

It shares itself out fairly among its users (API priority and fairness), so no rate of ours is needed, which would be too low for one
server and too high for another. After a refusal nothing is sent for as long as it asks; then one request, and more with each that passes.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable

MOST = 8  # each holds a thread and a connection
LONGEST = 30.0  # seconds that a refusal may keep us waiting
_USUAL = 1.0  # seconds, where it does not say


class Pace:
    """First come, first served. One event loop only."""

    def __init__(
        self,
        most: int = MOST,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[], float] = lambda: random.uniform(1.0, 1.25),
    ) -> None:
        """``spread()``: by how much longer than asked for to wait, so that those who were refused together do not come back together."""
        self._most = most
        self._window = float(most)
        self._clock = clock
        self._sleep = sleep
        self._spread = spread
        self._under_way = 0
        self._resumes = float("-inf")  # nothing is sent before
        self._queue: deque[asyncio.Future[None]] = deque()
        self._waking: asyncio.Task[None] | None = None

    def _now(self) -> float:
        return self._clock() if self._clock else asyncio.get_running_loop().time()

    async def enter(self) -> None:
        """Returns when a request may be sent; ``leave`` when it is over."""
        if not self._queue and self._free():
            self._under_way += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._pass_on()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had just come
                self.leave()
            raise

    def leave(self) -> None:
        """A request is over."""
        self._under_way -= 1
        self._pass_on()

    def passed(self) -> None:
        """The server has taken a request."""
        if self._now() >= self._resumes:  # one of before the last refusal says nothing
            self._window = min(float(self._most), self._window + 1.0 / self._window)

    def refused(self, seconds: float | None) -> None:
        """The server is busy, and asks to wait for so long."""
        wait = min(LONGEST, _USUAL if seconds is None else seconds) * self._spread()
        self._resumes = max(self._resumes, self._now() + wait)
        self._window = 1.0

    def _free(self) -> bool:
        return self._under_way < int(self._window) and self._now() >= self._resumes

    def _pass_on(self) -> None:
        while self._queue and self._free():
            turn = self._queue.popleft()
            if not turn.done():  # it was cancelled
                turn.set_result(None)
                self._under_way += 1
        if self._queue and self._now() < self._resumes and self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def _wake(self) -> None:
        while self._now() < self._resumes:
            await self._sleep(self._resumes - self._now())
        self._waking = None
        self._pass_on()
