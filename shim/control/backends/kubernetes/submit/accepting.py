"""Jobs become objects of the cluster, are kept current there, and become jobs of an index again that does not know them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from shim.control import paths
from shim.control.backends.base import BackendError, Kept, Run
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.threads import beside
from shim.control.backends.kubernetes.cluster.cluster_session import Site, plain_name
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.gang_builder import groups_of
from shim.control.backends.kubernetes.records.payload import INLINE, SECRET_BYTES, Payload
from shim.control.backends.kubernetes.records.record import JobRecord, Way, current, fits, mirrored, shown, whole
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.run.output import begin
from shim.control.backends.kubernetes.run.register import MADE, WITHDRAWN
from shim.control.backends.kubernetes.settings import words_of
from shim.control.backends.kubernetes.submit import ids, staging
from shim.control.backends.kubernetes.submit.arrays import Arrays
from shim.control.backends.kubernetes.submit.wishing import Wishes
from shim.control.lifecycle.tasks import pending_tasks
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import OTHERS, OWN, Job
from shim.job import rawfile

TOGETHER = 1.0  # seconds in which changes of a job are written together
PAYLOAD_LATE = 600.0  # seconds after which a record that has no payload was never accepted
_TRIES = 3
NOBODY = 65534  # the uid of others' jobs whose own is this user's here
_SYNC = 30.0  # seconds in which it must be known what there is
# What a record shows of a job that no run is asked for anew.
_CURRENT = ("request", "held", "time_limit", "comment", "array_tasks", "array_task_id", "restarts", "priority")
_SEEN = (states.RUNNING, states.SUSPENDED, states.STOPPED)
_RUN = ("time_limit",)  # … but for a job that has started: the write that makes the run has it


class Accepting:
    """Of one namespace."""

    def __init__(self, site: Site, wishes: Wishes, configured: Cluster, arrays: Arrays) -> None:
        self._site = site
        self._configured = configured
        self._wishes = wishes
        self._arrays = arrays
        self._late: dict[int, Job] = {}
        self._writing: asyncio.Task[None] | None = None
        self._without: dict[str, float] = {}  # records whose payload is not there, and since when

    # Into the cluster

    async def accept(self, job: Job, handed_in: Mapping[str, Any], script: bytes | None, spool: str) -> int:
        """The id under which the cluster holds the job: its own, or the one of before where this submission was accepted already.

        BackendError, ApiError: it was not accepted; or nobody knows, and then the same submission may be repeated.
        """
        token = str(handed_in.get("token") or "")
        before = await self._accepted(token) if token else None
        if before is not None:
            return before
        submission = token or os.urandom(16).hex()
        for _ in range(_TRIES):
            try:
                await self._make(job, handed_in, script, spool, submission)
                return job.job_id
            except ApiError as error:
                failed = error
                if not error.transient:
                    break
        if await self._take_back(job, submission):
            return job.job_id
        raise failed

    async def _take_back(self, job: Job, submission: str) -> bool:
        """Removes what there is of a job that its submitter is told was not accepted. Without a payload it goes by itself.

        Whether another controller has begun with it: then it was accepted, and stays.
        """
        try:
            for _ in range(_TRIES):
                record = await self._site.records.read(job.job_id)
                if record is None or record.submission != submission:
                    return False
                if record.register is not None or record.given:
                    return True
                if await self._site.records.delete(record, unchanged=True):
                    return False
        except ApiError as error:
            self._site.log("job %s: it may be in the cluster all the same: %s", job.job_id, error.message)
            return False
        return True

    async def _accepted(self, token: str) -> int | None:
        try:
            async with asyncio.timeout(_SYNC):
                await self._site.all_known.wait()
        except TimeoutError:
            raise BackendError("the cluster has not told what jobs there are", transient=True) from None
        return next((one.job_id for one in self._site.records.all() if one.submission == token), None)

    async def _make(
        self, job: Job, handed_in: Mapping[str, Any], script: bytes | None, spool: str, submission: str
    ) -> JobRecord:
        packed, stage = await beside(lambda: _stage(spool))
        record = (await self._record(job, submission)).replace(
            payload=names.payload(job.job_id), files=self._site.host if packed and stage is None else ""
        )
        payload = Payload(
            secret=os.urandom(SECRET_BYTES),
            job=job.replace(key=0, place=""),
            handed_in=dict(handed_in),
            script=script,
            groups=await beside(lambda: groups_of(job)),
            words=words_of(self._configured, job.partition),
            stage=stage,
        )
        return await self._site.records.make(record, payload)

    async def learn_place(self) -> None:
        """Sees to it that the place of the jobs is known. ApiError, BackendError."""
        if not self._site.place:
            self._site.place = await ids.place(self._site.access, self._site.namespace)

    async def _record(self, job: Job, submission: str) -> JobRecord:
        site = self._site
        await self.learn_place()
        return JobRecord(
            name=names.record(job.job_id),
            submission=submission,
            place=site.place,
            home=site.owner,
            host=self._site.host,
            user=await site.user(),
            who=site.who,
            job=shown(job),
        )

    async def ensure(self, job: Job, spool: str) -> None:
        """Sees to it that a job that is to start has a record: an array's task gets its own now. BackendError, ApiError."""
        records, record = self._site.records, self._site.records.find(job.job_id)
        if record is not None and (job.array_task_id is None or not record.begins or record.from_before):
            return
        # A record that is there already may be one that a late request has made.
        late = record is not None and job.job_id != job.array_job_id
        whole_array = await self._arrays.claim(job, live=late) if job.array_task_id is not None else None
        if whole_array is not None and job.job_id != job.array_job_id and record is None:
            made = await self._record(job, f"{whole_array.submission}.{job.array_task_id}")
            await records.make(made.replace(payload=whole_array.payload, files=whole_array.files), None)
        if whole_array is not None or record is not None:
            return
        if await records.read(job.job_id) is not None:
            return
        if not self.may_be_made_again(job):
            raise BackendError("its record is gone: another machine has removed it")
        # It had ended and was queued again, or it is of a version before, whose jobs that waited had no objects.
        handed_in = json.loads(rawfile.read(f"{spool}/submission.json"))
        script = rawfile.read(f"{spool}/script") if handed_in.get("has_script") else None
        await self._make(job, handed_in, script, spool, os.urandom(16).hex())

    def keep(self, job: Job) -> None:
        """The job as it is committed by now: what a record shows of it is written soon."""
        record = self._site.records.find(job.job_id)
        if record is not None and not record.ended and self._differs(record, job):
            self._late[job.job_id] = job
            if self._writing is None or self._writing.done():
                self._writing = self._site.soon(self._write_late())

    def _differs(self, record: JobRecord, job: Job) -> bool:
        started = job.state in states.ALLOCATED
        names_ = [name for name in _CURRENT if not (started and name in _RUN)]
        now = current(record, job)
        if any(getattr(record.job, name) != getattr(now, name) for name in names_) or not fits(record, job):
            return True
        if self._wishes.left(record) != record.wishes:
            return True
        # Of its state what those see who look on; the writes that make, grant and end a run have the rest.
        if job.state == states.PENDING:
            return record.job.state in states.ALLOCATED or (job.reason != record.job.reason and job.reason != "None")
        return job.state in _SEEN and record.job.state != job.state

    async def _write_late(self) -> None:
        while self._late:
            await asyncio.sleep(TOGETHER)
            late, self._late = self._late, {}
            for job in late.values():
                try:
                    await self._write(job)
                except ApiError as error:
                    self._site.log("job %s: %s", job.job_id, error.message)
                    if error.transient or error.conflict:
                        self._late.setdefault(job.job_id, job)

    async def _write(self, job: Job) -> None:
        records = self._site.records
        record = records.find(job.job_id)
        if record is None or record.ended or not self._differs(record, job):
            return
        try:
            wanted = self._wanted(record, job)
            if wanted != record:
                await records.write(record, job=wanted.job, wishes=wanted.wishes, given=wanted.given)
        except ApiError as error:
            if error.conflict:
                await records.read(job.job_id)
            raise

    def _wanted(self, record: JobRecord, job: Job) -> JobRecord:
        """The record as it is to be."""
        told = record if fits(record, job) else self._arrays.told(record, job) or record
        return told.replace(job=current(told, job), wishes=self._wishes.left(record))

    async def write_now(self, job_ids: Iterable[int]) -> None:
        """Returns when the records of these jobs say what was kept. ApiError: not yet; they will."""
        for job_id in job_ids:
            for last in (*[False] * (_TRIES - 1), True):
                job = self._late.get(job_id)
                try:
                    if job is not None:
                        await self._write(job)
                        if self._late.get(job_id) is job:
                            del self._late[job_id]
                    break
                except ApiError as error:
                    if last or not error.conflict:
                        raise

    async def close(self) -> None:
        """Writes what is left, as far as that is possible now."""
        late, self._late = self._late, {}
        for job in late.values():
            try:
                await self._write(job)
            except ApiError as error:
                self._site.log("job %s: %s", job.job_id, error.message)

    # Out of the cluster

    @property
    def look_again(self) -> float | None:
        """Seconds until ``kept`` should be asked again for records whose payload was not there; None: there are none."""
        known = {record.uid for record in self._site.records.all()}
        self._without = {uid: since for uid, since in self._without.items() if uid in known}
        since = max(self._without.values(), default=None)
        return None if since is None else max(1.0, (self._site.clock() - since) / 2)

    async def is_of_here(self, record: JobRecord) -> bool:
        """Whether the job was numbered in this namespace: it is no copy that was restored from somewhere."""
        site = self._site
        await self.learn_place()
        if record.place != site.place:
            site.log("job %s: its record was copied from elsewhere: it is left alone", record.job_id)
            return False
        return True

    async def origin(self, record: JobRecord) -> str:
        """Where the job comes from, for this machine's index."""
        if record.user != await self._site.user():
            return OTHERS
        return OWN if record.host != self._site.host else ""

    async def kept(self, record: JobRecord, *, orders: bool) -> Kept | None:
        """The job for an index that does not know it; None for one that was never accepted. BackendError, ApiError.

        ``orders``: for the machine that orders the jobs. Others are shown no more of somebody else's job than its record says.
        """
        origin = await self.origin(record)
        if origin == OTHERS and not orders:
            return self._kept(record, self._as_it_stands(record, record.job, orders=False), origin, None)
        try:
            payload = await self._site.records.payload(record)
        except BackendError:
            if not record.ended:
                await self._never_accepted(record)
                return None
            return self._kept(record, self._as_it_stands(record, record.job, orders=False), origin, None)
        if not await self._arrays.gives(record):
            await self._never_accepted(record)
            return None
        self._without.pop(record.uid, None)
        job = self._as_it_stands(record, whole(record.job, payload.job), orders=orders)
        return self._kept(record, job, origin, payload)

    async def handed_in(self, record: JobRecord) -> Kept:
        """The job as whoever submitted it handed it in, to be started by this machine. BackendError, ApiError."""
        payload = await self._site.records.payload(record)
        return self._kept(record, whole(record.job, payload.job), await self.origin(record), payload, renamed=False)

    def _as_it_stands(self, record: JobRecord, job: Job, *, orders: bool) -> Job:
        register = record.register
        if record.ended:  # its end is for an index that has lost it
            return job.replace(state=record.ended)
        running = register is not None and register.restart == job.restarts and job.state in states.ALLOCATED
        if running and register is not None and register.state != (MADE if orders else WITHDRAWN):
            # Who orders it hears from its leader how far it is.
            return job.replace(state=states.CONFIGURING, reason="None", journal=0) if orders else job
        # One that was made is taken back by a new holder: nothing has begun.
        job = job.replace(state=states.PENDING, shares=(), journal=0, start_time=0, end_time=0)
        return self._without_started(record, job) if orders else job

    def _kept(self, record: JobRecord, job: Job, origin: str, payload: Payload | None, *, renamed: bool = True) -> Kept:
        if origin == OTHERS and renamed:
            # Two users may have the same names on their machines: the API server's tells them apart.
            uid = job.uid if job.uid != os.getuid() else NOBODY
            job = job.replace(user=plain_name(record.who) or job.user, uid=uid)
        return Kept(
            run=Run(cluster=self._site.cluster, job_id=job.job_id, restart=job.restarts),
            job=job.replace(cluster=self._site.cluster, key=0, origin=origin, place=record.place),
            handed_in=payload.handed_in if payload is not None else {},
            script=payload.script if payload is not None else None,
            files={staging.NAME: payload.stage} if payload is not None and payload.stage is not None else {},
            token=record.submission,
        )

    async def is_whole(self, record: JobRecord, before: Job) -> bool:
        """Whether the record is of a job that was accepted, for an index that has it as ``before``. ApiError.

        A request that made a record may be applied again long after that record has gone, and then nothing makes its payload.
        """
        if before.state == states.PENDING or not record.begins:
            return True
        try:
            await self._site.records.payload(record)
        except BackendError:
            return False
        return await self._arrays.gives(record)

    def as_shown(self, record: JobRecord, before: Job, *, orders: bool) -> Job:
        """A job that the index knows as ``before``, as the record tells it. ``orders``: this machine orders the jobs from now on."""
        job = mirrored(record, before)
        if record.ended or not orders:
            return self._as_it_stands(record, job, orders=False).replace(journal=before.journal)
        register = record.register
        if before.restarts > job.restarts or before.state in states.TERMINAL:
            return before  # committed here, and the record not told
        if before.restarts == job.restarts and before.state in states.ALLOCATED:
            lives = register is not None and register.restart == before.restarts and register.state != WITHDRAWN
            return (
                before
                if lives or record.job.state in states.ALLOCATED
                else self._as_it_stands(record, job, orders=True)
            )
        return self._as_it_stands(record, job, orders=True)

    def _without_started(self, record: JobRecord, job: Job) -> Job:
        """The rest of an array without the tasks that have records of their own: those are made first, and told to the array's soon."""
        rest = pending_tasks(job)
        for one in self._site.records.tasks_of(record.job_id):
            task = one.job.array_task_id
            if rest is not None and task is not None and task in rest:
                rest = rest.without(task)
                if rest is None:
                    break
                job = job.replace(array_tasks=str(rest))
        return job

    async def _never_accepted(self, record: JobRecord) -> None:
        since = self._without.setdefault(record.uid, self._site.clock())
        if self._site.clock() - since >= PAYLOAD_LATE and record.register is None:
            del self._without[record.uid]
            await self._site.records.delete(record)

    def has_files(self, record: JobRecord) -> bool:
        """Whether the job's working directory can be given to its pods from here."""
        return record.files in ("", self._site.host)

    def may_be_made_again(self, job: Job) -> bool:
        """Whether a job without a record is one that ended here and was queued again since, or waited in a version before.

        One that has a place was in the cluster, and so was one that this index has a folder of: another controller has brought it to its end.
        """
        held = {run.job_id for run in run_folders.known(self._site.cluster)}
        return not job.origin and not job.place and not held.intersection((job.job_id, job.array_job_id))

    def ways(self, record: JobRecord) -> tuple[Way, ...]:
        """The files that the run's output goes to on this machine. What another machine names is never written to: it may be anything here.

        Output of other users is theirs to fetch.
        """
        if record.user != self._site.known_user:
            return ()
        if record.host == self._site.host:
            return record.outputs
        folder = os.path.join(paths.state_dir(), "adopted", self._site.cluster)
        endings = {"stdout": "out", "stderr": "err"}
        found = []
        for way in record.outputs:
            path = os.path.join(folder, f"{record.name}.{endings[way.stream]}")
            if not os.path.exists(path):
                paths.ensure(folder)
                begin(path, False, 0o077)
            found.append(way.replace(path=path, base=0))
        return tuple(found)


def _stage(spool: str) -> tuple[bool, bytes | None]:
    """Whether a working directory was packed; and the archive, if it is small enough to travel with the job."""
    path = os.path.join(spool, staging.NAME)
    try:
        if os.path.getsize(path) > INLINE:
            return True, None
        return True, rawfile.read(path)
    except FileNotFoundError:
        return False, None
