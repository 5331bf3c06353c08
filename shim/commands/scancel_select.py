"""What a scancel means: the targets of ids, and those that filters leave of the jobs that have not ended."""

from __future__ import annotations

import os
import sys

from shim.commands import reading
from shim.commands.job_ids import JobId, narrowed
from shim.control.index.query import JobQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job
_PROGRAM = "scancel"
# What happened already, or was never there, is no failure; only -v tells.
HARMLESS = ("Invalid job id specified", "Job/step already completing or completed")
# Filters in the order in which Slurm lists them, with its words for them.
FILTERS = (
    ("account", "account"),
    ("name", "job_name"),
    ("nodelist", "nodelist"),
    ("partition", "partition"),
    ("qos", "qos"),
    ("reservation", "reservation"),
    ("state", "state"),
    ("user", "user_name"),
    ("wckey", "wckey"),
)


class Wish(dict):  # type: ignore[type-arg]
    """One target of the call, with the name that messages use for it."""

    def __init__(
        self, label: str, job_id: int, task: int | None = None, step: str | None = None, het: int | None = None
    ) -> None:
        super().__init__(job_id=job_id, task=task, step=step, **({} if het is None else {"het": het}))
        self.label = label

    def on(self, cluster: str) -> Wish:
        """The same of one cluster only."""
        found = Wish(self.label, self["job_id"], self["task"], self["step"], self.get("het"))
        found["cluster"] = cluster
        return found


def wishes_of(label: str, one: JobId) -> list[Wish]:
    """The targets of an id as it was written: the tasks of ``5_[1-3]`` one by one."""
    indexes = one.indexes()
    if indexes is None:
        return [Wish(label, one.job_id, step=one.step, het=one.het)]
    return [Wish(label, one.job_id, index, one.step) for index in sorted(indexes)]


def selected(
    values: dict[str, str], ids: list[tuple[str, JobId]], state: str | None, uid: int | None, clusters: list[str]
) -> list[Wish] | None:
    """What the filters leave of the jobs that have not ended; asks about each with -i. None after an unknown id."""
    reader = reading.open_index(_PROGRAM)
    wanted = [one for _, one in ids]
    query = JobQuery(
        job_ids=tuple(one.job_id for one in wanted),
        users=() if uid is None else (uid,),
        names=_words(values.get("name")),
        partitions=_words(values.get("partition")),
    )
    known = reader.jobs(query) if reader is not None else []
    whole = {job.key: job for job in known}
    found: list[Job] = []
    for job in known:
        part = narrowed(job, wanted) if wanted else job
        if part is not None and _fits(part, values, state) and (not clusters or part.cluster in clusters):
            found.append(part)
    if wanted and not found and "interactive" in values:
        reading.complain(_PROGRAM, [f"error: Kill job error on job id {word}: {HARMLESS[0]}" for word, _ in ids])
        return None
    if not found and "verbose" in values:
        said = dict(values)
        if "me" in values:
            said["user"] = str(os.getuid())  # Slurm names who asks by number
        words = "".join(f"{word}={said[option]} " for option, word in FILTERS if said.get(option))
        reading.complain(_PROGRAM, [f"error: No active jobs match ALL job filters, including: {words}"])
    if "interactive" in values:
        found = [job for job in found if _confirmed(job)]
    steps = {one.step for one in wanted}
    if values.get("name") or values.get("partition"):
        whole = {}  # what the index left out may belong to the same arrays
    return _targets(found, whole, steps if steps != {None} else set())


def _targets(found: list[Job], whole: dict[int, Job], steps: set[str | None]) -> list[Wish]:
    """The call's targets for these records: an array's rest is named task by task unless it is all that is left of it.

    ``whole``: every record there is, as far as that is known, by key.
    """
    wishes: list[Wish] = []
    leaders = {job.het_job_id for job in found if not job.het_offset}
    for job in found:
        if job.het_offset and job.het_job_id in leaders:
            continue  # meant with its leader
        chosen: list[str | None] = [*steps] or [None]
        if job.array_task_id is not None:
            wishes += [Wish(job.array_label, job.array_job_id, job.array_task_id, step) for step in chosen]
        elif job.array_tasks is None:
            wishes += [Wish(str(job.job_id), job.job_id, None, step) for step in chosen]
        elif job == whole.get(job.key) and not any(
            other.array_job_id == job.array_job_id for key, other in whole.items() if key != job.key
        ):
            wishes.append(Wish(str(job.array_job_id), job.array_job_id))
        else:
            one = JobId(job_id=job.array_job_id, tasks=job.array_tasks)
            wishes += wishes_of(job.array_label, one)
    return wishes


def _fits(job: Job, values: dict[str, str], state: str | None) -> bool:
    request = job.request
    for option, value in (
        ("account", request.account),
        ("qos", request.qos),
        ("reservation", request.reservation),
        ("wckey", request.wckey),
    ):
        if values.get(option) and value not in _words(values[option]):
            return False
    if state is not None and job.state != state:
        return False
    nodes = values.get("nodelist")
    if nodes:
        from shim.core import hostlist

        try:
            names = set(hostlist.expand(nodes))
        except hostlist.HostlistError:
            return False
        return any(share.name in names for share in job.shares)
    return True


def _confirmed(job: Job) -> bool:
    """The user's answer; the end of the input means no."""
    if sys.stdin is None:
        return False
    while True:
        sys.stdout.write(f"Cancel job_id={job.array_label} name={job.name} partition={job.partition} [y/n]? ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[:1] in "nN":
            return False
        if answer[:1] in "yY":
            return True


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word) if text else ()
