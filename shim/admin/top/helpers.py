"""Slurm's own commands in processes of their own: what is done to a job, and said about it, is theirs, on every kind of cluster."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence

from shim.control import launchers

_MOST = 65536  # bytes that are kept of what one says


class Helper:
    """A command under way. ``done(code, text)`` is called when it has ended, with what it has printed."""

    def __init__(self, words: Sequence[str], done: Callable[[int, str], None]) -> None:
        self.words = words
        self._done = done
        self._said = b""
        self._process = subprocess.Popen(
            argv(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # what is typed at the terminal is not meant for it
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        self.file = self._pipe.fileno()
        os.set_blocking(self.file, False)

    def read(self) -> bool:
        """Takes in what it has said; whether it has ended."""
        try:
            data = os.read(self.file, _MOST)
        except BlockingIOError:
            return False
        self._said = (self._said + data)[-_MOST:]
        if data:
            return False
        self._pipe.close()
        self._done(self._process.wait(), self._said.decode(errors="replace"))
        return True

    def close(self) -> None:
        """It is no longer wanted. What it was asked to do is done all the same, or not."""
        self._pipe.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def argv(words: Sequence[str]) -> list[str]:
    """The command line with the path of our command."""
    return [os.path.join(launchers.folder(), words[0]), *words[1:]]


def foreground(words: Sequence[str], woken: int, ended: Callable[[], bool]) -> int:
    """Runs a command on the terminal, to its end, or until ``ended()``, which is asked whenever ``woken`` can be read; its exit code."""
    process = subprocess.Popen(argv(words))
    file = os.pidfd_open(process.pid)
    poll = select.poll()
    for number in (file, woken):
        poll.register(number, select.POLLIN)
    try:
        while process.poll() is None:
            found = [number for number, _ in poll.poll()]
            if woken in found and ended():
                process.send_signal(signal.SIGTERM)
                poll.unregister(woken)
    finally:
        os.close(file)
        code = process.wait()
    return code
