"""One step as the leader keeps it: who runs it, where, what has ended."""

from __future__ import annotations

from shim.job.agent.leader_outcome import step_state, step_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.layout.step import StepLayout
    from shim.core.model.request import StepRequest
    from shim.job.agent.stepman_relay import Relay
    from shim.job.link import Link
    from shim.job.loop import Timer


class StepRun:
    """A step from its creation to its end. Node indexes are those of the run's nodes."""

    def __init__(self, number: int, name: str, request: StepRequest, layout: StepLayout, srun: Link) -> None:
        self.number = number
        self.name = name
        self.request = request
        self.layout = layout
        self.srun: Link | None = srun
        self.environment: dict[str, str] = {}
        self.relay: Relay
        self.launched = False
        self.over = False  # the end is written or being written
        self.nodes: set[int] = set()  # those that have tasks or output of it
        self.statuses: dict[int, int] = {}
        self.felled: set[int] = set()  # ranks that had not ended when the step was told to end
        self.oom = False
        self.cancelled = False
        self.cancelled_by: int | None = None
        self.kill_timer: Timer | None = None
        self.limit_timer: Timer | None = None
        self.place = {rank: index for index, ranks in zip(layout.nodes, layout.ranks) for rank in ranks}

    @property
    def ntasks(self) -> int:
        """How many tasks the step has."""
        return len(self.place)

    @property
    def running(self) -> bool:
        """Whether some task has not ended."""
        return not self.over and len(self.statuses) < len(self.place)

    def fell(self, uid: int | None = None) -> None:
        """Notes that the step is being ended from outside: what its running tasks return is not their own."""
        self.felled.update(rank for rank in self.place if rank not in self.statuses)
        self.cancelled_by = self.cancelled_by if uid is None else uid

    def result(self) -> dict[str, Any]:
        """The journal's fields of the end."""
        own = [status for rank, status in self.statuses.items() if rank not in self.felled]
        killed = [status for rank, status in self.statuses.items() if rank in self.felled]
        status = step_status(own, killed)
        return {
            "step": str(self.number),
            "status": status,
            "state": step_state(status, self.oom, self.cancelled),
            "cancelled_by": self.cancelled_by,
        }
