"""The batch script's output on its way out of the pod: to the leader's own stdout (kubectl logs), and to controllers that ask.

The script writes to its files as everywhere; they are read again as they grow. A controller asks from an offset on, takes
what comes within its credit, and may come back with another offset: nothing is lost or doubled. Where both streams go to one
file, they are one stream, ``stdout``.
"""

from __future__ import annotations

import os
from _stat import S_ISREG

from shim.job.agent import libc
from shim.job.wire import BATCH, CHUNK, STDERR, STDOUT, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.link import Link
    from shim.job.loop import Loop, Timer
    from shim.job.spec import RunSpec

NAMES = {"stdout": STDOUT, "stderr": STDERR}
STALLED = 10.0  # seconds without progress after which the end waits for nobody any more
_SOON = 0.02  # seconds from the first byte written to our reading: what comes meanwhile is read with it
_POLL = 0.25  # seconds between looks where the kernel does not tell of writes


class _File:
    """One of the script's output files."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1

    def open(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return  # it could not be made either: the script's end says so
        if S_ISREG(os.fstat(fd).st_mode):
            self.fd = fd
        else:
            os.close(fd)  # a pipe, say: what is read here is lost to its reader

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size if self.fd >= 0 else 0

    def read(self, position: int, most: int) -> bytes:
        return os.pread(self.fd, most, position) if self.fd >= 0 and most > 0 else b""


class _Echo:
    """Our own stdout as somebody who follows a file; written without waiting. ``on_moved()``: after each late write."""

    def __init__(self, loop: Loop, file: _File, position: int, fd: int, on_moved: Callable[[], None]) -> None:
        self._loop = loop
        self._on_moved = on_moved
        self._file = file
        self._position = position
        self._fd = fd
        os.set_blocking(fd, False)

    @property
    def done(self) -> bool:
        return self._fd < 0 or self._position >= self._file.size

    def pump(self) -> bool:
        """Writes what it can; whether anything was."""
        moved = False
        while self._fd >= 0:
            data = self._file.read(self._position, CHUNK)
            if not data:
                self._loop.writer(self._fd, None)
                break
            try:
                self._position += os.write(self._fd, data)
                moved = True
            except BlockingIOError:
                self._loop.writer(self._fd, self._writable)
                break
            except OSError:
                self._loop.writer(self._fd, None)
                self._fd = -1  # nobody has it any more
        return moved

    def _writable(self) -> None:
        self.pump()
        self._on_moved()


class _Reader:
    """A controller at the other end of ``link``: its credit and how far it is in each stream."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.credit = WINDOW
        self.positions: dict[str, int] = {}

    def pump(self, files: dict[str, _File]) -> bool:
        moved = False
        for name, position in self.positions.items():
            data = files[name].read(position, min(CHUNK, self.credit))
            while data:
                self.link.send_data(BATCH, 0, NAMES[name], data)
                position += len(data)
                self.credit -= len(data)
                moved = True
                data = files[name].read(position, min(CHUNK, self.credit))
            self.positions[name] = position
        return moved

    def done(self, files: dict[str, _File]) -> bool:
        """Whether all was sent and taken."""
        sent = all(position >= files[name].size for name, position in self.positions.items())
        return sent and self.credit >= WINDOW


class BatchOutput:
    """``begin`` when the script runs; ``finish(then)`` when nothing writes any more. ``echo``: descriptors for the
    two streams, not the same one; None: no copy."""

    def __init__(self, loop: Loop, spec: RunSpec, echo: tuple[int, int] | None) -> None:
        self._loop = loop
        self._spec = spec
        self._echo = echo
        job = spec.job
        shared = job.stderr in ("", job.stdout)
        self._files = {"stdout": _File(job.stdout or os.devnull)}
        self._files["stderr"] = _File(os.devnull if shared else job.stderr)
        self._echoes: list[_Echo] = []
        self._readers: dict[Link, _Reader] = {}
        self._begun = False
        self._inotify = -1
        self._timer: Timer | None = None
        self._then: Callable[[], None] | None = None
        self._stall: Timer | None = None

    def begin(self) -> None:
        """The script's files are there, and it runs."""
        if self._begun:
            return
        self._begun = True
        for place, file in enumerate(self._files.values()):
            file.open()
            if self._echo is not None and file.fd >= 0:
                start = file.size if self._spec.job.request.open_mode == "a" else 0
                self._echoes.append(_Echo(self._loop, file, start, self._echo[place], self._echoed))
        if self._echoes or self._readers:
            self._watch()
        self._look()

    def message(self, link: Link, message: dict[str, Any]) -> None:
        """``output`` or ``credit`` of a controller. KeyError, TypeError or ValueError: it makes no sense."""
        if message["do"] == "credit":
            reader = self._readers.get(link)
            if reader is not None:
                reader.credit += int(message["bytes"])
                self._progress()
        else:
            name, after = message["stream"], int(message["after"])
            if name not in NAMES or after < 0:
                raise ValueError("no such stream")
            self._readers.setdefault(link, _Reader(link)).positions[name] = after
            if self._begun:
                self._watch()
        self._look()

    def gone(self, link: Link) -> None:
        """A controller is gone."""
        self._readers.pop(link, None)
        self._maybe_finished()

    def finish(self, then: Callable[[], None]) -> None:
        """Nothing is written any more: ``then()`` once all who follow have everything, or nobody has moved for STALLED seconds."""
        self._then = then
        self._progress()
        self._look()

    def _watch(self) -> None:
        paths = [file.path for file in self._files.values() if file.fd >= 0]
        if not paths or self._inotify >= 0 or self._timer is not None:
            return
        try:
            self._inotify = libc.watch_writes(paths)
        except OSError:
            self._timer = self._loop.call_later(_POLL, self._poll)
            return
        self._loop.reader(self._inotify, self._told)

    def _told(self) -> None:
        os.read(self._inotify, 65536)
        if self._timer is None:
            self._timer = self._loop.call_later(_SOON, self._told_before)

    def _told_before(self) -> None:
        self._timer = None
        self._look()

    def _poll(self) -> None:
        self._timer = self._loop.call_later(_POLL, self._poll) if self._then is None else None
        self._look()

    def _look(self) -> None:
        if not self._begun and self._then is None:
            return
        moved = False
        for echo in self._echoes:
            moved = echo.pump() or moved
        for reader in self._readers.values():
            moved = reader.pump(self._files) or moved
        if moved:
            self._progress()
        self._maybe_finished()

    def _progress(self) -> None:
        if self._then is not None:
            if self._stall is not None:
                self._stall.cancel()
            self._stall = self._loop.call_later(STALLED, self._finished)

    def _maybe_finished(self) -> None:
        if self._then is None:
            return
        everybody = [echo.done for echo in self._echoes]
        everybody += [reader.done(self._files) for reader in self._readers.values()]
        if all(everybody):
            self._finished()

    def _echoed(self) -> None:
        self._progress()
        self._maybe_finished()

    def _finished(self) -> None:
        then, self._then = self._then, None
        if self._stall is not None:
            self._stall.cancel()
        for reader in self._readers.values():
            for name in reader.positions:
                reader.link.send({"do": "output-end", "stream": name, "size": self._files[name].size})
        if then is not None:
            then()
