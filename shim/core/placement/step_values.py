"""The values of a step's layout: what runs where, what of the job it takes, why it cannot start."""

from __future__ import annotations

from shim.core.errors import NODES_BUSY, ShimError
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class StepError(ShimError):
    """A step that cannot be made. ``lines`` as srun prints them after ``srun: ``; ``retry``: it may fit later.

    ``why`` is the reason in the lines about waiting (``step creation temporarily disabled, retrying (…)``).
    """

    def __init__(self, *lines: str, retry: bool = False) -> None:
        super().__init__(*lines)
        self.retry = retry
        self.why = NODES_BUSY


class ShareUse(Value):
    """What running steps hold of one node of their job. ``steps`` also counts those that share (--overlap)."""

    cpus: int = 0
    memory: int = 0  # MiB
    gpus: tuple[int, ...] = ()
    steps: int = 0


class StepLayout(Value):
    """Where a step runs. All sequences but ``warnings`` are parallel to ``nodes``.

    ``task_gpus`` holds for each node the GPUs of each of its tasks, where tasks have GPUs of their own (--gpus-per-task).
    """

    nodes: tuple[int, ...]  # indexes into the job's shares, ascending
    names: tuple[str, ...]  # hosts: the names that resolve inside the job
    ranks: tuple[tuple[int, ...], ...]
    cpus: tuple[int, ...]
    memory: tuple[int, ...]  # MiB; 0 = not counted
    gpus: tuple[tuple[int, ...], ...]
    task_gpus: tuple[tuple[tuple[int, ...], ...], ...] = ()
    gpu_binding: str = ""  # how ``task_gpus`` came to be, in the words of --gpu-bind
    distribution: str = "block"  # as SLURM_DISTRIBUTION shows it
    plane_size: int | None = None
    overlap: bool = False  # holds nothing: others may use the same CPUs, memory and GPUs
    warnings: tuple[str, ...] = ()  # as srun prints them after "srun: "

    @property
    def tasks(self) -> tuple[int, ...]:
        """How many tasks each node runs."""
        return tuple(len(own) for own in self.ranks)

    @property
    def ntasks(self) -> int:
        """How many tasks the step has."""
        return sum(self.tasks)


def in_use(layouts: Iterable[StepLayout], nodes: int) -> tuple[ShareUse, ...]:
    """What the steps with these layouts hold of a job's ``nodes`` nodes."""
    used = [ShareUse() for _ in range(nodes)]
    for layout in layouts:
        for position, index in enumerate(layout.nodes):
            before = used[index]
            if layout.overlap:
                used[index] = before.replace(steps=before.steps + 1)
                continue
            used[index] = ShareUse(
                cpus=before.cpus + layout.cpus[position],
                memory=before.memory + layout.memory[position],
                gpus=(*before.gpus, *layout.gpus[position]),
                steps=before.steps + 1,
            )
    return tuple(used)
