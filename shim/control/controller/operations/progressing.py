"""What a client on a terminal is told while it waits: what for, and how far that has come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from shim.control.backends.base import Progress, ShowsProgress
from shim.control.channel import ChannelClosed
from shim.control.controller.connection import Connection
from shim.control.controller.world import World, run_of
from shim.core.explanation import NEVER
from shim.core.formats.array_spec import ArraySpec
from shim.core.formats.times import stamp
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.render import job_facts as facts

T = TypeVar("T")
OFTEN = 0.5  # seconds between two looks, while somebody waits for what tells nobody by itself


class Teller:
    """Of one client. It is told only if its message asks for that, and only what is new."""

    def __init__(self, connection: Connection, message: dict[str, Any]) -> None:
        self.wanted = bool(message.get("progress"))
        self._connection = connection
        self._told: dict[str, Any] = {}

    async def tell(self, progress: Progress | None) -> None:
        """Tells how far it is. ChannelClosed: the client is gone."""
        if self.wanted and progress is not None and progress.what:
            event = {"event": "progress", **progress.fields}
            if event != self._told:
                self._told = event
                await self._connection.send(event)

    async def meanwhile(self, work: Awaitable[T], look: Callable[[], Progress | None]) -> T:
        """What ``work`` comes to; meanwhile the client is told what ``look`` says. A client that goes holds up nothing."""
        if not self.wanted:
            return await work
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=OFTEN)
                if not task.done():
                    with suppress(ChannelClosed):
                        await self.tell(look())
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))


def pause(world: World, job: Job) -> float | None:
    """Seconds until it may have come further without anybody telling; None: that is told."""
    under_way = job.state == states.CONFIGURING and isinstance(world.backends.get(job.cluster), ShowsProgress)
    return OFTEN if under_way else None


def of_job(world: World, job: Job) -> Progress:
    """What a client waits for who wants the job to start, or to end."""
    label = f"job {job.array_label}"
    if job.state == states.PENDING:
        return Progress(f"{label} waits ({_why(job, world.clock())})")
    if job.state == states.CONFIGURING:
        backend = world.backends.get(job.cluster)
        found = backend.progress(run_of(job)) if isinstance(backend, ShowsProgress) else None
        said = f" ({_why(job, 0.0)})" if job.reason != "None" else ""
        if found is None:
            return Progress(f"{label}: its nodes are made ready{said}")
        return Progress(f"{label}: {found.what}{said}", found.unit, found.all, found.done)
    if job.state == states.RUNNING:
        return Progress(f"{label} runs on {facts.nodelist(job)}")
    return Progress(f"{label} is {job.state.lower()}")


def of_jobs(world: World, jobs: Sequence[Job]) -> Progress:
    """The same of one job, or of an array or a job of several components: how many of them have ended."""
    if len(jobs) == 1 and jobs[0].array_tasks is None:
        return of_job(world, jobs[0])
    ended = sum(job.state in states.TERMINAL for job in jobs)
    all_ = sum(_tasks(job) for job in jobs)
    running = sum(job.state in states.ALLOCATED for job in jobs)
    first = jobs[0].array_job_id or jobs[0].het_job_id or jobs[0].job_id
    unit = "tasks ended" if jobs[0].array_job_id else "components ended"
    return Progress(f"job {first}: {running} run, {all_ - running - ended} wait", unit, all_, ended)


def _tasks(job: Job) -> int:
    """How many tasks the record is of: an array's rest is of several."""
    if job.array_tasks is None:
        return 1
    try:
        return len(ArraySpec.parse(job.array_tasks, 1 << 31))
    except ValueError:
        return 1


def _why(job: Job, now: float) -> str:
    """The reason, in the cluster's words too, and when it is expected to start."""
    said = [job.reason if job.reason != "None" else "it is looked at"]
    if job.system_comment:
        said.append(job.system_comment)
    if now and now < job.start_time < now + NEVER:
        said.append(f"expected to start {stamp(job.start_time)}")
    return ", ".join(said)
