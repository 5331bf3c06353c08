"""What the controller has done since it started or was told to count anew: the figures of sdiag."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from shim.control.controller.connection import Connection
from shim.control.controller.world import World
from shim.control.lifecycle.tasks import pending_tasks
from shim.core.errors import ACCESS_DENIED, ShimError, plain
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.render.statistics import LOOKS

T = TypeVar("T")

_WAITS = ("Resources", "Priority")  # reasons of jobs that a lower one may overtake
_OUR_FAULT = (states.NODE_FAIL, states.BOOT_FAIL)


class Busy:
    """An operation, awaited: ``seconds`` is how long it worked, without the time for which it waited."""

    def __init__(self, operation: Coroutine[Any, Any, T], clock: Callable[[], float] = time.perf_counter) -> None:
        self._operation = operation
        self._clock = clock
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, None, Any]:
        steps = self._operation.__await__()
        thrown: BaseException | None = None
        while True:
            began = self._clock()
            try:
                waits = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return end.value
            finally:
                self.seconds += self._clock() - began
            thrown = None
            try:
                yield waits
            except BaseException as error:
                thrown = error


class Counts:
    """The figures; all begin at 0."""

    def __init__(self, world: World, serving: Callable[[], int]) -> None:
        self._world = world
        self._serving = serving
        self._begin()
        world.book.followers.append(self._changed)

    def _begin(self) -> None:
        self.since = self._world.clock()
        self.jobs = dict.fromkeys(("submitted", "started", "completed", "canceled", "failed"), 0)
        self.cycles = {"last": 0, "most": 0, "count": 0, "total": 0, "depth": 0, "queue": 0}
        self.backfilled = 0
        self.components = 0  # of heterogeneous jobs that were
        self._operations: dict[str, list[int]] = {}
        self._users: dict[str, list[int]] = {}

    def _changed(self, old: Job | None, job: Job) -> None:
        if old is None and job.array_task_id is None:
            # Here it begins to wait; else it is taken in from another machine, which has counted what it did.
            if job.submit_time >= int(self.since):
                self.jobs["submitted"] += pending_count(job)
            return
        before = states.PENDING if old is None else old.state
        if job.state in states.ALLOCATED and before == states.PENDING:
            self.jobs["started"] += 1
        elif job.state in states.TERMINAL and before not in states.TERMINAL:
            self.jobs[_ended(job)] += pending_count(job)

    def passed(self, seconds: float, queue: int) -> None:
        """The scheduler has looked at ``queue`` jobs."""
        spent = int(seconds * 1e6)
        found = self.cycles
        self.cycles = {
            "last": spent,
            "most": max(spent, found["most"]),
            "count": found["count"] + 1,
            "total": found["total"] + spent,
            "depth": found["depth"] + queue,
            "queue": queue,
        }

    def overtook(self, pending: list[Job], reasons: dict[int, str], started: list[Job]) -> None:
        """Counts the jobs of one plan that were started past one that waits with a higher priority."""
        ahead = max((job.priority for job in pending if reasons.get(job.key) in _WAITS), default=0)
        found = [job for job in started if job.priority < ahead]
        self.backfilled += len(found)
        self.components += sum(bool(job.het_job_id) for job in found)

    def asked(self, op: str, uid: int, seconds: float) -> None:
        """An operation was asked for, and is done."""
        for table, name in ((self._operations, op), (self._users, str(uid))):
            entry = table.setdefault(name, [0, 0])
            entry[0] += 1
            entry[1] += int(seconds * 1e6)

    async def stats(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The operation ``stats``; with ``reset`` everything is counted anew."""
        if message.get("reset"):
            if not connection.admin:
                raise ShimError(plain(f"slurm_reset_statistics: {ACCESS_DENIED}"), code=255)
            self._begin()
            return {}
        jobs = self._world.book.active()
        return {
            "now": self._world.clock(),
            "since": self.since,
            "serving": self._serving(),
            "orders": len(self._world.book.orders),
            "jobs": self.jobs,
            "pending": sum(pending_count(job) for job in jobs if job.state == states.PENDING),
            "running": sum(job.state == states.RUNNING for job in jobs),
            "cycles": self.cycles,
            "backfilled": self.backfilled,
            "components": self.components,
            "latency": _latency(),
            "operations": self._operations,
            "users": self._users,
        }


def pending_count(job: Job) -> int:
    """How many jobs this record stands for: the waiting tasks of an array are one."""
    tasks = pending_tasks(job)
    return 1 if tasks is None else max(1, len(tasks))


def _ended(job: Job) -> str:
    """How slurmctld counts a job that has ended: one that failed by itself is completed."""
    if job.state == states.CANCELLED:
        return "canceled"
    return "failed" if job.state in _OUR_FAULT else "completed"


def _latency() -> int:
    """Microseconds that LOOKS looks at the clock take."""
    began = time.perf_counter()
    for _ in range(LOOKS):
        time.time()
    return int((time.perf_counter() - began) * 1e6)
