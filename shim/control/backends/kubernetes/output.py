"""A file of a job's output on the submitting machine, filled from the copy in the job's first pod.

What is there already counts as taken, so nothing is lost and nothing is doubled when a controller follows another. Pods are not
trusted with paths: only the file that the job's record names is written, and no link is followed.
"""

from __future__ import annotations

import os


class Output:
    """``stream``: stdout or stderr; ``path``: where it goes."""

    def __init__(self, stream: str, path: str, base: int = 0) -> None:
        self.stream = stream
        self.path = path
        self._base = base  # bytes that were there before the run

    def taken(self) -> int:
        """How many bytes of the run's output are here."""
        try:
            return max(0, os.stat(self.path, follow_symlinks=False).st_size - self._base)
        except OSError:
            return 0

    def add(self, data: bytes) -> None:
        """Adds what came. OSError: a part of it could not be written; ``taken`` tells from where to ask again."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)

    @staticmethod
    def begin(path: str, append: bool, umask: int) -> int:
        """Makes the file as Slurm does at the start of a job; how many bytes it has (0 where it is emptied). OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if append else os.O_TRUNC)
        descriptor = os.open(path, flags, 0o666 & ~umask)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
