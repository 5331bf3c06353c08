"""WebSocket frames of an exec stream (RFC 6455; channels of v4/v5.channel.k8s.io): bytes to frames and back. No I/O.

Own code, because the package's client cannot do both directions of one TLS connection without two threads in one OpenSSL object, and
reads 64 MiB thirty times slower than they come.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

STDIN, STDOUT, STDERR, STATUS, CLOSE_CHANNEL = 0, 1, 2, 3, 255
PORT_DATA, PORT_ERROR = 0, 1  # channels of a forwarded port
PORT_NUMBER = 2  # bytes with which each of them begins
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
LONGEST = 32 * 1024 * 1024  # the API server's own limit of a message


class FrameError(Exception):
    """The peer does not speak the protocol."""


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole frame as a client must send it: masked."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    key = os.urandom(4)
    # One long XOR: as quick as the connection.
    mask = (key * (size // 4 + 1))[:size]
    mixed = int.from_bytes(payload, "little") ^ int.from_bytes(mask, "little")
    return head + key + mixed.to_bytes(size, "little")


class Parser:
    """Cuts what the server sends into (opcode, fin, payload)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bool, bytes]]:
        """The frames that are complete with ``data``. Raises FrameError."""
        buffer = self._buffer
        buffer += data
        start = 0
        while True:
            end, body = _extent(buffer, start)
            if end == 0 or end > len(buffer):
                break
            first = buffer[start]
            yield first & 0x0F, bool(first & 0x80), bytes(memoryview(buffer)[body:end])
            start = end
        del buffer[:start]


def _extent(buffer: bytearray, start: int) -> tuple[int, int]:
    """(end, start of the payload) of the frame at ``start``; (0, 0) when its head is not complete."""
    if len(buffer) < start + 2:
        return 0, 0
    first, second = buffer[start], buffer[start + 1]
    if first & 0x70 or second & 0x80:
        raise FrameError("a frame with an extension, or masked by the server")
    size, body = second, start + 2
    if size >= 126:
        width = 2 if size == 126 else 8
        if len(buffer) < body + width:
            return 0, 0
        size = int.from_bytes(buffer[body : body + width], "big")
        body += width
    if size > LONGEST:
        raise FrameError(f"a frame of {size} bytes")
    return body + size, body


class Channels:
    """Parser for messages: yields (channel, bytes) of data, and the control frames as (-opcode, payload)."""

    def __init__(self) -> None:
        self._parser = Parser()
        self._channel: int | None = None  # of a message that goes on

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """What is complete with ``data``; parts of a fragmented message as they come. Raises FrameError."""
        for opcode, final, payload in self._parser.feed(data):
            if opcode >= CLOSE:
                yield -opcode, payload
            elif opcode == CONTINUATION:
                if self._channel is None:
                    raise FrameError("a continuation of nothing")
                yield self._channel, payload
                self._channel = None if final else self._channel
            elif payload:
                yield payload[0], payload[1:]
                self._channel = None if final else payload[0]
            elif not final:
                raise FrameError("a message that begins without its channel")
