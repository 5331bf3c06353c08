"""A step's input on its way from the leader to the tasks' pipes. Credit goes back when the slowest task has taken a piece."""

from __future__ import annotations

import os

from shim.job.wire import ALL_RANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.job.link import Link
    from shim.job.loop import Loop

_END_OF_TRANSMISSION = b"\x04"  # what a terminal takes as the end of the input


class _Piece:
    """Bytes under way to ``waiting`` tasks."""

    __slots__ = ("data", "waiting")

    def __init__(self, data: bytes, waiting: int) -> None:
        self.data = data
        self.waiting = waiting


class _Pipe:
    """One task's input. ``ended``: after what is queued the pipe is closed."""

    def __init__(self, fd: int, terminal: bool) -> None:
        self.fd = fd
        self.terminal = terminal
        self.queue: list[_Piece] = []
        self.offset = 0  # of the first piece
        self.ended = False


class Feed:
    """The input of one step on this node."""

    def __init__(self, step: int, link: Link, loop: Loop) -> None:
        self._step = step
        self._link = link
        self._loop = loop
        self._pipes: dict[int, _Pipe] = {}  # by rank

    def add(self, rank: int, fd: int, terminal: bool = False) -> None:
        """Task ``rank`` reads from the other end of ``fd``, which is owned from now on; a terminal's stays open to its end."""
        os.set_blocking(fd, False)
        self._pipes[rank] = _Pipe(fd, terminal)

    def data(self, rank: int, data: bytes) -> None:
        """Input for one task, or for all; empty: the end of it."""
        if rank == ALL_RANKS:
            ranks = list(self._pipes)
        else:
            ranks = [rank] if rank in self._pipes else []
        if data and not ranks:
            self._credit(len(data))
            return
        piece = _Piece(data, len(ranks))
        for target in ranks:
            pipe = self._pipes[target]
            if pipe.ended:
                self._taken(piece)
            elif data:
                pipe.queue.append(piece)
            elif pipe.terminal:
                pipe.queue.append(_Piece(_END_OF_TRANSMISSION, 0))
            else:
                pipe.ended = True
            self._write(target)

    def remove(self, rank: int) -> None:
        """Task ``rank`` is gone: what was for it is dropped."""
        pipe = self._pipes.pop(rank, None)
        if pipe is not None:
            self._loop.forget(pipe.fd)
            os.close(pipe.fd)
            for piece in pipe.queue:
                self._taken(piece)

    def close(self) -> None:
        """Drop everything."""
        for rank in list(self._pipes):
            self.remove(rank)

    def _write(self, rank: int) -> None:
        pipe = self._pipes.get(rank)
        if pipe is None:
            return
        while pipe.queue:
            piece = pipe.queue[0]
            try:
                pipe.offset += os.write(pipe.fd, piece.data[pipe.offset :])
            except BlockingIOError:
                self._loop.writer(pipe.fd, lambda: self._write(rank))
                return
            except OSError:
                self.remove(rank)  # the task has closed its input, or is gone
                return
            if pipe.offset == len(piece.data):
                pipe.offset = 0
                pipe.queue.pop(0)
                self._taken(piece)
        self._loop.writer(pipe.fd, None)
        if pipe.ended:
            self.remove(rank)

    def _taken(self, piece: _Piece) -> None:
        piece.waiting -= 1
        if piece.waiting == 0:
            self._credit(len(piece.data))

    def _credit(self, count: int) -> None:
        if count:
            self._link.send({"do": "credit", "step": self._step, "bytes": count, "stream": "in"})
