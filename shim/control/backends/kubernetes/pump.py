"""The thread of an exec stream: bytes from a WebSocket to a local socket and back.

One thread for both directions, because an OpenSSL connection may not be used by two at a time; nothing in it blocks but the wait for
either socket. Each direction holds at most one read's worth: whoever is slow slows the other side, not the memory.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Union

from shim.control.backends.kubernetes import frames
from shim.control.backends.kubernetes.errors import NO_CONNECTION, ApiError

Ended = Union[int, ApiError]
_UP = 128 * 1024  # bytes of stdin in one message
_DOWN = 16 * 1024  # a TLS record holds no more
_STDERR = 4096
_STATUS = 64 * 1024
_PING = 30.0  # seconds: proxies drop a connection that is silent for a minute
_SILENCE = 90.0  # seconds without a byte, though pinged: the peer is gone
_FAREWELL = 2.0  # seconds to send what was written before the line was closed
_WANT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class Pump:
    """Moves bytes until either side ends. ``judge`` makes the end of what the status channel said."""

    def __init__(self, remote: Any, line: socket.socket, judge: Callable[[bytes], Ended]) -> None:
        self._remote = remote
        self._line = line
        self._judge = judge
        self._channels = frames.Channels()
        self._up: deque[memoryview] = deque()
        self._down: deque[memoryview] = deque()
        self._status = bytearray()
        self._remote_open = True
        self._line_open = True
        self._closed_at: float | None = None
        self._heard = self._pinged = time.monotonic()
        self.stderr = b""

    def start(self, tell: Callable[[Ended], object]) -> None:
        """Begins; ``tell`` is called once, in the thread, with how it ended."""
        self._remote.setblocking(False)
        self._line.setblocking(False)
        threading.Thread(target=self._run, args=(tell,), name="kubernetes-exec", daemon=True).start()

    def _run(self, tell: Callable[[Ended], object]) -> None:
        problem = ""
        try:
            with selectors.DefaultSelector() as selector:
                for one in (self._remote, self._line):
                    selector.register(one, selectors.EVENT_READ)
                while self._turn():
                    self._wait(selector)
        except (OSError, frames.FrameError) as error:
            problem = str(error) or type(error).__name__
        finally:
            self._remote.close()
            self._line.close()
        if self._status:
            tell(self._judge(bytes(self._status)))
        elif not self._line_open and not problem:
            tell(ApiError(NO_CONNECTION, "Closed", "the exec stream was closed on this side"))
        else:
            text = f"the exec stream broke off: {problem or 'closed by the API server'}"
            tell(ApiError(NO_CONNECTION, "Connection", text))

    def _turn(self) -> bool:
        """Moves what can be moved; false when the work is done."""
        moved = True
        while moved:
            moved = self._receive() | self._take() | self._send() | self._give()
        if not self._remote_open:
            return bool(self._down)
        if not self._line_open:
            return bool(self._up) and time.monotonic() - (self._closed_at or 0.0) < _FAREWELL
        self._keep_alive()
        return True

    def _wait(self, selector: selectors.BaseSelector) -> None:
        # A TLS connection may have to be read in order to be written; being woken too often does no harm, so read always counts
        # unless nothing more may be read (the other side is slow).
        remote = (0 if self._down else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self._up else 0)
        line = (0 if self._up else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self._down else 0)
        for one, events, alive in (
            (self._remote, remote, self._remote_open),
            (self._line, line, self._line_open),
        ):
            known = one in selector.get_map()
            if events and alive:
                (selector.modify if known else selector.register)(one, events)
            elif known:
                selector.unregister(one)
        selector.select(_FAREWELL / 4 if not self._line_open else _PING / 2)

    def _receive(self) -> bool:
        """Remote → memory, only while there is nothing left to give."""
        if self._down or not self._remote_open:
            return False
        try:
            data = self._remote.recv(_DOWN)
        except _WANT:
            return False
        self._heard = time.monotonic()
        if not data:
            self._remote_open = False
            return True
        for channel, payload in self._channels.feed(data):
            self._sort(channel, payload)
        return True

    def _sort(self, channel: int, payload: bytes) -> None:
        if channel == frames.STDOUT:
            if payload:
                self._down.append(memoryview(payload))
        elif channel == frames.STDERR:
            self.stderr = (self.stderr + payload)[-_STDERR:]
        elif channel == frames.STATUS:
            if len(self._status) + len(payload) > _STATUS:
                raise frames.FrameError("a status without end")
            self._status += payload
        elif channel == -frames.PING:
            self._up.append(memoryview(frames.frame(frames.PONG, payload)))
        elif channel == -frames.CLOSE:
            self._remote_open = False

    def _take(self) -> bool:
        """Line → memory, only while there is nothing left to send."""
        if self._up or not self._line_open or not self._remote_open:
            return False
        try:
            data = self._line.recv(_UP)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""  # closed with something unread
        if data:
            self._up.append(memoryview(frames.frame(frames.BINARY, bytes((frames.STDIN,)) + data)))
        else:
            self._line_open = False
            self._closed_at = time.monotonic()
            self._down.clear()
            self._up.append(memoryview(frames.frame(frames.CLOSE, b"\x03\xe8")))
        return True

    def _send(self) -> bool:
        """Memory → remote."""
        if not self._up or not self._remote_open:
            return False
        try:
            sent = self._remote.send(self._up[0])
        except _WANT:
            return False
        _advance(self._up, sent)
        return True

    def _give(self) -> bool:
        """Memory → line."""
        if not self._down or not self._line_open:
            self._down.clear()
            return False
        try:
            sent = self._line.send(self._down[0])
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            self._down.clear()  # the reader is gone: the next read of the line says so
            return True
        _advance(self._down, sent)
        return True

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if self._down:
            self._heard = now  # nothing is read while the line is full
        if now - self._heard > _SILENCE:
            raise OSError("the API server does not answer")
        if now - max(self._heard, self._pinged) > _PING and not self._up:
            self._pinged = now
            self._up.append(memoryview(frames.frame(frames.PING, b"")))


def _advance(queue: deque[memoryview], count: int) -> None:
    if count == len(queue[0]):
        queue.popleft()
    else:
        queue[0] = queue[0][count:]
