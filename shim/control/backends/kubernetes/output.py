"""A file of a job's output on the submitting machine, filled from the copy in the job's first pod.

What is there already counts as taken, so nothing is lost and nothing is doubled when a controller follows another. What is no file (a
named pipe, a terminal) cannot be asked that: it gets what comes while this controller lives.

A file may hang, on a server that does not answer, and a pipe without a reader does: whatever is asked of one is done in a thread, so
that its own job alone waits. A link is followed, as Slurm does: the path is the user's, of the job's record; pods have no say in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from errno import EACCES
from stat import S_ISDIR, S_ISREG
from typing import TypeVar

from shim.control.backends.kubernetes.threads import Lane

T = TypeVar("T")


class Output:
    """``stream``: what the leader calls it; ``path``: where it goes. What is asked is done in the order in which it is asked."""

    def __init__(self, stream: str, path: str, base: int = 0) -> None:
        self.stream = stream
        self.path = path
        self._base = base  # bytes that were there before the run
        self._lane = Lane()
        self._pipe: int | None = (
            None  # what is no regular file is opened once: its reader sees no end before there is one
        )
        self._piped = 0  # bytes that have gone there

    async def taken(self) -> int:
        """How many bytes of the run's output are here."""
        return await self._aside(self._taken)

    async def add(self, data: bytes) -> None:
        """Adds what came. OSError: a part of it could not be written; ``taken`` tells from where to ask again."""
        await self._aside(lambda: self._add(data))

    def close(self) -> None:
        """Nothing more comes; does not wait."""
        self._lane.submit(self._close)

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._lane, work)

    def _taken(self) -> int:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0
        return max(0, found.st_size - self._base) if S_ISREG(found.st_mode) else self._piped

    def _add(self, data: bytes) -> None:
        descriptor = self._opened()
        try:
            while data:
                written = os.write(descriptor, data)
                data = data[written:]
                self._piped += written
        except OSError:
            self._close()
            raise
        finally:
            if descriptor != self._pipe:
                os.close(descriptor)

    def _opened(self) -> int:
        if self._pipe is not None:
            return self._pipe
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
        if not S_ISREG(os.fstat(descriptor).st_mode):
            self._pipe = descriptor
        return descriptor

    def _close(self) -> None:
        descriptor, self._pipe = self._pipe, None
        if descriptor is not None:
            os.close(descriptor)


def begin(path: str, append: bool, umask: int) -> int:
    """Makes the file as Slurm does at the start of a job; how many bytes it has (0 where it is emptied). OSError. It may block.

    This process has a umask of its own, for files of ours: a file that is made gets the job's. What is no file is left as it is.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        made = True
    else:
        made = False
        if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):
            if not os.access(path, os.W_OK):
                raise PermissionError(EACCES, os.strerror(EACCES), path)
            return 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC | (0 if append else os.O_TRUNC)
    descriptor = os.open(path, flags, 0o666 & ~umask)
    try:
        if made:
            os.fchmod(descriptor, 0o666 & ~umask)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
