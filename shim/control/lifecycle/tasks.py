"""Array tasks: one record stands for all pending tasks of an array; a task that starts is split off as a record of its own.

The record of the pending tasks keeps the array's id, and the last task keeps that record, as in Slurm: of ``59_1``, ``59_3``
and ``59_5`` the first two get ids of their own, the third is job 59.
"""

from __future__ import annotations

from collections.abc import Iterable

from shim.control.lifecycle.transitions import move
from shim.core.formats.array_spec import ArraySpec
from shim.core.model import states
from shim.core.model.job import Job

_ANY_SIZE = 1 << 30  # the size was checked at submit


def pending_tasks(job: Job) -> ArraySpec | None:
    """The pending tasks of the array that this record stands for; None for any other record."""
    return ArraySpec.parse(job.array_tasks, _ANY_SIZE) if job.array_tasks is not None else None


def split(job: Job, task: int, own_id: int) -> tuple[Job, Job | None]:
    """The task as a record of its own, and the rest (None: nothing was left, the task took over the record).

    ``own_id`` is the id of the new record, unused when nothing is left. The new record has no key yet.
    """
    spec = pending_tasks(job)
    if spec is None or task not in spec:
        raise ValueError(f"job {job.array_label} has no pending task {task}")
    rest = spec.without(task)
    if rest is None:
        return job.replace(array_task_id=task, array_tasks=None), None
    alone = job.replace(key=0, job_id=own_id, array_task_id=task, array_tasks=None)
    return alone, job.replace(array_tasks=str(rest))


def settled(rest: Job) -> Job:
    """The rest after a command took single tasks out: a last one is shown as a task (``62_9``), not as ``62_[9]``."""
    spec = pending_tasks(rest)
    if spec is None or len(spec) > 1:
        return rest
    return rest.replace(array_task_id=spec.first, array_tasks=None)


def throttled(job: Job, limit: int) -> Job:
    """``scontrol update ArrayTaskThrottle``: 0 lifts the limit."""
    spec = pending_tasks(job)
    return job if spec is None else job.replace(array_tasks=str(spec.replace(throttle=limit)))


def cancelled_tasks(job: Job, tasks: Iterable[int], uid: int, now: float) -> Job:
    """The rest of an array without ``tasks``: they leave no record. With the last of them the record itself is cancelled."""
    left: ArraySpec | None = pending_tasks(job)
    for task in tasks:
        if left is not None:
            left = left.without(task)
    if left is None:
        return move(job, states.CANCELLED, cancelled_by=uid, start_time=now, end_time=now)
    return job.replace(array_tasks=str(left))
