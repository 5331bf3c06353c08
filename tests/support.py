"""Small things that many tests need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, limit: float = 30.0, pause: float = 0.01) -> T:
    """The first true result of ``condition``; fails naming ``what`` after ``limit`` seconds.

    For conditions that a real process brings about. The limit is generous: it only ends a test that has failed. ``pause``: between
    two looks, longer where a look costs something.
    """
    end = time.monotonic() + limit
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what}")
        time.sleep(pause)
