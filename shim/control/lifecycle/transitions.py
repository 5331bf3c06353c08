"""Which state may follow which. Every change of a job's state goes through ``move``."""

from __future__ import annotations

from typing import Any

from shim.core.model import states
from shim.core.model.job import Job

_ENDS = states.TERMINAL

TABLE: dict[str, frozenset[str]] = {
    # A pending job ends without having run when it is cancelled, misses its deadline or cannot be launched.
    states.PENDING: frozenset((states.CONFIGURING, states.CANCELLED, states.DEADLINE, states.FAILED)),
    # Back to PENDING: the start failed for now, or the job is to be queued again.
    states.CONFIGURING: _ENDS | {states.RUNNING, states.COMPLETING, states.PENDING},
    states.RUNNING: _ENDS | {states.SUSPENDED, states.STOPPED, states.COMPLETING, states.PENDING},
    states.SUSPENDED: _ENDS | {states.RUNNING, states.COMPLETING, states.PENDING},
    states.STOPPED: _ENDS | {states.RUNNING, states.SUSPENDED, states.COMPLETING, states.PENDING},
    states.COMPLETING: _ENDS | {states.PENDING},
    # An ended job of one's own can be queued again (scontrol requeue).
    **dict.fromkeys(_ENDS, frozenset((states.PENDING,))),
}


class IllegalTransition(Exception):
    """A change that the table does not have: an error of this program, never of a user."""


def move(job: Job, state: str, **changes: Any) -> Job:
    """The job in ``state`` with other ``changes``; raises IllegalTransition."""
    if state not in TABLE.get(job.state, ()):
        raise IllegalTransition(f"job {job.job_id}: {job.state} -> {state}")
    return job.replace(state=state, **changes)
