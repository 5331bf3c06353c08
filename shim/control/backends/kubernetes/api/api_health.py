"""Whether the API server answers, for who looks at the cluster now: watches are silent, too, while nothing happens.

Nothing is asked while nobody wants to know, nor if something was heard of the server just now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from shim.control.backends.kubernetes.api.errors import ApiError

FRESH = 1.0  # seconds for which what was heard counts
AGAIN = 5.0  # seconds between two questions to a server that does not answer


class Hearing:
    """``ask()`` is a small request that raises ApiError, ``silence()`` the seconds since the server was heard, ``limit`` the
    seconds it has to answer. ``trouble(text)`` is told when it does not, and with None when it does again.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        silence: Callable[[], float],
        limit: float,
        trouble: Callable[[str | None], None],
    ) -> None:
        self._ask = ask
        self._silence = silence
        self._limit = limit
        self._trouble = trouble
        self._question: asyncio.Task[None] | None = None
        self._repeated: asyncio.Task[None] | None = None
        self._missed = 0.0  # the loop's time at which it was found not to answer
        self._told = ""  # the problem that was told last, unless its end was told, too

    @property
    def problem(self) -> str:
        """Why the server cannot be asked, as far as it is known; "" as soon as something has come from it."""
        heard = self._told and self._silence() < asyncio.get_running_loop().time() - self._missed
        return "" if heard else self._told

    async def listen(self) -> None:
        """Returns when the server has answered lately, or ``trouble`` was told that it has not."""
        if not self.problem:
            self._end()
        if self._told or self._silence() < FRESH:
            return
        if self._question is None:
            self._question = asyncio.get_running_loop().create_task(self._once())
        await asyncio.wait([self._question])

    async def unless_silent(self, work: Callable[[], Coroutine[Any, Any, None]]) -> str:
        """Waits for ``work()``, but no longer than the limit for a server that does not answer: then the problem, else ""."""
        task = asyncio.get_running_loop().create_task(work())
        try:
            while not (await asyncio.wait([task], timeout=self._limit))[0]:
                await self.listen()
                if self.problem:
                    return self.problem
            await task
            return ""
        finally:
            task.cancel()

    async def _once(self) -> None:
        try:
            problem = await self._problem()
        finally:
            self._question = None
        if problem is not None:
            self.miss(problem)

    def miss(self, problem: str) -> None:
        """The server does not answer: that is told, and it is asked from time to time until it does."""
        if self._told:
            return
        loop = asyncio.get_running_loop()
        self._told = problem
        self._missed = loop.time()
        self._trouble(problem)
        if self._repeated is not None:
            self._repeated.cancel()
        self._repeated = loop.create_task(self._until_heard())

    async def _until_heard(self) -> None:
        while self._told:
            await asyncio.sleep(AGAIN)
            # What was asked before may have been answered meanwhile.
            if not self.problem or await self._problem() is None:
                self._end()

    def _end(self) -> None:
        if self._told:
            self._told = ""
            self._trouble(None)

    async def _problem(self) -> str | None:
        """What is wrong with the server; None if it answers, whatever it says."""
        try:
            async with asyncio.timeout(self._limit):
                await self._ask()
        except TimeoutError:
            pass
        except ApiError as error:
            if error.status:
                return error.message if error.status >= 500 else None
            if error.reason != "Timeout":
                return error.message
        else:
            return None
        return f"no answer from the API server within {self._limit:g} s"

    async def close(self) -> None:
        """Asks no more."""
        tasks = [task for task in (self._question, self._repeated) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
