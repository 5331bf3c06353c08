"""A server that is silent: found out when somebody looks, told once, asked until it answers; watches that are silent are no reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.api_health import AGAIN, FRESH, Hearing
from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, ApiError
from tests.control.backends.kubernetes import clock

LIMIT = 3.0
SILENT = "no answer from the API server within 3 s"


class Server:
    """``problem``: what it answers; "silent": nothing. Heard when it answers."""

    def __init__(self) -> None:
        self.problem: ApiError | str | None = None
        self.heard = -1000.0
        self.asked: list[float] = []
        self.told: list[tuple[float, str | None]] = []
        self.hearing = Hearing(self._ask, lambda: self.now - self.heard, LIMIT, self._trouble)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def _trouble(self, text: str | None) -> None:
        self.told.append((self.now, text))

    async def _ask(self) -> None:
        self.asked.append(self.now)
        if self.problem == "silent":
            await asyncio.sleep(1000.0)
        if isinstance(self.problem, ApiError):
            raise self.problem
        self.heard = self.now


def play(scene: Callable[[Server], Awaitable[None]]) -> Server:
    """Runs a scene in a time of its own."""
    server: list[Server] = []

    async def run() -> None:
        server.append(Server())
        try:
            await scene(server[0])
        finally:
            await server[0].hearing.close()

    clock.run(run())
    return server[0]


def test_what_was_heard_just_now_is_not_asked_again() -> None:
    async def scene(server: Server) -> None:
        await asyncio.gather(*[server.hearing.listen() for _ in range(5)])
        await asyncio.sleep(FRESH / 2)
        await server.hearing.listen()
        await asyncio.sleep(FRESH)
        await server.hearing.listen()

    assert play(scene).asked == [0.0, FRESH * 1.5]


def test_silence_is_told_within_the_limit_and_until_it_ends() -> None:
    async def scene(server: Server) -> None:
        server.problem = "silent"
        await asyncio.gather(*[server.hearing.listen() for _ in range(3)])
        assert server.told == [(LIMIT, SILENT)]
        before = server.now
        await server.hearing.listen()
        assert server.now == before, "it is known"
        await asyncio.sleep(20.0)
        server.problem = None
        await asyncio.sleep(LIMIT + AGAIN)
        assert server.told[1:] == [(server.asked[-1], None)]
        await asyncio.sleep(100.0)

    server = play(scene)
    assert server.asked == [0.0, 8.0, 16.0, 24.0], "nobody looks any more, nobody is asked"


def test_a_late_answer_ends_it_too() -> None:
    async def scene(server: Server) -> None:
        server.problem = "silent"
        await server.hearing.listen()
        await asyncio.sleep(1.0)
        server.heard = server.now
        await asyncio.sleep(AGAIN)

    server = play(scene)
    assert (server.asked, server.told) == ([0.0], [(LIMIT, SILENT), (LIMIT + AGAIN, None)])


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ApiError(401, "Unauthorized", "who are you"), None),
        (ApiError(403, "Forbidden", "no"), None),
        (ApiError(429, "TooManyRequests", "later"), None),
        (ApiError(503, "HTTP 503", "no healthy upstream"), "no healthy upstream"),
        (ApiError(NO_CONNECTION, "Refused", "no connection to the API server: refused"), "no connection to the API server: refused"),
        (ApiError(NO_CONNECTION, "Timeout", "it does not answer in time"), SILENT),
    ],
)  # fmt: skip
def test_who_refuses_answers(problem: ApiError, told: str | None) -> None:
    async def scene(server: Server) -> None:
        server.problem = problem
        await server.hearing.listen()

    assert play(scene).told == ([(0.0, told)] if told is not None else [])


def test_what_another_found_is_told_once() -> None:
    async def scene(server: Server) -> None:
        server.problem = "silent"
        server.hearing.miss("no answer within 5 s")
        server.hearing.miss("no answer within 5 s")
        await server.hearing.listen()

    assert play(scene).told == [(0.0, "no answer within 5 s")]


async def slow() -> None:
    await asyncio.sleep(100.0)


def test_work_is_waited_for_as_long_as_the_server_answers() -> None:
    async def scene(server: Server) -> None:
        assert await server.hearing.unless_silent(slow) == ""
        assert server.now == 100.0

        async def refused() -> None:
            raise BackendError("no")

        with pytest.raises(BackendError):
            await server.hearing.unless_silent(refused)

    assert play(scene).told == []


def test_work_is_given_up_when_the_server_is_silent() -> None:
    async def scene(server: Server) -> None:
        server.problem = "silent"
        assert await server.hearing.unless_silent(slow) == SILENT
        assert server.now == 2 * LIMIT
        assert await server.hearing.unless_silent(slow) == SILENT
        assert server.now == 3 * LIMIT, "it is known, but the work may show that it has changed"
        server.heard = server.now - 0.1
        assert server.hearing.problem == ""
        await server.hearing.listen()
        assert server.told[-1] == (server.now, None)
        server.hearing.miss("again")
        await asyncio.sleep(AGAIN * 3)

    assert [text for _, text in play(scene).told] == [SILENT, None, "again"]


def test_an_end_in_the_middle_of_a_question() -> None:
    async def scene(server: Server) -> None:
        server.problem = "silent"
        waiting = asyncio.ensure_future(server.hearing.listen())
        await asyncio.sleep(1.0)
        await server.hearing.close()
        await waiting

    assert play(scene).told == []
