"""Who has attached to a step (sattach): gets what was kept of its output, then all that comes; what such a one sends is input for the tasks."""

from __future__ import annotations

from collections import deque

from shim.job.wire import WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Deque

    from shim.job.link import Link

    Message = dict[str, Any]

KEPT = 256 * 1024  # bytes of a step's last output that who attaches later is shown
_BEHIND = (
    4 * WINDOW
)  # bytes that somebody attached may be behind: who reads more slowly is let go, the step does not wait


class Attached:
    """The audience of one step, and the last of its output."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._kept: Deque[tuple[int, int, bytes]] = deque()
        self._size = 0
        self._behind: dict[Link, int] = {}

    def output(self, rank: int, stream: int, data: bytes) -> None:
        """Bytes of a task's stream, or its end."""
        self._kept.append((rank, stream, data))
        self._size += len(data)
        while self._size > KEPT:
            self._size -= len(self._kept.popleft()[2])
        for link in list(self._behind):
            self._send(link, rank, stream, data)

    def add(self, link: Link) -> None:
        """Somebody attaches."""
        self._behind[link] = 0
        for rank, stream, data in self._kept:
            self._send(link, rank, stream, data)

    def credit(self, link: Link, count: int) -> None:
        """So many bytes were read there."""
        if link in self._behind:
            self._behind[link] -= count

    def tell(self, message: Message) -> None:
        """Something that all are to know."""
        for link in self._behind:
            link.send(message)

    def discard(self, link: Link) -> None:
        """One has gone."""
        self._behind.pop(link, None)

    def __contains__(self, link: Link) -> bool:
        return link in self._behind

    def _send(self, link: Link, rank: int, stream: int, data: bytes) -> None:
        link.send_data(self._step, rank, stream, data)
        self._behind[link] += len(data)
        if self._behind[link] > _BEHIND:
            del self._behind[link]
            link.close()
