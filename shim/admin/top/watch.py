"""When to look again: the kernel tells of writes to the index, of the controller's end and of files that grow. Nobody is asked meanwhile."""

from __future__ import annotations

import os
import time

from shim.control import channel, paths, starter
from shim.control.index.errors import IndexFault
from shim.control.index.reader import Reader, open_reader
from shim.core.errors import ShimError
from shim.job import libc

_BEGINS = 10.0  # seconds that a controller has to begin before the next one is started


class Writes:
    """Somebody has written to one of these files, or into one of these folders. ``file`` -1: the kernel does not tell (any more)."""

    def __init__(self, names: list[str]) -> None:
        try:
            self.file = libc.watch_writes(names) if names else -1
        except OSError:
            self.file = -1

    def take(self) -> None:
        """What was told is known now."""
        if self.file >= 0:
            try:
                os.read(self.file, 65536)
            except BlockingIOError:
                pass

    def close(self) -> None:
        """Watches no more."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class Index:
    """Whether the index has changed. A write to its folder is looked into by a question that costs next to nothing (PRAGMA data_version)."""

    def __init__(self) -> None:
        self.path = paths.index_path()
        self._reader: Reader | None = None
        self._version = 0
        self.writes = Writes([os.path.dirname(self.path)])

    def changed(self) -> bool:
        """Whether somebody has written to the index since this was asked last."""
        try:
            if not self._there():
                return False
            assert self._reader is not None
            version = self._reader.version()
        except IndexFault:
            self._forget()
            return True  # whoever looks is told what is wrong
        found, self._version = version != self._version, version
        return found

    def _there(self) -> bool:
        if self._reader is None:
            self._reader = open_reader(self.path)
            self._version = -1
            if self.writes.file < 0:
                self.writes = Writes([os.path.dirname(self.path)])
        return self._reader is not None

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def close(self) -> None:
        """Watches no more."""
        self._forget()
        self.writes.close()


class Controller:
    """The process that drives the jobs. Its end is told by a descriptor of it; no connection is held, so that it can go when it is idle."""

    def __init__(self) -> None:
        self.file = -1  # readable when the process ends
        self.trouble = ""
        self._report = -1
        self._begun = 0.0

    def find(self, *, needed: bool) -> None:
        """Gets hold of the one that is there, or has one started where it is ``needed``; does not wait for it."""
        if self.file >= 0:
            return
        found = channel.connect(paths.socket_path()) if paths.anothers() is None else None
        if found is not None:
            self._hold(found)
            found.close()
        elif needed:
            self._start()

    @property
    def starting(self) -> bool:
        """Whether one was started, and is not there yet."""
        return self._report >= 0

    def _hold(self, found: channel.Channel) -> None:
        self._let_go()
        self.trouble = (
            f"the controller, pid {found.pid}, is stopped: this may be out of date" if found.stopped() else ""
        )
        try:
            self.file = os.pidfd_open(found.pid)
        except OSError:
            self.file = -1  # it is not seen from here, or has just ended

    def _start(self) -> None:
        now = time.monotonic()
        if self._report >= 0:
            why = starter.told(self._report)
            self.trouble = f"the controller was not running and {why}" if why else self.trouble
            if now < self._begun + _BEGINS:
                return
        self._let_go()
        self._begun = now
        self.trouble = "the controller was not running: one is being started"
        try:
            self._report = starter.begin()
        except OSError as error:
            self.trouble = f"the controller was not running and {starter.problem(error)}"
        except ShimError as error:
            self.trouble = error.lines[0].replace("error: ", "", 1)

    def ended(self) -> None:
        """The descriptor told that it has ended."""
        os.close(self.file)
        self.file = -1

    def _let_go(self) -> None:
        if self._report >= 0:
            os.close(self._report)
            self._report = -1

    def close(self) -> None:
        """Watches no more."""
        self._let_go()
        if self.file >= 0:
            self.ended()
