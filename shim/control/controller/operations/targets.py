"""Which records a target means: ``12``, ``12_3``, an array as a whole, a task by its own id, ``12+1``, all components of a
heterogeneous job by the first one's id."""

from __future__ import annotations

from typing import Any

from shim.control.controller.book import Book, Change
from shim.control.lifecycle import tasks
from shim.core.model.job import Job
from shim.core.value import Value


class Target(Value):
    """A job, the task of an array, a component (``het``: its number), or (``step``) a step of one of them; of ``cluster`` alone
    where one is named.

    A heterogeneous job's id means all its components, ``12+0`` the first one alone.
    """

    job_id: int
    task: int | None = None
    het: int | None = None
    step: str | None = None
    cluster: str | None = None


class Trial(Exception):
    """What an operation would answer that was asked to change nothing."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        super().__init__()
        self.results = results


def targets_of(message: dict[str, Any]) -> list[Target]:
    """The targets of a request, in its order."""
    return [Target.from_dict(target) for target in message.get("targets") or ()]


def records(book: Book, target: Target) -> list[Job]:
    """The records that a target means: those of an array or of a heterogeneous job when its id is given, else one; empty if
    there is none.

    A task that is pending in its array's rest is meant by that rest.
    """
    if target.het is not None:
        components = records(book, target.replace(het=None))
        return [job for job in components if job.het_job_id and job.het_offset == target.het]
    if target.task is None:
        job = book.find(target.job_id, target.cluster)
        if job is None:
            return []
        if job.het_job_id == target.job_id:
            return book.components(job)
        return book.array(target.job_id, job.cluster) if job.array_job_id == target.job_id else [job]
    array = book.array(target.job_id, target.cluster)
    own = [job for job in array if job.array_task_id == target.task]
    return own or [job for job in array if is_rest_with(job, target.task)]


def as_they_are(change: Change, target: Target, found: list[Job]) -> list[Job]:
    """The records as the transaction has them by now: of a task that left its array's rest in it, the task or nothing.

    A task may be named twice in one request; the second time must not mean what is left of the array.
    """
    current = [change.get(job.key) or job for job in found]
    if target.task is None:
        return current
    changed = [job for _before, job in change.jobs.values() if job.array_job_id == target.job_id]
    own = [job for job in [*current, *changed] if job.array_task_id == target.task]
    return own[:1] or [job for job in current if is_rest_with(job, target.task)]


def is_rest_with(job: Job, task: int | None) -> bool:
    """Whether the job is the pending rest of an array and has this task in it."""
    spec = tasks.pending_tasks(job)
    return spec is not None and task is not None and task in spec
