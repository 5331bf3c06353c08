"""Blocking work beside the event loop, in daemon threads: one that hangs must not keep the process from ending.

An executor's threads are joined when the interpreter ends, and a credential plugin may wait for ever for somebody to log in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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
