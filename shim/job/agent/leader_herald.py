"""The herald: a small process that starts a controller when a leader has news and none is connected, or when the controller was killed.

It is forked by the fork server, before any agent: what it starts must not count as a process of a job (it would be killed with
it), nor see a job's host names. One serves all agents of its fork server. It holds nothing of its maker's open, sleeps until it is
rung, and ends when the last end of the bell, a pipe, is closed: after the fork server and all its leaders. Killed, it is there again:
it is two processes, each of which sees the other's end.

A controller's ``life`` is another pipe, whose other end nobody but the controller has. When that is closed and no word was said by it before
(an orderly end says one), the controller was killed, and the next one is started: jobs may be waiting for a time, or for each other, of which
no leader has news. One after another that is killed soon is started after a growing pause, and in the end no more.
"""

from __future__ import annotations

import os
from select import POLLIN, poll
from time import monotonic

from shim.core.jsonlite import dumps, loads
from shim.job import dispositions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SUCCESSION = (
    "SHIM_SUCCESSION"  # of a controller that a herald has started in a killed one's place: the how manieth in a row
)
_FIRST_PAUSE = (
    0.25  # seconds until a killed controller's successor is started; doubles with each one that did not live long
)
_LONG = 60.0  # seconds after which a controller is no more one that could not live
_MOST_SUCCESSORS = 10
_MOST_DESCRIPTORS = 4096  # who makes a herald does it first, having few


class Life:
    """A herald's end of a controller's life, its descriptor, and what is started (``argv``) when the controller was killed."""

    def __init__(self, fd: int, argv: Sequence[str]) -> None:
        self.fd = fd
        self.argv = argv
        self.began = monotonic()
        self.before = int(os.environ.get(SUCCESSION) or 0)

    def ended(self) -> float | None:
        """When the next controller is to be started, by ``monotonic``; None: it is not to be."""
        if os.read(self.fd, 1):
            return None
        now = monotonic()
        if now - self.began >= _LONG:
            self.before = 0
        return now + _FIRST_PAUSE * 2**self.before if self.before < _MOST_SUCCESSORS else None


def begin(life: Life | None = None) -> int:
    """Start a herald; the bell, close-on-exec. Whoever holds the bell can ring it, ``Herald`` does. OSError."""
    ears, bell = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        # Twice, so that the herald is nobody's child here and no zombie is left.
        try:
            if os.fork() == 0:
                _serve(ears, life)
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


def _serve(ears: int, life: Life | None) -> None:
    """Be the herald: one process that listens, and one that puts another in its place when it is killed. Either replaces the other."""
    os.setsid()
    dispositions.reset()
    ears = _hold(ears, life)
    while True:
        guarded, hold = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(hold)
            if _Listening(ears, guarded, life).listen():
                os._exit(0)
            os.close(guarded)  # the other one was killed: this one guards from now on
            continue
        os.close(guarded)
        _pid, status = os.waitpid(pid, 0)
        os.close(hold)
        if status == 0:
            return


def _hold(ears: int, life: Life | None) -> int:
    """Keeps nothing open but the ears and the life: the ears' descriptor."""
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    kept = [os.dup(fd) for fd in ((ears,) if life is None else (ears, life.fd))]  # none is where another one goes
    for number, fd in enumerate(kept, 3):
        os.dup2(fd, number, False)
    os.closerange(3 + len(kept), _MOST_DESCRIPTORS)
    if life is not None:
        life.fd = 4
    return 3


class _Listening:
    """Does what is asked for, and what a killed controller's end asks for."""

    def __init__(self, ears: int, guarded: int, life: Life | None) -> None:
        self._ears = ears
        self._guarded = guarded
        self._life = life
        self._heard = b""
        self._due: float | None = None  # when a killed controller's successor is started
        self._waiting = poll()
        self._open = {ears: POLLIN, guarded: 0}  # of the second its end alone
        if life is not None:
            self._open[life.fd] = 0
        for fd, events in self._open.items():
            self._waiting.register(fd, events)

    def listen(self) -> bool:
        """True when nobody can ring any more, and no controller be killed; False when the end of ``guarded`` says that the guard is gone."""
        while len(self._open) > 1 or self._due is not None:
            pause = None if self._due is None else max(0.0, self._due - monotonic()) * 1000 + 1
            ready = [fd for fd, _event in self._waiting.poll(pause)]
            if self._guarded in ready:
                return False
            if self._life is not None and self._life.fd in ready:
                self._over(self._life.fd)
                self._due = self._life.ended()
            if self._ears in ready:
                self._hear()
            if self._life is not None and self._due is not None and monotonic() >= self._due:
                self._due = None
                _try_to_start(self._life.argv, self._life.before + 1)
        return True

    def _over(self, fd: int) -> None:
        self._waiting.unregister(fd)
        del self._open[fd]

    def _hear(self) -> None:
        piece = os.read(self._ears, 4096)
        if not piece:
            self._over(self._ears)
        *calls, self._heard = (self._heard + piece).split(b"\n")
        for call in dict.fromkeys(calls):  # many leaders want the same
            try:
                argv = loads(call)
            except ValueError:
                continue  # cut off by a kill
            _try_to_start(argv)


def _try_to_start(argv: Sequence[str], number: int = 0) -> None:
    try:
        _start(argv, number)
    except OSError:
        pass  # no process can be made: who rang rings again


def _start(argv: Sequence[str], number: int) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            if os.fork() == 0:
                os.setsid()
                environment = {**os.environ, SUCCESSION: str(number)}
                if not number:
                    del environment[SUCCESSION]
                os.execve(argv[0], list(argv), environment)
        finally:
            os._exit(127)
    os.waitpid(pid, 0)
