"""Takes jobs that the cluster keeps and the index does not know into the index, each exactly once.

Such jobs were submitted from another machine, or from this one before its state folder was lost (see ``base.KeepsJobs``).
"""

from __future__ import annotations

import asyncio
import os

from shim.control import paths
from shim.control.backends.base import BackendError, KeepsJobs, Kept
from shim.control.controller import crash, spool
from shim.control.controller.operations.submitting import names_of
from shim.control.controller.world import World, log
from shim.core.model import states
from shim.core.model.job import OTHERS, Job

AGAIN = 5.0  # seconds until a cluster that could not be asked is asked again


class Importing:
    """One look at a time: two must not make two records of a job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turn = asyncio.Lock()

    async def take_in(self, name: str) -> list[Job]:
        """Gives every job of the cluster that has none a record; the new ones."""
        backend = self._world.backends[name]
        assert isinstance(backend, KeepsJobs)
        made = []
        async with self._turn:
            while True:
                try:
                    found = await backend.kept()
                    break
                except BackendError as error:
                    log.warning("cluster %s: %s", name, error)
                    await asyncio.sleep(AGAIN)
            await self._look_on(name, backend)
            for kept in found:
                known = self._world.book.find(kept.job.job_id, name)
                if known is not None and known.place in ("", kept.job.place):
                    backend.keep(known)  # its end was committed, and the cluster not told
                    continue
                if known is not None:
                    self._put_aside(known)
                job = self._record(kept)  # told by the book's followers
                made.append(job)
                crash.point("imported")
                if job.state not in states.TERMINAL and backend.orders:
                    await backend.take_up(kept.run)
        self._world.seen()
        return made

    async def _look_on(self, name: str, backend: KeepsJobs) -> None:
        """Takes over what other machines have done, while one of them orders the jobs and just before this one does."""
        if backend.orders and name not in self._world.unseen:
            return
        try:
            known = [job for job in self._world.book.jobs.values() if job.cluster == name]
            shown = await backend.shown(known)
        except BackendError as error:
            log.warning("cluster %s: %s", name, error)
            return
        with self._world.book.change() as change:
            for job in shown:
                change.put(job, self._world.clock())
                if job.state not in states.ALLOCATED:
                    change.drop_orders(job)

    async def complete(self, job: Job) -> Job:
        """A job that was submitted elsewhere, as it was handed in there, with its files in the spool here. BackendError, OSError."""
        backend = self._world.backends[job.cluster]
        if not job.origin or not isinstance(backend, KeepsJobs):
            return job
        kept = await backend.handed_in(job)
        self._spool(self._world.book.spool_key(job), kept)
        names = ("uid", "gid", "user", "group", "submit_line")
        request = job.request.replace(export=kept.job.request.export)
        return job.replace(request=request, **{name: getattr(kept.job, name) for name in names})

    @staticmethod
    def _spool(key: int, kept: Kept) -> None:
        spool.write(key, spool.Submission.from_dict(kept.handed_in), kept.script)
        for file, content in kept.files.items():
            path = os.path.join(paths.job_spool(key), file)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as target:
                target.write(content)

    def _put_aside(self, job: Job) -> None:
        """A job of a place that the cluster's name has left gives its id to one of the present place; its history stays under another name."""
        with self._world.book.change() as change:
            change.put(job.replace(cluster=f"{job.cluster}~{job.place[:8]}"), self._world.clock())

    def _record(self, kept: Kept) -> Job:
        job = kept.job
        if job.origin != OTHERS:
            user, gid, group = names_of(os.getuid(), os.getgid())
            job = job.replace(uid=os.getuid(), gid=gid, user=user, group=group)
        with self._world.book.change() as change:
            job = change.add(job, self._world.clock(), kept.token)
            if job.origin != OTHERS:  # theirs come when they start here, if they do
                self._spool(job.key, kept)
        log.info("job %s of %s is known from the cluster alone", job.job_id, job.cluster)
        return job
