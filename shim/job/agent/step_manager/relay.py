"""Passes one step's bytes on between its nodes and its srun, with bounded memory.

Towards srun at most one window (``wire.WINDOW``) is under way; what comes from the nodes meanwhile waits here, and a node gets
its credit back only when its bytes have been passed on: each node can fill one window, then it stops reading its tasks.
Input goes to the nodes at once; srun gets its credit back when the slowest of them has taken it.
"""

from __future__ import annotations

from collections import deque

from shim.job.wire import ALL_RANKS, STDIN, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Deque

    from shim.job.link import Link

    Message = dict[str, Any]

KEPT = 256 * 1024  # bytes of a step's last output that who attaches later is shown
# Bytes that somebody attached may be behind: who reads more slowly is let go, the step does not wait.
_BEHIND = 4 * WINDOW


class Attached:
    """Who has attached to a step (sattach), and the last of its output: they get what was kept, then all that comes; what they send is input for the tasks."""

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


class _Chunk:
    """Input under way: how many bytes, how many nodes have not taken them, and who sent it (None: srun)."""

    __slots__ = ("size", "source", "waiting")

    def __init__(self, size: int, waiting: int, source: Link | None) -> None:
        self.source = source
        self.size = size
        self.waiting = waiting


class Relay:
    """``nodes``: the links of the step's nodes by index; ``ranks``: which node each rank is on; ``srun`` None: output is dropped.

    ``on_idle`` is called whenever all output has been passed on.
    """

    on_idle: Callable[[], None]

    def __init__(self, step: int, srun: Link | None, nodes: Mapping[int, Link], ranks: Mapping[int, int]) -> None:
        self._step = step
        self._srun = srun
        self._nodes = dict(nodes)
        self._ranks = ranks
        self._room = WINDOW
        self._queue: Deque[tuple[int, int, int, bytes]] = deque()
        self._input: dict[int, Deque[tuple[_Chunk, int]]] = {index: deque() for index in nodes}
        self.attached = Attached(step)

    @property
    def idle(self) -> bool:
        """Whether all output has been passed on."""
        return not self._queue

    def output(self, index: int, rank: int, stream: int, data: bytes) -> None:
        """Bytes (or the end) of a task's stream have come from node ``index``."""
        self.attached.output(rank, stream, data)
        self._queue.append((index, rank, stream, data))
        self._pass_on()

    def srun_credit(self, count: int) -> None:
        """srun has written ``count`` bytes."""
        self._room += count
        self._pass_on()

    def srun_gone(self) -> None:
        """Nobody wants the output any more: the tasks must not block on it."""
        self._srun = None
        self._pass_on()

    def input(self, rank: int, data: bytes, source: Link | None = None) -> None:
        """Bytes (or the end) of stdin have come from srun, or from another ``source``, for one rank or all."""
        if rank == ALL_RANKS:
            targets = list(self._nodes)
        else:
            targets = [index for index in (self._ranks.get(rank),) if index is not None and index in self._nodes]
        for index in targets:
            self._nodes[index].send_data(self._step, rank, STDIN, data)
        if not data:
            return
        chunk = _Chunk(len(data), len(targets), source)
        for index in targets:
            self._input[index].append((chunk, len(data)))
        if not targets:
            self._credit(chunk)

    def node_credit(self, index: int, count: int) -> None:
        """Node ``index`` has given ``count`` bytes of stdin to its tasks."""
        queue = self._input.get(index)
        while queue and count > 0:
            chunk, left = queue.popleft()
            if left > count:
                queue.appendleft((chunk, left - count))
                return
            count -= left
            self._taken(chunk)

    def node_gone(self, index: int) -> None:
        """Node ``index`` has no tasks of the step any more."""
        self._nodes.pop(index, None)
        for chunk, _left in self._input.pop(index, ()):
            self._taken(chunk)

    def _pass_on(self) -> None:
        while self._queue:
            index, rank, stream, data = self._queue[0]
            if self._srun is not None:
                if len(data) > self._room:
                    return
                self._room -= len(data)
                self._srun.send_data(self._step, rank, stream, data)
            self._queue.popleft()
            node = self._nodes.get(index)
            if data and node is not None:
                node.send({"do": "credit", "step": self._step, "bytes": len(data), "stream": "out"})
        self.on_idle()

    def _taken(self, chunk: _Chunk) -> None:
        chunk.waiting -= 1
        if chunk.waiting == 0:
            self._credit(chunk)

    def _credit(self, chunk: _Chunk) -> None:
        source = chunk.source or self._srun
        if source is not None:
            source.send({"do": "credit", "step": self._step, "bytes": chunk.size, "stream": "in"})
