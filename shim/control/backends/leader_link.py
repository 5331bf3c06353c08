"""The controller's connection to a run's leader: the agent protocol over asyncio, for every backend.

The frames are those of ``shim.job.wire``; only the transport differs (docs/internals/agent-protocol.md).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import Any

from shim.job import kdf, wire

HANDSHAKE_LIMIT = 10.0  # seconds a leader may take to answer the hello
_NONCE = 16


class LinkError(Exception):
    """No leader answers at the address, or what answers is none, or it is gone."""


class LeaderLink:
    """An authenticated connection; made by ``dial``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, splitter: wire.Splitter) -> None:
        self._reader = reader
        self._writer = writer
        self._splitter = splitter
        self._bodies: list[bytes] = []
        self.on_data: Callable[[int, int, int, bytes], None] = lambda step, rank, stream, data: None
        self._sealer: wire.Sealer
        self._opener: wire.Opener

    async def _handshake(self, secret: bytes) -> None:
        nonce = secrets.token_bytes(_NONCE)
        hello = {"protocol": wire.PROTOCOL, "role": "controller", "nonce": nonce.hex()}
        self._writer.write(wire.hello_frame(hello))
        answer = wire.parse_message((await self._body())[1:])
        if "refused" in answer:
            raise LinkError(str(answer["refused"]))
        to_leader, from_leader = kdf.session_keys(secret, nonce, bytes.fromhex(str(answer["nonce"])), "controller")
        self._sealer, self._opener = wire.Sealer(to_leader), wire.Opener(from_leader)
        self._splitter.limit = wire.MAX_FRAME
        # The first tagged frame proves that the key is known; it carries nothing.
        self._writer.write(self._sealer.seal(wire.MESSAGE, b""))

    async def _body(self) -> bytes:
        while not self._bodies:
            data = await self._reader.read(65536)
            if not data:
                raise LinkError("the leader closed the connection")
            # One at a time: the limit of a frame rises with the handshake.
            self._bodies.extend(self._splitter.feed(data))
        return self._bodies.pop(0)

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message; a leader that is gone shows at the next ``receive``."""
        if not self._writer.is_closing():
            self._writer.write(self._sealer.message(dict(message)))

    def send_data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        """Sends data; whoever sends more than the leader has given credit for is a bug."""
        if not self._writer.is_closing():
            self._writer.write(self._sealer.seal(wire.DATA, wire.data_payload(step, rank, stream, data)))

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises LinkError when the leader is gone or breaks the protocol."""
        try:
            while True:
                kind, payload = self._opener.open(await self._body())
                if kind == wire.MESSAGE:
                    return wire.parse_message(payload)
                self.on_data(*wire.split_data(payload))
        except (OSError, wire.WireError) as problem:
            raise LinkError(str(problem)) from problem

    async def close(self) -> None:
        """Closes; never raises."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # the leader was gone before: closed all the same


async def dial(address: Mapping[str, Any], secret: bytes) -> LeaderLink:
    """Connects to the leader at ``address`` and proves knowledge of the run's key. Raises LinkError."""
    try:
        streams = await _open(address)
    except OSError as problem:
        raise LinkError(str(problem)) from problem
    return await _link(streams, secret)


async def take(line: socket.socket, secret: bytes) -> LeaderLink:
    """The same over a connection that leads to the leader already. Raises LinkError."""
    return await _link(await asyncio.open_connection(sock=line), secret)


async def _link(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], secret: bytes) -> LeaderLink:
    reader, writer = streams
    link = LeaderLink(reader, writer, wire.Splitter())
    try:
        async with asyncio.timeout(HANDSHAKE_LIMIT):  # wait_for of Python 3.11 may lose a cancellation
            await link._handshake(secret)
    except (TimeoutError, OSError, wire.WireError, ValueError, KeyError) as problem:
        await link.close()
        raise LinkError(f"no leader answers: {problem}") from problem
    except BaseException:
        writer.close()
        raise
    return link


async def _open(address: Mapping[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if "tcp" in address:
        host, port = address["tcp"]
        return await asyncio.open_connection(host, port)
    folder, name = os.path.split(str(address["unix"]))
    # A socket address holds 107 bytes; a folder's descriptor makes any path short.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
