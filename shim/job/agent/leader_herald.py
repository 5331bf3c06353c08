"""The herald: a small process that starts a controller when a leader has news and none is connected.

It is forked by the fork server, before any agent: what it starts must not count as a process of a job (it would be killed with
it), nor see a job's host names. One serves all agents of its fork server. It holds nothing of its maker's open, sleeps until it is
rung, and ends when the last end of the bell, a pipe, is closed: after the fork server and all its leaders. Killed, it is there again:
it is two processes, each of which sees the other's end.
"""

from __future__ import annotations

import os
from select import POLLIN, poll

from shim.core.jsonlite import dumps, loads
from shim.job import dispositions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DESCRIPTORS = 4096  # who makes a herald does it first, having few


def begin() -> int:
    """Start a herald; the bell, close-on-exec. Whoever holds the bell can ring it, ``Herald`` does. OSError."""
    ears, bell = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        # Twice, so that the herald is nobody's child here and no zombie is left.
        try:
            if os.fork() == 0:
                _serve(ears)
        finally:
            os._exit(0)
    os.close(ears)
    try:
        os.waitpid(first, 0)
    except ChildProcessError:
        pass  # the maker has its children taken away by the kernel
    return bell


class Herald:
    """A leader's end of the ``bell``; ``argv`` starts a controller."""

    def __init__(self, bell: int, argv: Sequence[str]) -> None:
        self._bell = bell
        # Below PIPE_BUF: written whole, between those of other leaders.
        self._call = dumps(list(argv)).encode("ascii") + b"\n"

    def ring(self) -> None:
        """Start a controller; it decides itself that it is not needed when one is there."""
        try:
            os.write(self._bell, self._call)
        except OSError:
            return  # the herald is gone: the next command of the user starts a controller

    def close(self) -> None:
        """Let the herald go."""
        os.close(self._bell)


def _serve(ears: int) -> None:
    """Be the herald: one process that listens, and one that puts another in its place when it is killed. Either replaces the other."""
    os.setsid()
    dispositions.reset()
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    ears = os.dup2(ears, 3)
    os.set_inheritable(ears, False)
    os.closerange(4, _MOST_DESCRIPTORS)
    while True:
        guarded, hold = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(hold)
            if _listen(ears, guarded):
                os._exit(0)
            os.close(guarded)  # the other one was killed: this one guards from now on
            continue
        os.close(guarded)
        _pid, status = os.waitpid(pid, 0)
        os.close(hold)
        if status == 0:
            return


def _listen(ears: int, guarded: int) -> bool:
    """Do what is asked for until nobody can ring any more; False when the end of ``guarded`` says that the guard is gone."""
    heard = b""
    waiting = poll()
    waiting.register(ears, POLLIN)
    waiting.register(guarded, 0)  # its end alone
    while True:
        if any(fd == guarded for fd, _event in waiting.poll()):
            return False
        piece = os.read(ears, 4096)
        if not piece:
            return True
        *calls, heard = (heard + piece).split(b"\n")
        for call in dict.fromkeys(calls):  # many leaders want the same
            try:
                _start(loads(call))
            except (ValueError, OSError):
                continue  # cut off by a kill, or no process can be made: who rang rings again


def _start(argv: Sequence[str]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            if os.fork() == 0:
                os.setsid()
                os.execv(argv[0], list(argv))
        finally:
            os._exit(127)
    os.waitpid(pid, 0)
