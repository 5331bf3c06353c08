"""The herald: a small process that starts a controller when a leader has news and none is there, or when the controller was killed.

It is started together with a controller, before that has done anything, and stays that one's and its successors'. What it starts is not
below any job's agent (it would be killed with the job), nor does it see a job's host names. It knows of the others by two pipes:

* the *bell*: controller, fork server and leaders can write to it. A leader with news rings. Who sees that nobody hears it any more knows
  that the herald is gone;
* the *life*: only the controller can write to it. When nobody can any more, and no word was said by it (an orderly end says one), the
  controller was killed, and the next one is started: jobs may be waiting for a time, or for each other, of which no leader has news.
  One after another that is killed soon is started after a growing pause, and in the end no more.

The herald is two processes, each of which replaces the other when that is killed. When both are, the controller makes another herald of
the same two pipes (``Ties``), and where it was killed with them its fork server does. It ends when nobody can ring or be killed any more.
"""

from __future__ import annotations

import fcntl
import os
import sys
from select import POLLERR, POLLHUP, POLLIN, poll
from time import monotonic, sleep

from shim.core.jsonlite import dumps, loads
from shim.job import dispositions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, Sequence

SUCCESSION = (
    "SHIM_SUCCESSION"  # of a controller that a herald has started in a killed one's place: the how manieth in a row
)
_FIRST_PAUSE = (
    0.25  # seconds until a killed controller's successor is started; doubles with each one that did not live long
)
_LONG = 60.0  # seconds after which a controller is no more one that could not live
_MOST_SUCCESSORS = 10
_MOST_DESCRIPTORS = 4096  # who makes a herald does it first, having few
GOES = (
    1 << 32
) - 1  # in place of a request's length: the controller goes in order, its fork server need not ask further
_EARS, _PULSE = 3, 4  # a herald's ends of the bell and of the life
_LOOK = 0.1  # seconds between looks of a fork server whose controller was killed
_GONE_AFTER = 1.0  # seconds in which the kernel has closed all that a killed process held
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from shim.job.agent import herald; herald.main()"


def _root() -> str:
    """Where the package is. Not asked in a pod, where modules come out of an archive and have no file."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Ties:
    """What a controller or its fork server has of a herald: the ``bell``, the ``life`` (either end), and what starts a controller."""

    def __init__(self, bell: int, life: int, argv: Sequence[str]) -> None:
        self.bell = bell
        self.life = life
        self.argv = argv

    @property
    def deaf(self) -> bool:
        """Whether there is no herald any more."""
        return bool(_state(self.bell) & POLLERR)

    @property
    def killed(self) -> bool:
        """Whether the controller was killed and has no successor yet; for who cannot write to the life."""
        return bool(_state(self.life) & POLLHUP) and not _said(self.life)

    def herald(self, environ: Mapping[str, str] | None = None) -> None:
        """Starts a herald of these pipes, a process that is nobody's child. OSError."""
        ears, pulse = other_end(self.bell, os.O_RDONLY), other_end(self.life, os.O_RDONLY)
        try:
            _detached(lambda: _become(ears, pulse, self.argv, os.environ if environ is None else environ))
        finally:
            os.close(ears)
            os.close(pulse)

    def goodbye(self) -> None:
        """The controller ends in order: nobody need take its place."""
        try:
            os.write(self.life, b"\0")
        except OSError:
            pass  # there is no herald

    def outlive(self) -> None:
        """What a fork server does when its controller is gone: if that was killed, it sees to it that a herald is there until a successor is."""
        watch = poll()
        watch.register(self.life, 0)
        if not watch.poll(_GONE_AFTER * 1000):
            return  # it lives, and needs this fork server no more
        end = monotonic() + _FIRST_PAUSE * 2**_MOST_SUCCESSORS
        watch = poll()
        watch.register(self.bell, 0)
        while self.killed and monotonic() < end:
            if watch.poll(_LOOK * 1000) and self.killed:
                try:
                    self.herald()
                except OSError:
                    pass  # no process can be made now
                sleep(_LOOK)


def begin(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Ties:
    """A herald, and the ties to it of the controller that this process is or becomes, started by ``argv``. OSError: no pipes."""
    ears, bell = os.pipe()
    pulse, life = os.pipe()
    os.set_blocking(bell, False)
    ties = Ties(bell, life, argv)
    try:
        ties.herald(environ)
    except OSError:
        pass  # no process can be made now: the controller will see it
    os.close(ears)
    os.close(pulse)
    return ties


def other_end(fd: int, mode: int) -> int:
    """A pipe's end of that ``mode``, of either of its ends. OSError."""
    return os.open(f"/proc/self/fd/{fd}", mode | os.O_CLOEXEC | os.O_NONBLOCK)


class Herald:
    """A leader's end of the ``bell``; ``argv`` starts a controller."""

    def __init__(self, bell: int, argv: Sequence[str]) -> None:
        self._bell = bell
        # Below PIPE_BUF: written whole, between those of other leaders.
        self._call = dumps(list(argv)).encode("ascii") + b"\n"

    def ring(self) -> None:
        """Start a controller; none is when one is there."""
        try:
            os.write(self._bell, self._call)
        except OSError:
            return  # the herald is gone: who sees that makes another, else the next command of the user starts a controller

    def close(self) -> None:
        """Let the herald go."""
        os.close(self._bell)


def main() -> None:
    """Be the herald: one process that listens, and one that puts another in its place when it is killed. Either replaces the other."""
    dispositions.reset()
    argv = sys.argv[2:]
    for fd in (_EARS, _PULSE):
        os.set_inheritable(fd, False)
    while True:
        guarded, hold = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(hold)
            if _Listening(guarded, argv).listen():
                os._exit(0)
            os.close(guarded)  # the other one was killed: this one guards from now on
            continue
        os.close(guarded)
        _pid, status = os.waitpid(pid, 0)
        os.close(hold)
        if status == 0:
            return


class _Listening:
    """Does what is asked for, and what a killed controller's end asks for."""

    def __init__(self, guarded: int, argv: Sequence[str]) -> None:
        self._guarded = guarded
        self._argv = argv
        self._heard = b""
        self._due: float | None = None  # when a killed controller's successor is started
        self._began = monotonic()
        self._before = int(os.environ.get(SUCCESSION) or 0)
        self._waiting = poll()
        self._waiting.register(guarded, 0)  # of these two the end alone
        self._open: set[int] = set()
        self._watch()

    def _watch(self) -> None:
        for fd, events in ((_EARS, POLLIN), (_PULSE, 0)):
            self._waiting.register(fd, events)
            self._open.add(fd)

    def listen(self) -> bool:
        """True when nobody can ring any more, and no controller be killed; False when the end of ``guarded`` says that the guard is gone."""
        while self._open or self._due is not None:
            pause = None if self._due is None else max(0.0, self._due - monotonic()) * 1000 + 1
            ready = [fd for fd, _event in self._waiting.poll(pause)]
            if self._guarded in ready:
                return False
            if _PULSE in ready:
                self._over(_PULSE)
                if not _said(_PULSE):
                    self._due = self._next()
            if _EARS in ready:
                self._hear()
            if self._due is not None and monotonic() >= self._due:
                self._before += 1
                self._start(self._argv, self._before)
        return True

    def _next(self) -> float | None:
        """When the next controller is to be started; None: it is not to be."""
        now = monotonic()
        if now - self._began >= _LONG:
            self._before = 0
        return now + _FIRST_PAUSE * 2**self._before if self._before < _MOST_SUCCESSORS else None

    def _over(self, fd: int) -> None:
        self._waiting.unregister(fd)
        self._open.discard(fd)

    def _hear(self) -> None:
        piece = os.read(_EARS, 4096)
        if not piece:
            self._over(_EARS)
        *calls, self._heard = (self._heard + piece).split(b"\n")
        for call in calls:
            if not _state(_PULSE) & POLLHUP and not _said(_PULSE):
                return  # many leaders want the same: it is there, or starting
            try:
                argv = loads(call)
            except ValueError:
                continue  # cut off by a kill
            self._start(argv, 0)

    def _start(self, argv: Sequence[str], number: int) -> None:
        """A controller with the ends of both pipes; ``number``: of a killed one's successor."""
        self._due = None
        self._began = monotonic()
        if _said(_PULSE):
            os.read(_PULSE, 4096)  # by the one before
        environ = {**os.environ, SUCCESSION: str(number)}
        if not number:
            del environ[SUCCESSION]
        bell, life = other_end(_EARS, os.O_WRONLY), other_end(_PULSE, os.O_WRONLY)
        try:
            _detached(lambda: _exec([*argv, handed_on(bell, life)], environ))
        except OSError:
            pass  # no process can be made: as if it had been killed
        self._watch()
        os.close(bell)
        os.close(life)


def handed_on(bell: int, life: int) -> str:
    """Makes these descriptors ones that an execve keeps: the word that says which they are."""
    for fd in (bell, life):
        os.set_inheritable(fd, True)
    return f"{bell},{life}"


def _said(fd: int) -> bool:
    """Whether there is something to be read from that pipe: it stays, for whoever looks next."""
    count = bytearray(4)
    fcntl.ioctl(fd, _FIONREAD, count)
    return any(count)


_FIONREAD = 0x541B


def _state(fd: int) -> int:
    look = poll()
    look.register(fd, 0)
    return next((events for _fd, events in look.poll(0)), 0)


def _detached(work: Callable[[], None]) -> None:
    """Does ``work`` in a process that is nobody's child, in a session of its own. OSError if there can be none."""
    first = os.fork()
    if first == 0:
        try:
            if os.fork() == 0:
                os.setsid()
                work()
        finally:
            os._exit(127)
    try:
        os.waitpid(first, 0)
    except ChildProcessError:
        pass  # the maker has its children taken away by the kernel


def _become(ears: int, pulse: int, argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """In the new process: be a herald that holds nothing of its maker's open."""
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, _PULSE + 1) for fd in (ears, pulse)]  # none is where another one goes
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    for target, fd in zip((_EARS, _PULSE), kept):
        os.dup2(fd, target)
    os.closerange(_PULSE + 1, _MOST_DESCRIPTORS)
    os.chdir("/")
    python = sys.executable or "/usr/bin/python3"
    _exec([python, "-I", "-S", "-X", "utf8", "-c", _CODE, _root(), *argv], environ)


def _exec(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    os.execve(argv[0], list(argv), environ)
