"""All records of a namespace: kept current by a watch, read live where a decision stands on it, written under uid and resourceVersion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Set
from typing import Any

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.records import payload as payloads
from shim.control.backends.kubernetes.records import record as records
from shim.control.backends.kubernetes.records.payload import Payload
from shim.control.backends.kubernetes.records.record import JobRecord
from shim.core.model.job import Job

Object = dict[str, Any]


class Records:
    """``changed(job_id)`` is called when a record is new, another, or gone."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.changed: Callable[[int], None] = lambda job_id: None
        self._access = access
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._known: dict[int, JobRecord] = {}
        self._objects: dict[int, Object] = {}
        self.departed: dict[int, JobRecord] = {}  # as they were known last; for those who look on
        self._gone: set[str] = set()  # uids of records that this controller has seen deleted: a watch may lag
        self._leaving: dict[int, set[int]] = {}  # by array: tasks whose records go
        self._turns: dict[int, asyncio.Lock] = {}
        self._payloads: dict[tuple[str, str], Payload] = {}  # by name, and uid of the record that they came with

    @property
    def path(self) -> str:
        """Of the collection that is watched."""
        return self._maps

    selector = f"{names.MANAGED}={names.MANAGER},{names.KIND}={names.RECORD_KIND}"

    # What is known

    def event(self, kind: str, found: Object) -> None:
        """Takes a change in that the watch has told of."""
        if kind == "DELETED":
            self._forget(found["metadata"]["uid"])
            self._gone.discard(found["metadata"]["uid"])  # a watch tells nothing of it any more
        else:
            self._take(found)

    def _take(self, found: Object) -> JobRecord | None:
        record = records.parse(found)
        if record is None or record.uid in self._gone:
            return record
        before = self._known.get(record.job_id)
        if before is None or before.uid != record.uid or _later(record.version, before.version):
            self._known[record.job_id] = record
            self._objects[record.job_id] = found
            self.changed(record.job_id)
        return record

    def _forget(self, uid: str) -> None:
        self._gone.add(uid)
        for job_id, record in list(self._known.items()):
            if record.uid == uid:
                del self._known[job_id], self._objects[job_id]
                self.departed[job_id] = record
                self._payloads.pop((record.payload, uid), None)
                self.changed(job_id)

    def find(self, job_id: int) -> JobRecord | None:
        """The record as it was heard of last."""
        return self._known.get(job_id)

    @property
    def known(self) -> Collection[int]:
        """The ids of the jobs that have records."""
        return self._known.keys()

    def all(self) -> list[JobRecord]:
        """Those that are known, oldest first."""
        return [record for _job_id, record in sorted(self._known.items())]

    def tasks_of(self, array: int) -> list[JobRecord]:
        """The records of an array's tasks that have ids of their own."""
        return [one for one in self._known.values() if one.job.array_job_id == array and one.job_id != array]

    # Requests. ApiError.

    async def read(self, job_id: int) -> JobRecord | None:
        """The record as it is now; None: there is none."""
        try:
            found = await self._access.get(f"{self._maps}/{names.record(job_id)}")
        except ApiError as error:
            if not error.missing:
                raise
            known = self._known.get(job_id)
            if known is not None:
                self._forget(known.uid)
            return None
        return self._take(found)

    async def make(self, record: JobRecord, payload: Payload | None) -> JobRecord:
        """Makes the record, and its payload if it is to have one of its own. May be repeated: what this submission made before is taken.

        Raises BackendError where the name is another submission's.
        """
        try:
            made = self._take(await self._access.post(self._maps, records.manifest(record)))
        except ApiError as error:
            if not error.conflict:
                raise
            made = await self.read(record.job_id)
        if made is None or made.submission != record.submission:
            raise BackendError(f"there is another configmap {record.name} in the namespace", transient=True)
        if payload is not None:
            await self._make_payload(payload, made)
        return made

    async def _make_payload(self, payload: Payload, record: JobRecord) -> None:
        wanted = payloads.manifest(payload, record)
        if payloads.size(wanted) > payloads.MOST:
            await self.delete(record)
            raise BackendError(f"script and environment are larger than the {payloads.MOST} bytes that a Secret holds")
        try:
            await self._access.post(self._secrets, wanted)
        except ApiError as error:
            if not error.conflict:
                raise
            payload = await self.payload(record, anew=True)
        self._payloads[record.payload, record.uid] = payload

    async def write(self, record: JobRecord, **changes: Any) -> JobRecord:
        """Changes the record if it still is as it was read. ApiError: a conflict if it is not, or nobody knows; then ``read``."""
        wanted = record.replace(**changes)
        found = await self._access.put(
            f"{self._maps}/{record.name}", records.manifest(wanted, self._objects.get(record.job_id, _bare(record)))
        )
        self._take(found)
        return records.parse(found) or wanted

    async def delete(self, record: JobRecord, *, unchanged: bool = False) -> bool:
        """Deletes the record, and with it all that it owns. Not one that was made anew: whether there is none now.

        ``unchanged``: nor one that is another by now than was read.
        """
        version = record.version if unchanged else None
        made_anew = False
        try:
            await self._access.delete(f"{self._maps}/{record.name}", uid=record.uid, version=version)
        except ApiError as error:
            if not error.missing and not error.conflict:
                raise
            made_anew = error.conflict
        if not (unchanged and made_anew):
            self._forget(record.uid)
        return not made_anew

    async def release(self, task: Job) -> None:
        """Sees to it that the record of the task's array does not say any more that there is one of the task: that goes now. ApiError."""
        array = task.array_job_id
        if array in (0, task.job_id):
            return
        leaving = self._leaving.setdefault(array, set())
        leaving.add(task.job_id)
        async with self._turns.setdefault(array, asyncio.Lock()):
            if task.job_id in leaving:  # else it has left with another
                leaving.difference_update(await self._release(array, task, leaving))

    async def _release(self, array: int, task: Job, leaving: Set[int]) -> Set[int]:
        """Writes so of all that are leaving by now: those."""
        whole = self.find(array)
        if whole is None or not whole.gives(task):
            whole = await self.read(array)
        going: Set[int] = {task.job_id}
        while whole is not None and whole.gives(task):
            going = frozenset(leaving)
            left = tuple(one for one in whole.given if one.job_id not in going)
            try:
                whole = await self.write(whole, given=left)
            except ApiError as error:
                if not error.conflict:
                    raise
                whole = await self.read(array)
        return going

    async def payload(self, record: JobRecord, anew: bool = False) -> Payload:
        """What the record's runs need. BackendError where it is gone."""
        # An array's tasks have its payload: of that very record, not of one that had its name before.
        owner = record if record.payload == names.payload(record.job_id) else self.find(record.job.array_job_id)
        key = record.payload, owner.uid if owner is not None else ""
        found = None if anew else self._payloads.get(key)
        if found is None:
            try:
                secret = await self._access.get(f"{self._secrets}/{record.payload}")
                if owner is not None and not payloads.is_of(secret, owner):
                    raise BackendError(f"secret {record.payload} is of another record: the job cannot run")
                found = payloads.parse(secret)
            except ApiError as error:
                if error.missing:
                    raise BackendError(f"secret {record.payload} is gone: the job cannot run") from error
                raise
            except ValueError as problem:
                raise BackendError(str(problem)) from problem
            self._payloads[key] = found
        return found


def _later(one: str, other: str) -> bool:
    """Whether a resourceVersion is later than another of the same object. They are numbers on every API server that there is."""
    return one != other and (not one.isdigit() or not other.isdigit() or int(one) > int(other))


def _bare(record: JobRecord) -> Object:
    return {"metadata": records.manifest(record)["metadata"]}
