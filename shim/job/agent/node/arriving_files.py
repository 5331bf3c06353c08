"""Files that come to a node for sbcast and ``srun --bcast``, by way of the leader: written piece by piece, as whom the agent runs."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.job.link import Link


class _File:
    """One on its way. ``times``: of access and of change, seconds; None: those of its arrival."""

    def __init__(self, path: str, mode: int, times: tuple[float, float] | None) -> None:
        self.path = path
        self.mode = mode
        self.times = times
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def finish(self) -> None:
        os.fchmod(self.fd, self.mode & 0o777)
        os.close(self.fd)
        self.fd = -1
        if self.times is not None:
            os.utime(self.path, self.times)

    def drop(self) -> None:
        """What is there of it goes."""
        try:
            if self.fd >= 0:
                os.close(self.fd)
            os.unlink(self.path)
        except OSError:
            return  # it was removed meanwhile


class ArrivingFiles:
    """Those of one node, by the leader's number for them (``ticket``). Each ends with one answer: ``error``, an errno or 0."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._files: dict[int, _File] = {}

    def begin(self, message: dict[str, Any]) -> None:
        """A file, or (``folder``) a folder for some, is to be made. ``force``: what is there goes first."""
        ticket, path = int(message["ticket"]), str(message["path"])
        times = message.get("times")
        try:
            if message.get("folder"):
                _make_folder(path, bool(message["force"]))
                self._answer(ticket, 0)
                return
            if message["force"] and os.path.lexists(path):
                os.unlink(path)
            self._files[ticket] = _File(path, int(message["mode"]), (times[0], times[1]) if times else None)
        except OSError as error:
            self._answer(ticket, error.errno or 1)

    def data(self, ticket: int, data: bytes) -> None:
        """A piece of it, or its end."""
        file = self._files.get(ticket)
        if file is None:
            return  # it has failed
        try:
            if data:
                file.write(data)
                self._link.send({"do": "file", "ticket": ticket, "bytes": len(data)})
                return
            file.finish()
        except OSError as error:
            file.drop()
            del self._files[ticket]
            self._answer(ticket, error.errno or 1)
            return
        del self._files[ticket]
        self._answer(ticket, 0)

    def drop(self, message: dict[str, Any]) -> None:
        """Whoever sent it is gone."""
        file = self._files.pop(int(message["ticket"]), None)
        if file is not None:
            file.drop()

    def close(self) -> None:
        """The job ends here: what has not arrived goes."""
        for file in self._files.values():
            file.drop()
        self._files.clear()

    def _answer(self, ticket: int, error: int) -> None:
        self._link.send({"do": "file", "ticket": ticket, "error": error})


def _make_folder(path: str, force: bool) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not force or not os.path.isdir(path):
            raise
