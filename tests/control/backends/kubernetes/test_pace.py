"""The token bucket, with its own clock."""

from __future__ import annotations

import asyncio

from shim.control.backends.kubernetes.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def times(count: int, pace: Pace, clock: Clock) -> list[float]:
    async def go() -> list[float]:
        found = []
        for _ in range(count):
            await pace.turn()
            found.append(round(clock.now - 100.0, 6))
        return found

    return asyncio.run(go())


def test_a_burst_then_the_rate() -> None:
    clock = Clock()
    pace = Pace(20.0, 40, clock=clock, sleep=clock.sleep)
    assert times(43, pace, clock) == [0.0] * 40 + [0.05, 0.1, 0.15]
    clock.now += 1000
    assert times(41, pace, clock)[-2:] == [1000.15, 1000.2]


def test_a_pause_ends_without_a_burst() -> None:
    clock = Clock()
    pace = Pace(20.0, 40, clock=clock, sleep=clock.sleep)
    pace.pause(3.0)
    assert times(3, pace, clock) == [3.0, 3.05, 3.1]
