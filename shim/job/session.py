"""Authenticated connections of the agent protocol: handshake, frames in order, buffered writes.

The client says hello, the leader says hello, both derive their keys; the client's first tagged frame, an empty one that no
handler sees, proves it to the leader; the leader's first frame proves it to the client. Until then a peer may send 4 KiB a
frame and has 10 s. A peer that breaks a rule is dropped without an answer.
"""

from __future__ import annotations

import _socket
import os

from shim.job.address import connect
from shim.job.kdf import session_keys
from shim.job.wire import (
    ENCRYPTED,
    MAX_FRAME,
    MESSAGE,
    PROTOCOL,
    Opener,
    Plain,
    Sealer,
    Splitter,
    WireError,
    hello_frame,
    parse_message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from shim.job.loop import Loop, Timer
    from shim.job.tls import Tls

ROLES = ("node", "srun", "controller", "command")
PATIENCE = 10.0  # seconds a peer has to show that it knows the key
_NONCE = 16  # bytes
_READ = 64 * 1024
_LINGER = 5.0  # seconds to wait for the peer's end after ours
_CARRIED = 512 * 1024  # bytes of TLS in one frame
_PLAIN = Plain()
_MOST_UNSENT = 64 * 1024 * 1024  # bytes: a peer that lets this much pile up is not reading


class Session:
    """One end of a connection. Set the three handlers before the loop's next turn.

    ``on_open(hello)``: the handshake is done, with the peer's hello. ``on_frame(kind, payload)``. ``on_close(reason)``: the
    connection is gone (once, never after ``close``); the reason is for a log, after a refusal it is the peer's text.
    """

    def __init__(self, loop: Loop, sock: _socket.socket, secret: bytes) -> None:
        self.on_open: Callable[[dict[str, Any]], None] = _ignore
        self.on_frame: Callable[[bytes, bytes], None] = _ignore
        self.on_close: Callable[[str], None] = _ignore
        self.refused = ""  # the peer's text when it refused this end
        self._loop = loop
        self._socket = sock
        self._fd = sock.fileno()
        self._secret = secret
        self._nonce = os.urandom(_NONCE)
        self._split = Splitter()
        self._sealer: Sealer | Plain | None = None
        self._opener: Opener | Plain | None = None
        self._tls: Tls | None = None
        self._inner = Splitter(MAX_FRAME)  # of what was encrypted
        self._secret_only = False  # nothing is taken that is not encrypted
        self._waiting: list[tuple[bytes, bytes]] = []  # frames to send once there are keys
        self._out = bytearray()
        self._closed = False
        self._finishing = False
        self._then: Callable[[], None] = _ignore
        self._patience: Timer | None = loop.call_later(PATIENCE, self._too_late)
        loop.reader(self._fd, self._readable)

    # For the owner

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send a frame; it is kept until the handshake is done and the peer takes it. Nothing after ``finish``."""
        self.send_all(kind, [payload])

    def send_all(self, kind: bytes, payloads: Sequence[bytes]) -> None:
        """The same for several frames of one kind: they go out together."""
        if self._closed or self._finishing or not payloads:
            return
        sealer = self._sealer
        if sealer is None or not self._speaks:
            self._waiting += [(kind, payload) for payload in payloads]
        elif self._tls is not None:
            self._tls.write(b"".join([_PLAIN.seal(kind, payload) for payload in payloads]))
            self._carry()
        else:
            self._write(b"".join([sealer.seal(kind, payload) for payload in payloads]))

    @property
    def _speaks(self) -> bool:
        """Whether there are keys, and those that are wanted."""
        if self._secret_only:
            return self._tls is not None and self._tls.ready
        return self._sealer is not None

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self._fd

    def finish(self, then: Callable[[], None] | None = None) -> None:
        """Close once everything is sent and the peer has closed its end, or has had 5 s for that; ``then`` is called after it."""
        if self._closed:
            if then is not None:
                self._loop.call_soon(then)
        elif not self._finishing:
            self._finishing = True
            self._then = then or _ignore
            self.on_frame = _ignore
            self.on_close = _ignore
            if not self._speaks:
                self.close()
            elif not self._out:
                self._end_of_output()

    def close(self) -> None:
        """Close now; what is unsent is lost."""
        if self._closed:
            return
        self._closed = True
        self._stop_patience()
        self._loop.forget(self._fd)
        self._socket.close()
        self._out.clear()
        self._waiting.clear()
        if self._finishing:
            self._loop.call_soon(self._then)

    # The handshake; each side has its own

    def _hello(self, hello: dict[str, Any]) -> None:
        """The peer's hello. Abstract: the client's and the leader's side differ in it."""
        raise NotImplementedError

    def _proved(self) -> None:
        """The client's first tagged frame has been verified."""

    def _nonce_of(self, hello: dict[str, Any]) -> bytes:
        try:
            nonce = bytes.fromhex(hello["nonce"])
        except (KeyError, TypeError, ValueError):
            raise WireError("a hello without a nonce") from None
        if len(nonce) != _NONCE:
            raise WireError("a nonce of the wrong length")
        return nonce

    def _too_late(self) -> None:
        self._patience = None
        self._lost("the peer did not answer")

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # Bytes

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        if not data:
            self._lost("the peer closed the connection")
            return
        if self._finishing:
            return
        try:
            for body in self._split.feed(data):
                self._body(body)
                if self._closed or self._finishing:
                    return
        except WireError as error:
            self._lost(str(error))

    def _body(self, body: bytes) -> None:
        if self._opener is None:
            if body[:1] != MESSAGE:
                raise WireError("no hello")
            self._hello(parse_message(body[1:]))
            return
        kind, payload = self._opener.open(body)
        if self._patience is None:
            if kind == ENCRYPTED:
                self._decrypt(payload)
            elif self._secret_only:
                raise WireError("a frame that is not encrypted")
            else:
                self.on_frame(kind, payload)
            return
        if kind != MESSAGE or payload:
            raise WireError("a first frame that is not empty")
        self._stop_patience()
        self._split.limit = MAX_FRAME
        self._proved()

    def _decrypt(self, payload: bytes) -> None:
        """A piece of the TLS stream. The peer that opened the connection has begun it."""
        if self._tls is None:
            from shim.job.tls import Tls

            self._tls, self._secret_only = Tls(server=True), True
        waited = not self._tls.ready
        said = self._tls.feed(payload)
        self._carry()
        if waited and self._tls.ready:
            waiting, self._waiting = self._waiting, []
            for kind, frame in waiting:
                self.send(kind, frame)
        for body in self._inner.feed(said):
            self.on_frame(*_PLAIN.open(body))
            if self._closed or self._finishing:
                return

    def _carry(self) -> None:
        """Sends what TLS has for the peer."""
        assert self._tls is not None and self._sealer is not None
        data = self._tls.outgoing()
        for at in range(0, len(data), _CARRIED):
            self._write(self._sealer.seal(ENCRYPTED, data[at : at + _CARRIED]))

    def _write(self, data: bytes) -> None:
        if self._out:
            self._out += data
            if len(self._out) > _MOST_UNSENT:
                self._loop.call_soon(lambda: self._lost("the peer does not read"))
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the reader sees the end too, after what the peer has still sent
        if sent < len(data):
            self._out += data[sent:]
            self._loop.writer(self._fd, self._writable)

    def _writable(self) -> None:
        try:
            with memoryview(self._out) as view:
                sent = self._socket.send(view[: 4 * _READ])
        except BlockingIOError:
            return
        except OSError:
            self._loop.writer(self._fd, None)
            self._out.clear()
            if self._finishing:
                self.close()
            return
        del self._out[:sent]
        if not self._out:
            self._loop.writer(self._fd, None)
            if self._finishing:
                self._end_of_output()

    def _end_of_output(self) -> None:
        # Closing at once could take back what the peer has not read: a reset overtakes it.
        self._stop_patience()
        self._patience = self._loop.call_later(_LINGER, self.close)
        try:
            self._socket.shutdown(_socket.SHUT_WR)
        except OSError:
            self.close()

    def _lost(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self.on_close(reason)


class ClientSession(Session):
    """The end of a node, of srun, of a controller. ``hello``: what the leader is told beside role and nonce. ``encrypted``: nothing is
    said or believed before it is.
    """

    def __init__(
        self,
        loop: Loop,
        sock: _socket.socket,
        secret: bytes,
        role: str,
        hello: dict[str, Any],
        encrypted: bool = False,
    ) -> None:
        super().__init__(loop, sock, secret)
        self._secret_only = encrypted
        self._role = role
        self._first = hello_frame(dict(hello, protocol=PROTOCOL, role=role, nonce=self._nonce.hex()))
        loop.writer(self._fd, self._connected)

    def _connected(self) -> None:
        self._loop.writer(self._fd, None)
        error = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if error:
            self._lost(os.strerror(error))
        else:
            self._write(self._first)

    def _hello(self, hello: dict[str, Any]) -> None:
        if "refused" in hello:
            self.refused = str(hello["refused"])
            self._lost(self.refused)
            return
        mine, theirs = session_keys(self._secret, self._nonce, self._nonce_of(hello), self._role)
        self._sealer, self._opener = Sealer(mine), Opener(theirs)
        # A leader may have nothing to say for long; it proves itself with its first frame, whenever that comes.
        self._stop_patience()
        self._split.limit = MAX_FRAME
        self._prove()
        if self._secret_only:
            from shim.job.tls import Tls

            self._tls = Tls(server=False)
            self._tls.feed(b"")
            self._carry()
        else:
            waiting, self._waiting = self._waiting, []
            for kind, payload in waiting:
                self.send(kind, payload)
        self.on_open(hello)

    def _prove(self) -> None:
        """The first frame with a tag."""
        assert self._sealer is not None
        self._write(self._sealer.seal(MESSAGE, b""))


def open_session(loop: Loop, address: dict[str, Any], secret: bytes, role: str, **hello: Any) -> ClientSession:
    """Begin to connect to a leader. OSError where the failure is known at once, else ``on_close``."""
    return ClientSession(loop, connect(address), secret, role, hello, bool(address.get("encrypted")))


def _ignore(*_event: object) -> None:
    """The handler of an event that nobody asked for."""
