"""The fork server from the controller's side: many requests under way, and one that is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.local import spawner as module
from shim.control.backends.local.spawner import Spawner

NOWHERE = "/nosuch"  # agents of a run without a folder end at once


@asynccontextmanager
async def one() -> AsyncIterator[tuple[Spawner, int]]:
    """A spawner and its fork server's pid."""
    spawner = Spawner()
    try:
        await spawner.warm()
        yield spawner, server_of(spawner)
    finally:
        await spawner.close()


def server_of(spawner: Spawner) -> int:
    assert spawner._server is not None
    return spawner._server._process.pid


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


def many(spawner: Spawner, folder: str = NOWHERE) -> list[asyncio.Task[int]]:
    return [asyncio.ensure_future(spawner.spawn(folder, index, "")) for index in range(20)]


def test_nobody_waits_for_the_answers_of_others() -> None:
    async def body() -> None:
        async with one() as (spawner, server):
            os.kill(server, signal.SIGSTOP)
            asked = many(spawner)
            await asyncio.sleep(0)
            os.kill(server, signal.SIGCONT)
            assert len(set(await asyncio.gather(*asked))) == 20
            assert server_of(spawner) == server

    run(body)


def test_requests_that_fill_the_socket_arrive_whole() -> None:
    async def body() -> None:
        async with one() as (spawner, server):
            os.kill(server, signal.SIGSTOP)
            asked = many(spawner, "/" + "x" * 200_000)
            for _ in range(10):
                await asyncio.sleep(0)
            os.kill(server, signal.SIGCONT)
            assert len(set(await asyncio.gather(*asked))) == 20
            assert server_of(spawner) == server

    run(body)


@pytest.mark.parametrize("under_way", [True, False])
def test_a_server_that_is_killed_is_replaced_once_for_all(under_way: bool) -> None:
    async def body() -> None:
        async with one() as (spawner, server):
            asked = []
            if under_way:
                os.kill(server, signal.SIGSTOP)
                asked = many(spawner)
                await asyncio.sleep(0)
            os.kill(server, signal.SIGKILL)
            asked += many(spawner)
            assert len(set(await asyncio.gather(*asked))) == len(asked)
            assert server_of(spawner) != server

    run(body)


def test_what_the_server_refuses_is_told_and_it_goes_on() -> None:
    async def body() -> None:
        async with one() as (spawner, server):
            with pytest.raises(BackendError, match="not a request") as caught:
                await spawner.spawn(NOWHERE, "none", "")  # type: ignore[arg-type]
            assert caught.value.transient
            assert await spawner.spawn(NOWHERE, 0, "") > 0
            assert server_of(spawner) == server

    run(body)


def test_without_a_server_there_are_no_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "nosuch"))

    async def body() -> None:
        spawner = Spawner()
        await spawner.warm()
        with pytest.raises(BackendError) as caught:
            await spawner.spawn(NOWHERE, 0, "")
        assert caught.value.transient
        await spawner.close()

    run(body)
