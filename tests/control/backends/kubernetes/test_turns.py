"""Who gets a stream, and who has to give one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from shim.control.backends.kubernetes.api.stream_slots import BEGINNING, BUSY, IDLE, Turns
from tests.control.backends.kubernetes import clock


class Taker:
    """One that leaves when it is asked to, unless it is busy."""

    def __init__(self, turns: Turns, rank: int) -> None:
        self.rank = rank
        self.asked = 0
        self.has = False
        self._turns = turns
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        await self._turns.take(self)
        self.has = True

    def leave(self) -> None:
        self.asked += 1
        if self.rank != BUSY:
            self.end()

    def end(self) -> None:
        self._task.cancel()
        if self.has:
            self.has = False
            self._turns.release(self)


async def with_ranks(turns: Turns, *ranks: int) -> list[Taker]:
    takers = []
    for rank in ranks:
        takers.append(Taker(turns, rank))
        await asyncio.sleep(1)
    return takers


def have(takers: list[Taker]) -> str:
    return "".join("x" if taker.has else "." for taker in takers)


def with_turns(most: int, body: Callable[[Turns], Coroutine[None, None, None]]) -> None:
    async def inside() -> None:
        await body(Turns(most))

    clock.run(inside())


def test_of_those_who_wait_the_neediest_is_next() -> None:
    async def body(turns: Turns) -> None:
        takers = await with_ranks(turns, BUSY, IDLE, BEGINNING, BUSY, BUSY)
        assert have(takers) == "x...."
        for number, expected in ((0, "...x."), (3, "....x"), (4, "..x.."), (2, ".x...")):
            takers[number].end()
            await asyncio.sleep(1)
            assert have(takers) == expected
        assert not turns.waiting

    with_turns(1, body)


def test_the_less_needy_leave() -> None:
    async def body(turns: Turns) -> None:
        takers = await with_ranks(turns, BEGINNING, IDLE, IDLE, BEGINNING, BUSY, BUSY, BUSY)
        assert have(takers) == "....xxx"
        assert [taker.asked for taker in takers] == [1, 1, 1, 1, 0, 0, 0]

    with_turns(3, body)


def test_each_leaves_once_and_for_one_only() -> None:
    async def body(turns: Turns) -> None:
        takers = await with_ranks(turns, IDLE, IDLE)
        takers[0].leave = takers[1].leave = lambda: None  # type: ignore[method-assign] # slow ones
        takers += await with_ranks(turns, BUSY)
        turns.look()
        takers[1].end()
        await asyncio.sleep(1)
        assert have(takers) == "x.x"
        takers += await with_ranks(turns, IDLE)
        assert have(takers) == "x.x."

    with_turns(2, body)


def test_one_that_waits_no_more_passes_its_turn_on() -> None:
    async def body(turns: Turns) -> None:
        takers = await with_ranks(turns, IDLE, IDLE, IDLE)
        takers[0].end()
        takers[1].end()  # whose turn it is by now
        await asyncio.sleep(1)
        assert have(takers) == "..x"
        takers[2].end()
        assert have(await with_ranks(turns, IDLE)) == "x"

    with_turns(1, body)


def test_a_turn_is_not_given_to_one_that_is_being_cancelled() -> None:
    async def body(turns: Turns) -> None:
        takers = await with_ranks(turns, BUSY, BUSY)
        takers[1].end()
        takers[0].end()
        await asyncio.sleep(1)
        assert have(await with_ranks(turns, IDLE, IDLE)) == "x."

    with_turns(1, body)
