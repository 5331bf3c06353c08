"""``record`` and ``seen``: a job that a real Slurm took gets a row, and what was seen of it later. Nothing is done with it here."""

from __future__ import annotations

from typing import Any

from shim.control.controller.connection import Connection
from shim.control.controller.operations.submitting import submitter
from shim.control.controller.world import World
from shim.core.errors import ShimError
from shim.core.model import slurm_job_snapshots
from shim.core.model.job import Job


async def record(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation. Who submits is the kernel's word. ``claim``: only if the job has no row; the answer says ``taken`` if it has."""
    job = Job.from_dict(message["job"])
    if job.cluster in world.clusters:
        raise ShimError(f"error: the jobs of cluster {job.cluster} are recorded when they are submitted")
    known = world.book.store.passed_job(job.cluster, job.job_id) if message.get("claim") else None
    if known is not None and known.submit_time != job.submit_time:
        return {"taken": True}  # with the same time it is this very message, sent again
    who = submitter(connection, message)
    world.book.store.save_passed(
        job.replace(
            uid=who.uid, gid=who.gid, user=who.user, group=who.group, submit_time=job.submit_time or world.clock()
        )
    )
    return {}


async def seen(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation: updates rows with what their Slurm reports since. Leaves out jobs that were never recorded, and older reports."""
    store = world.book.store
    with store.transaction():
        for data in message["jobs"]:
            job = Job.from_dict(data)
            known = store.passed_job(job.cluster, job.job_id)
            if known is None and (not job.array_job_id or store.passed_job(job.cluster, job.array_job_id) is None):
                continue
            if known is None or not slurm_job_snapshots.is_final(known) or job.restarts > known.restarts:
                store.save_passed(job)
    return {}
