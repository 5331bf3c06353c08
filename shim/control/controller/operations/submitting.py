"""A request becomes a job, exactly once, whatever dies on the way."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from functools import cache
from typing import Any

from shim.control import paths
from shim.control.controller import crash, spool
from shim.control.controller.connection import Connection
from shim.control.controller.operations.choosing import accepted, host_of, pending_jobs, requests_of, trial
from shim.control.controller.world import World
from shim.control.index.errors import IndexUnavailable
from shim.control.lifecycle.submission import Submitter
from shim.control.threads import aside
from shim.core.admission.partition_rules import partitions_of
from shim.core.errors import NODE_CONFIG_UNAVAILABLE, PATHNAME_TOO_LONG, submission_failed
from shim.core.limits import LONGEST_FILE
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.node_classes import node_classes
from shim.core.model.request import JobRequest
from shim.core.placement.pending_estimate import pending_estimate
from shim.core.script import bytes_of


def submitted(
    world: World,
    connection: Connection,
    message: dict[str, Any],
    cluster: Cluster,
    more: Callable[[str], None] | None = None,
    first: int = 0,
) -> Job:
    """The committed job; the one of before if this token was seen already. Raises ShimError for what is refused.

    ``more(folder)`` puts further files into the job's spool folder. ``first``: the id that was taken for it before.
    """
    token = str(message.get("token") or "")
    before = world.book.store.submitted(token) if token else None
    if before is not None:
        found = world.book.find(before[1], before[0])
        if found is not None:
            return found
    now = world.clock()
    if first:  # the cluster holds the job already: it was checked before that, and is refused no more
        requests = requests_of(message)
    else:
        requests = accepted(world, message, cluster, connection.uid, operator=connection.admin)
    request = requests[0]
    script = message.get("script")
    if script is not None and len(script) > LONGEST_FILE:
        raise submission_failed(request.kind, PATHNAME_TOO_LONG)
    handed_in = submission_of(message)
    with world.book.change() as change:
        first = first or change.next_id(cluster, len(requests))
        one, *others = pending_jobs(world, requests, cluster, submitter(connection, message), first, now)
        job = change.add(one.replace(place=world.place(cluster.name)), now, token)
        for other in others:
            change.add(other, now)
        crash.point("submit")
        try:
            spool.write(job.key, handed_in, bytes_of(script) if script is not None else None)
            if more is not None:
                more(paths.job_spool(job.key))
        except OSError as error:
            raise IndexUnavailable(paths.job_spool(job.key), str(error.strerror)) from error
        crash.point("submit-written")
    return job


def submission_of(message: dict[str, Any]) -> spool.Submission:
    """What is handed in with a request, but for the script."""
    return spool.Submission(
        environment={str(name): str(value) for name, value in (message.get("environment") or {}).items()},
        rlimits={name: (int(soft), int(hard)) for name, (soft, hard) in (message.get("rlimits") or {}).items()},
        keep=bool(message.get("keep")),
        token=str(message.get("token") or ""),
        has_script=message.get("script") is not None,
    )


def submitter(connection: Connection, message: dict[str, Any]) -> Submitter:
    """Who submits: the kernel's uid and its names; the rest is the client's word."""
    user, gid, group = names_of(connection.uid, connection.gid)
    return Submitter(
        uid=connection.uid,
        gid=gid,
        user=user,
        group=group,
        host=host_of(message),
        line=str(message.get("submit_line") or ""),
        sid=int(message.get("sid") or 0),
        operator=connection.admin,
    )


async def learn_names(uid: int, gid: int) -> None:
    """Has ``names_of`` know the user without asking: a directory service that does not answer holds up this user's request alone."""
    if uid not in _learnt:
        await aside(names_of, uid, gid)
        _learnt.add(uid)


_learnt: set[int] = set()


def names_of(uid: int, gid: int) -> tuple[str, int, str]:
    """The user's name, group and its name; numbers for one whom this machine does not know, with the group ``gid``."""
    try:
        return _names(uid)
    except KeyError:
        return str(uid), gid, str(gid)


@cache
def _names(uid: int) -> tuple[str, int, str]:
    """User, group and its name. Asked once: the answer may come from another machine. KeyError (not kept): there is none."""
    entry = pwd.getpwuid(uid)
    try:
        return entry.pw_name, entry.pw_gid, grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        return entry.pw_name, entry.pw_gid, str(entry.pw_gid)


def test_only(world: World, connection: Connection, message: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    """When the job would start if it were submitted now. Uses up job ids, as Slurm does."""
    requests = accepted(world, message, cluster, connection.uid, operator=connection.admin)
    with world.book.change() as change:
        job_id = change.next_id(cluster, len(requests))
    for request in requests:
        _refuse_memory(request, cluster)
    return trial(world, requests, cluster, submitter(connection, message), job_id)


def _refuse_memory(request: JobRequest, cluster: Cluster) -> None:
    """Slurm's trial counts the memory of the CPUs that a node must give, also where memory is not counted and the job would run."""
    most = max(
        (
            node.memory
            for partition in partitions_of(request, cluster)
            for node, _ in node_classes(cluster).of(partition)
        ),
        default=0,
    )
    if (request.mem_per_cpu or 0) * pending_estimate(request, cluster).min_cpus_per_node > most:
        raise submission_failed(request.kind, NODE_CONFIG_UNAVAILABLE)
