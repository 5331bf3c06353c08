"""``update_step``: another time limit of a step that runs, or of all of a job's. ``notify``: a line for the job's error output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.control.backends.base import Order
from shim.control.controller.connection import Connection
from shim.control.controller.operations.targets import Target, Trial, records
from shim.control.controller.world import World
from shim.core.errors import ACCESS_DENIED, ALREADY_DONE, DISABLED, INVALID_JOB_ID, INVALID_USER_ID, ShimError, plain
from shim.core.model import states
from shim.core.model.job import Job


async def update_step(
    world: World, order: Callable[[Job], None], connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """The operation. ``target`` with or without a step; ``minutes`` below 0: no limit. Like Slurm, skips a job without steps."""
    target = Target.from_dict(message["target"])
    minutes = int(message["minutes"])
    found = records(world.book, target)
    if not found:
        raise _refused(INVALID_JOB_ID)
    if not all(world.may(connection, job) for job in found):
        raise _refused(INVALID_USER_ID)
    jobs = [job for job in found if job.state in states.ALLOCATED]
    steps = [
        (job, step)
        for job in jobs
        for step in world.book.store.steps([job], running=True)
        if target.step in (None, step.step_id)
    ]
    if not steps and target.step is not None:
        raise _refused(INVALID_JOB_ID)
    if message.get("trial"):
        raise Trial([])
    with world.book.change() as change:
        for job, step in steps:
            change.step(job, step.replace(time_limit=minutes))
            if step.step_id.isdigit():
                seconds = 60 * minutes if minutes >= 0 else None
                change.order(job, Order(number=0, kind="limit", step=step.step_id, seconds=seconds))
    for job in jobs:
        order(job)
    return {}


async def notify(
    world: World,
    order: Callable[[Job], None],
    tell: Callable[[Job, dict[str, Any]], bool],
    connection: Connection,
    message: dict[str, Any],
) -> dict[str, Any]:
    """The operation: ``text`` for a job's script, or by ``tell`` for the salloc or srun whose job it is. Like Slurm, whatever step is named."""
    target = Target.from_dict(message["target"])
    found = records(world.book, target)
    problem = INVALID_JOB_ID if not found else ""
    if not all(world.may(connection, job) for job in found):
        problem = ACCESS_DENIED
    running = [job for job in found if job.state in (states.RUNNING, states.SUSPENDED, states.STOPPED)]
    if found and not running:
        problem = problem or (DISABLED if any(job.state == states.PENDING for job in found) else ALREADY_DONE)
    if problem:
        raise _not_told(problem)
    if message.get("trial"):
        raise Trial([])
    text = str(message["text"])
    scripts = [job for job in running if job.request.kind == "batch"]
    told = [tell(job, {"event": "notice", "text": text}) for job in running if job.request.kind != "batch"]
    if not scripts and not any(told):
        raise _not_told(DISABLED)  # nobody is there (--no-shell)
    with world.book.change() as change:
        for job in scripts:
            change.order(job, Order(number=0, kind="notify", why=text))
    for job in scripts:
        order(job)
    return {}


def _not_told(problem: str) -> ShimError:
    return ShimError(plain(f"job notify failure: {problem}"))


def _refused(text: str) -> ShimError:
    return ShimError(plain(f"slurm_update error: {text}"))
