"""One step as the leader keeps it: who asked for it, where it runs, what has ended, how it is ended."""

from __future__ import annotations

from shim.core.formats.times import stamp
from shim.core.model.states import CANCELLED, TIMEOUT
from shim.core.model.usage import of_task
from shim.job.agent.leader.outcome import step_line, step_state, step_status
from shim.job.agent.leader.time_limit import TimeLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.core.model.usage import Usage
    from shim.core.placement.step_values import StepLayout
    from shim.job.agent.step_manager.parts import Part
    from shim.job.agent.step_manager.relay import Relay
    from shim.job.link import Link
    from shim.job.loop import Timer, Timers
    from shim.job.pmi.fence import Fence
    from shim.job.spec import RunSpec

    Message = dict[str, Any]


def _nothing() -> None:
    """No signal is due before a step's limit."""


SIGKILL, SIGTERM, SIGCONT = 9, 15, 18


class Surroundings:
    """What all steps of a run share. ``nodes``: the links of the nodes that are there, by index; ``wall``: epoch seconds."""

    __slots__ = ("nodes", "spec", "timers", "wall")

    def __init__(self, spec: RunSpec, nodes: dict[int, Link], timers: Timers, wall: Callable[[], float]) -> None:
        self.spec = spec
        self.nodes = nodes
        self.timers = timers
        self.wall = wall


class StepRun:
    """A step from its creation to its end. Node indexes are those of the run's nodes."""

    relay: Relay

    def __init__(
        self, around: Surroundings, number: int, parts: Sequence[Part], layout: StepLayout, srun: Link
    ) -> None:
        self.number = number
        self.parts = tuple(parts)
        self.name = parts[0].name
        self.request = parts[0].request  # what counts for the whole step is the same in all parts
        self.layout = layout  # of all parts together, over the run's nodes
        self.srun: Link | None = srun
        self.fence: Fence | None = None  # of PMI, once a task has come to one
        self.launched = False
        self.over = False  # the end is written or being written
        self.nodes: set[int] = set(layout.nodes)  # those that have tasks or output of it
        self.statuses: dict[int, int] = {}  # raw, by rank
        self.oom = False
        self.ended_as = ""  # the state that its end from outside gives it
        self.place = {rank: index for index, ranks in zip(layout.nodes, layout.ranks) for rank in ranks}
        self._around = around
        self.used: dict[int, Usage] = {}  # by rank
        self._felled: set[int] = set()  # ranks that had not ended when the step was told to end
        self._cancelled_by: int | None = None
        self._told: set[int] = set()  # parts, by their place, that were told of their end
        self._timers: list[Timer] = []
        minutes = self.request.time_limit
        seconds = 60 * minutes if minutes is not None and minutes > 0 else None
        self.limit = TimeLimit(
            around.timers, seconds, None, _nothing, self._time_out
        )  # ``srun -t``; counts from the launch

    @property
    def ntasks(self) -> int:
        """How many tasks the step has."""
        return len(self.place)

    @property
    def running(self) -> bool:
        """Whether some task has not ended."""
        return not self.over and len(self.statuses) < len(self.place)

    def name_of(self, index: int) -> str:
        """The name of a node."""
        return self._around.spec.nodes[index].name

    def tell(self, message: Message) -> None:
        """Says something to the step's srun, if it is still there."""
        if self.srun is not None:
            self.srun.send(message)

    def send_nodes(self, message: Message) -> None:
        """Says something to the step's nodes."""
        for index in sorted(self.nodes):
            link = self._around.nodes.get(index)
            if link is not None:
                link.send({**message, "step": self.number})

    def signal(self, number: int, part: Part | None = None) -> None:
        """Signals the step's tasks, or those of one part."""
        message = {"do": "signal", "signal": number, "ranks": None}
        if part is None:
            self.send_nodes(message)
            return
        for index in part.nodes:
            link = self._around.nodes.get(index)
            if link is not None and index in self.nodes:
                link.send({**message, "step": self.number})

    def say_cancelled(self, state: str = CANCELLED, abort: bool = False, only: Part | None = None) -> None:
        """Adds slurmstepd's line to the error output of the first task, once for each part that runs. ``abort``: srun itself says that
        the step ends.
        """
        for place, part in enumerate(self.parts):
            ended = len(self.parts) > 1 and all(rank in self.statuses for rank in part.ranks)
            if ended or only not in (None, part):
                continue
            if abort:
                self.tell({"do": "aborted", "part": place})
            link = self._around.nodes.get(part.nodes[0])
            if place not in self._told and link is not None:
                self._told.add(place)
                name, when = self.name_of(part.nodes[0]), stamp(self._around.wall())
                line = step_line(part.label(self.number), name, when, state)
                link.send({"do": "say", "step": self.number, "line": line})

    def fell(self, uid: int | None = None, part: Part | None = None) -> None:
        """Notes that the step (or a part) is being ended from outside: what its running tasks return is not their own."""
        self._felled.update(rank for rank in (part.ranks if part else self.place) if rank not in self.statuses)
        self._cancelled_by = self._cancelled_by if uid is None else uid

    def task_ended(self, rank: int, status: int, oom: bool, used: Message | None) -> None:
        """Notes the end of a task. ``used``: as ``of_task`` takes it."""
        self.statuses[rank] = status
        if used:
            self.used[rank] = of_task(used, rank, self.name_of(self.place[rank]))
        self.oom = self.oom or oom
        if not status & 0x7F:
            self._felled.discard(rank)  # it ended by itself after all

    def term_then_kill(self) -> None:
        """TERM now, KILL after KillWait."""
        for number in (SIGCONT, SIGTERM):  # a stopped task takes no TERM
            self.signal(number)
        wait = self._around.spec.cluster.kill_wait
        self._timers.append(self._around.timers.call_later(wait, lambda: self.signal(SIGKILL)))

    def stop_timers(self) -> None:
        """Nothing is due any more."""
        self.limit.stop()
        for timer in self._timers:
            timer.cancel()

    def result(self, part: Part) -> Message:
        """The journal's fields of the end of a part."""
        statuses = {rank: self.statuses[rank] for rank in part.ranks if rank in self.statuses}
        own = [status for rank, status in statuses.items() if rank not in self._felled]
        killed = [status for rank, status in statuses.items() if rank in self._felled]
        status = step_status(own, killed)
        used: Usage | None = None
        for rank in sorted(statuses):
            if rank in self.used:
                used = self.used[rank].plus(used)
        return {
            **self.in_journal(part),
            "status": status,
            "state": step_state(status, self.oom, self.ended_as),
            "cancelled_by": self._cancelled_by,
            **({"usage": used.to_dict()} if used is not None else {}),
        }

    def in_journal(self, part: Part) -> Message:
        """How the journal names a part: by its step's number, and by the component unless that is the first."""
        step = f"{self.number}{part.suffix}"
        return {"step": step, "component": part.component} if part.component else {"step": step}

    def _time_out(self) -> None:
        if self.running:
            self.ended_as = self.ended_as or TIMEOUT
            self.fell()
            self.say_cancelled(TIMEOUT, abort=True)
            self.term_then_kill()
