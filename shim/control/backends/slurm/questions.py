"""Questions to real Slurms, asked at once: each has its own time to answer, and none waits for another.

The commands run without a terminal, with nothing on standard input, in process groups of their own: one that does not answer in
time is ended with all that it has started.
"""

from __future__ import annotations

import os
from select import POLLERR, POLLHUP, POLLIN, poll
from time import monotonic

from shim.control.backends.slurm.call import Call, made
from shim.core.errors import ShimError
from shim.core.routing import Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping, Sequence

    from shim.core.routing import ClusterRef
else:
    import _signal

_PYTHONS = (_signal.SIGPIPE, _signal.SIGXFSZ)  # ignored by every Python: they are set back for the child
_CHUNK = 1 << 16


class Question:
    """One real command under way, or what came of it.

    ``out`` and ``err`` are what it has printed, ``code`` its exit code (as a shell has it), None while it runs and where it never
    answered; ``problem`` says why, if it did not.
    """

    def __init__(
        self, ref: ClusterRef, program: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """``environment``: variables beside those of this process."""
        self.ref = ref
        self.program = program
        self.out = b""
        self.err = b""
        self.code: int | None = None
        self.problem = ""
        self.until = monotonic() + ref.timeout
        self._pid = 0
        self._open: dict[int, str] = {}
        try:
            call = made(program, Route(ref, argv, _said(os.environ)))
            call.environment.update(environment or {})
            self._start(call)
        except ShimError as error:
            self.problem = error.lines[0].partition("error: ")[2] or error.lines[0]
        except OSError as error:
            self.problem = f"{error.filename or program}: {error.strerror}"

    def _start(self, call: Call) -> None:
        pipes = [os.pipe(), os.pipe()]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, pipes[0][1], 1),
            (os.POSIX_SPAWN_DUP2, pipes[1][1], 2),
        ]
        try:
            self._pid = os.posix_spawn(
                call.path, call.argv, call.environment, file_actions=actions, setsigdef=_PYTHONS, setpgroup=0
            )
        except OSError:
            for pair in pipes:
                os.close(pair[0])
            raise
        finally:
            for pair in pipes:
                os.close(pair[1])
        self._open = {pipes[0][0]: "out", pipes[1][0]: "err"}

    @property
    def files(self) -> list[int]:
        """The descriptors that it still may say something on."""
        return list(self._open)

    def read(self, number: int) -> None:
        """Takes in what is there on one of its descriptors."""
        data = os.read(number, _CHUNK)
        if data:
            name = self._open[number]
            setattr(self, name, getattr(self, name) + data)
            return
        os.close(number)
        del self._open[number]
        if not self._open:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            self._pid = 0

    def give_up(self, why: str) -> None:
        """Ends the command and all that it has started."""
        for number in self._open:
            os.close(number)
        self._open = {}
        if self._pid:
            self.problem = why
            try:
                os.killpg(self._pid, _signal.SIGKILL)
            except OSError:
                pass  # it is just ending by itself
            os.waitpid(self._pid, 0)
            self._pid = 0


def _said(environ: os._Environ[str]) -> list[str]:
    """The variables that name clusters as they are called here."""
    return [name for name in ("SLURM_CLUSTERS",) if name in environ]


def answered(questions: Sequence[Question]) -> None:
    """Returns when every question has been answered, or its time is over."""
    try:
        _wait(questions)
    except BaseException:
        for question in questions:
            question.give_up("interrupted")
        raise


def _wait(questions: Sequence[Question]) -> None:
    while True:
        left = [question for question in questions if question.files]
        if not left:
            return
        polled = poll()
        by_file = {number: question for question in left for number in question.files}
        for number in by_file:
            polled.register(number, POLLIN | POLLHUP | POLLERR)
        soonest = min(question.until for question in left)
        for number, _event in polled.poll(max(0, int((soonest - monotonic()) * 1000) + 1)):
            by_file[number].read(number)
        for question in left:
            if question.files and monotonic() >= question.until:
                question.give_up(f"no answer within {question.ref.timeout:g} s")
