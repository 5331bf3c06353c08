"""Frames of the agent protocol (docs/internals/agent-protocol.md): bytes to frames and back. No I/O.

    length 4 bytes (of the rest) | kind 1 byte | payload | tag 16 bytes

The two hellos have no tag. A frame that breaks a rule raises WireError, and the connection it came over must end.
"""

from __future__ import annotations

from _struct import Struct

from shim.core.jsonlite import dumps, loads
from shim.job.kdf import TAG, Hmac, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

PROTOCOL = 1
MESSAGE = b"J"
DATA = b"D"
ENCRYPTED = b"E"  # a piece of a TLS stream (``job/tls.py``), in which there are frames without tags
BATCH = 0xFFFFFFFE  # the batch script's step number
STAGE = 0xFFFFFFFD  # stands for a step where a working directory is sent, as stdin
FILES = 0xFFFFFFFC  # stands for a step where a step's file goes to a controller; its number in place of a rank
CHANGES = 0xFFFFFFFB  # stands for a step where what a node has changed goes to the leader
CAST = 0xFFFFFFFA  # stands for a step where a file is sent to the nodes, as stdin; its number in place of a rank
ALL_RANKS = 0xFFFFFFFF
STDIN, STDOUT, STDERR = 0, 1, 2
CHUNK = 64 * 1024  # bytes of data a sender puts into one frame
WINDOW = 1024 * 1024  # bytes of data of one step, direction and hop that may be under way
MAX_FRAME = 1024 * 1024 + 64
MAX_HELLO = 4096  # longest frame from a peer that has not shown that it knows the key

_LENGTH = Struct(">I")
_NUMBER = Struct(">Q")
_DATA_HEAD = Struct(">IIB")


class WireError(Exception):
    """The peer broke the protocol; the text is for a log, never for the peer."""


def hello_frame(fields: dict[str, Any]) -> bytes:
    """An untagged J frame: the first frame of each side."""
    body = MESSAGE + dumps(fields).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def data_payload(step: int, rank: int, stream: int, data: bytes | bytearray | memoryview) -> bytes:
    """The payload of a D frame."""
    return _DATA_HEAD.pack(step, rank, stream) + data


def split_data(payload: bytes) -> tuple[int, int, int, bytes]:
    """(step, rank, stream, bytes) of a D frame's payload."""
    if len(payload) < _DATA_HEAD.size:
        raise WireError("a data frame without its head")
    step, rank, stream = _DATA_HEAD.unpack_from(payload)
    if stream > STDERR:
        raise WireError(f"stream {stream}")
    return step, rank, stream, payload[_DATA_HEAD.size :]


def parse_message(payload: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a J frame."""
    try:
        message = loads(str(payload, "utf-8"))
    except ValueError as error:
        raise WireError(f"a message that is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise WireError("a message that is not a JSON object")
    return message


class Sealer:
    """One direction's sending side: numbers the frames and tags them."""

    __slots__ = ("_mac", "_number")

    def __init__(self, key: bytes) -> None:
        self._mac = Hmac(key)
        self._number = 0

    def seal(self, kind: bytes, payload: bytes) -> bytes:
        """The whole next frame."""
        size = 1 + len(payload) + TAG
        if size > MAX_FRAME:
            raise WireError(f"a frame of {size} bytes: more than {MAX_FRAME}")
        tag = self._mac.digest(_NUMBER.pack(self._number), kind, payload)[:TAG]
        self._number += 1
        return b"".join((_LENGTH.pack(size), kind, payload, tag))

    def message(self, fields: dict[str, Any]) -> bytes:
        """A J frame."""
        return self.seal(MESSAGE, dumps(fields).encode("ascii"))


class Opener:
    """One direction's receiving side: verifies numbers and tags."""

    __slots__ = ("_mac", "_number")

    def __init__(self, key: bytes) -> None:
        self._mac = Hmac(key)
        self._number = 0

    def open(self, body: bytes) -> tuple[bytes, bytes]:
        """(kind, payload) of the next frame's bytes after its length. WireError: not the peer's, or not the next one."""
        if len(body) < 1 + TAG:
            raise WireError("a frame without a tag")
        kind, payload, tag = body[:1], body[1:-TAG], body[-TAG:]
        if not same(self._mac.digest(_NUMBER.pack(self._number), kind, payload)[:TAG], tag):
            raise WireError("a wrong tag")
        self._number += 1
        if kind not in (MESSAGE, DATA, ENCRYPTED):
            raise WireError(f"frame kind {kind!r}")
        return kind, payload


class Plain:
    """Both directions of a connection of which nobody else can have an end: frames without tags."""

    __slots__ = ()

    def seal(self, kind: bytes, payload: bytes) -> bytes:
        """The whole next frame."""
        size = 1 + len(payload)
        if size > MAX_FRAME:
            raise WireError(f"a frame of {size} bytes: more than {MAX_FRAME}")
        return b"".join((_LENGTH.pack(size), kind, payload))

    def message(self, fields: dict[str, Any]) -> bytes:
        """A J frame."""
        return self.seal(MESSAGE, dumps(fields).encode("ascii"))

    def open(self, body: bytes) -> tuple[bytes, bytes]:
        """(kind, payload) of the next frame's bytes after its length. WireError: no such kind."""
        if body[:1] not in (MESSAGE, DATA):
            raise WireError(f"frame kind {body[:1]!r}")
        return body[:1], body[1:]


class Splitter:
    """Cuts a byte stream into frame bodies (what follows each length)."""

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = MAX_HELLO) -> None:
        self._buffer = bytearray()
        self.limit = limit  # longest body accepted from here on

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are complete with ``data``. WireError when one is announced longer than ``limit``.

        The limit is read anew for every frame: it may be raised between two.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            (size,) = _LENGTH.unpack_from(buffer)
            if size > self.limit:
                raise WireError(f"a frame of {size} bytes: more than {self.limit}")
            if len(buffer) < 4 + size:
                return
            body = bytes(memoryview(buffer)[4 : 4 + size])
            del buffer[: 4 + size]
            yield body
