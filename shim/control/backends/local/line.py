"""The controller's end of a connection that a leader was handed: frames without tags, and callbacks in place of a task."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from shim.job import wire

_PIECE = 64 * 1024
_PLAIN = wire.Plain()


class Line:
    """``on_message(message)`` for each message, in order; ``on_end()`` once, when the leader is gone or makes no sense, not after ``close``."""

    folder = ""  # of a run that is over, for the next one: it has the socket that the leader listens on

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket = sock
        self._on_message = on_message
        self._on_end = on_end
        self._split = wire.Splitter(wire.MAX_FRAME)
        self._unsent = b""
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._readable)

    def turn_to(self, on_message: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        """Reports to another observer from now on."""
        self._on_message = on_message
        self._on_end = on_end

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def send(self, *messages: dict[str, Any]) -> None:
        """Sends messages, together; that a leader is gone shows as its end."""
        if self.closed:
            return
        waits = bool(self._unsent)
        self._unsent += b"".join([_PLAIN.message(message) for message in messages])
        if not waits:
            self._write()
            if self._unsent:
                self._loop.add_writer(self._socket, self._writable)

    def close(self) -> None:
        """Closes; what the leader has not taken yet reaches it all the same, if it fitted into the socket."""
        if not self.closed:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""  # the reader sees the end, after what the leader has still said

    def _writable(self) -> None:
        self._write()
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            piece = self._socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._ended()
            return
        try:
            for body in self._split.feed(piece):
                kind, payload = _PLAIN.open(body)
                if kind == wire.MESSAGE:
                    self._on_message(wire.parse_message(payload))
                if self.closed:
                    return
        except wire.WireError:
            self._ended()

    def _ended(self) -> None:
        self.close()
        self._on_end()
