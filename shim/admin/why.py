"""`shim why JOB`: what keeps a job waiting, or how it ended."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from typing import TextIO

from shim.commands import site_view
from shim.commands.job_ids import narrowed, parse_job_id
from shim.control import site
from shim.control.groups import user_name
from shim.control.index.query import JobQuery
from shim.control.index.reader import Reader
from shim.core import explanation
from shim.core.errors import ShimError
from shim.core.formats.times import show_elapsed
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.render import job_facts as facts
from shim.core.script import printable

_TAIL = 64 * 1024  # bytes of an output file that are looked at for its last lines


def report(text: str, out: TextIO, lines: int = 10) -> None:
    """Writes a few lines about each record that the id means. Raises ShimError if the index has no such job."""
    wanted = parse_job_id(text)
    if wanted is None:
        raise ShimError(f'error: "{text}" is no job id: 12, 12_3 or 12+1 is wanted')
    reader = site_view.open_index("shim")
    jobs = reader.jobs(JobQuery(job_ids=(wanted.job_id,), active=False)) if reader is not None else []
    found = [one for one in (narrowed(job, [wanted]) for job in jobs) if one is not None]
    found = [one for one in found if wanted.het is None or one.het_offset == wanted.het]
    if reader is None or not found:
        raise ShimError(f"error: no job {text} in the index; one of a real Slurm is told by scontrol show job {text}")
    for job in sorted(found, key=_order):
        for line in _about(job, reader, lines):
            out.write(printable(line) + "\n")


def _order(job: Job) -> tuple[bool, int, int]:
    """The tasks of an array as they are numbered, those that wait together behind them; the components of a job likewise."""
    return job.array_tasks is not None, job.array_task_id or 0, job.het_offset


def _about(job: Job, reader: Reader, lines: int) -> Iterator[str]:
    yield f"Job {job.array_label} ({job.name}) of {job.user or job.uid} on {job.cluster}: {_state(job)}"
    for line in reasons(job, reader):
        yield f"  {line}"
    if job.state == states.PENDING or not lines or job.state == states.COMPLETED:
        return
    path = job.stderr or job.stdout
    last = last_lines(path, lines) if path else None
    if last:
        yield f"Last lines of {path}:"
        for line in last:
            yield f"  {line}"
    elif path and path != os.devnull and job.state != states.CANCELLED:
        yield f"{path} {'is empty' if last is not None else 'is not there'}."


def _state(job: Job) -> str:
    if job.state == states.PENDING:
        return f"{job.state} ({job.reason})"
    told = [job.state]
    code, number = job.exit_status >> 8, job.exit_status & 0x7F
    if job.state in states.TERMINAL:
        told.append(f"exit code {code}:{number}")
    if job.start_time:
        told.append(f"ran {show_elapsed(facts.time_used(job, time.time()))}")
    if facts.nodelist(job):
        told.append(f"on {facts.nodelist(job)}")
    return ", ".join(told)


def reasons(job: Job, reader: Reader) -> list[str]:
    """Why the job waits, what is to know of it while it runs, or how it ended."""
    if job.state == states.PENDING:
        running = reader.jobs(JobQuery(cluster=job.cluster, states=tuple(states.ALLOCATED)))
        return explanation.waiting(job, _cluster(job), running, lambda number: _known(reader, job, number), time.time())
    if job.state not in states.TERMINAL:
        return explanation.active(job, time.time())
    return explanation.ended(job, reader.steps([job]), user_name, _cluster(job))


def _cluster(job: Job) -> Cluster:
    known = site.backends()
    return site_view.site_cluster(job.cluster) if job.cluster in known else Cluster(name=job.cluster)


def _known(reader: Reader, job: Job, number: int) -> list[Job]:
    return reader.jobs(JobQuery(cluster=job.cluster, job_ids=(number,), active=False))


def last_lines(path: str, count: int) -> list[str] | None:
    """The last lines of a plain file; None where there is none to read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        opened.seek(max(0, found.st_size - _TAIL))
        lines = opened.read(_TAIL).decode("utf-8", "replace").removesuffix("\n").split("\n") if found.st_size else []
    # Of a line that a progress bar has written again and again, what it was in the end.
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-count:]]
