"""sbatch of a real Slurm: run as a child, its answer read on the way through byte for byte, its job recorded.

Standard input and error, terminal, process group and environment are the child's as they are ours. What ends the child ends
us in the same way, and signals that reach us alone are passed on.
"""

from __future__ import annotations

import os

from shim.control.backends.slurm.call import become
from shim.control.backends.slurm.recording import Submission
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from shim.control.backends.slurm.call import Call
    from shim.core.routing import Route
else:
    import _signal

_PASSED_ON = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "VTALRM", "TSTP", "CONT")
_PYTHONS = (_signal.SIGPIPE, _signal.SIGXFSZ)  # ignored by every Python: they are set back for the child


def run(call: Call, route: Route) -> NoReturn:
    """Runs sbatch and ends as it ends."""
    try:
        os.fstat(1)
    except OSError:
        become(call)  # nobody listens to its answer
    argv = call.argv[1:]
    prepared = None
    if route.ref.skypilot:
        from shim.control.backends.slurm import skypilot

        prepared = skypilot.Prepared(call, route.ref)
    reading, writing = _pipe()
    relay = _Relay()
    child = os.posix_spawn(
        call.path,
        call.argv,
        call.environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
        setsigdef=_PYTHONS,
    )
    os.close(writing)
    relay.to(child)
    answer = _Answer(argv, route)
    told = True
    while True:
        data = os.read(reading, 65536)
        if not data:
            break
        told = told and _put(data)
        answer.add(data)
    _pid, status = os.waitpid(child, 0)
    if prepared is not None:
        prepared.over()
    if status == 0:
        answer.silent()
    end(status if told else _signal.SIGPIPE)


class _Answer:
    """What sbatch said so far: "Submitted batch job 12 on cluster c", or with --parsable "12;c"."""

    def __init__(self, argv: list[str], route: Route) -> None:
        self._route = route
        self._text = b""
        self._recorded = False
        self._submission = Submission("sbatch", argv)  # read while sbatch talks to its controller

    def add(self, data: bytes) -> None:
        """Takes in what was read; records the job once its id is there."""
        if self._recorded or len(self._text) > 1 << 16:
            return
        self._text += data
        found = id_in(self._text)
        if found is not None:
            self._recorded = True
            job_id, cluster = found
            ref = self._route.ref
            if not cluster or not ref.real_name or cluster in (ref.name, ref.real_name):
                cluster = ref.name  # else -M of the real one chose another cluster of its site
            self._submission.record(cluster, job_id, state=states.PENDING, start=not self._route.in_job)

    def silent(self) -> None:
        """sbatch has ended well. Where it said nothing (-Q) somebody asks for the id; nobody waits for that."""
        if self._text or self._route.in_job:
            return
        if self._submission.silent and self._submission.makes_job:
            from shim.control.backends.slurm import watching

            watching.ask_later(self._route.ref, self._submission)


def id_in(text: bytes) -> tuple[int, str] | None:
    """The job id in the complete lines of sbatch's answer, and the cluster that it names; "" for none."""
    for line in text.split(b"\n")[:-1]:
        if line.startswith(b"Submitted batch job "):
            word, _, cluster = line[20:].partition(b" on cluster ")
        else:
            word, _, cluster = line.partition(b";")
        if word.isdigit():
            return int(word), cluster.strip().decode(errors="replace")
    return None


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are no standard streams, even where the caller has closed some of those."""
    ends = os.pipe()
    if min(ends) > 2:
        return ends
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    high = (fcntl(ends[0], F_DUPFD_CLOEXEC, 3), fcntl(ends[1], F_DUPFD_CLOEXEC, 3))
    for number in ends:
        os.close(number)
    return high


class _Relay:
    """Hands signals on. One from the terminal reaches the child anyway; one that is sent to this process alone would not."""

    def __init__(self) -> None:
        self._child = 0
        self._early: list[int] = []
        for name in _PASSED_ON:
            number = getattr(_signal, f"SIG{name}")
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._pass_on)

    def to(self, child: int) -> None:
        """The process that gets them, those included that came before it was there."""
        self._child = child
        for number in self._early:
            self._pass_on(number, None)

    def _pass_on(self, number: int, _frame: object) -> None:
        if not self._child:
            self._early.append(number)
            return
        try:
            os.kill(self._child, number)
        except ProcessLookupError:
            pass  # it has just ended
        if number == _signal.SIGTSTP:
            os.kill(os.getpid(), _signal.SIGSTOP)


def _put(data: bytes) -> bool:
    """Writes all of it to standard output; False if nobody reads that any more. A full disk is sbatch's to ignore."""
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:
            from select import select

            select([], [1], [])
        except BrokenPipeError:
            return False
        except OSError:
            return True
    return True


def end(status: int) -> NoReturn:
    """Ends this process with that wait status: by the same signal, without a core of its own."""
    number = status & 0x7F
    if number:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(128 + number if number else os.waitstatus_to_exitcode(status))
