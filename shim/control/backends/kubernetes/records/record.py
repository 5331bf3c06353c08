"""A job's record: what everybody may know of a job, what is wanted of it, and the register of its last run. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.register import Limits, Record, Register, Wanted
from shim.control.lifecycle.tasks import pending_tasks
from shim.core.formats.array_spec import ArraySpec
from shim.core.model.job import Job
from shim.core.value import Value

Object = dict[str, Any]
SCHEMA = 2  # of records and payloads; who knows only older ones leaves the record alone
_GIVES = 2  # from this on an array's record says which tasks have ids of their own

# What a user may have typed a secret into, and nobody needs to list the job: in the payload alone.
_HIDDEN = {"submit_line": ""}
_HIDDEN_OF_REQUEST = {"export": None}
# What only this index, or only the present run, makes of a job.
_OWN = {"key": 0, "journal": 0, "origin": "", "place": ""}
# Of an array: which tasks were given to nobody is not decided by what one machine believes (``told``).
_REST = ("array_tasks", "array_task_id")
# What each machine shows in its own way of a job that was submitted elsewhere.
_HERE = ("uid", "gid", "user", "group", "cluster")


class Way(Value):
    """A file of output that the submitting machine fetches. ``base``: bytes that were there before the run."""

    stream: str
    path: str
    base: int = 0


class Wish(Value):
    """What somebody wants of a job who spoke to a machine that does not order the jobs: an operation of the controller, and its message.

    ``by``: a hash of the API server's name for who wants it; ``operator``: whether the API server lets them do what is Slurm's operators'.
    """

    id: str
    op: str
    message: dict[str, Any]
    by: str
    operator: bool = False


class Given(Value):
    """A task of an array, and the id that it has got."""

    task: int
    job_id: int


class JobRecord(Value):
    """A record as it was read or will be written. ``found``: the object that it was read from.

    ``submission`` tells this submission from any other; ``place`` is the uid of the ConfigMap that numbers the jobs of the namespace;
    ``user`` a hash of the API server's name for who submitted it, ``who`` that name; ``home`` the index that it was submitted to, ``host`` its
    machine; ``files`` the machine that has the copy of the working directory, where the payload has no room for that. ``wishes`` are
    added by any machine, and removed by the one that orders the jobs. ``given``: tasks of an array that have records of their own, or are
    about to; what ``job`` lists as the array's rest was given to nobody yet. ``settled``: its machine has its end and all of its output.
    """

    name: str
    uid: str = ""
    version: str = ""
    schema: int = SCHEMA
    submission: str = ""
    place: str = ""
    user: str = ""
    who: str = ""
    home: str = ""
    host: str = ""
    files: str = ""
    payload: str = ""  # name of the Secret; of an array's tasks that of the array
    job: Job
    wanted: Wanted = Wanted()
    register: Register | None = None
    ended: str = ""
    copied: str = ""  # the working directory that the pods have a copy of: files of steps come back to it
    outputs: tuple[Way, ...] = ()
    wishes: tuple[Wish, ...] = ()
    given: tuple[Given, ...] = ()
    settled: str = ""
    _nested = {"job": Job, "wanted": Wanted, "register": Register, "outputs": Way, "wishes": Wish, "given": Given}

    @property
    def job_id(self) -> int:
        return self.job.job_id

    @property
    def begins(self) -> bool:
        """Whether nothing has become of the job by this record: no run was made, and it has not ended."""
        return self.register is None and not self.ended

    @property
    def from_before(self) -> bool:
        """Whether it was made when each machine gave ids to tasks by itself: no array's record tells of this task, and it is one."""
        return self.schema < _GIVES

    def lists(self, task: int) -> bool:
        """Whether the task is in the array's rest: it has no id of its own."""
        rest = pending_tasks(self.job)
        return rest is not None and task in rest

    def gives(self, job: Job) -> bool:
        """Whether this, the record of an array, says that ``job`` is the one that runs its task."""
        if job.job_id == self.job_id:
            return self.job.array_tasks is None and self.job.array_task_id == job.array_task_id
        return any((one.task, one.job_id) == (job.array_task_id, job.job_id) for one in self.given)

    def deciding(self, limits: Limits, **wanted: bool) -> Record:
        """The record as ``run.decide`` looks at it. ``wanted``: what this machine's user wants beside it."""
        return Record(
            name=self.name,
            uid=self.uid,
            version=self.version,
            nodes=self.job.nodes,
            wanted=self.wanted.replace(**wanted),
            limits=limits,
            register=self.register,
            ended=self.ended,
        )


def shown(job: Job) -> Job:
    """The job as its record shows it."""
    request = job.request.replace(**_HIDDEN_OF_REQUEST)
    return job.replace(request=request, **_HIDDEN, **_OWN)


def current(record: JobRecord, job: Job) -> Job:
    """What the record is to show of the job, as the index of some machine has it."""
    return shown(job).replace(**{name: getattr(record.job, name) for name in (*_HERE, *_REST)})


def fits(record: JobRecord, job: Job) -> bool:
    """Whether the record is of the very task that ``job`` is, where it is one."""
    return all(getattr(record.job, name) == getattr(job, name) for name in _REST)


def told(record: JobRecord, kept: Job | None, own: Mapping[int, int]) -> JobRecord | None:
    """An array's record with what an index has made of its tasks: ``kept`` is the rest there, or the last task, None if it has none; ``own`` the
    ids that others have got. None: the index has tasks in its rest that the record has given away.
    """
    rest = pending_tasks(record.job)
    if rest is None:
        same = kept is None or all(getattr(kept, name) == getattr(record.job, name) for name in _REST)
        return record if same else None
    before = set(rest)
    taken = {one.task for one in record.given}
    new = [Given(task=task, job_id=job_id) for task, job_id in own.items() if task in before and task not in taken]
    if kept is None:
        left = (
            ArraySpec.of(before.difference(one.task for one in new), rest.throttle) if len(new) < len(before) else None
        )
        parts: dict[str, Any] = {"array_tasks": str(left), "array_task_id": None}
    else:
        waiting = pending_tasks(kept)
        left = waiting if waiting is not None else ArraySpec.of([kept.array_task_id or 0])
        parts = {name: getattr(kept, name) for name in _REST}
    if left is None or not before.issuperset(left):
        return None
    return record.replace(job=record.job.replace(**parts), given=(*record.given, *new))


def mirrored(record: JobRecord, before: Job) -> Job:
    """The job as its record shows it now, for an index that has it as ``before``."""
    kept = {name: getattr(before, name) for name in (*_HERE, *_OWN, *_HIDDEN)}
    request = record.job.request.replace(**{name: getattr(before.request, name) for name in _HIDDEN_OF_REQUEST})
    return record.job.replace(request=request, **kept)


def whole(shown_job: Job, handed_in: Job) -> Job:
    """The job of a record with what only the payload's has."""
    hidden = {name: getattr(handed_in.request, name) for name in _HIDDEN_OF_REQUEST}
    own = {name: getattr(handed_in, name) for name in _HIDDEN}
    return shown_job.replace(request=shown_job.request.replace(**hidden), **own)


_PARTS = ("job", "wanted", "register", "outputs", "wishes", "given")
_WORDS = ("submission", "place", "user", "who", "home", "host", "files", "payload", "ended", "copied", "settled")


def manifest(record: JobRecord, before: Object | None = None) -> Object:
    """The record's ConfigMap, to be made, or (``before``: as it was read) to be written under its uid and resourceVersion."""
    data = {"schema": str(record.schema)}
    data.update({name: str(getattr(record, name)) for name in _WORDS if getattr(record, name)})
    plain = record.to_dict()
    data.update({name: json.dumps(plain[name], sort_keys=True) for name in _PARTS if plain.get(name)})
    metadata = {
        "name": record.name,
        "labels": {names.MANAGED: names.MANAGER, names.KIND: names.RECORD_KIND, names.JOB_ID: str(record.job_id)},
    }
    if before is not None:
        metadata = {
            **{
                key: before["metadata"][key]
                for key in ("labels", "annotations", "ownerReferences", "finalizers")
                if key in before["metadata"]
            },
            "name": record.name,
            "uid": record.uid,
            "resourceVersion": record.version,
        }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def parse(found: Object) -> JobRecord | None:
    """What a ConfigMap says; None for one that is no record, or one of a later version, or damaged: it is left alone."""
    metadata, data = found["metadata"], found.get("data") or {}
    try:
        if int(data["schema"]) > SCHEMA:
            return None
        parts = {name: json.loads(data[name]) for name in _PARTS if name in data}
        words = {name: data[name] for name in _WORDS if name in data}
        record = JobRecord.from_dict({"name": metadata["name"], **words, **parts})
        if record.name != names.record(record.job_id):
            return None
        return record.replace(uid=metadata["uid"], version=metadata["resourceVersion"], schema=int(data["schema"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
