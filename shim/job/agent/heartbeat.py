"""Signs of life between agents on different machines: a connection may stay open for hours though nobody is at its other end.

Each side says ``beat`` every so many seconds, whatever else passes; each message of the peer counts as a sign of life.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.link import Link
    from shim.job.loop import Loop

MISSED = 3  # beats that may be missing until a peer is suspect


class _Peer:
    __slots__ = ("heard", "link", "suspect")

    def __init__(self, link: Link, heard: float) -> None:
        self.link = link
        self.heard = heard
        self.suspect = False


class Heartbeat:
    """Of one agent with its peers, by number. ``interval`` 0: there are none on other machines, nothing happens.

    ``on_suspect(peer)`` after MISSED intervals of silence, ``on_recovered(peer)`` when it is heard again, ``on_lost(peer)`` after
    ``grace`` seconds, once; it is no peer any more then.
    """

    def __init__(
        self,
        loop: Loop,
        interval: float,
        grace: float,
        on_lost: Callable[[int], None],
        on_suspect: Callable[[int], None],
        on_recovered: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._interval = interval
        self._grace = grace
        self._on_lost = on_lost
        self._on_suspect = on_suspect
        self._on_recovered = on_recovered
        self._peers: dict[int, _Peer] = {}
        self._beating = False

    def add(self, peer: int, link: Link) -> None:
        """From now on ``peer`` is told and listened to."""
        if not self._interval:
            return
        self._peers[peer] = _Peer(link, self._loop.now())
        if not self._beating:
            self._beating = True
            self._loop.call_later(self._interval, self._beat)

    def remove(self, peer: int) -> None:
        """It is gone, or nobody waits for it."""
        self._peers.pop(peer, None)

    def heard(self, peer: int) -> None:
        """Something came from it."""
        one = self._peers.get(peer)
        if one is not None:
            one.heard = self._loop.now()
            if one.suspect:
                one.suspect = False
                self._on_recovered(peer)

    def _beat(self) -> None:
        self._beating = bool(self._peers)
        if not self._beating:
            return
        self._loop.call_later(self._interval, self._beat)
        now = self._loop.now()
        for number, peer in list(self._peers.items()):
            silence = now - peer.heard
            if silence > self._grace:
                self.remove(number)
                self._on_lost(number)
                continue
            peer.link.send({"do": "beat"})
            if silence > MISSED * self._interval and not peer.suspect:
                peer.suspect = True
                self._on_suspect(number)
