"""Links: how a leader and its peers exchange messages and data, over a session or inside one process.

Whoever holds a link sets ``on_message(message)``, ``on_data(step, rank, stream, bytes)`` and ``on_close(reason)`` before the
loop's next turn. Calls on a link never call a handler back from inside: everything arrives through the loop, in order.
"""

from __future__ import annotations

from shim.core.jsonlite import dumps
from shim.job.wire import DATA, MESSAGE, WireError, data_payload, parse_message, split_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.loop import Loop
    from shim.job.session import Session


class Link:
    """One end. ``send`` and ``send_data`` on a closed link do nothing: its end has been or will be told by ``on_close``.

    Abstract: ``send``, ``send_data``, ``finish`` and ``close`` are each kind's own.
    """

    def __init__(self) -> None:
        self.on_message: Callable[[dict[str, Any]], None] = _ignore
        self.on_data: Callable[[int, int, int, bytes], None] = _ignore
        self.on_close: Callable[[str], None] = _ignore

    def send(self, message: dict[str, Any]) -> None:
        """Send a message (JSON data with a ``do``)."""
        raise NotImplementedError

    def send_all(self, messages: list[dict[str, Any]]) -> None:
        """Send several messages, together where that spares the other end a wake-up."""
        for message in messages:
            self.send(message)

    def send_data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        """Send bytes of a stream, at most ``wire.CHUNK`` at once; ``b""`` is the stream's end."""
        raise NotImplementedError

    def finish(self, then: Callable[[], None] | None = None) -> None:
        """Close when everything sent has gone out, then call ``then``. ``on_close`` is not called here."""
        raise NotImplementedError

    def close(self) -> None:
        """Close now. ``on_close`` is not called here."""
        raise NotImplementedError


class SessionLink(Link):
    """A link over a connection."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        session.on_frame = self._frame
        session.on_close = lambda reason: self.on_close(reason)

    def send(self, message: dict[str, Any]) -> None:
        self.session.send(MESSAGE, dumps(message).encode("ascii"))

    def send_all(self, messages: list[dict[str, Any]]) -> None:
        self.session.send_all(MESSAGE, [dumps(message).encode("ascii") for message in messages])

    def send_data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        self.session.send(DATA, data_payload(step, rank, stream, data))

    def finish(self, then: Callable[[], None] | None = None) -> None:
        self.session.finish(then)

    def close(self) -> None:
        self.session.close()

    def _frame(self, kind: bytes, payload: bytes) -> None:
        if kind == DATA:
            self.on_data(*split_data(payload))
            return
        message = parse_message(payload)
        if not isinstance(message.get("do"), str):
            raise WireError("a message without do")
        self.on_message(message)


class LocalLink(Link):
    """A link inside one process; made in pairs by ``local_pair``. Messages are shared, not copied: do not change them."""

    _peer: LocalLink

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._open = True

    def send(self, message: dict[str, Any]) -> None:
        if self._open:
            peer = self._peer
            self._loop.call_soon(lambda: peer.on_message(message) if peer._open else None)

    def send_data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        if self._open:
            peer = self._peer
            self._loop.call_soon(lambda: peer.on_data(step, rank, stream, data) if peer._open else None)

    def finish(self, then: Callable[[], None] | None = None) -> None:
        self.close()  # what was sent is with the loop already
        if then is not None:
            self._loop.call_soon(then)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.call_soon(self._peer._peer_closed)

    def _peer_closed(self) -> None:
        if self._open:
            self._open = False
            self.on_close("the peer closed the link")


def local_pair(loop: Loop) -> tuple[LocalLink, LocalLink]:
    """Two ends of one link inside this process."""
    one, other = LocalLink(loop), LocalLink(loop)
    one._peer, other._peer = other, one
    return one, other


def _ignore(*_event: object) -> None:
    """The handler of an event that nobody asked for."""
