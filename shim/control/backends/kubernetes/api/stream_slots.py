"""Whose turn it is to have a stream: a run with something to do comes before one that only might have news.

With hundreds of runs each is listened to for a while every few minutes; an order, or the start of a job, does not wait for that.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

STREAMS = 20  # at a time, beside the two watches: the API server is everybody's

BUSY, BEGINNING, IDLE = range(3)  # ranks of those that have, or wait for, a stream


class Taker(Protocol):
    """Who has a stream, or waits for one."""

    @property
    def rank(self) -> int:
        """BUSY: it keeps its stream. BEGINNING: its run has not begun, or what it would say is not known yet. IDLE: neither."""

    def leave(self) -> None:
        """Gives its stream away as soon as it can."""


class Turns:
    """The streams that may be open at a time. ``look`` is called when the rank of somebody who has or wants one has changed."""

    def __init__(self, most: int = STREAMS) -> None:
        self._free = most
        self._takers: dict[Taker, bool] = {}  # who has a stream, longest first -> whether it was asked to leave
        self._queue: dict[Taker, asyncio.Future[None]] = {}

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for a stream."""
        return bool(self._queue)

    async def take(self, taker: Taker) -> None:
        """Returns when the stream is the taker's: of those who wait the one of lowest rank, who has waited longest."""
        if self._free:
            self._free -= 1
        else:
            turn = self._queue[taker] = asyncio.get_running_loop().create_future()
            self.look()
            try:
                await turn
            except asyncio.CancelledError:
                if self._queue.pop(taker, None) is None:
                    self._pass_on()
                raise
        self._takers[taker] = False

    def release(self, taker: Taker) -> None:
        """The taker has no stream any more."""
        del self._takers[taker]
        self._pass_on()

    def look(self) -> None:
        """Takers with less reason to stay than others have to come are asked to leave, those first that came first."""
        wanted = sorted(taker.rank for taker in self._queue)
        for rank in wanted[sum(self._takers.values()) :]:
            others = [taker for taker, asked in self._takers.items() if not asked and taker.rank > rank]
            if not others:
                return
            chosen = max(others, key=lambda taker: taker.rank)
            self._takers[chosen] = True
            chosen.leave()

    def _pass_on(self) -> None:
        # One that is just being cancelled waits no more, though it has not come to say so.
        waiting = [taker for taker, turn in self._queue.items() if not turn.done()]
        if not waiting:
            self._free += 1
            return
        self._queue.pop(min(waiting, key=lambda taker: taker.rank)).set_result(None)
