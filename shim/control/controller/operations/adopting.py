"""``adopt``: jobs of this user's machines that are gone get records here, and are carried on with.

The cluster decides whose they are (see ``base.Adopts``); here each becomes a job, once, whatever dies on the way: what was taken over
and has no record gets one when the next controller starts.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from shim.control.backends.base import Adopts, BackendError, Orphan
from shim.control.controller import crash, spool
from shim.control.controller.connection import Connection
from shim.control.controller.operations.submitting import names_of
from shim.control.controller.world import World, log
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.job import Job

ANSWER = 40.0  # seconds for a cluster to tell what runs there


class Adopting:
    """One at a time: two requests must not make two records of a job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turn = asyncio.Lock()

    async def adopt(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The operation. ``cluster``: only there. Answers with the jobs, and the seconds for which machines must still be silent."""
        reply: dict[str, Any] = {"jobs": [], "waits": [], "notes": []}
        for name in self._clusters(str(message.get("cluster") or "")):
            await self._heard(name)
            backend = self._world.backends[name]
            assert isinstance(backend, Adopts)
            try:
                found = await backend.take_over()
                crash.point("taken-over")
                jobs = await self.take_in(name, connection.uid, connection.gid)
            except BackendError as error:
                raise ShimError(f"error: cluster {name}: {error}") from error
            reply["jobs"] += [job.to_dict() for job in jobs]
            reply["waits"] += [[name, owner, left] for owner, left in found.waits]
            reply["notes"] += [f"cluster {name}: {note}" for note in found.notes]
        return reply

    def _clusters(self, wanted: str) -> list[str]:
        able = [name for name, backend in self._world.backends.items() if isinstance(backend, Adopts)]
        if wanted and wanted not in able:
            raise ShimError(f'error: jobs of other machines are on Kubernetes alone: cluster "{wanted}" is none')
        return [wanted] if wanted else able

    async def _heard(self, name: str) -> None:
        """Returns when the cluster has told what runs there: this controller may only just have begun. Raises ShimError."""
        try:
            async with asyncio.timeout(ANSWER):
                while name in self._world.unseen:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise ShimError(f"error: cluster {name} does not answer") from None

    async def recover(self, name: str) -> None:
        """After a start: what was taken over by a controller that was killed then."""
        backend = self._world.backends[name]
        if isinstance(backend, Adopts):
            try:
                await self.take_in(name, os.getuid(), os.getgid())
            except BackendError as error:
                log.warning("cluster %s: %s", name, error)

    async def take_in(self, name: str, uid: int, gid: int) -> list[Job]:
        """Gives all that was taken over and is not followed a record, and follows it; the new records. Raises BackendError."""
        backend = self._world.backends[name]
        assert isinstance(backend, Adopts)
        made = []
        async with self._turn:
            for orphan in await backend.orphans():
                run = orphan.run
                before = self._world.book.find(run.job_id, name)
                if before is None:
                    made.append(self._record(orphan, uid, gid))
                    crash.point("adopted")
                    await (backend.forget(run) if made[-1].state in states.TERMINAL else backend.adopt(run))
                elif orphan.known and before.state in states.TERMINAL:
                    await backend.forget(run)  # its end was committed, and what is left of it not removed
                elif not orphan.known:
                    log.warning("job %s of another machine: this index has a job of that number", run.job_id)
        return made

    def _record(self, orphan: Orphan, uid: int, gid: int) -> Job:
        now = self._world.clock()
        user, gid, group = names_of(uid, gid)
        job = orphan.job.replace(uid=uid, gid=gid, user=user, group=group)
        with self._world.book.change() as change:
            job = change.add(job, now)
            handed_in = spool.Submission(has_script=orphan.script is not None)
            spool.write(job.key, handed_in, orphan.script)
        return job
