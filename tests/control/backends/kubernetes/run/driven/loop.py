"""An event loop with a time of its own, for many processes in one: each can be stopped for a while, or killed.

Nothing here waits, and nothing comes from outside, so a schedule is the same every time. A process is a context variable: callbacks
that were made on its behalf carry it.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar
from typing import Any

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """Whoever's callbacks may be held back. ``parked``: those that have come while it stands still."""

    def __init__(self) -> None:
        self.stopped = False
        self.dead = False
        self.parked: deque[asyncio.Handle] = deque()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.context = Context()
        self.context.run(PROCESS.set, self)


class Loop(asyncio.AbstractEventLoop):
    """``problems``: what was raised in callbacks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.problems: list[BaseException] = []
        self.outside = Context()  # of what is no process: the cluster
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if problem is not None:
            self.problems.append(problem)

    # Time

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def run_until(self, when: float) -> None:
        """Lets time pass up to ``when``. Raises the first of what was raised in callbacks."""
        timers, ready = self._timers, self._ready
        while True:
            while ready:
                self._run(ready.popleft())
                self.now += (
                    1e-6  # everything takes some time: who waits for the smallest part of a second comes to its end
                )
            if self.problems:
                raise self.problems[0]
            if not timers or timers[0][0] > when:
                break
            due, _, handle = heapq.heappop(timers)
            self.now = max(self.now, due)
            ready.append(handle)
        self.now = max(self.now, when)

    @staticmethod
    def _run(handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS)
        if process is not None and process.stopped:
            process.parked.append(handle)
        else:
            handle._run()

    # Processes

    def stop(self, process: Process) -> None:
        """As SIGSTOP, or a laptop that sleeps."""
        process.stopped = True

    def go_on(self, process: Process) -> None:
        process.stopped = False
        self._ready.extend(process.parked)
        process.parked.clear()
