"""Writing to srun's own streams and files without ever blocking the loop.

srun's standard streams are shared with other programs, so they are not made non-blocking: a write is done only when the
descriptor takes it, and never of more than a pipe is sure to take then.
"""

from __future__ import annotations

import errno
import os
import stat

from shim.job.steps.lines import LineWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.loop import Loop

_SURE = 4096  # PIPE_BUF: a pipe that is ready takes this much at once
_FILE = 1 << 20


class Sink:
    """A descriptor that output goes to. ``written(count)`` is called for bytes that are gone, also for those that cannot be
    written any more: where nobody reads any more, the tasks go on without it. ``broken()`` once, when nothing can be written, which is said.
    ``fd`` None: everything is dropped.
    """

    def __init__(self, loop: Loop, fd: int | None, written: Callable[[int], None], broken: Callable[[], None]) -> None:
        self.on_empty: Callable[[], None] = _nothing
        self._loop = loop
        self._fd = fd
        self._written = written
        self._broken = broken
        self._held: list[tuple[bytes, int]] = []  # bytes to write, credit that they are worth
        self._piece = _SURE
        if fd is not None:
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    self._piece = _FILE
            except OSError:
                self._fd = None

    @property
    def empty(self) -> bool:
        """Whether everything has been written."""
        return not self._held

    def put(self, data: bytes, credit: int = 0) -> None:
        """Writes ``data`` when the descriptor takes it, then gives ``credit`` back."""
        if self._fd is None or (not data and not self._held):
            self._give(credit)
            return
        self._held.append((data, credit))
        if len(self._held) == 1:
            self._loop.writer(self._fd, self._ready)

    def _ready(self) -> None:
        assert self._fd is not None
        data, credit = self._held[0]
        try:
            count = os.write(self._fd, data[: self._piece]) if data else 0
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error)
            return
        if count < len(data):
            self._held[0] = (data[count:], credit)
            return
        self._held.pop(0)
        if not self._held:
            self._loop.writer(self._fd, None)
            self.on_empty()
        self._give(credit)

    def _give(self, credit: int) -> None:
        if credit:
            self._written(credit)

    def _break(self, error: OSError) -> None:
        assert self._fd is not None
        unread = error.errno == errno.EPIPE
        if not unread:
            _say(f"srun: error: write error: {error.strerror}\n")  # somebody wants what is lost: a full disk
        self._loop.writer(self._fd, None)
        self._fd = None
        held, self._held = self._held, []
        self._give(sum(credit for _data, credit in held))
        self.on_empty()
        if not unread:
            self._broken()


class Output:
    """One output stream of the step: tasks' bytes, made lines of, into a sink. ``only``: the one rank that is shown."""

    def __init__(self, sink: Sink, lines: LineWriter, only: int | None = None) -> None:
        self.sink = sink
        self._lines = lines
        self._only = only

    def feed(self, rank: int, data: bytes) -> None:
        """Bytes of a task, or the end of its stream."""
        if self._only is not None and rank != self._only:
            self.sink.put(b"", len(data))
        elif data:
            self.sink.put(self._lines.feed(rank, data), len(data))
        else:
            self.sink.put(self._lines.finish(rank))


class TaskFiles(Output):
    """One output stream that goes to a file of each task: ``outputs`` by rank."""

    def __init__(self, outputs: dict[int, Output]) -> None:
        self._outputs = outputs

    def feed(self, rank: int, data: bytes) -> None:
        """Bytes of a task, or the end of its stream."""
        self._outputs[rank].feed(rank, data)


def _say(line: str) -> None:
    try:
        os.write(2, line.encode())
    except OSError:
        pass  # stderr is what cannot be written: there is nowhere left to say it


def _nothing() -> None:
    """Nobody waits for the last byte."""
