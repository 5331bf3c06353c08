"""Blocking work beside the event loop, in daemon threads: one that hangs must not keep the process from ending.

An executor's threads are joined when the interpreter ends, and a credential plugin may wait for ever for somebody to log in.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], drop: Callable[[T], None] = lambda result: None) -> T:
    """The result of ``work()``, run in a thread of its own; what it raises is raised here.

    A caller that is cancelled leaves the thread to end by itself; ``drop(result)`` is then called with what nobody takes.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def fail(problem: BaseException) -> None:
        if not future.done():
            future.set_exception(problem)

    def settle(result: T) -> None:
        if future.done():
            drop(result)
        else:
            future.set_result(result)

    def run() -> None:
        try:
            result = work()
        except BaseException as problem:
            tell(loop, fail, problem)
        else:
            if not tell(loop, settle, result):
                drop(result)

    threading.Thread(target=run, name="kubernetes", daemon=True).start()
    return await future


def tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *words: Any) -> bool:
    """Has ``callback(*words)`` called in the loop; false when the loop is closed and nobody is there to be told."""
    try:
        loop.call_soon_threadsafe(callback, *words)
    except RuntimeError:
        return False
    return True


class Lane(Executor):
    """Work that is done one after the other, in a daemon thread that there is only while there is some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Has ``fn`` called when all before it is done."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as problem:
                    future.set_exception(problem)
                else:
                    future.set_result(result)

        with self._lock:
            self._waiting.append(work)
            idle, self._busy = not self._busy, True
        if idle:
            try:
                threading.Thread(target=self._work, name="kubernetes-lane", daemon=True).start()
            except RuntimeError:
                self._work()  # no thread is to be had (RLIMIT_NPROC): the others wait, but it is done
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                work = self._waiting.popleft()
            work()


async def beside(work: Callable[[], T]) -> T:
    """The result of ``work()``, which may hang (a file system that does not answer): in a daemon thread of its own."""
    return await asyncio.get_running_loop().run_in_executor(Lane(), work)
