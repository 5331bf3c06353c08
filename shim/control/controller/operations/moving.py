"""``move``: a pending job goes to another cluster whose jobs run from here. One transaction: it is on one of them, always."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import Any

from shim.control import paths
from shim.control.backends.base import BackendError, Progress, TriesOut
from shim.control.controller import crash
from shim.control.controller.book import Change
from shim.control.controller.connection import Connection
from shim.control.controller.operations.choosing import cluster_named
from shim.control.controller.world import World
from shim.control.groups import names_of
from shim.control.lifecycle import moving
from shim.core.admission import refusals
from shim.core.errors import ACCESS_DENIED, INVALID_JOB_ID, ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job


async def move(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """Moves job (or array) ``job_id`` to ``cluster``: its id there, and what had to be given up. ShimError if that cannot be done."""
    job_id = int(message["job_id"])
    to = cluster_named(world, str(message["cluster"]))
    found = movable(world, connection, job_id)
    if found[0].cluster == to.name:
        return {"job_id": job_id, "cluster": to.name, "notes": []}
    if moving.leaving(found[0]) is not None:
        raise ShimError(f"error: job {job_id} is being moved to {(moving.leaving(found[0]) or ('',))[0]}")
    await world.usable(to)
    now = world.clock()
    request, notes = moving.fitted(found[0].request, to)
    owner = found[0].uid
    held = request.replace(hold=bool(found[0].held))
    refusals.check_request(
        held, to, owner, int(now), lambda: names_of(owner), operator=world.operates(owner), host=found[0].submit_host
    )
    await world.ids_for(to)
    folder = os.path.join(paths.ensure(paths.spool_dir()), f"new.{secrets.token_hex(8)}")
    os.mkdir(folder, 0o700)
    try:
        notes += await _tried_out(world, moving.moved(found[0], request, to, now), to, folder)
        found = movable(world, connection, job_id)  # it may have started while its new cluster was asked
        with world.book.change() as change:
            ids = _new_ids(world, change, found, to)
            for job in found:
                own, array = ids.get(job.job_id, job.job_id), ids.get(job.array_job_id, job.array_job_id)
                there = job.replace(job_id=own, array_job_id=array, place=world.place(to.name))
                change.put(moving.moved(there, request, to, now), now)
            spool = paths.job_spool(world.book.spool_key(found[0]))
            for name in os.listdir(folder):
                os.replace(os.path.join(folder, name), os.path.join(spool, name))
            crash.point("moved")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"job_id": ids.get(job_id, job_id), "cluster": to.name, "notes": notes}


async def _tried_out(world: World, job: Job, to: Cluster, folder: str) -> list[str]:
    backend = world.backends[to.name]
    if not isinstance(backend, TriesOut):
        return []
    try:
        return await backend.try_out(job, folder, Progress())
    except BackendError as error:
        raise ShimError(f"error: {to.name}: {error}") from error


def _new_ids(world: World, change: Change, found: list[Job], to: Cluster) -> dict[int, int]:
    """New ids where the cluster's are shared with other controllers; elsewhere jobs keep theirs."""
    if to.name not in world.book.stocks:
        return {}
    old = {job.job_id for job in found}
    for other in world.book.active():
        if other.state == states.PENDING and any(str(one) in _numbers(other.dependency) for one in old):
            raise ShimError(f"error: job {other.array_label} depends on job {min(old)}, which would get another id")
    return {one: change.next_id(to) for one in sorted(old)}


def _numbers(text: str) -> list[str]:
    return "".join(character if character.isdigit() else " " for character in text).split()


def movable(world: World, connection: Connection, job_id: int) -> list[Job]:
    """The records of the job or array, all of them pending. Raises ShimError with the reason why it cannot be moved."""
    job = world.book.find(job_id)
    if job is None:
        raise ShimError(f"error: {INVALID_JOB_ID}")
    found = world.book.array(job.array_job_id, job.cluster) if job.array_job_id else [job]
    if not world.may(connection, job):
        raise ShimError(f"error: {ACCESS_DENIED}")
    if job.array_job_id not in (0, job_id):
        raise ShimError(f"error: job {job_id} is a task of array {job.array_job_id}: only a whole array can be moved")
    if job.het_job_id:
        raise ShimError(f"error: job {job_id} is a component of a heterogeneous job: these cannot be moved")
    begun = next((one for one in found if one.state != states.PENDING), None)
    if begun is not None:
        raise ShimError(f"error: only a pending job can be moved: {begun.array_label} is {begun.state}")
    if job.request.cron:
        raise ShimError(
            f"error: job {job_id} is an entry of scrontab, whose table knows it by where it is: it cannot be moved"
        )
    if job.request.kind != "batch":
        raise ShimError(f"error: job {job_id} waits for the command that asked for it: only batch jobs can be moved")
    return found
