"""Carries srun's standard input, or a file, to the tasks, as fast as they take it."""

from __future__ import annotations

import os
from errno import EIO

from shim.job.wire import CHUNK, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.loop import Loop


class Feed:
    """Reads ``fd`` while there is credit; ``send(bytes)`` gets what was read and, once, ``b""`` at the end."""

    def __init__(self, loop: Loop, fd: int, send: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._send = send
        self._room = WINDOW
        self._reading = False
        self._over = False
        self._background = False

    def start(self) -> None:
        """Begins, or goes on."""
        if not self._over and not self._reading and self._room > 0:
            try:
                self._loop.reader(self._fd, self._ready)
            except OSError:
                self._end()  # standard input is closed
                return
            self._reading = True

    def credit(self, count: int) -> None:
        """The tasks have taken ``count`` bytes."""
        self._room += count
        if not self._background:
            self.start()

    def resumed(self) -> None:
        """srun has come to the foreground, perhaps."""
        self._background = False
        self.start()

    def stop(self) -> None:
        """Reads no more."""
        if self._reading:
            self._reading = False
            self._loop.reader(self._fd, None)

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, min(CHUNK, self._room))
        except BlockingIOError:
            return
        except OSError as error:
            self.stop()
            if error.errno == EIO and os.isatty(self._fd):
                self._background = True  # the terminal belongs to another program until SIGCONT
            else:
                self._end()
            return
        if not data:
            self._end()
            return
        self._room -= len(data)
        if self._room <= 0:
            self.stop()
        self._send(data)

    def _end(self) -> None:
        self.stop()
        self._over = True
        self._send(b"")
