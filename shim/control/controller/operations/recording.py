"""``record``: a job that a real Slurm took gets a row. Nothing is done with it here."""

from __future__ import annotations

from typing import Any

from shim.control.controller.connection import Connection
from shim.control.controller.operations.submitting import submitter
from shim.control.controller.world import World
from shim.core.errors import ShimError
from shim.core.model.job import Job


async def record(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation. Who submits is the kernel's word."""
    job = Job.from_dict(message["job"])
    if job.cluster in world.clusters:
        raise ShimError(f"error: the jobs of cluster {job.cluster} are recorded when they are submitted")
    who = submitter(connection, message)
    world.book.store.save_passed(
        job.replace(
            uid=who.uid, gid=who.gid, user=who.user, group=who.group, submit_time=job.submit_time or world.clock()
        )
    )
    return {}
