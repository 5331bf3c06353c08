"""What the leader does for each order of the controller (``control.backends.base.Order`` as JSON data)."""

from __future__ import annotations

from shim.job.agent.leader.outcome import Outcome, ended_by, own_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any, Protocol

    from shim.job.agent.leader.batch_script import BatchScript
    from shim.job.agent.leader.components import Components
    from shim.job.agent.leader.time_limit import TimeLimit
    from shim.job.agent.step_manager.manager import StepManager

    class Obedient(Protocol):
        """The leader, as far as orders concern it."""

        batch: BatchScript
        limit: TimeLimit
        components: Components
        steps: StepManager
        started: bool
        outcome: Outcome | None

        def signal_batch(self, signal: int, scope: str = "batch") -> None: ...

        def signal_everything(self, signal: int) -> None: ...

        def keep_nodes(self, names: Container[str]) -> None: ...

        def end(self, outcome: Outcome, uid: int | None = None, said: bool = True) -> None: ...


_SIGSTOP, _SIGCONT = 19, 18


def obey(leader: Obedient, order: dict[str, Any]) -> None:
    """Carries the order out. KeyError, TypeError or ValueError: it is none."""
    kind = order["kind"]
    if kind == "signal":
        _signal(leader, order)
    elif kind == "end":
        _end(leader, order)
    elif kind == "limit":
        seconds = order.get("seconds")
        seconds = None if seconds is None else int(seconds)
        if order.get("step") is not None:
            leader.steps.limit(int(order["step"]), seconds)
            return
        component = int(order.get("component", 0))
        limit = leader.components.limits[component] if component else leader.limit
        limit.change(seconds)
    elif kind == "suspend":
        leader.limit.pause()
        leader.components.pause()
        leader.steps.pause()
        leader.signal_everything(_SIGSTOP)
    elif kind == "resume":
        if leader.started and leader.outcome is None:
            leader.limit.begin()
            leader.components.begin()
            leader.steps.resume()
        leader.signal_everything(_SIGCONT)
    elif kind == "resize":
        leader.keep_nodes([str(name) for name in order["nodes"]])
    elif kind == "notify":
        leader.batch.say(f"slurmstepd: error: {order.get('why', '')}")
    elif kind == "release":
        leader.end(own_end(int(order.get("status", 0))), order.get("uid"), said=False)
    else:
        raise ValueError(f"no such order: {kind}")


def _signal(leader: Obedient, order: dict[str, Any]) -> None:
    signal = int(order["signal"])
    step = order.get("step")
    component = int(order.get("component", 0))
    if component:
        if step != "batch" and order.get("scope", "all") in ("steps", "all"):
            leader.steps.signal(signal, None if step is None else int(step), component)
    elif step == "batch":
        leader.signal_batch(signal)
    elif step is not None:
        leader.steps.signal(signal, int(step))
    else:
        scope = order.get("scope", "all")
        if scope in ("steps", "all"):
            leader.steps.signal(signal)
        if scope in ("batch", "all"):
            leader.signal_batch(signal, scope)


def _end(leader: Obedient, order: dict[str, Any]) -> None:
    step = order.get("step")
    uid = order.get("uid")
    component = int(order.get("component", 0))
    if step is not None and step != "batch":
        leader.steps.cancel(int(step), uid, component)
        return
    outcome = ended_by(str(order["state"]))
    if component:
        if leader.outcome is None:
            leader.components.end(component, outcome, uid)
        return
    leader.end(Outcome(outcome.state, outcome.status, order.get("why") or outcome.reason), uid)
