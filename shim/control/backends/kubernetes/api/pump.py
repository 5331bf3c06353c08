"""The thread of a stream into a pod: bytes from a WebSocket to a local socket and back.

One thread for both directions, because an OpenSSL connection may not be used by two at a time; nothing in it blocks but the wait for
either socket. Each direction holds at most one read's worth: whoever is slow slows the other side, not the memory.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Union

from shim.control.backends.kubernetes.api import frames
from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, ApiError

Ended = Union[int, ApiError]
_UP = 128 * 1024  # bytes of stdin in one message
_DOWN = 16 * 1024  # a TLS record holds no more
_STDERR = 4096
_STATUS = 64 * 1024
_PING = 30.0  # seconds: proxies drop a connection that is silent for a minute
_SILENCE = 60.0  # seconds without a byte after a ping: the peer is gone
_FAREWELL = 5.0  # seconds to send what was written before the line was closed
_WANT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class Pump:
    """Moves bytes until either side ends. ``judge`` makes the end of what the status channel said."""

    def __init__(
        self, remote: Any, line: socket.socket, judge: Callable[[bytes], Ended], half_close: bool = True
    ) -> None:
        """``half_close``: the server can be told (v5) that stdin ends while stdout goes on."""
        self._half_close = half_close
        self._remote = remote
        self._line = line
        self._judge = judge
        self._channels = frames.Channels()
        self._up: deque[memoryview] = deque()
        self._down: deque[memoryview] = deque()
        self._status = bytearray()
        self._remote_open = True
        self._line_open = True
        self._said_goodbye = False
        self._left_at: float | None = None  # when the line was seen to be closed
        self._heard = self._pinged = time.monotonic()
        self._asked: float | None = None  # when the first ping without an answer was sent
        self.stderr = b""

    def start(self, tell: Callable[[Ended], object]) -> None:
        """Begins; ``tell`` is called once, in the thread, with how it ended."""
        self._remote.setblocking(False)
        self._line.setblocking(False)
        threading.Thread(target=self._run, args=(tell,), name="kubernetes-exec", daemon=True).start()

    def _run(self, tell: Callable[[Ended], object]) -> None:
        problem = ""
        try:
            poll = select.poll()
            while self._turn():
                self._wait(poll)
        except (OSError, frames.FrameError) as error:
            problem = str(error) or type(error).__name__
        finally:
            self._remote.close()
            self._line.close()
        tell(self._verdict(problem))

    def _verdict(self, problem: str) -> Ended:
        if self._status:
            return self._judge(bytes(self._status))
        if self._left_at is not None and not problem:
            return ApiError(NO_CONNECTION, "Closed", "the exec stream was closed on this side")
        text = f"the exec stream broke off: {problem or 'closed by the API server'}"
        return ApiError(NO_CONNECTION, "Connection", text)

    def _turn(self) -> bool:
        """Moves what can be moved; false when the work is done."""
        moved = True
        while moved:
            moved = self._receive() | self._take() | self._send() | self._give()
        if not self._remote_open:
            return bool(self._down)
        if self._left_at is not None:
            # What was written before our side left is still sent, if the server takes it.
            done = not self._line_open and not self._up
            return not done and time.monotonic() - self._left_at < _FAREWELL
        self._keep_alive()
        return True

    def _wait(self, poll: select.poll) -> None:
        # Read what may be read as long as the other side keeps up. A TLS connection may have to be read in order to be written.
        remote = (0 if self._down else select.POLLIN) | (select.POLLOUT if self._up else 0)
        line = (select.POLLIN if self._line_open and not self._up else 0) | (select.POLLOUT if self._down else 0)
        # Also while nothing is wanted of the line: poll tells when its other end is closed, which ends a stream that is stuck.
        for one, events, wanted in (
            (self._remote, remote, self._remote_open and remote),
            (self._line, line, self._left_at is None),
        ):
            if wanted:
                poll.register(one, events)
            else:
                _forget(poll, one)
        for descriptor, event in poll.poll((_FAREWELL / 4 if self._left_at else _PING / 2) * 1000):
            if descriptor == self._line.fileno() and event & (select.POLLHUP | select.POLLERR):
                self._leave()

    def _leave(self) -> None:
        """Our side has closed the line: nobody reads any more."""
        if self._left_at is None:
            self._left_at = time.monotonic()
        self._down.clear()
        if not self._line_open and not self._said_goodbye:
            self._said_goodbye = True
            self._up.append(memoryview(frames.frame(frames.CLOSE, b"\x03\xe8")))

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
            if self._half_close and self._left_at is None and not self._hung_up():
                # Our side writes no more, but reads on.
                closed = bytes((frames.CLOSE_CHANNEL, frames.STDIN))
                self._up.append(memoryview(frames.frame(frames.BINARY, closed)))
            else:
                self._leave()
        return True

    def _hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._line, 0)
        return bool(poll.poll(0))

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
        if self._left_at is not None:
            self._down.clear()
        if not self._down:
            return False
        try:
            sent = self._line.send(self._down[0])
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            self._leave()
            return True
        _advance(self._down, sent)
        return True

    def _keep_alive(self) -> None:
        now = time.monotonic()
        if self._down or now - self._heard < _PING:
            self._asked = None  # nothing is read while the line is full: then silence says nothing
        elif self._asked is None:
            self._asked = self._pinged = now
            self._up.append(memoryview(frames.frame(frames.PING, b"")))
        elif now - self._asked > _SILENCE:
            raise OSError("the API server does not answer")
        elif now - self._pinged > _PING:
            self._pinged = now
            self._up.append(memoryview(frames.frame(frames.PING, b"")))


class PortPump(Pump):
    """Of a forwarded port: what it says comes on channel 0, what is wrong on channel 1; each begins with the port's number."""

    _numbered: tuple[int, ...] = ()  # channels that have told it

    def _sort(self, channel: int, payload: bytes) -> None:
        if channel < 0:
            super()._sort(channel, payload)
            return
        if channel not in self._numbered:
            self._numbered = (*self._numbered, channel)
            payload = payload[frames.PORT_NUMBER :]
        super()._sort(frames.STDOUT if channel == frames.PORT_DATA else frames.STATUS, payload)
        if channel == frames.PORT_ERROR and payload:
            self._remote_open = False  # a kubelet takes its time to close what will never carry anything


def _advance(queue: deque[memoryview], count: int) -> None:
    if count == len(queue[0]):
        queue.popleft()
    else:
        queue[0] = queue[0][count:]


def _forget(poll: select.poll, one: Any) -> None:
    try:
        poll.unregister(one)
    except KeyError:
        pass  # it was not registered
