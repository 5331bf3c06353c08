"""An event loop whose time passes only when nothing else can happen: minutes of waiting cost nothing and are the same every time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        assert timeout is not None, "everything waits, and nothing is coming"
        self.passed += timeout
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._passing = _Selector()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.passed

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """At once: a thread's time would be another."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future


def run(work: Coroutine[Any, Any, None]) -> None:
    """``asyncio.run`` in a time of its own. Only for what uses no threads and asks nobody outside."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(work)
