"""As many requests as the server bears, with its own clock."""

from __future__ import annotations

import asyncio

from shim.control.backends.kubernetes.api.rate_limiter import LONGEST, Pace
from tests.control.backends.kubernetes import clock


def paced() -> Pace:
    return Pace(4, spread=lambda: 1.0)


class Server:
    """Each request takes a second. ``busy``: how many it refuses."""

    def __init__(self, pace: Pace, busy: int = 0, asks: float | None = 3.0) -> None:
        self.pace, self.busy, self.asks = pace, busy, asks
        self.log: list[tuple[float, int]] = []  # when one was sent, and how many there were then
        self.now = 0

    async def request(self) -> None:
        while True:
            await self.pace.enter()
            self.now += 1
            self.log.append((round(asyncio.get_running_loop().time(), 3), self.now))
            refused = self.busy > 0
            self.busy -= refused
            try:
                await asyncio.sleep(0.0 if refused else 1.0)
                if not refused:
                    self.pace.passed()
                    return
                self.pace.refused(self.asks)
            finally:
                self.now -= 1
                self.pace.leave()


def run(server: Server, count: int) -> list[tuple[float, int]]:
    async def go() -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(server.request() for _ in range(count)))
        server.log = [(round(at - began, 3), number) for at, number in server.log]

    clock.run(go())
    return server.log


def test_a_server_that_refuses_nobody_has_so_many_requests_at_a_time() -> None:
    log = run(Server(paced()), 12)
    assert [at for at, _ in log] == [0.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert max(number for _, number in log) == 4


def test_a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks_and_then_asked_by_one() -> None:
    log = run(Server(paced(), busy=1), 8)
    later = [(at, number) for at, number in log if at > 0]
    assert later[0] == (3.0, 1), "nothing before, and no swarm then"
    assert [at for at, _ in later][:3] == [3.0, 4.0, 4.0], "more with each that passes"


def test_a_server_that_does_not_say_how_long_or_says_too_much() -> None:
    assert run(Server(paced(), busy=1, asks=None), 1)[1][0] == 1.0
    assert run(Server(paced(), busy=1, asks=5000.0), 1)[1][0] == LONGEST


def test_who_waits_and_is_cancelled_takes_no_turn() -> None:
    async def go() -> None:
        pace = Pace(1)
        await pace.enter()
        waiting = [asyncio.ensure_future(pace.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        pace.leave()
        waiting[1].cancel()  # its turn has just come
        await asyncio.gather(*waiting[:2], return_exceptions=True)
        async with asyncio.timeout(5):
            await waiting[2]

    clock.run(go())
