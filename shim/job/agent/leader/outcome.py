"""What becomes of a job and of its steps: states, reasons and codes from wait statuses. Pure.

Statuses are raw wait statuses: 256 * exit code + signal.
"""

from __future__ import annotations

from shim.core.model.states import CANCELLED, COMPLETED, FAILED, NODE_FAIL, OUT_OF_MEMORY, PREEMPTED, REQUEUED, TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OUT_OF_MEMORY_STATUS = 125  # 0:125
_CANCELLED_STATUS = 15  # 0:15, unless a script made something else of the signal

# What ended a job: the words after "CANCELLED AT <time>" in the job's and its steps' texts.
WHY = {
    TIMEOUT: " DUE TO TIME LIMIT",
    REQUEUED: " DUE TO JOB REQUEUE",
    PREEMPTED: " DUE TO PREEMPTION",
    NODE_FAIL: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
}
# The job's Reason beside the state.
REASON = {TIMEOUT: "TimeLimit", NODE_FAIL: "NodeDown", PREEMPTED: "None", REQUEUED: "BeginTime"}


class Outcome:
    """How a job ended: state, raw wait status, reason, and in words what kept its script from starting."""

    __slots__ = ("detail", "reason", "state", "status")

    def __init__(self, state: str, status: int = 0, reason: str = "None", detail: str = "") -> None:
        self.detail = detail
        self.state = state
        self.status = status
        self.reason = reason


def own_end(status: int, oom: bool = False, detail: str = "") -> Outcome:
    """The end of a job whose script (or allocating command) ended by itself with ``status``. ``detail``: why it did not start."""
    if oom:
        return Outcome(OUT_OF_MEMORY, OUT_OF_MEMORY_STATUS, "OutOfMemory")
    if status == 0:
        return Outcome(COMPLETED)
    # Slurm calls a script that a signal killed a launch failure.
    return Outcome(FAILED, status, "JobLaunchFailure" if status & 0x7F else "NonZeroExitCode", detail)


def ended_by(state: str) -> Outcome:
    """The end of a job that was ended from outside, into ``state``."""
    return Outcome(state, _CANCELLED_STATUS if state == CANCELLED else 0, REASON.get(state, "None"))


def step_state(status: int, oom: bool = False, ended_as: str = "") -> str:
    """The state of a step whose highest task status is ``status``. ``ended_as``: what its end from outside makes of it."""
    if oom:
        return OUT_OF_MEMORY
    if ended_as:
        return ended_as
    if status & 0x7F:
        return CANCELLED
    return FAILED if status else COMPLETED


def step_status(statuses: Iterable[int], killed: Iterable[int] = ()) -> int:
    """The status of a step: the highest of its tasks', leaving out those in ``killed`` (ended by us after a failure)
    unless all were."""
    own = list(statuses)
    return max(own) if own else max(killed, default=0)


def job_line(job_id: int, host: str, when: str, state: str) -> str:
    """What a batch job's output says when it is ended: ``slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT … ***``."""
    return _line(f"JOB {job_id}", host, when, state)


def step_line(step_id: str, host: str, when: str, state: str = CANCELLED) -> str:
    """The same for a step; ``step_id`` is ``7.0``."""
    return _line(f"STEP {step_id}", host, when, state)


def _line(what: str, host: str, when: str, state: str) -> str:
    # FAILED: of a step whose job's script has failed.
    how = "FAILED (non-zero exit code or other failure mode)" if state == FAILED else f"CANCELLED AT {when}"
    return f"slurmstepd: error: *** {what} ON {host} {how}{WHY.get(state, '')} ***"
