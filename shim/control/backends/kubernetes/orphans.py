"""What the cluster knows of the jobs of a machine that is gone, as records for this home's index and tickets to follow them by."""

from __future__ import annotations

import calendar
import json
import os
import time
from collections.abc import Callable
from typing import Any

from shim.control import paths
from shim.control.backends.base import BackendError, Orphan, Run
from shim.control.backends.kubernetes import names, volumes
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.estates import Estates
from shim.control.backends.kubernetes.manifests import KEPT_KEY, KEPT_RECORD
from shim.control.backends.kubernetes.observed import look, queued
from shim.control.backends.kubernetes.output import begin
from shim.control.backends.kubernetes.settings import settings_of
from shim.control.backends.kubernetes.site import Site
from shim.control.backends.kubernetes.tickets import Ticket, TicketFolder
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.spec import SCRIPT

Object = dict[str, Any]
Files = dict[str, bytes]

# What the index of a machine that has come back is told of a job that another one carries on with.
TOLD: tuple[dict[str, Any], ...] = (
    {"kind": "waits", "reason": "None", "detail": "carried on by another machine (shim adopt)"},
    {"kind": "ended", "state": states.CANCELLED, "status": 0, "reason": "None"},
)
_TOO_EARLY = "its machine was lost before it could start"


def record_of(job: Job, outputs: tuple[tuple[str, str, int], ...]) -> str:
    """What is kept of a job for another machine; ``outputs``: the files that the submitting machine fetches."""
    return json.dumps({"job": job.to_dict(), "outputs": [[stream, path] for stream, path, _base in outputs]})


class Orphans:
    """``cluster`` as it is configured."""

    def __init__(self, site: Site, estates: Estates, cluster: Cluster) -> None:
        self._site = site
        self._estates = estates
        self._cluster = cluster

    async def found(self, seen_to: Callable[[Run], bool]) -> list[Orphan]:
        """See ``base.Adopts``. ``seen_to(run)``: whether it is followed here, or over and what is left of it being removed."""
        found = []
        try:
            for owner in await self._estates.held():
                for run in sorted(self._site.seen.runs_of(owner), key=lambda one: (one.job_id, one.restart)):
                    if not seen_to(run):
                        found.append(await self._orphan(run, owner, seen_to))
        except (ApiError, OSError) as error:
            raise BackendError(str(error), transient=True) from error
        return [one for one in found if one is not None]

    async def _orphan(self, run: Run, owner: str, seen_to: Callable[[Run], bool]) -> Orphan | None:
        job = self._site.seen.job(run)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None  # it is going, or its pods are
        objects = self._site.objects
        kept = await objects.secret(names.kept(run))
        submission = names.submission_of(job)
        ticket = await objects.secret(names.attempt(run, submission)) if kept is None else None
        if seen_to(run):
            return None  # by now: a ticket made for it again would stay, and with it the estate
        folder = TicketFolder(run)
        known = folder.load() is not None
        record, outputs, key = _told(kept, ticket)
        made = self._job(run, job, record)
        if kept is None and not queued(job) and self._site.seen.suspended(run):
            # It was never let go, and nobody can do that any more.
            made = made.replace(state=states.CANCELLED, end_time=self._site.now(), system_comment=_TOO_EARLY)
            ways = []
        else:
            ways = self._outputs(run, made, outputs)
        if not known:
            if kept is not None:
                await objects.tear(run, submission)  # its machine may have been killed between the two
            self._keep(folder, job, made, ways, key, begun=ticket is None, owner=owner)
        script = ticket.get(SCRIPT) if ticket is not None else None
        return Orphan(run=run, job=_with_files(made, ways), script=script, known=known)

    def _job(self, run: Run, found: Object, record: Object) -> Job:
        """The job's record for this index. It is never started here, so it is never queued again."""
        told = Job.from_dict({**_plain(record), "job_id": run.job_id})
        partition = told.partition if self._cluster.partition(told.partition) is not None else ""
        first = next(iter(self._cluster.partitions), None)
        return told.replace(
            key=0,
            cluster=self._site.cluster,
            restarts=run.restart,
            request=told.request.replace(requeue=False),
            state=states.CONFIGURING,
            reason="None",
            held="",
            dependency="",
            partition=partition or (first.name if first is not None else ""),
            submit_time=told.submit_time or _seconds(str(found["metadata"].get("creationTimestamp") or "")),
            nodes=int((found.get("spec") or {}).get("completions") or 1),
            journal=0,
        )

    def _outputs(self, run: Run, job: Job, told: list[list[str]] | None) -> list[tuple[str, str, str]]:
        """(stream, its file there, its file here). What another machine names is never written to: it may be anything here."""
        if told is None:
            settings = settings_of(self._cluster, job.partition)
            pairs = [["stdout", job.stdout], ["stderr", job.stderr]] if job.request.kind == "batch" else []
            told = [one for one in pairs if one[1] not in ("", "/dev/null") and not volumes.mounted(one[1], settings)]
            told = told[:1] if len({path for _stream, path in told}) == 1 else told
        folder = os.path.join(paths.state_dir(), "adopted", self._site.cluster)
        name = names.stem(run)
        endings = {"stdout": "out", "stderr": "err"}
        return [(way, path, os.path.join(folder, f"{name}.{endings[way]}")) for way, path in told if way in endings]

    def _keep(
        self,
        folder: TicketFolder,
        job: Object,
        made: Job,
        ways: list[tuple[str, str, str]],
        key: str,
        *,
        begun: bool,
        owner: str,
    ) -> None:
        mark = names.mark(folder.run, owner, made.request.work_dir)
        for _stream, _path, here in ways:
            paths.ensure(os.path.dirname(here))
            begin(here, False, 0o077)
        ticket = Ticket(
            submission=names.submission_of(job),
            partition=made.partition,
            nodes=made.nodes,
            made=True,
            torn=begun,
            adopted=owner,
            once=(mark,) if volumes.mounted(mark, settings_of(self._cluster, made.partition)) else (),
            outputs=tuple((stream, here, 0) for stream, _path, here in ways),
        )
        folder.take(ticket, key)

    def began_at(self, run: Run) -> float | None:
        """About when a run began of which only its pods can tell; None where the leader will."""
        ticket = TicketFolder(run).load()
        leader = next((view for view in map(look, self._site.seen.pods_of(run)) if view.index == 0), None)
        if ticket is None or not ticket.torn or leader is None or not leader.running:
            return None
        return _seconds(leader.started_at) or self._site.now()


def _told(kept: Files | None, ticket: Files | None) -> tuple[Object, list[list[str]] | None, str]:
    """The job's record, its outputs (None: not known) and its key, as far as a Secret tells them."""
    files = kept if kept is not None else ticket or {}
    text = files.get(KEPT_RECORD if kept is not None else "spec.json", b"{}")
    key = files.get(KEPT_KEY, b"").decode("ascii", "replace")
    try:
        record = json.loads(text)
        bytes.fromhex(key)
    except ValueError:
        return {}, None, ""
    record = record if isinstance(record, dict) else {}
    outputs = record.get("outputs")
    job = record.get("job")
    return job if isinstance(job, dict) else {}, outputs if isinstance(outputs, list) else None, key


def _plain(record: Object) -> Object:
    """What of a record is of the kind that it should be: it comes from the cluster, and is to be read by every listing."""
    kinds = {
        name: type(default) for name, _put, default, nested in Job._slots if nested is None and default is not None
    }
    return {
        name: value
        for name, value in record.items()
        if name not in kinds or isinstance(value, (int, float) if kinds[name] in (int, float) else kinds[name])
    }


def _with_files(job: Job, ways: list[tuple[str, str, str]]) -> Job:
    """The job with the names of the files that are filled here."""
    here = {path: mine for _stream, path, mine in ways}
    files = {name: here[getattr(job, name)] for name in ("stdout", "stderr") if getattr(job, name) in here}
    return job.replace(request=job.request.replace(**files), **files)  # listings show what was asked for


def _seconds(text: str) -> float:
    """``2026-11-22T05:00:00Z`` as seconds since the epoch; 0 for what is none."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0
