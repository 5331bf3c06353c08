"""A working directory too large for the run's Secret, sent to the leader over its stream, as fast as it takes it."""

from __future__ import annotations

import os

from shim.control.backends.leader_link import LeaderLink
from shim.job.wire import CHUNK, STAGE, STDIN, WINDOW


class Push:
    """Sends the archive at ``path``. Over a new connection it is sent again from the start. OSError if it cannot be read."""

    def __init__(self, link: LeaderLink, path: str) -> None:
        self._link = link
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._at = 0
        self._credit = WINDOW
        link.send({"do": "stage", "bytes": os.fstat(self._file).st_size})
        self._send()

    def credit(self, count: int) -> None:
        """The leader has taken ``count`` bytes."""
        self._credit += count
        self._send()

    def close(self) -> None:
        """The leader has all, or is gone."""
        os.close(self._file)

    def _send(self) -> None:
        while self._credit > 0:
            piece = os.pread(self._file, min(CHUNK, self._credit), self._at)
            if not piece:
                return
            self._link.send_data(STAGE, 0, STDIN, piece)
            self._at += len(piece)
            self._credit -= len(piece)
