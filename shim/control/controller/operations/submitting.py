"""``submit``: a request becomes a job, exactly once, whatever dies on the way."""

from __future__ import annotations

import grp
import os
import pwd
from functools import cache
from typing import Any

from shim.control import paths, site
from shim.control.controller import crash, spool
from shim.control.controller.connection import Connection
from shim.control.controller.world import World
from shim.control.index.errors import IndexUnavailable
from shim.control.lifecycle import submission
from shim.control.lifecycle.submission import Submitter
from shim.control.scheduler import plan
from shim.core import check, hostlist
from shim.core.dependency import Dependency, unfulfilled
from shim.core.errors import RequestError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

_LONGEST_SCRIPT = 4 * 1024 * 1024  # Slurm's max_script_size
_FAILED = {
    "batch": "error: Batch job submission failed: ",
    "alloc": "error: Job submit/allocate failed: ",
    "run": "error: Unable to allocate resources: ",
}


def refusal(request: JobRequest, text: str) -> RequestError:
    """Slurm's line for a submission that is refused because of ``text``."""
    return RequestError(_FAILED[request.kind] + text)


async def submit(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation: job_id, cluster, notes; with ``test_only`` when and where the job would start."""
    cluster = cluster_named(world, message.get("cluster"))
    if message.get("test_only"):
        return _test_only(world, connection, message, cluster)
    job = submitted(world, connection, message, cluster)
    return {"job_id": job.job_id, "cluster": job.cluster, "notes": []}


def cluster_named(world: World, name: str | None) -> Cluster:
    """The cluster of that name, or the default one. Raises ShimError with Slurm's text."""
    if name is None:
        return next(iter(world.clusters.values()))
    if name not in world.clusters:
        raise site.unknown(name, next(iter(world.clusters.values())))
    return world.clusters[name]


def submitted(world: World, connection: Connection, message: dict[str, Any], cluster: Cluster) -> Job:
    """The committed job; the one of before if this token was seen already. Raises ShimError for what is refused."""
    token = str(message.get("token") or "")
    before = world.book.store.submitted(token) if token else None
    if before is not None:
        found = world.book.find(before[1], before[0])
        if found is not None:
            return found
    request = JobRequest.from_dict(message["request"])
    now = world.clock()
    check.refusals(request, cluster, connection.uid, int(now))
    if len(world.book.active(cluster.name)) >= cluster.max_job_count:
        raise refusal(request, "Resource temporarily unavailable")
    script = message.get("script")
    if script is not None and len(script) > _LONGEST_SCRIPT:
        raise refusal(request, "Pathname of a file, directory or other parameter too long")
    handed_in = spool.Submission(
        environment={str(name): str(value) for name, value in (message.get("environment") or {}).items()},
        rlimits={name: (int(soft), int(hard)) for name, (soft, hard) in (message.get("rlimits") or {}).items()},
        keep=bool(message.get("keep")),
        token=token,
        has_script=script is not None,
    )
    with world.book.change() as change:
        job_id = change.next_id(cluster.name, cluster.first_job_id)
        job = _job(world, request, cluster, submitter(connection, message), job_id, now)
        job = change.add(job, now, token)
        crash.point("submit")
        try:
            spool.write(job.key, handed_in, script.encode("utf-8", "surrogateescape") if script is not None else None)
        except OSError as error:
            raise IndexUnavailable(paths.job_spool(job.key), str(error.strerror)) from error
        crash.point("submit-written")
    return job


def _job(world: World, request: JobRequest, cluster: Cluster, who: Submitter, job_id: int, now: float) -> Job:
    if request.dependency:
        known = unfulfilled(
            Dependency.parse(request.dependency), lambda job, task: world.book.known(cluster.name, job, task)
        )
        request = request.replace(dependency=known)
    return submission.submitted(request, cluster, who, job_id, now)


def submitter(connection: Connection, message: dict[str, Any]) -> Submitter:
    """Who submits: the kernel's uid and its names; the rest is the client's word."""
    try:
        user, gid, group = _names(connection.uid)
    except KeyError:
        user, gid, group = str(connection.uid), connection.gid, str(connection.gid)
    return Submitter(
        uid=connection.uid,
        gid=gid,
        user=user,
        group=group,
        host=str(message.get("submit_host") or os.uname().nodename),
        line=str(message.get("submit_line") or ""),
        sid=int(message.get("sid") or 0),
    )


@cache
def _names(uid: int) -> tuple[str, int, str]:
    """User, group and its name. Asked once: the answer may come from another machine. KeyError (not kept): there is none."""
    entry = pwd.getpwuid(uid)
    try:
        return entry.pw_name, entry.pw_gid, grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        return entry.pw_name, entry.pw_gid, str(entry.pw_gid)


def _test_only(world: World, connection: Connection, message: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    """When the job would start if it were submitted now. Uses up a job id, as Slurm does."""
    request = JobRequest.from_dict(message["request"])
    now = world.clock()
    check.refusals(request, cluster, connection.uid, int(now))
    with world.book.change() as change:
        job_id = change.next_id(cluster.name, cluster.first_job_id)
    job = _job(world, request.replace(array=None), cluster, submitter(connection, message), job_id, now)
    job = job.replace(dependency="", held="", request=job.request.replace(begin=0))
    others = world.book.active(cluster.name)
    pending = [other for other in others if other.state == states.PENDING]
    made = plan([*pending, job], cluster, [other for other in others if other.state in states.ALLOCATED], now)
    begin = max(now, float(request.begin))
    for started, shares in made.starts:
        if started.key == job.key and started.job_id == job_id:
            nodes = [share.name for share in shares]
            return _answer(started, begin, sum(share.cpus for share in shares), nodes)
    if job.key in made.expected:
        start, expected = made.expected[job.key]
        return _answer(job, max(start, begin), job.cpus, list(expected))
    raise refusal(request, "Requested node configuration is not available")


def _answer(job: Job, start: float, processors: int, nodes: list[str]) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "start": int(start),
        "processors": processors,
        "nodes": hostlist.fold_sorted(nodes),
        "partition": job.partition,
    }
