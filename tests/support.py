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


def elf_program(libraries: list[str], wide: bool = True, little: bool = True) -> bytes:
    """A program that is linked with ``libraries``, as far as its headers go; no machine runs it. ``wide``: of 64 bits."""
    word, order = (8, "little" if little else "big") if wide else (4, "little" if little else "big")

    def numbers(*pairs: tuple[int, int]) -> bytes:
        return b"".join(value.to_bytes(size, order) for value, size in pairs)  # type: ignore[arg-type]

    head_size, entry_size = (64, 56) if wide else (52, 32)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    names_at = head_size + 2 * entry_size
    dynamic_at = names_at + len(names)
    base = 0x10000
    places = [names.index(name.encode()) for name in libraries]
    dynamic = b"".join(
        numbers((tag, word), (value, word))
        for tag, value in [*((1, place) for place in places), (5, base + names_at), (0, 0)]
    )
    size = dynamic_at + len(dynamic)

    def segment(kind: int, offset: int, length: int) -> bytes:
        where = [(offset, word), (base + offset, word), (base + offset, word), (length, word), (length, word)]
        if wide:
            return numbers((kind, 4), (4, 4), *where, (8, word))
        return numbers((kind, 4), *where, (4, 4), (4, 4))

    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    head = ident + numbers((2, 2), (0, 2), (1, 4), (0, word), (head_size, word), (0, word), (0, 4))
    head += numbers((head_size, 2), (entry_size, 2), (2, 2), (0, 2), (0, 2), (0, 2))
    return head + segment(1, 0, size) + segment(2, dynamic_at, len(dynamic)) + names + dynamic
