"""``wait``, ``reach`` and ``script``: what a client wants to know of one job."""

from __future__ import annotations

from typing import Any

from shim.control.backends.base import BackendError, ReturnsFiles, ShowsProgress
from shim.control.controller import spool
from shim.control.controller.book import Book
from shim.control.controller.connection import Connection
from shim.control.controller.operations import progressing
from shim.control.controller.operations.progressing import Teller
from shim.control.controller.operations.targets import Target, records
from shim.control.controller.world import World, run_of
from shim.control.lifecycle import het
from shim.core.errors import ACCESS_DENIED, ALREADY_DONE, INVALID_JOB_ID, ShimError
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.script import text_of


def _found(book: Book, message: dict[str, Any]) -> list[Job]:
    found = records(book, Target(job_id=int(message["job_id"]), task=message.get("task")))
    if not found:
        raise ShimError(f"error: {INVALID_JOB_ID}")
    return found


async def wait(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """Answers when the job has ended; of an array, when all its tasks have: with the worst of their ends."""
    teller = Teller(connection, message)
    with connection.watched() as gone:
        while True:
            found = _found(world.book, message)
            if all(job.state in states.TERMINAL for job in found):
                worst = max(found, key=_badness)
                return {"state": worst.state, "exit_status": worst.exit_status, "restarts": worst.restarts}
            left = [job for job in found if job.state not in states.TERMINAL]
            limit = progressing.pause(world, left[0]) if teller.wanted and len(found) == 1 else None
            await teller.tell(progressing.of_jobs(world, found))
            # It may have changed while the client was told.
            if _found(world.book, message) == found:
                await world.changed([job.key for job in left], gone, limit)


def _badness(job: Job) -> tuple[int, int]:
    """By exit code, a signal above none: what sbatch --wait makes its own code of."""
    signalled = job.exit_status & 0x7F
    return (1 if signalled else job.exit_status >> 8, signalled)


def _running(book: Book, message: dict[str, Any]) -> Job:
    """The job whose run is asked for: of an array the task that was split off last, of a heterogeneous job its leader."""
    found = _found(book, message)
    if found[0].het_job_id:
        if het.follows(found[0]):
            raise ShimError(f"error: {het.NOT_LEADER}")
        return found[0]
    return found[-1]


async def reach(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """Where the leader of a running job is. Waits for a job that is being configured."""
    job = _running(world.book, message)
    with connection.watched() as gone:
        while job.state == states.CONFIGURING:
            await world.changed([job.key], gone)
            job = _running(world.book, message)
    if not world.may(connection, job):
        raise ShimError(f"error: {ACCESS_DENIED}")
    if job.state == states.PENDING:
        raise ShimError("error: Job is pending execution")
    if job.state not in states.ALLOCATED or job.state == states.COMPLETING:
        raise ShimError(f"error: {ALREADY_DONE}")
    run_dir = world.backends[job.cluster].reach(run_of(job))
    return {"job": job.to_dict(), "run_dir": run_dir, "cluster": job.cluster}


async def fetch(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """Has what a running job has changed in its copy of the working directory come back now. A job that has ended has nothing left to fetch."""
    job = _running(world.book, message)
    if not world.may(connection, job):
        raise ShimError(f"error: {ACCESS_DENIED}")
    if job.state == states.PENDING:
        raise ShimError("error: Job is pending execution")
    backend = world.backends[job.cluster]
    if job.state not in states.ALLOCATED or not isinstance(backend, ReturnsFiles):
        return {"files": 0, "bytes": 0, "text": job.system_comment, "ended": job.state in states.TERMINAL}
    try:
        files, size, text = await Teller(connection, message).meanwhile(
            backend.fetch(run_of(job)),
            lambda: backend.progress(run_of(job)) if isinstance(backend, ShowsProgress) else None,
        )
    except BackendError as error:
        raise ShimError(f"error: {error}") from error
    return {"files": files, "bytes": size, "text": text, "ended": False}


async def script(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The batch script as it was submitted."""
    job = _found(world.book, message)[0]
    text = spool.script(world.book.spool_key(job))
    if text is None:
        raise ShimError(f"error: {INVALID_JOB_ID}")
    return {"script": text_of(text)}
