"""A connection whose other end a leader was handed: messages in order, one end."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from shim.control.backends.local.line import Line


def frame(message: object, kind: bytes = b"J") -> bytes:
    body = kind + json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


class Ends:
    """A line, what it told, and the leader's end."""

    def __init__(self) -> None:
        ours, self.leader = socket.socketpair()
        self.told: list[dict[str, Any]] = []
        self.ends = 0
        self.line = Line(ours, self.told.append, self._ended)

    def _ended(self) -> None:
        self.ends += 1

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.001)


def run(body: Callable[[Ends], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        ends = Ends()
        try:
            await body(ends)
        finally:
            ends.line.close()
            ends.leader.close()

    asyncio.run(inside())


def test_messages_come_in_order_however_they_are_cut() -> None:
    async def body(ends: Ends) -> None:
        wanted = [{"do": "journal", "line": {"n": n}} for n in range(3)]
        data = b"".join(frame(message) for message in wanted)
        ends.leader.send(data[:7])
        await asyncio.sleep(0)
        ends.leader.send(data[7:])
        await ends.until(lambda: len(ends.told) == 3)
        assert ends.told == wanted
        ends.line.send({"do": "forget"})
        ends.line.close()
        assert ends.leader.recv(4096)[4:] == b'J{"do":"forget"}'
        assert ends.leader.recv(4096) == b""
        assert not ends.ends

    run(body)


@pytest.mark.parametrize("last", [b"", b"\xff" * 8, frame("no object"), frame({}, b"X"), frame({"do": "end"})[:5]])
def test_the_end_is_told_once_whatever_makes_it(last: bytes) -> None:
    async def body(ends: Ends) -> None:
        ends.leader.send(frame({"do": "first"}) + last)
        ends.leader.close()
        await ends.until(lambda: ends.ends)
        assert ends.told[0] == {"do": "first"}
        assert ends.line.closed
        ends.line.send({"do": "nothing"})
        await asyncio.sleep(0)
        assert ends.ends == 1

    run(body)


def test_a_leader_that_does_not_read_gets_it_all_later() -> None:
    async def body(ends: Ends) -> None:
        for number in range(100):
            ends.line.send({"do": "order", "text": "x" * 20_000, "number": number})
        ends.leader.setblocking(False)
        got = b""

        def all_read() -> bool:
            nonlocal got
            try:
                got += ends.leader.recv(1 << 20)
            except BlockingIOError:
                return False
            return b'"number":99}' in got

        await ends.until(all_read)
        assert got.count(b'"do":"order"') == 100

    run(body)
