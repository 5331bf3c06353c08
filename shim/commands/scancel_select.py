"""What a scancel means: the targets of ids, and those that filters leave of the jobs that have not ended."""

from __future__ import annotations

import sys

from shim.commands import reading
from shim.commands.job_ids import JobId, narrowed
from shim.control.index.query import JobQuery
from shim.core.errors import ALREADY_DONE, INVALID_JOB_ID
from shim.core.formats.lists import comma_list
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job
    from shim.core.options.query_options import Values

_PROGRAM = "scancel"
# What happened already, or was never there, is no failure; only -v tells.
HARMLESS = (INVALID_JOB_ID, ALREADY_DONE)
NOT_FEDERATED = "Not a valid federated job"
# Slurm takes every state's name, and compares it with all of what it knows of a job: of those that are ending or being made ready the
# base state is a part of that, so their names select nothing.
_SELECTABLE = (states.PENDING, states.RUNNING, states.SUSPENDED)
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

    def called(self, scope: str = "") -> str:
        """What messages say of it; ``scope``: what of a job is meant, with a blank behind."""
        return f"{scope}job {self.label}" if self["step"] is None else f"step {self.label}"

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
    values: Values, ids: list[tuple[str, JobId]], state: str | None, uid: int | None, clusters: list[str]
) -> tuple[list[Wish], int]:
    """What the filters leave of the jobs that have not ended, and how many ids are unknown; asks about each with -i."""
    reader = reading.open_index(_PROGRAM)
    wanted = [one for _, one in ids]
    query = JobQuery(
        job_ids=tuple(one.job_id for one in wanted),
        users=() if uid is None else (uid,),
        names=comma_list(values.get("name")),
        partitions=comma_list(values.get("partition")),
    )
    known = reader.jobs(query) if reader is not None else []
    whole = {job.key: job for job in known}
    found: list[Job] = []
    for job in known:
        part = narrowed(job, wanted) if wanted else job
        if part is not None and _fits(part, values, state) and (not clusters or part.cluster in clusters):
            found.append(part)
    unknown = _told_unknown(values, ids, reader.jobs(JobQuery(job_ids=query.job_ids)) if reader and ids else [])
    if not found and "verbose" in values:
        words = "".join(f"{word}={shown} " for word, shown in filters(values))
        reading.complain(_PROGRAM, [f"error: No active jobs match ALL job filters, including: {words}"])
    chosen = {job.key: _steps_of(job, wanted) for job in found}
    if "interactive" in values:
        chosen = {job.key: [step for step in chosen[job.key] if _confirmed(job, step)] for job in found}
    if values.get("name") or values.get("partition"):
        whole = {}  # what the index left out may belong to the same arrays
    return _targets([job for job in found if chosen[job.key]], whole, chosen), unknown


def filters(values: Values) -> list[tuple[str, str]]:
    """The filters that were given, in Slurm's words and order."""
    said = [(word, values.get(option) or "") for option, word in FILTERS]
    return [(word, states.state_of(text) or text if word == "state" else text) for word, text in said if text]


def _told_unknown(values: Values, ids: list[tuple[str, JobId]], found: list[Job]) -> int:
    """Tells, before anything is asked, which ids are no job's; their number."""
    unknown = [(word, one) for word, one in ids if not any(narrowed(job, [one]) is not None for job in found)]
    if "quiet" not in values:
        for word, one in unknown:
            what = "job id" if one.step is None else "job step id"
            reading.complain(_PROGRAM, [f"error: Kill job error on {what} {word}: {HARMLESS[0]}"])
    return len(unknown)


def not_federated(wishes: list[Wish]) -> list[dict[str, str]]:
    """What becomes of these where jobs have no siblings on other clusters: nothing, and what Slurm says of it."""
    reader = reading.open_index(_PROGRAM)
    found = reader.jobs(JobQuery(job_ids=tuple(wish["job_id"] for wish in wishes))) if reader is not None else []
    alive = {number for job in found for number in (job.job_id, job.array_job_id)}
    return [{"error": NOT_FEDERATED if wish["job_id"] in alive else HARMLESS[0]} for wish in wishes]


def _steps_of(job: Job, wanted: list[JobId]) -> list[str | None]:
    """The steps that ids name of this job; None: the job itself."""
    return list(dict.fromkeys(one.step for one in wanted if narrowed(job, [one]) is not None)) or [None]


def _targets(found: list[Job], whole: dict[int, Job], chosen: dict[int, list[str | None]]) -> list[Wish]:
    """The call's targets for these records: an array's rest is named task by task unless it is all that is left of it.

    ``whole``: every record there is, as far as that is known, by key; ``chosen``: the steps that are meant.
    """
    wishes: list[Wish] = []
    leaders = {job.het_job_id for job in found if not job.het_offset}
    for job in found:
        if job.het_offset and job.het_job_id in leaders:
            continue  # meant with its leader
        label = job.array_label
        steps = [(step, label if step is None else f"{label}.{step}") for step in chosen[job.key]]
        if job.array_task_id is not None:
            wishes += [Wish(name, job.array_job_id, job.array_task_id, step) for step, name in steps]
        elif job.array_tasks is None:
            wishes += [Wish(name, job.job_id, None, step) for step, name in steps]
        elif job == whole.get(job.key) and not any(
            other.array_job_id == job.array_job_id for key, other in whole.items() if key != job.key
        ):
            wishes.append(Wish(label, job.array_job_id))
        else:
            one = JobId(job_id=job.array_job_id, tasks=job.array_tasks)
            wishes += wishes_of(label, one)
    return wishes


def _fits(job: Job, values: Values, state: str | None) -> bool:
    request = job.request
    for option, value in (
        ("account", request.account),
        ("qos", request.qos),
        ("reservation", request.reservation),
        ("wckey", request.wckey),
    ):
        if values.get(option) and value not in comma_list(values[option]):
            return False
    if state is not None and not (job.state == state and state in _SELECTABLE):
        return False
    nodes = values.get("nodelist")
    if nodes:
        from shim.core.formats import hostlist

        try:
            names = set(hostlist.expand(nodes))
        except hostlist.HostlistError:
            return False
        return any(share.name in names for share in job.shares if not share.planned)
    return True


def _confirmed(job: Job, step: str | None) -> bool:
    """The user's answer; the end of the input means no."""
    if sys.stdin is None:
        return False
    what = f"job_id={job.array_label}" if step is None else f"step_id={job.array_label}.{step}"
    while True:
        sys.stdout.write(f"Cancel {what} name={job.name} partition={job.partition} [y/n]? ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[:1] in "nN":
            return False
        if answer[:1] in "yY":
            return True
