"""The components of a heterogeneous job that end alone: by scancel of their own id, or at a time limit of their own.

The first component is the run itself and ends with it. Of another one the processes are ended and its agents leave; steps that
run on several components go on with what is left of them, and so does the script.
"""

from __future__ import annotations

from shim.core.model.states import TIMEOUT
from shim.job.agent.leader.outcome import Outcome
from shim.job.agent.leader.time_limit import TimeLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.agent.leader.record import Record
    from shim.job.agent.step_manager.manager import StepManager
    from shim.job.loop import Timers
    from shim.job.spec import RunSpec


class Components:
    """``stop(index)`` tells a node to end all that it has."""

    def __init__(
        self, spec: RunSpec, record: Record, steps: StepManager, timers: Timers, stop: Callable[[int], None]
    ) -> None:
        self.limits: dict[int, TimeLimit] = {}
        self._spec = spec
        self._record = record
        self._steps = steps
        self._stop = stop
        self._ending: dict[int, tuple[Outcome, int | None]] = {}
        self._left: dict[int, set[int]] = {}  # nodes that have not stopped yet
        for component, seconds in enumerate(spec.limits):
            if component:
                self.limits[component] = TimeLimit(timers, seconds, None, _nothing, self._limit_of(component))

    def _limit_of(self, component: int) -> Callable[[], None]:
        return lambda: self.end(component, Outcome(TIMEOUT, 0, "TimeLimit"))

    def begin(self) -> None:
        """The job starts, or goes on after a suspension."""
        for component, limit in self.limits.items():
            if component not in self._ending:
                limit.begin()

    def pause(self) -> None:
        """The job stands still, or ends."""
        for limit in self.limits.values():
            limit.pause()

    def end(self, component: int, outcome: Outcome, uid: int | None = None) -> None:
        """Ends one component; the first end counts. ValueError: there is no such component."""
        if not 0 < component < len(self._spec.components):
            raise ValueError("no such component")
        if component in self._ending:
            return
        self._ending[component] = (outcome, uid)
        self._left[component] = set(self._spec.nodes_of(component))
        self.limits[component].stop()
        self._record.write(
            "part-ending", component=component, state=outcome.state, then=lambda: self._stop_nodes(component)
        )

    def stopped(self, index: int) -> None:
        """Nothing of the job is left on a node."""
        component = self._spec.component_of(index)
        left = self._left.get(component)
        if not left:
            return
        left.discard(index)
        if not left:
            outcome, uid = self._ending[component]
            fields: dict[str, Any] = {"state": outcome.state, "status": 0, "reason": outcome.reason, "uid": uid}
            self._record.write("part-ended", component=component, **fields)

    def _stop_nodes(self, component: int) -> None:
        self._steps.component_ends(component, self._ending[component][0].state)
        for index in self._spec.nodes_of(component):
            self._stop(index)


def _nothing() -> None:
    """A component has no signal before its end: --signal is the whole job's."""
