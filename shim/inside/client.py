"""What commands ask of a controller, inside a pod: the run's leader does what concerns its own job; all else is refused.

A pod holds no credentials and reaches no controller.
"""

from __future__ import annotations

from shim.core.errors import ALREADY_DONE, BATCH_ONLY, DISABLED, INVALID_JOB_ID, SUBMISSION_FAILED, ShimError
from shim.core.model import states
from shim.job import rawfile
from shim.job.spec import SCRIPT

from .run import ask, folder, job_and_steps, spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_SCOPES = {"default": "steps", "batch": "batch", "full": "all"}
_SIGKILL = 9
_WORDS = {
    "submit": SUBMISSION_FAILED["batch"],
    "allocate": SUBMISSION_FAILED["run"],
    "reach": "Unable to reach another job",
}


class Unreachable(ShimError):
    """The operation is not to be had inside a pod."""

    def __init__(self, op: str) -> None:
        job = spec().job
        super().__init__(
            f"error: {_WORDS.get(op, op)}: jobs on Kubernetes reach no controller from inside",
            f"error: run this on {job.submit_host or 'the machine'} where job {job.job_id} was submitted",
        )


def call(
    op: str, fields: dict[str, Any] | None = None, *, on_event: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The operation's reply. Raises Unreachable for what only a controller can do."""
    fields = fields or {}
    if op == "cancel":
        scope = str(fields.get("scope") or "default")
        return _results(fields, lambda target: _cancel(target, fields.get("signal"), scope))
    if op == "requeue":
        return _results(fields, lambda _target: _requeue())
    if op == "script" and int(fields["job_id"]) == spec().job.job_id and spec().script:
        return {"script": rawfile.read(f"{folder()}/{SCRIPT}").decode("utf-8", "surrogateescape")}
    if op == "ping":
        ask({"do": "show"})
        return {}
    raise Unreachable(op)


def open_allocation(fields: dict[str, Any], *, op: str = "allocate") -> NoReturn:
    """There are no new allocations from inside a pod."""
    raise Unreachable(op)


def _results(fields: dict[str, Any], do: Callable[[dict[str, Any]], str | None]) -> dict[str, Any]:
    """One result for each target: an error's text, None for what was done."""
    return {"results": [{"error": do(target) if _is_own(target) else INVALID_JOB_ID} for target in fields["targets"]]}


def _is_own(target: dict[str, Any]) -> bool:
    job = spec().job
    job_id, task = target["job_id"], target.get("task")
    if task is not None:
        return bool(job_id == job.array_job_id and task == job.array_task_id)
    # The id of an array means all its tasks: from here only a whole job that is this one can be told.
    return bool(job_id == job.job_id != job.array_job_id)


def _cancel(target: dict[str, Any], signal: int | None, scope: str) -> str | None:
    job, steps = job_and_steps()
    uid = job.uid
    if job.state in states.TERMINAL:
        return ALREADY_DONE
    step = target.get("step")
    if step is not None:
        # A step of several programs is recorded by its parts (3+0, 3+1) and ended as one.
        step = str(step).partition("+")[0]
        running = [one.step_id.partition("+")[0] for one in steps if one.state not in states.TERMINAL]
        if step != "batch" and step not in running:
            return ALREADY_DONE
        if signal is None:
            return _order(kind="end", step=step, state=states.CANCELLED, uid=uid)
        return _order(kind="signal", step=step, signal=signal)
    if signal in (None, _SIGKILL):
        if scope != "batch" or job.request.kind != "batch":
            return _order(kind="end", state=states.CANCELLED, uid=uid)
        signal = _SIGKILL
    return _order(kind="signal", signal=signal, scope=_SCOPES[scope])


def _requeue() -> str | None:
    job = spec().job
    if job.request.kind != "batch":
        return BATCH_ONLY
    wanted = job.request.requeue
    if not (spec().cluster.requeue if wanted is None else wanted):
        return DISABLED
    return _order(kind="end", state=states.REQUEUED, uid=job.uid, why="DUE TO JOB REQUEUE")


def _order(**order: Any) -> str | None:
    """Passes it on. No error: the leader has taken it."""
    ask({"do": "order", "order": order})
    return None
