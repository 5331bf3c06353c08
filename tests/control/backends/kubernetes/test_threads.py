"""Work in threads whose results nobody may be waiting for any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from shim.control.backends.kubernetes.api.threads import in_thread
from tests.support import wait_until


async def cancelled(gate: threading.Event, dropped: list[str]) -> None:
    def work() -> str:
        gate.wait(30)
        return "a connection"

    task = asyncio.get_running_loop().create_task(in_thread(work, dropped.append))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_comes_too_late_is_dropped() -> None:
    async def inside() -> None:
        gate, dropped = threading.Event(), list[str]()
        await cancelled(gate, dropped)
        gate.set()
        await asyncio.to_thread(wait_until, lambda: dropped, "the result is dropped")
        assert dropped == ["a connection"]

    asyncio.run(inside())


def test_what_comes_after_the_loop_is_dropped_too() -> None:
    gate, dropped = threading.Event(), list[str]()
    asyncio.run(cancelled(gate, dropped))
    gate.set()
    wait_until(lambda: dropped, "the result is dropped")
    assert dropped == ["a connection"]


def test_what_is_waited_for_is_given() -> None:
    dropped: list[str] = []
    assert asyncio.run(in_thread(lambda: "a result", dropped.append)) == "a result"
    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(in_thread(lambda: int("wrong"), lambda number: None))
    assert dropped == []
