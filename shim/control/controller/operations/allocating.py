"""``allocate``, ``attach`` and ``release``: jobs of salloc and srun, whose life is their client's connection."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

from shim.control.backends.base import Order
from shim.control.channel import ChannelClosed
from shim.control.controller import spool
from shim.control.controller.connection import Connection
from shim.control.controller.dispatching import Dispatcher
from shim.control.controller.operations import progressing
from shim.control.controller.operations.admitting import admitted
from shim.control.controller.operations.choosing import cluster_for
from shim.control.controller.operations.progressing import Teller
from shim.control.controller.operations.submitting import submitter
from shim.control.controller.operations.wishing import ask_to_end
from shim.control.controller.world import World, log, run_of
from shim.control.index.errors import IndexFault
from shim.control.lifecycle import het, running
from shim.core import jsonlite
from shim.core.environ.het import het_allocation_environment
from shim.core.environ.job import allocation_environment
from shim.core.errors import (
    ACCESS_DENIED,
    DEPENDENCY_PROBLEM,
    INVALID_JOB_ID,
    NODES_BUSY,
    PARTITION_CONFIG_UNAVAILABLE,
    RequestError,
    ShimError,
    submission_failed,
)
from shim.core.model import states
from shim.core.model.job import Job

RETRY = 1.0  # seconds until an end that could not be written is tried again
_ATTACHED = "attached"  # the key in the index of the clients that were attached when the controller restarted
GRACE = 30.0  # seconds a client has to attach to a restarted controller


class Allocations:
    """Who is attached to which job."""

    def __init__(self, world: World, dispatcher: Dispatcher) -> None:
        self._world = world
        self._dispatcher = dispatcher
        self._attached: Counter[int] = Counter()
        self._released: set[int] = set()
        self._clients: dict[int, list[str]] = {}  # the processes that are attached to a job
        self._connections: dict[int, list[Connection]] = {}  # theirs
        self._before: dict[str, list[str]] = {}  # those attached when the controller restarted

    async def allocate(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """Submits, tells what happens to the job, answers at its end."""
        cluster = cluster_for(self._world, message, partial(submitter, connection, message))
        job, notes = await admitted(self._world, connection, message, cluster)
        return await self._follow(job, connection, Teller(connection, message), notes)

    async def attach(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The same for a job that was submitted before, from its present state on."""
        job = self._world.book.find(int(message["job_id"]))
        if job is None:
            raise ShimError(f"error: {INVALID_JOB_ID}")
        if job.uid != connection.uid:
            raise ShimError(f"error: {ACCESS_DENIED}")
        return await self._follow(job, connection, Teller(connection, message))

    async def release(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The client's command has ended with ``status``: so has the job."""
        job = self._world.book.find(int(message["job_id"]))
        if job is None:
            raise ShimError(f"error: {INVALID_JOB_ID}")
        if not self._world.may(connection, job):
            raise ShimError(f"error: {ACCESS_DENIED}")
        if job.state not in states.TERMINAL:
            self._released.add(job.key)
            self._end(job, Order(number=0, kind="release", status=int(message.get("status") or 0)))
        return {}

    def tell(self, job: Job, event: dict[str, Any]) -> bool:
        """Tells the clients of the job; False where there are none."""
        clients = self._connections.get(self._world.book.leader(job).key, [])
        for connection in clients:
            connection.tell(event)
        return bool(clients)

    async def _follow(
        self, job: Job, connection: Connection, teller: Teller, notes: list[str] | None = None
    ) -> dict[str, Any]:
        """Tells a client everything until the job's end. The job ends with it, but not with the controller. ``notes``: of a new
        job, what its client is to be told.
        """
        if job.state in states.TERMINAL and job.key not in self._world.book.jobs:
            return _end_of(job)  # it ended long ago
        key, keep = job.key, self._submission(job).keep
        self._attached[key] += 1
        self._clients.setdefault(key, []).append(_process(connection.pid))
        self._connections.setdefault(key, []).append(connection)
        try:
            if notes is not None:
                await connection.send({"event": "submitted", "job_id": job.job_id, "notes": notes})
                if (
                    job.het_job_id
                ):  # it is queued always: Slurm starts several components in its next round, not when they come
                    await connection.send({"event": "queued", "job_id": job.job_id, "reason": ""})
                self._dispatcher.run()
            with connection.watched() as gone:
                reply = await self._tell_all(
                    key, connection, gone, teller, {"queued"} if job.het_job_id and notes is not None else set()
                )
        except asyncio.CancelledError:
            self._detach(key, connection)  # the controller ends: the client will attach to the next one
            raise
        except ChannelClosed:
            reply = {}
        except ShimError:
            self._detach(key, connection)
            self._left(key, keep)
            raise
        self._detach(key, connection)
        self._left(key, keep)
        return reply

    def _detach(self, key: int, connection: Connection) -> None:
        self._connections[key].remove(connection)
        self._attached[key] -= 1
        if not self._attached[key]:
            del self._attached[key]
            self._clients.pop(key, None)
            self._connections.pop(key, None)
            self._released.discard(key)

    async def _tell_all(
        self, key: int, connection: Connection, gone: asyncio.Future[None], teller: Teller, told: set[str]
    ) -> dict[str, Any]:
        """``told``: the events that the client knows of."""
        patience = self._patience(self._world.book.jobs[key])
        while True:
            job = self._world.book.jobs[key]
            if patience is not None and job.state == states.PENDING and self._world.clock() >= patience:
                raise self._impatient(job)
            event = self._event(job)
            if event is not None and event["event"] not in told:
                told.add(event["event"])
                await connection.send(event)
                continue  # it may have changed meanwhile
            if job.state in states.TERMINAL:
                return _end_of(job)
            pauses = [] if patience is None or job.state != states.PENDING else [patience - self._world.clock()]
            if teller.wanted and job.state in (states.PENDING, states.CONFIGURING):
                await teller.tell(progressing.of_job(self._world, job))
                if self._world.book.jobs[key] is not job:
                    continue  # it has changed meanwhile
                again = progressing.pause(self._world, job)
                pauses += [again] if again is not None else []
            await self._world.changed([key], gone, min(pauses, default=None))

    def _event(self, job: Job) -> dict[str, Any] | None:
        """What the client must know about the job as it is."""
        if job.state == states.PENDING:
            return {"event": "queued", "job_id": job.job_id, "reason": job.reason}
        if job.state == states.RUNNING:
            run_dir = self._world.backends[job.cluster].reach(run_of(job))
            return {
                "event": "granted",
                "job": job.to_dict(),
                "environment": self._environment(job),
                "run_dir": run_dir,
                "reach": {"run_dir": run_dir},
            }
        if job.state == states.CONFIGURING or job.key in self._released:
            return None
        if job.state == states.COMPLETING:
            state = states.TIMEOUT if job.reason == "TimeLimit" else states.CANCELLED
            return {"event": "revoked", "state": state, "reason": job.reason}
        if job.state in states.TERMINAL:
            return {"event": "revoked", "state": job.state, "reason": job.reason}
        return None

    def _environment(self, job: Job) -> dict[str, str]:
        cluster = self._world.cluster_of(job)
        if not job.het_job_id:
            return allocation_environment(job, cluster)
        return het_allocation_environment(self._world.book.components(job), cluster)

    def _patience(self, job: Job) -> float | None:
        """``--immediate``: until when the job must have started."""
        if job.request.immediate is None:
            return None
        # The job's own time is of whole seconds. A client that attaches to another controller does not begin anew.
        return min(self._world.clock(), job.submit_time + 1) + job.request.immediate

    def _impatient(self, job: Job) -> RequestError:
        self._end(job, Order(number=0, kind="release"))
        self._released.add(job.key)
        # For salloc too these begin as srun's do.
        if job.request.immediate:
            return submission_failed("run", "Connection timed out" if job.request.kind == "alloc" else NODES_BUSY)
        if job.reason.startswith("JobHeld") or job.reason in ("BeginTime", "Dependency", "DependencyNeverSatisfied"):
            return submission_failed(job.request.kind, DEPENDENCY_PROBLEM)
        if job.reason.startswith("Partition"):
            return submission_failed(job.request.kind, PARTITION_CONFIG_UNAVAILABLE)
        if job.reason == "Priority":
            return submission_failed("run", "Immediate execution impossible, insufficient priority")
        return submission_failed("run", NODES_BUSY)

    def _left(self, key: int, keep: bool) -> None:
        """A client is gone: the job ends with its last one, unless it was asked to stay."""
        job = self._world.book.jobs.get(key)
        if job is None or self._attached[key] or job.state not in states.ACTIVE:
            return
        if job.state == states.PENDING or not keep:
            try:
                self._end(job, None)
            except IndexFault as fault:
                log.error("%s", fault)
                asyncio.get_running_loop().call_later(RETRY, self._left, key, keep)

    def _end(self, job: Job, order: Order | None) -> None:
        """Ends the job: by ``order`` if it runs, as cancelled by its user if there is none."""
        if self._world.looks_on(job.cluster):
            self._world.task(ask_to_end(self._world, job, order))
            return
        now = self._world.clock()
        with self._world.book.change() as change:
            components = self._world.book.components(job)
            if job.state == states.PENDING:
                for one in components:
                    change.put(running.cancelled(one, job.uid, now), now)
                return
            if job.state not in states.ALLOCATED or job.state == states.COMPLETING:
                return
            if order is None:
                order = Order(number=0, kind="end", state=states.CANCELLED, uid=job.uid)
            change.order(job, order)
            for one in components:
                if one.state in states.ALLOCATED:
                    change.put(running.ending(one), now)
        self._dispatcher.launcher.order(job)

    def expect(self) -> None:
        """After a start: jobs whose clients do not attach in time are ended."""
        waiting = [
            job
            for job in self._world.book.active()
            if job.request.kind != "batch"
            and not het.follows(job)
            and not job.origin  # its command is on another machine
            and not self._submission(job).keep
            and job.state != states.COMPLETING
        ]
        self._before = jsonlite.loads(self._world.book.store.meta(_ATTACHED) or "{}")
        if self._before:
            self._world.book.store.set_meta(_ATTACHED, "{}")
        if waiting:
            asyncio.get_running_loop().call_later(GRACE, self._give_up, [job.key for job in waiting])

    def hand_on(self) -> None:
        """Leaves word for the controller that this one becomes of who is attached: a client that is stopped cannot come in time."""
        self._world.book.store.set_meta(
            _ATTACHED, jsonlite.dumps({str(key): who for key, who in self._clients.items()})
        )

    def _give_up(self, keys: list[int]) -> None:
        there = [key for key in keys if any(map(_is_there, self._before.get(str(key), ())))]
        for key in keys:
            if key not in there:
                self._left(key, False)
        if there:
            asyncio.get_running_loop().call_later(GRACE, self._give_up, there)

    def _submission(self, job: Job) -> spool.Submission:
        try:
            return spool.read(self._world.book.spool_key(job))
        except (OSError, ValueError):
            return spool.Submission()


def _process(pid: int) -> str:
    """Names a process for as long as it lives: its pid, and when it began; "" for one that cannot be seen."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return f"{pid} {file.read().rpartition(b') ')[2].split()[19].decode()}"
    except OSError:
        return ""


def _is_there(process: str) -> bool:
    return bool(process) and _process(int(process.partition(" ")[0])) == process


def _end_of(job: Job) -> dict[str, Any]:
    return {"state": job.state, "exit_status": job.exit_status}
