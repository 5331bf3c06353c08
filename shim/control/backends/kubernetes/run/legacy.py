"""Runs of the version before, which have no record: they are followed to their end, and never begun again.

What that version kept of such a run is in its folder: the file ``ticket``, and the run's key. Its leader asks nobody.
"""

from __future__ import annotations

import asyncio
import os

from shim.control.backends.base import Observer, Order, Run
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.records.record import JobRecord
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.run.context import Context
from shim.control.backends.kubernetes.run.course import CANCEL_PATIENCE, Course
from shim.control.backends.kubernetes.run.register import GRANTED, Register
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model.job import Job

RETRY = 2.0  # seconds
_NUMBER = -1  # such a run has none


def is_legacy(run: Run) -> bool:
    """Whether the version before has started this run from here."""
    return os.path.exists(os.path.join(run_folders.path_of(run), "ticket"))


class Legacy:
    """One such run. ``seen``: the last line of the journal that the index has."""

    def __init__(self, site: Site, run: Run, nodes: int, settings: Settings, observer: Observer, seen: int) -> None:
        self.run = run
        self.done = asyncio.Event()
        self._site = site
        self._settings = settings
        register = Register(run=_NUMBER, restart=run.restart, state=GRANTED)
        job = Job(job_id=run.job_id, restarts=run.restart, nodes=nodes)
        self._record = JobRecord(name=names.record(run.job_id), job=job, register=register)
        context = Context(site, run, "", _NUMBER, nodes, settings, observer, seen)
        self._course = Course(context, self._record, (), False, "", self.poke)
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    def poke(self) -> None:
        """Something has changed."""
        self._changed.set()

    def order(self, order: Order) -> None:
        """Passes an order on to the leader."""
        self._course.order(order)
        self.poke()

    async def forget(self) -> None:
        """The end is committed."""
        await self._course.forget()
        self.poke()

    async def close(self) -> None:
        """Follows no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._course.close()

    async def _work(self) -> None:
        with open(os.path.join(run_folders.path_of(self.run), "key")) as file:
            await self._course.open(bytes.fromhex(file.read()))
        while not self._course.committed:
            self._changed.clear()
            pause: float | None = RETRY
            try:
                pause = await self._look()
            except ApiError as error:
                self._site.log("job %s: %s", self.run.job_id, error.message)
            if not self._course.committed:
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        await self._clear()
        self.done.set()

    async def _look(self) -> float | None:
        course = self._course
        pause = await course.look(self._record) if self._site.synced else RETRY
        if course.over or not self._site.synced:
            return pause
        silence = self._site.clock() - course.heard()
        gone = course.leader_is_missing and not await self._site.objects.pods_of_job(self.run.job_id)
        ended = course.leader_has_ended and not course.ends_by_itself
        patience = CANCEL_PATIENCE if course.end_ordered else self._settings.node_wait
        if gone or ended or silence >= patience:
            await course.hush()
            course.tell_end(course.ended_by_order() or {"kind": "lost", "reason": "its first pod is gone, or silent"})
        return pause

    async def _clear(self) -> None:
        """Removes the run's Job, and with it all that it owns."""
        objects = self._site.objects
        name = names.stem(self.run.job_id, self.run.restart)
        while True:
            try:
                found = await self._site.access.get(f"{objects.jobs}/{name}")
                if not names.label(found, names.RECORD):
                    await objects.remove(objects.jobs, name, found["metadata"]["uid"])
                break
            except ApiError as error:
                if error.missing:
                    break
                self._site.log("job %s: it cannot be removed yet: %s", self.run.job_id, error.message)
                await asyncio.sleep(RETRY)
        run_folders.remove(self._site.cluster, self.run.job_id, self.run.restart + 1)
