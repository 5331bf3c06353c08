"""Ids of their own for an array's tasks: a write of the array's record gives one to a task, once, whoever else believes that the jobs are its to order.

A task is in the rest that the array's record lists; then it is ``given``, and its record is made; it is given no longer just before that
record goes. So a task that is given and has no record never had one, and a record that begins and is not given is a late request's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.records.record import Given, JobRecord, told
from shim.control.backends.kubernetes.run import run_folders
from shim.core.model import states
from shim.core.model.job import Job

_TRIES = 5
_OF_ARRAY = ("place", "user", "who", "home", "host", "files", "payload")  # what a task's record has from its array's


class Arrays:
    """``index()``: the jobs as this machine has them; ``outdated()``: it lags behind what another has done, and is to be told anew."""

    def __init__(self, site: Site, index: Callable[[], Mapping[int, Job]], outdated: Callable[[], None]) -> None:
        self._site = site
        self._index = index
        self._outdated = outdated
        self._turns: dict[
            int, asyncio.Lock
        ] = {}  # by array: tasks that start together are given their ids by one write

    def _own(self, array: int) -> dict[int, int]:
        """The ids that the array's tasks have here."""
        return {
            job.array_task_id: job.job_id
            for job in self._index().values()
            if job.array_job_id == array != job.job_id
            and job.array_task_id is not None
            and job.state not in states.TERMINAL
        }

    def has_tasks(self, array: int) -> bool:
        """Whether tasks of the array have ids here and have not ended."""
        return bool(self._own(array))

    def told(self, record: JobRecord, job: Job) -> JobRecord | None:
        """An array's record with what has become of its tasks here; None: another machine has given them otherwise."""
        return told(record, job, self._own(record.job_id))

    async def claim(self, job: Job, *, live: bool) -> JobRecord | None:
        """Sees to it that the array's record gives the task to this very job: that record. None: there is none any more.

        ``live``: not by what was heard of the record. Raises BackendError where the task is not this job's; ApiError.
        """
        records, array = self._site.records, job.array_job_id
        async with self._turns.setdefault(array, asyncio.Lock()):
            known = None if live else records.find(array)
            whole = known or await records.read(array)
            for _ in range(_TRIES):
                if whole is None or whole.gives(job):
                    return whole
                to = self._giving(whole, job)
                if to is None and known is None:
                    break
                try:
                    if to is not None:
                        whole = await records.write(whole, job=to.job, given=to.given)
                        continue
                except ApiError as error:
                    if not error.conflict:
                        raise
                known, whole = None, await records.read(array)
        self._outdated()
        raise BackendError("another machine has given this task an id", transient=True)

    def _giving(self, whole: JobRecord, job: Job) -> JobRecord | None:
        kept, own = self._index().get(whole.job_id), self._own(whole.job_id)
        found = (told(whole, kept, own) if kept is not None else None) or told(whole, None, own)
        if found is not None and found.gives(job):
            return found
        task = job.array_task_id
        if (
            task is not None
            and job.job_id != whole.job_id
            and job.restarts
            and self._was_forgotten(whole, task, job.job_id)
        ):
            return whole.replace(given=(*whole.given, Given(task=task, job_id=job.job_id)))
        return None

    def _was_forgotten(self, whole: JobRecord, task: int, job_id: int) -> bool:
        """Whether a task that had come to its end, and was queued again since, has no record: this machine has seen that one go."""
        listed = whole.lists(task) or any(one.task == task for one in whole.given)
        return not listed and all(run.job_id != job_id for run in run_folders.known(self._site.cluster))

    async def gives(self, record: JobRecord) -> bool:
        """Whether a task's record, of which no run was made, is one that its array's record tells of. ApiError."""
        array = record.job.array_job_id
        if array in (0, record.job_id) or not record.begins or record.from_before:
            return True
        known = self._site.records.find(array)
        if known is None or not known.gives(record.job):
            known = await self._site.records.read(array)
        return known is not None and known.gives(record.job)

    async def complete(self) -> None:
        """Makes the records of tasks that were given ids by a machine that came no further. ApiError."""
        for record in self._site.records.all():
            await self.tidy(record)

    async def tidy(self, record: JobRecord) -> None:
        """Nothing is given in an array's record that has no record, and gets none from here. ApiError."""
        records = self._site.records
        for one in record.given:
            job = self._index().get(one.job_id)
            starts = job is not None and job.state not in states.TERMINAL
            if starts or records.find(one.job_id) is not None or await records.read(one.job_id) is not None:
                continue
            whole = await records.read(record.job_id)
            if whole is None or one not in whole.given:
                continue
            if job is None:
                await self._make(whole, one)
            else:  # it was cancelled, or could not be started, before it had one
                await records.release(job)

    async def _make(self, whole: JobRecord, one: Given) -> None:
        job = whole.job.replace(
            job_id=one.job_id, array_task_id=one.task, array_tasks=None, state=states.PENDING, shares=()
        )
        parts = {name: getattr(whole, name) for name in _OF_ARRAY}
        record = JobRecord(
            name=names.record(one.job_id),
            submission=f"{whole.submission}.{one.task}",
            job=job.replace(restarts=0),
            **parts,
        )
        await self._site.records.make(record, None)
