"""``submit``, and what a submission needs from its cluster before it becomes a job: an id, the cluster's consent, its files as they are now."""

from __future__ import annotations

import os
import secrets
import shutil
from functools import partial
from typing import Any

from shim.control import paths
from shim.control.backends.base import BackendError, KeepsJobs, Progress, ShapedLater, TriesOut
from shim.control.controller import crash
from shim.control.controller.connection import Connection
from shim.control.controller.operations.choosing import (
    accepted,
    cluster_for,
    fitting,
    pending_jobs,
    requests_of,
)
from shim.control.controller.operations.progressing import Teller
from shim.control.controller.operations.submitting import submission_of, submitted, submitter, test_only
from shim.control.controller.world import World
from shim.core import mail
from shim.core.errors import ACCESS_DENIED, PATHNAME_TOO_LONG, submission_failed
from shim.core.limits import LONGEST_FILE
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.script import bytes_of


async def submit(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation: job_id, cluster, notes; with ``test_only`` when and where the job would start."""
    cluster = cluster_for(world, message, partial(submitter, connection, message))
    if message.get("test_only"):
        await world.usable(cluster)
        await world.ids_for(cluster)
        message, cluster, notes = fitting(world, message, await _shaped(world, message, cluster))
        return {**test_only(world, connection, message, cluster), "notes": notes}
    job, notes = await admitted(world, connection, message, cluster)
    return {"job_id": job.job_id, "cluster": job.cluster, "notes": notes}


async def admitted(
    world: World, connection: Connection, message: dict[str, Any], cluster: Cluster
) -> tuple[Job, list[str]]:
    """The committed job, and notes for its submitter. Raises ShimError for what Slurm or the cluster refuses."""
    if connection.uid != world.uid:
        why = f"this controller runs the jobs of uid {world.uid} alone"
        raise submission_failed(requests_of(message)[0].kind, ACCESS_DENIED, why)
    await world.usable(cluster)
    backend = world.backends[cluster.name]
    await world.ids_for(cluster)
    token = str(message.get("token") or "")
    if not isinstance(backend, TriesOut) or (token and world.book.store.submitted(token) is not None):
        message, cluster, notes = fitting(world, message, cluster)
        job = submitted(world, connection, message, cluster)
        if cluster.elastic and cluster is not world.clusters[cluster.name]:
            world.reshape(cluster)
        return job, [*world.told(), *notes, *mail.unsent(job, cluster)]
    cluster = await _shaped(world, message, cluster)
    requests = accepted(world, message, cluster, connection.uid, operator=connection.admin)
    request = requests[0]
    job = pending_jobs(world, requests, cluster, submitter(connection, message), 0, world.clock())[0]
    folder = os.path.join(paths.ensure(paths.spool_dir()), f"new.{secrets.token_hex(8)}")
    os.mkdir(folder, 0o700)
    try:
        progress = Progress("the cluster is asked about the job")
        teller = Teller(connection, message)
        notes = await teller.meanwhile(backend.try_out(job, folder, progress), lambda: progress)
        first = 0
        if isinstance(backend, KeepsJobs):
            first = _next_id(world, cluster)
            job = pending_jobs(world, requests, cluster, submitter(connection, message), first, world.clock())[0]
            progress.begin("the cluster takes the job")
            first = await teller.meanwhile(_accepted(backend, job, message, folder), lambda: progress)
        made = submitted(world, connection, message, cluster, partial(_take_over, folder), first)
        return made, [*notes, *world.told(), *mail.unsent(made, cluster)]
    except BackendError as error:
        raise submission_failed(request.kind, str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _next_id(world: World, cluster: Cluster) -> int:
    with world.book.change() as change:
        return change.next_id(cluster)


async def _accepted(backend: KeepsJobs, job: Job, message: dict[str, Any], folder: str) -> int:
    """The id under which the cluster holds the job by now. If this dies from here on, the cluster's jobs are taken in again."""
    script = message.get("script")
    if script is not None and len(script) > LONGEST_FILE:
        raise submission_failed(job.request.kind, PATHNAME_TOO_LONG)
    crash.point("numbered")
    text = bytes_of(script) if script is not None else None
    accepted_as = await backend.accept(job, submission_of(message).to_dict(), text, folder)
    crash.point("accepted")
    return accepted_as


async def _shaped(world: World, message: dict[str, Any], cluster: Cluster) -> Cluster:
    """The cluster to check requests against; waits for the nodes of a cluster that was opened just now."""
    backend = world.backends[cluster.name]
    if cluster.nodes or not isinstance(backend, ShapedLater):
        return cluster
    try:
        return await backend.shaped()
    except BackendError as error:
        raise submission_failed(requests_of(message)[0].kind, str(error)) from error


def _take_over(folder: str, spool: str) -> None:
    for name in os.listdir(folder):
        os.replace(os.path.join(folder, name), os.path.join(spool, name))
