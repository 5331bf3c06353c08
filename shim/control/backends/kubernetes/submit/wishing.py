"""What users want of jobs that another machine orders: noted in the record, until the machine that orders them has seen to it."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from typing import Any

from shim.control.backends.base import BackendError, Wanted
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.records.record import JobRecord, Wish

_TRIES = 20
_MOST = 50  # wishes of a job that nobody has seen to
_OPERATE = ("operate", "jobs", "slurm-shim.io")  # the permission (RBAC) of who is operator of the namespace


class Wishes:
    """Of one namespace."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.operates = False  # whether the API server lets this user do what is Slurm's operators'
        self._done: dict[int, set[str]] = {}  # of jobs, what this process has seen to
        self._kept: set[str] = set()  # … but another that takes over has to see to it again
        self._answered = asyncio.Condition()

    async def note(self, job_id: int, op: str, message: Mapping[str, Any], *, done: bool = False) -> str:
        """Adds a wish to the record; its id. ``done``: this machine has seen to it, and the next that orders the jobs may have to again.

        Raises BackendError where it is not there afterwards, or nobody knows.
        """
        site = self._site
        try:
            wish = Wish(
                id=os.urandom(8).hex(), op=op, message=dict(message), by=await site.user(), operator=self.operates
            )
            if done:
                self._kept.add(wish.id)
            for _ in range(_TRIES):
                record = await site.records.read(job_id)
                if record is None or record.ended:
                    raise BackendError("the job has ended")
                if wish in record.wishes:
                    return wish.id  # its answer was lost
                if len(record.wishes) >= _MOST:
                    raise BackendError(f"{_MOST} requests wait for the machine that orders the jobs")
                try:
                    await site.records.write(record, wishes=(*record.wishes, wish))
                    return wish.id
                except ApiError as error:
                    if not error.conflict and not error.transient:
                        raise
                await asyncio.sleep(random.uniform(0.0, 0.05))
        except ApiError as error:
            raise BackendError(error.message, transient=error.transient) from error
        raise BackendError("its record was changed by others all the time", transient=True)

    async def learn(self) -> None:
        """Asks whether this user is an operator. ApiError."""
        verb, resource, group = _OPERATE
        self.operates = await self._site.access.can(verb, resource, group, namespace=self._site.namespace)

    def waiting(self) -> list[Wanted]:
        """Those that this machine has not seen to, oldest first for each job."""
        return [
            Wanted(job_id=record.job_id, id=wish.id, op=wish.op, message=wish.message, operator=wish.operator)
            for record in self._site.records.all()
            if not record.ended
            for wish in record.wishes
            if wish.id not in self._done.get(record.job_id, ())
            and wish.id not in self._kept
            and (wish.operator or wish.by == record.user)
        ]

    def see_to(self, wanted: Wanted) -> None:
        """The wish is carried out here, and that is committed: the record may be written without it."""
        self._done.setdefault(wanted.job_id, set()).add(wanted.id)

    def left(self, record: JobRecord) -> tuple[Wish, ...]:
        """The record's wishes but those that were seen to."""
        done = self._done.get(record.job_id, ())
        return tuple(wish for wish in record.wishes if wish.id not in done)

    async def answered(self, job_id: int, wish: str, seconds: float) -> bool:
        """Whether the wish is seen to within so many seconds."""

        def gone() -> bool:
            record = self._site.records.find(job_id)
            return record is None or bool(record.ended) or all(one.id != wish for one in record.wishes)

        try:
            async with asyncio.timeout(seconds), self._answered:
                await self._answered.wait_for(gone)
        except TimeoutError:
            return False
        return True

    async def look(self) -> None:
        """A record has changed."""
        async with self._answered:
            self._answered.notify_all()

    def forget(self, job_id: int) -> None:
        """The record is gone."""
        self._done.pop(job_id, None)
