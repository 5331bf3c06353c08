"""What srun says about tasks that ended, and the code it ends with itself.

Exits are gathered by node and by how the task ended, so that tasks that end together share one line:
``srun: error: n1: tasks 0-2: Exited with exit code 3``. A task that a signal ended counts as 128 + signal.
"""

from __future__ import annotations

from os import WCOREDUMP, WEXITSTATUS, WIFSIGNALED, WTERMSIG

from shim.core.formats.lists import fold_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterable

    from shim.job.steps.parts import Part
else:
    import _signal

_FORCE = (9, 15)  # ends by SIGKILL and SIGTERM count as forced


def code_of(status: int) -> int:
    """The exit code that stands for a raw wait status."""
    return 128 + WTERMSIG(status) if WIFSIGNALED(status) else WEXITSTATUS(status)


def tasks_text(ranks: Iterable[int]) -> str:
    """``task 0`` or ``tasks 0-2,5``."""
    text = fold_ranks(ranks)
    return ("task " if text.isdigit() else "tasks ") + text


def how(status: int) -> str:
    """How a task ended, as Slurm words it; empty for success."""
    if WIFSIGNALED(status):
        core = " (core dumped)" if WCOREDUMP(status) else ""
        return f"{_signal.strsignal(WTERMSIG(status)) or f'Unknown signal {WTERMSIG(status)}'}{core}"
    code = WEXITSTATUS(status)
    return f"Exited with exit code {code}" if code else ""


class Exits:
    """Gathers the exits of a step's tasks.

    ``verbose``: how often ``-v`` was given; those that ended well are named too. ``code`` is what srun exits with so far. ``pending`` says whether there are lines to print; ``take_lines`` gives them.
    """

    def __init__(self, verbose: int = 0) -> None:
        self.code = 0
        self.ended: dict[int, int] = {}  # rank -> status
        self._groups: dict[tuple[str, int, bool], list[int]] = {}
        self._steps: dict[str, str] = {}  # host -> the step's id there
        self._forced = ""  # the id of a step that a signal ended
        self._verbose = verbose

    def add(self, part: Part, host: str, rank: int, status: int, oom: bool = False) -> None:
        """A task ended. Each part of a step counts its own tasks in what is said of them."""
        self.ended[rank] = status
        self.code = max(self.code, code_of(status))
        if status or oom or self._verbose:
            self._steps[host] = part.id
            self._groups.setdefault((host, status, oom), []).append(part.local(rank))

    @property
    def pending(self) -> bool:
        """Whether somebody waits to be named."""
        return bool(self._groups)

    def take_lines(self) -> list[str]:
        """The lines for what was added since the last call, in the order in which each kind of end came first."""
        lines = []
        for (host, status, oom), ranks in self._groups.items():
            if self._verbose:
                lines += self._notified(self._steps[host], status, len(ranks))
            if status or oom:
                lines.append(f"error: {host}: {tasks_text(ranks)}: {'Out Of Memory' if oom else how(status)}")
            else:
                lines.append(f"launch/slurm: _task_finish: {host}: {tasks_text(ranks)}: Completed")
            if self._verbose > 1:
                lines += [f"debug:  task {rank} done" for rank in sorted(ranks)]
            if not self._forced and WIFSIGNALED(status) and WTERMSIG(status) in _FORCE:
                self._forced = self._steps[host]
        self._groups.clear()
        return lines

    def _notified(self, step_id: str, status: int, count: int) -> list[str]:
        """``srun -v``: a node has told of ends."""
        tasks = f"{count} task" + ("s" if count > 1 else "")
        told = f"Received task exit notification for {tasks} of StepId={step_id} (status=0x{status & 0xFFFF:04x})."
        received = ["debug2: received task exit"] if self._verbose > 2 else []
        return [*received, f"launch/slurm: _task_finish: {told}"]

    def last_lines(self, aborted: bool) -> list[str]:
        """What is said when the step is over. ``aborted``: srun has already said that it ended the step."""
        lines = self.take_lines()
        if self._forced and not aborted:
            lines.append(f"Force Terminated StepId={self._forced}")
        return lines


def status_lines(part: Part, ended: dict[int, int]) -> list[str]:
    """What the first Ctrl-C and ``-W`` show: which tasks run, which have ended and how."""
    everyone = list(part.ranks)
    groups = (
        ("running", [rank for rank in everyone if rank not in ended]),
        ("exited", [rank for rank in everyone if rank in ended and not ended[rank]]),
        ("exited abnormally", [rank for rank in everyone if ended.get(rank)]),
    )
    return [f"StepId={part.id} {tasks_text(map(part.local, members))}: {word}" for word, members in groups if members]
