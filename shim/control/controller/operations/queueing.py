"""scontrol's ``hold``, ``release``, ``requeue``, ``requeuehold``, ``suspend``, ``resume``, ``top`` and ``update``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shim.control.backends.base import Order
from shim.control.controller.book import Change
from shim.control.controller.connection import Connection
from shim.control.controller.judging import split
from shim.control.controller.operations import cancelling
from shim.control.controller.operations.depending import foreign
from shim.control.controller.operations.targets import Trial, as_they_are, is_rest_with, records, targets_of
from shim.control.controller.world import World
from shim.control.lifecycle import files, het, moving, running, tasks, updating, waiting
from shim.control.lifecycle.updating import UpdateRefused
from shim.core.admission.partition_rules import access_of, first_of
from shim.core.errors import (
    ACCESS_DENIED,
    ALREADY_DONE,
    ALREADY_FINISHED,
    BATCH_ONLY,
    DEPENDENCY_PROBLEM,
    DISABLED,
    INVALID_JOB_ID,
    INVALID_USER_ID,
    JOB_HELD,
    NOT_SUPPORTED,
    PARTITION_CONFIG_UNAVAILABLE,
)
from shim.core.formats.dependency import Dependency
from shim.core.model import states
from shim.core.model.job import Job

IS_PENDING = "Job is pending execution"
NOT_SUSPENDED = "Job is not suspended"
LEAVING = "Job is being moved to another cluster"
OF_SCRONTAB = "Cannot modify scrontab jobs through scontrol"
_NOT_OF_CRON = ("hold", "release_job", "update")
UNEXPECTED = "Unexpected message received"
SLOW = "Processes on the nodes that are given up have not ended yet"
GIVE_UP = 20.0  # seconds


class Asking:
    """One request under way: what the handlers of single jobs need."""

    def __init__(self, world: World, change: Change, connection: Connection, message: dict[str, Any]) -> None:
        self.world = world
        self.change = change
        self.connection = connection
        self.message = message
        self.now = world.clock()
        self.ordered: list[Job] = []
        self.smaller: dict[int, int] = {}  # jobs by key that give up nodes -> how many they keep


class Refused(Exception):
    """Slurm's text for what cannot be done to a job; ``why``: a line in front of it."""

    why = ""


Handler = Callable[[Asking, Job], None]


async def ask(
    op: str, world: World, order: Callable[[Job], None], connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """The operation ``op``: one result for each target. Orders are passed on once everything is committed."""
    results: list[dict[str, Any]] = []
    with world.book.change() as change:
        asking = Asking(world, change, connection, message)
        for target in targets_of(message):
            error, why = None, ""
            found = records(world.book, target)
            if target.het is not None and op in _OF_RUNS:
                found = []  # Slurm takes no such name here
            if not found:
                error = UNEXPECTED if op in ("suspend", "resume") else ACCESS_DENIED if op == "top" else INVALID_JOB_ID
            current = as_they_are(change, target, found)
            leader = current[0] if current and current[0].het_job_id and not het.follows(current[0]) else None
            for job in current:
                try:
                    _one(op, asking, job, target.task, leader)
                except (Refused, UpdateRefused) as refused:
                    # Of an array with parts in several states, what cannot be changed does not hinder the rest.
                    error = str(refused) if len(found) == 1 or job is leader else error
                    why = getattr(refused, "why", "")
            results.append({"target": target.to_dict(), "error": error, **({"why": why} if why else {})})
        if message.get("trial"):
            raise Trial(results)
    for job in asking.ordered:
        order(job)
    if asking.smaller:
        await _have_given_up(asking, results)
    return {"results": results, "ordered": sorted({job.cluster for job in asking.ordered})}


def _one(op: str, asking: Asking, job: Job, task: int | None, leader: Job | None) -> None:
    if het.follows(job) and op in _OF_RUNS:
        if leader is None:
            raise Refused(het.NOT_LEADER)
        after = asking.change.get(leader.key) or leader
        asking.change.put(het.like_leader(asking.change.get(job.key) or job, after, asking.now), asking.now)
        return
    if not asking.world.may(asking.connection, job):
        raise Refused(INVALID_USER_ID if op == "update" else ACCESS_DENIED)
    if job.request.cron and op in _NOT_OF_CRON and job.state in states.ACTIVE:
        raise Refused(OF_SCRONTAB)
    if moving.leaving(job) is not None:
        raise Refused(LEAVING)
    if task is not None and is_rest_with(job, task):
        cluster = asking.world.cluster_of(job)
        job, rest = split(asking.change, job, task, cluster, asking.now)
        if rest is not None:
            asking.change.put(tasks.settled(rest), asking.now)
    _HANDLERS[op](asking, job)


def _hold(asking: Asking, job: Job) -> None:
    _not_over(job)
    if job.held == "admin" and not asking.connection.admin:
        return  # it stays an operator's
    own = job.uid == asking.connection.uid or bool(asking.message.get("user_hold"))
    _put(asking, waiting.hold(job, asking.now, "user" if own else "admin"))


def _release(asking: Asking, job: Job) -> None:
    _not_over(job)
    if job.held == "admin" and not asking.connection.admin:
        raise Refused(ACCESS_DENIED)
    _put(asking, waiting.release(job, asking.now))


def _put(asking: Asking, job: Job) -> None:
    """What was asked is done. If the partition that a waiting job names first is not for its user, slurmctld calls that an error."""
    asking.change.put(job, asking.now)
    partition = first_of(job.partition, asking.world.cluster_of(job))
    if job.state != states.PENDING or partition is None:
        return
    if access_of(job, asking.world.members).problem(job.request, partition):
        raise Refused(PARTITION_CONFIG_UNAVAILABLE)


def _not_over(job: Job) -> None:
    if job.state in states.TERMINAL or job.state == states.COMPLETING:
        raise Refused(ALREADY_FINISHED)


def _requeue(asking: Asking, job: Job) -> None:
    _back(asking, job, hold=False)


def _requeuehold(asking: Asking, job: Job) -> None:
    _back(asking, job, hold=True)


def _back(asking: Asking, job: Job, *, hold: bool) -> None:
    cluster = asking.world.cluster_of(job)
    if asking.message.get("incomplete") and job.state not in states.ALLOCATED - {states.COMPLETING}:
        return
    if job.state in states.TERMINAL and job.end_time + cluster.min_job_age < asking.now:
        raise Refused(INVALID_JOB_ID)  # forgotten, and its script with it
    if job.state == states.PENDING or _going_back(asking, job):
        raise Refused(IS_PENDING)
    if job.request.kind != "batch":
        raise Refused(BATCH_ONLY)
    if not running.may_requeue(job, cluster):
        raise Refused(DISABLED)
    for one in asking.world.book.components(job):
        special = running.special_exit(one.request, wanted=hold and bool(asking.message.get("special")))
        asking.change.put(one.replace(held="user" if hold else one.held, request=special), asking.now)
    job = asking.change.get(job.key) or job
    if job.state in states.TERMINAL:
        for one in asking.world.book.components(job):
            back = running.requeued(asking.change.get(one.key) or one, cluster, asking.now)
            # A cluster that held it holds it no more: it is handed in anew when it starts.
            asking.change.put(back.replace(place=""), asking.now)
        return
    uid = asking.connection.uid
    why = "DUE TO JOB REQUEUE"
    asking.ordered.append(cancelling.end(asking.change, job, states.REQUEUED, uid, asking.now, why=why))


def _going_back(asking: Asking, job: Job) -> bool:
    return any(order.state == states.REQUEUED for order in asking.world.book.orders_of(job))


def _suspend(asking: Asking, job: Job) -> None:
    _operator(asking)
    if job.state == states.PENDING:
        raise Refused(IS_PENDING)
    if job.state not in (states.RUNNING, states.STOPPED, states.SUSPENDED):
        raise Refused(ALREADY_DONE)
    after = asking.change.put(running.suspended(job, asking.now), asking.now)
    if after != job:
        asking.change.order(job, Order(number=0, kind="suspend"))
        asking.ordered.append(after)


def _resume(asking: Asking, job: Job) -> None:
    _operator(asking)
    if job.state == states.PENDING:
        raise Refused(IS_PENDING)
    if job.state != states.SUSPENDED:
        raise Refused(NOT_SUSPENDED)
    asking.change.order(job, Order(number=0, kind="resume"))
    asking.ordered.append(asking.change.put(running.resumed(job, asking.now), asking.now))


def _top(asking: Asking, job: Job) -> None:
    _operator(asking)
    if job.state != states.PENDING:
        raise Refused(updating.NOT_PENDING)
    if job.held:
        raise Refused(JOB_HELD)
    others = asking.world.book.active(job.cluster)
    highest = max((other.priority for other in others if other.state == states.PENDING), default=job.priority)
    if highest > job.priority or job.request.priority is not None:
        asking.change.put(waiting.with_priority(job, highest + 1), asking.now)


def _operator(asking: Asking) -> None:
    if not asking.connection.admin:
        raise Refused(ACCESS_DENIED)


def _update(asking: Asking, job: Job) -> None:
    fields = {str(name): str(text) for name, text in (asking.message.get("fields") or {}).items()}
    cluster = asking.world.cluster_of(job)
    own = job.uid == asking.connection.uid
    after = updating.updated(job, fields, cluster, admin=asking.connection.admin, now=asking.now, own=own)
    if after.request.dependency != job.request.dependency:
        _check_dependency(asking, after)
    if after.shares != job.shares:
        after = _give_up_nodes(asking, job, after)
    if after.state == states.PENDING:
        after = files.named(after)
    elif after.time_limit != job.time_limit:
        asking.change.order(job, Order(number=0, kind="limit", seconds=running.limit_seconds(after, cluster)))
        asking.ordered.append(job)
    _put(asking, after)


def _give_up_nodes(asking: Asking, job: Job, after: Job) -> Job:
    """Orders the run to keep these nodes only. The record has the other nodes until the job has left them."""
    backend = asking.world.cluster_of(job).backend
    if backend != "local" or job.het_job_id:
        refused = Refused(NOT_SUPPORTED)
        what = "a heterogeneous job" if job.het_job_id else f"a running job on {backend.capitalize()}"
        refused.why = f"error: {what} keeps its nodes until its end here"
        raise refused
    kept = tuple(share.name for share in after.shares)
    asking.change.order(job, Order(number=0, kind="resize", nodes=kept))
    asking.ordered.append(job)
    asking.smaller[job.key] = len(kept)
    return after.replace(shares=job.shares, nodes=job.nodes, cpus=job.cpus, resize_time=job.resize_time)


async def _have_given_up(asking: Asking, results: list[dict[str, Any]]) -> None:
    """Waits until the jobs have no more nodes than they keep. Who asked goes on with what is left."""
    jobs = asking.world.book.jobs
    end = asyncio.get_running_loop().time() + GIVE_UP

    def still() -> list[int]:
        found = [jobs[key] for key in asking.smaller if key in jobs]
        return [job.key for job in found if job.state in states.ALLOCATED and len(job.shares) > asking.smaller[job.key]]

    with asking.connection.watched() as gone:
        while keys := still():
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                for result in results:
                    result["error"] = result["error"] or SLOW
                return
            await asking.world.changed(keys, gone, left)


def _check_dependency(asking: Asking, job: Job) -> None:
    if job.request.dependency:
        why = foreign(asking.world, job.cluster, Dependency.parse(job.request.dependency))
        if why:
            refused = Refused(DEPENDENCY_PROBLEM)
            refused.why = f"error: {why}"
            raise refused


# What is done to a run: of a heterogeneous job to all of it, by its leader.
_OF_RUNS = ("requeue", "requeuehold", "suspend", "resume")
_HANDLERS: dict[str, Handler] = {
    "hold": _hold,
    "release_job": _release,
    "requeue": _requeue,
    "requeuehold": _requeuehold,
    "suspend": _suspend,
    "resume": _resume,
    "top": _top,
    "update": _update,
}
OPERATIONS = tuple(_HANDLERS)
