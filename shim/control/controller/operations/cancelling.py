"""``cancel``: the operation of scancel. A pending job ends at once; a running job's leader is ordered to end it, and reports the end."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from typing import Any

from shim.control.backends.base import Order
from shim.control.controller import crash
from shim.control.controller.book import Change
from shim.control.controller.connection import Connection
from shim.control.controller.operations.targets import Target, Trial, as_they_are, is_rest_with, records, targets_of
from shim.control.controller.world import World
from shim.control.lifecycle import het, running, tasks
from shim.core.errors import ACCESS_DENIED, ALREADY_DONE, INVALID_JOB_ID
from shim.core.model import states
from shim.core.model.job import Job

_NO_UPDATE = "Job can not be altered now, try again later"
# scancel's ways of signalling -> an order's scope: plain = steps only, -b = the batch shell, -f = everything.
_SCOPES = {"default": "steps", "batch": "batch", "full": "all"}


async def cancel(
    world: World, order: Callable[[Job], None], connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """The operation: one result for each target, with Slurm's text where it could not be done."""
    number = message.get("signal")
    scope = str(message.get("scope") or "default")
    results: list[dict[str, Any]] = []
    ordered: list[Job] = []
    with world.book.change() as change:
        for target in targets_of(message):
            error = None
            found = records(world.book, target)
            if target.het == 0 and found:
                found = world.book.components(found[0])  # nothing is left of a job without its first component
            current = as_they_are(change, target, found)
            if not found:
                error = INVALID_JOB_ID
            elif not all(world.may(connection, job) for job in current):
                error = ACCESS_DENIED
            else:
                error = _one(change, target, current, number, scope, connection.uid, world.clock(), ordered)
            gone = not error and number is None and _no_such_step(world, target, current)
            results.append({"target": target.to_dict(), "error": error, **({"gone": True} if gone else {})})
        if message.get("trial"):
            raise Trial(results)
    crash.point("cancelled")
    for job in ordered:
        order(job)
    return {"results": results, "ordered": sorted({job.cluster for job in ordered})}


def _no_such_step(world: World, target: Target, found: list[Job]) -> bool:
    """Whether the running jobs have no such step. The order is sent to their leaders all the same: they know of steps that have just begun."""
    jobs = [job for job in found if job.state in states.ALLOCATED]
    if target.step is None or not jobs:
        return False
    leaders = [world.book.leader(job) if job.het_offset else job for job in jobs]
    running = world.book.store.steps([*jobs, *leaders], running=True)
    return all(step.step_id.partition("+")[0] != target.step for step in running)  # of several components: 7+0, 7+1


def _one(
    change: Change,
    target: Target,
    found: list[Job],
    number: int | None,
    scope: str,
    uid: int,
    now: float,
    ordered: list[Job],
) -> str | None:
    alive = [job for job in found if job.state in states.ACTIVE]
    if not alive:
        return ALREADY_DONE
    first = alive[0]
    if het.follows(first) and first.state == states.PENDING:
        return het.NOT_ALONE
    error = None
    for job in alive:
        if job.state == states.PENDING:
            error = _pending(change, target, job, number, uid, now)
        elif het.follows(job) and job is not first:
            change.put(het.like_leader(job, change.get(first.key) or first, now), now)  # its leader was told
        elif target.step is not None:
            wish = _step_order(target.step, number, uid)
            change.order(job, wish)
            ordered.append(job)
        elif job.state == states.COMPLETING and number is None:
            error = ALREADY_DONE if len(alive) == 1 else None
        else:
            ordered.append(_running(change, job, number, scope, uid, now))
    return error


def _pending(change: Change, target: Target, job: Job, number: int | None, uid: int, now: float) -> str | None:
    if target.step is not None:
        return None  # it has none yet
    if number not in (None, signals.SIGKILL):
        return _NO_UPDATE
    if target.task is not None and is_rest_with(job, target.task):
        change.put(tasks.cancelled_tasks(job, [target.task], uid, now), now)
    else:
        change.put(running.cancelled(job, uid, now), now)
    return None


def _step_order(step: str, number: int | None, uid: int) -> Order:
    if number is None:
        return Order(number=0, kind="end", step=step, state=states.CANCELLED, uid=uid)
    return Order(number=0, kind="signal", signal=number, step=step, uid=uid)


def _running(change: Change, job: Job, number: int | None, scope: str, uid: int, now: float) -> Job:
    if number in (None, signals.SIGKILL):
        if scope != "batch" or job.request.kind != "batch":
            return end(change, job, states.CANCELLED, uid, now)
        number = signals.SIGKILL  # the shell dies of it, and its job with it
    change.order(job, Order(number=0, kind="signal", signal=number, scope=_SCOPES[scope], uid=uid))
    if number == signals.SIGSTOP and job.state == states.RUNNING:
        return change.put(job.replace(state=states.STOPPED), now)
    if number == signals.SIGCONT and job.state == states.STOPPED:
        return change.put(job.replace(state=states.RUNNING), now)
    return job


def end(change: Change, job: Job, state: str, uid: int, now: float, *, why: str = "") -> Job:
    """Orders the end of a job's run in ``state``; the job is COMPLETING from now on."""
    change.order(job, Order(number=0, kind="end", state=state, uid=uid, why=why))
    return change.put(running.ending(job), now)
