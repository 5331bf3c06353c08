"""Where a leader listens: who connects must show that it knows the run's key before anybody listens to it."""

from __future__ import annotations

import _socket
import os

from shim.job.address import accept
from shim.job.kdf import session_keys
from shim.job.session import ROLES, Session
from shim.job.wire import MAX_FRAME, PROTOCOL, Opener, Plain, Sealer, hello_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.loop import Loop

MOST_STRANGERS = 256  # connections whose ends have not shown that they know the key


class LeaderSession(Session):
    """The leader's end of a connection that somebody opened to it. ``on_open`` comes when the peer has proved itself."""

    def trust(self) -> None:
        """This end was handed over by the one who has the other: there is nothing to be proved."""
        self._sealer = self._opener = Plain()
        self._stop_patience()
        self._split.limit = MAX_FRAME

    def set_apart(self, encrypted: bool) -> None:
        """``encrypted``: what this peer says is believed only if nobody on the way could read it."""
        self._secret_only = encrypted

    @property
    def greeted(self) -> bool:
        """Whether the peer has said hello."""
        return self._opener is not None

    def _hello(self, hello: dict[str, Any]) -> None:
        role = hello.get("role")
        if hello.get("protocol") != PROTOCOL:
            self._refuse(f"protocol {hello.get('protocol')} is not spoken here, only {PROTOCOL}")
        elif role not in ROLES:
            self._refuse("unknown role")
        else:
            theirs, mine = session_keys(self._secret, self._nonce_of(hello), self._nonce, role)
            self._peer = hello
            self._write(hello_frame({"protocol": PROTOCOL, "nonce": self._nonce.hex()}))
            self._sealer, self._opener = Sealer(mine), Opener(theirs)

    def _refuse(self, text: str) -> None:
        self._write(hello_frame({"refused": text}))
        self._lost(text)

    def _proved(self) -> None:
        self.on_open(self._peer)


class Listener:
    """Accepts connections on a leader's socket. ``on_session(session, hello)``: somebody who knows the key is there.

    Of those that have not shown it yet, MOST_STRANGERS may wait. One more takes the place of the oldest of the address that has most of
    them, first of one that has said nothing yet: who opens many ends their own.
    The handlers that ``on_session`` sets get everything, from the first frame on. ``encrypted``: of peers on other machines only what
    is encrypted.
    """

    def __init__(
        self,
        loop: Loop,
        server: _socket.socket,
        secret: bytes,
        on_session: Callable[[Session, dict[str, Any]], None],
        encrypted: bool = False,
    ) -> None:
        self._loop = loop
        self._server = server
        self._secret = secret
        self._on_session = on_session
        self._encrypted = encrypted
        self._closed = False
        self._strangers: dict[LeaderSession, str] = {}  # the oldest first, with their addresses
        loop.reader(server.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        try:
            connection = accept(self._server)
        except (BlockingIOError, ConnectionError):
            return  # it went away before we came to it
        except OSError:
            # Out of descriptors or memory: the connection stays in the queue; looking again at once would spin.
            self._loop.reader(self._server.fileno(), None)
            self._loop.call_later(1.0, self._again)
            return
        self._serve(connection)

    def take(self, fd: int) -> Session:
        """A connection that a controller has made and handed over: nobody else can have the other end of it."""
        os.set_blocking(fd, False)
        session = LeaderSession(self._loop, _socket.socket(fileno=fd), self._secret)
        session.trust()
        return session

    def _serve(self, connection: _socket.socket) -> None:
        session = LeaderSession(self._loop, connection, self._secret)
        session.set_apart(self._encrypted and _comes_from_elsewhere(connection))
        self._strangers[session] = _address(connection)
        session.on_open = lambda hello: self._known(session, hello)
        session.on_close = lambda _reason: self._forget(session)
        if len(self._strangers) > MOST_STRANGERS:
            worst = self._one_too_many()
            del self._strangers[worst]
            worst.close()

    def _forget(self, stranger: LeaderSession) -> None:
        self._strangers.pop(stranger, None)

    def _one_too_many(self) -> LeaderSession:
        counts: dict[str, int] = {}
        for address in self._strangers.values():
            counts[address] = counts.get(address, 0) + 1
        most = max(counts, key=lambda address: counts[address])
        found = [session for session, address in self._strangers.items() if address == most]
        return next((session for session in found if not session.greeted), found[0])

    def _known(self, session: LeaderSession, hello: dict[str, Any]) -> None:
        del self._strangers[session]
        session.on_close = _ignore
        self._on_session(session, hello)

    def _again(self) -> None:
        if not self._closed:
            self._loop.reader(self._server.fileno(), self._acceptable)

    def close(self) -> None:
        """Accept no more; connections of those who have shown that they know the key go on."""
        if not self._closed:
            self.leave().close()

    def leave(self) -> _socket.socket:
        """The same, but its socket is left open, for another listener. Not after ``close``."""
        self._closed = True
        for stranger in self._strangers:
            stranger.close()
        self._strangers.clear()
        self._loop.forget(self._server.fileno())
        return self._server


def _address(connection: _socket.socket) -> str:
    """The host that the connection comes from; "" for one of this machine's own sockets."""
    if connection.family == _socket.AF_UNIX:
        return ""
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return ""  # it is gone again


def _comes_from_elsewhere(connection: _socket.socket) -> bool:
    """Whether what passes there is seen by a network: not between a machine's own addresses."""
    if connection.family == _socket.AF_UNIX:
        return False
    try:
        return bool(connection.getpeername()[0] != connection.getsockname()[0])
    except OSError:
        return True  # it is gone again


def _ignore(*_event: object) -> None:
    """The handler of an event that nobody asked for."""
