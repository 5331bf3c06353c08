"""``crontab``, ``set_crontab``: the user's table of recurring jobs. Which job each entry is stands beside the table, in the index, and changes with it in one
transaction: what recurs and is in no table (a controller died between) recurs no more.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

from shim.control.controller import crash
from shim.control.controller.book import Change
from shim.control.controller.connection import Connection
from shim.control.controller.operations import admitting
from shim.control.controller.operations.choosing import cluster_for
from shim.control.controller.operations.submitting import submitter
from shim.control.controller.world import World
from shim.control.index.reader import CRONTAB
from shim.control.lifecycle import running
from shim.core import jsonlite
from shim.core.errors import ACCESS_DENIED, ShimError
from shim.core.model import states
from shim.core.model.job import Job


async def crontab(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation: the table as it is, or without a table from now on."""
    if message.get("do") == "remove":
        _refuse_far(world, [job.cluster for job in _own(world)])
        with world.book.change() as change:
            _replace(world, change, "", [])
    return {"text": world.book.store.crontab()}


async def set_crontab(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation. A table is taken with all of its jobs, or not at all; those of the table before recur no more."""
    if connection.uid != world.uid:
        raise ShimError(f"error: {ACCESS_DENIED}: this controller runs the jobs of uid {world.uid} alone")
    _refuse_far(world, [job.cluster for job in _own(world)])
    jobs: list[Job] = []
    entries: list[list[Any]] = []
    for entry in message.get("entries") or ():
        if any(entry.get(name) is None for name in ("request", "first", "last")):
            raise ShimError("error: malformed message for crontab: an entry has request, first and last")
        # Never the token of a try before: its job may have been given up with the controller that made it.
        asked = {**entry, "token": secrets.token_hex(16)}
        try:
            cluster = cluster_for(world, asked, partial(submitter, connection, asked))
            _refuse_far(world, [cluster.name])
            job, _notes = await admitting.admitted(world, connection, asked, cluster)
        except ShimError as error:
            with world.book.change() as change:
                _end(world, change, jobs, connection.uid)
            return {
                "text": None,
                "refused": {"first": entry["first"], "last": entry["last"], "lines": list(error.lines)},
            }
        jobs.append(job)
        entries.append([job.cluster, job.job_id, int(entry["first"]), int(entry["last"])])
    crash.point("crontab")
    with world.book.change() as change:
        _replace(world, change, str(message.get("text") or ""), entries)
    return {"text": world.book.store.crontab()}


def drop_strays(world: World) -> None:
    """After a start: what recurs and is in no table recurs no more."""
    listed = _listed(world)
    strays = [job for job in _own(world) if (job.cluster, job.job_id) not in listed and not world.looks_on(job.cluster)]
    if strays:
        with world.book.change() as change:
            _end(world, change, strays, world.uid)


def _replace(world: World, change: Change, text: str, entries: list[list[Any]]) -> None:
    kept = {(cluster, job_id) for cluster, job_id, _, _ in entries}
    _end(world, change, [job for job in _own(world) if (job.cluster, job.job_id) not in kept], world.uid)
    table = jsonlite.dumps({"text": text, "entries": entries}) if text else ""
    world.book.store.set_meta(CRONTAB, table)


def _listed(world: World) -> set[tuple[str, int]]:
    text = world.book.store.meta(CRONTAB)
    return {(cluster, job_id) for cluster, job_id, _, _ in jsonlite.loads(text)["entries"]} if text else set()


def _own(world: World) -> list[Job]:
    """The active jobs that recur by this index's table."""
    return [job for job in world.book.active() if job.request.cron and not job.origin]


def _refuse_far(world: World, clusters: list[str]) -> None:
    """ShimError where another machine orders the jobs of one of these clusters: nothing of theirs is changed from here."""
    far = sorted({name for name in clusters if world.looks_on(name)})
    if far:
        raise ShimError(
            f"error: another machine orders the jobs of {','.join(far)} at present: its recurring jobs can be changed there, or later"
        )


def _end(world: World, change: Change, jobs: list[Job], uid: int) -> None:
    """They recur no more: one that waits is cancelled, one that runs goes on to its end."""
    now = world.clock()
    for job in jobs:
        if job.state == states.PENDING:
            change.put(running.cancelled(job, uid, now), now)
        elif job.state in states.ACTIVE:
            change.put(job.replace(request=job.request.replace(cron="")), now)
