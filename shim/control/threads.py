"""Work that would keep an event loop waiting, in a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(work: Callable[..., T], *arguments: object) -> T:
    """Does ``work`` in a thread; here, where no thread can be started (RLIMIT_NPROC): then the others wait, but it is done.

    An executor would keep what it could start no thread for, and do it later once more.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def beside() -> None:
        try:
            tell = partial(_settle, done, work(*arguments), None)
        except BaseException as error:
            tell = partial(_settle, done, None, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell)

    try:
        threading.Thread(target=beside).start()
    except RuntimeError:
        return work(*arguments)
    return await done


def _settle(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if done.done():
        return  # given up
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
