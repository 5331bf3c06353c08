"""``move_out``, ``moved_out`` and ``stay``: a pending job leaves for a real Slurm, whose jobs are not run from here.

The job never runs twice. It is held here before it is submitted there; it is submitted there in held state; it is released
there only when the record here is CANCELLED. If the client is killed on the way, the next one goes on: both jobs carry the same
mark, which shows how far the first client came.
"""

from __future__ import annotations

import secrets
from typing import Any

from shim.control.controller import crash, spool
from shim.control.controller.connection import Connection
from shim.control.controller.operations.moving import movable
from shim.control.controller.world import World
from shim.control.lifecycle import moving, running
from shim.core.errors import ACCESS_DENIED, INVALID_JOB_ID, ShimError
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.script import text_of


async def move_out(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The job is held for its way to ``cluster``: its mark, and all that a submission there needs. Or where it has gone to."""
    job_id, to = int(message["job_id"]), str(message["cluster"])
    gone = world.book.find(job_id)
    if gone is not None and gone.uid == connection.uid and moving.left_for(gone) is not None:
        cluster, there, held = moving.left_for(gone) or ("", 0, False)
        return {"gone": True, "cluster": cluster, "there": there, "held": held, "comment": gone.request.comment}
    found = movable(world, connection, job_id)
    job = found[0]
    if len(found) > 1:
        raise ShimError(f"error: tasks of array {job_id} were changed one by one: it cannot leave as a whole")
    if job.dependency:
        raise ShimError(f"error: job {job_id} depends on other jobs here: they are not known on {to}")
    if job.request.container_image is not None:
        raise ShimError(f"error: job {job_id} asks for a container image: whether {to} can run it is not known")
    before = moving.leaving(job)
    if before is not None and before[0] != to:
        raise ShimError(f"error: job {job_id} is being moved to {before[0]}")
    mark = before[1] if before is not None else secrets.token_hex(8)
    if before is None:
        now = world.clock()
        with world.book.change() as change:
            for one in found:
                change.put(moving.held_for(one, to, mark, now), now)
            crash.point("moving")
    script = spool.script(world.book.spool_key(job))
    submission = spool.read(world.book.spool_key(job))
    return {
        "gone": False,
        "again": before is not None,
        "mark": mark,
        "request": moving.as_submitted(job).to_dict(),
        "script": text_of(script or b""),
        "environment": submission.environment,
    }


async def moved_out(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The job waits on the other Slurm as ``there``: here it has ended. ShimError if it has not been waiting any more."""
    job_id, there = int(message["job_id"]), int(message["there"])
    found = movable(world, connection, job_id)
    before = moving.leaving(found[0])
    if before is None or before[1] != message["mark"]:
        raise ShimError(f"error: job {job_id} is not being moved any more")
    now = world.clock()
    held = moving.was_held(found[0])
    with world.book.change() as change:
        for job in found:
            left = moving.left(job, before[0], there, now)
            change.put(running.cancelled(left, connection.uid, now), now)
        world.book.store.save_passed(_there(found[0], before[0], there, now))
        crash.point("moved")
    return {"held": held}


def _there(job: Job, cluster: str, there: int, now: float) -> Job:
    """The row of the job on the other Slurm."""
    request = moving.as_submitted(job)
    array = there if job.array_job_id else 0
    return job.replace(
        cluster=cluster,
        job_id=there,
        array_job_id=array,
        request=request,
        held="",
        reason="None",
        state=states.PENDING,
        submit_time=now,
    )


async def stay(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The job is not moved after all."""
    job = world.book.find(int(message["job_id"]))
    if job is None:
        raise ShimError(f"error: {INVALID_JOB_ID}")
    if not world.may(connection, job):
        raise ShimError(f"error: {ACCESS_DENIED}")
    found = world.book.array(job.array_job_id, job.cluster) if job.array_job_id else [job]
    now = world.clock()
    with world.book.change() as change:
        for one in found:
            if one.state == states.PENDING and moving.leaving(one) is not None:
                change.put(moving.stays(one, now), now)
    return {}
