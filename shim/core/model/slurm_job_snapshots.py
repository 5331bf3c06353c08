"""Jobs that a real Slurm runs: squeue's answer about them is parsed, and applied to the rows that the index keeps.

sacct reads these rows where the real Slurm keeps no accounting.
"""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.times import parse_minutes, stamp
from shim.core.model import states
from shim.core.model.job import NodeShare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional

    from shim.core.model.job import Job

# What squeue is asked for, with the width of each column: fields may be empty, so each is found by its position.
# Fields that may exceed their width stand at the end of the line.
_COLUMNS = (
    ("JobID", 20),
    ("ArrayJobID", 20),
    ("State", 20),
    ("EligibleTime", 24),
    ("StartTime", 24),
    ("EndTime", 24),
    ("exit_code", 12),
    ("DerivedEC", 12),
    ("RestartCnt", 12),
    ("NumNodes", 12),
    ("NumCPUs", 12),
    ("TimeLimit", 24),
    ("Reason", 64),
    ("Partition", 256),
    ("ArrayTaskID", 1024),
    ("NodeList", 4096),
)
FORMAT = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
# In which squeue must be asked: times in seconds, array indexes in full.
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
REQUEUE_WINDOW = 600.0  # seconds after its end in which a job may be requeued, as long as its Slurm still knows it
_LONGEST = 4096  # nodes of one job that get a share each


def parse_squeue(text: str) -> List[Dict[str, str]]:
    """squeue's answer to FORMAT, a dict for each job; other lines are left out."""
    found = []
    for line in text.splitlines():
        fields, begin = {}, 0
        for name, width in _COLUMNS:
            fields[name] = line[begin : begin + width].strip()
            begin += width
        if fields["JobID"].isdigit() and fields["ArrayJobID"].isdigit():
            found.append(fields)
    return found


def is_final(job: Job) -> bool:
    """Whether the row will not change any more: the job has ended, or its Slurm has forgotten it."""
    return job.state in states.TERMINAL or bool(job.system_comment)


def worth_asking(job: Job, now: float) -> bool:
    """Whether the real Slurm may know more about the job than the row: it has not ended, or may yet be requeued."""
    return not is_final(job) or (not job.system_comment and job.end_time > now - REQUEUE_WINDOW)


def as_recorded(job: Job) -> Job:
    """The row of a job that was never seen in squeue, as accounting shows it: an array has the list of its tasks."""
    if job.array_job_id and job.array_task_id is None and job.array_tasks is None:
        job = job.replace(array_tasks=job.array_spec)
    return job if job.eligible_time else job.replace(eligible_time=job.submit_time)


def apply(rows: Iterable[Job], answer: Iterable[Dict[str, str]], now: float) -> List[Job]:
    """The rows that squeue's answer changes, and new rows for tasks of arrays.

    ``rows``: the jobs that squeue was asked about. A job that had not ended and is missing in the answer keeps its last known
    state; its ``system_comment`` says so.
    """
    by_id = {job.job_id: job for job in rows}
    said = {int(fields["JobID"]): fields for fields in answer}
    found = []
    for job_id, fields in said.items():
        row = by_id.get(job_id) or by_id.get(int(fields["ArrayJobID"]))
        if row is None:
            continue
        job = _told(row, job_id, fields)
        known = by_id.get(job_id)
        if known is None or (job != known and (not is_final(known) or job.restarts > known.restarts)):
            found.append(job)
    for job_id, job in by_id.items():
        if job_id not in said and not is_final(job):
            text = f"not known to {job.cluster} any more ({stamp(now)}): this is how it was seen last"
            found.append(as_recorded(job).replace(system_comment=text, end_time=now))
    return found


def _told(row: Job, job_id: int, fields: Dict[str, str]) -> Job:
    """The row with squeue's fields of one job. A time that the job does not have is ``N/A``."""
    state = fields["State"]
    waits = state == states.PENDING
    task, rest = _tasks(fields) if row.array_job_id else (None, None)
    return row.replace(
        job_id=job_id,
        array_task_id=task,
        array_tasks=rest,
        state=state,
        reason=fields["Reason"] or "None",
        partition=fields["Partition"] or row.partition,
        restarts=_number(fields["RestartCnt"]),
        eligible_time=float(_number(fields["EligibleTime"]) or row.submit_time),
        start_time=float(_number(fields["StartTime"])),
        end_time=float(_number(fields["EndTime"])),
        exit_status=_number(fields["exit_code"]),
        derived_status=_number(fields["DerivedEC"]),
        nodes=_number(fields["NumNodes"]) or row.nodes,
        cpus=_number(fields["NumCPUs"]) or row.cpus,
        time_limit=_minutes(fields["TimeLimit"], row.time_limit),
        shares=() if waits else _shares(fields["NodeList"], _number(fields["NumCPUs"])),
    )


def _tasks(fields: Dict[str, str]) -> tuple[Optional[int], Optional[str]]:
    """The index of a task of an array, or the indexes that wait."""
    text = fields["ArrayTaskID"]
    if text.isdigit():
        return int(text), None
    return None, text if text not in ("", "N/A") else None


def _shares(text: str, cpus: int) -> tuple[NodeShare, ...]:
    """The job's nodes. squeue does not say how many CPUs the job has on each: they are divided evenly."""
    if not text:
        return ()
    try:
        names = hostlist.plain_names(text)
    except hostlist.HostlistError:
        names = [text]
    if len(names) > _LONGEST:
        names = [text]
    each, more = divmod(cpus, len(names))
    return tuple([NodeShare(name=name, cpus=each + (place < more)) for place, name in enumerate(names)])


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _minutes(text: str, before: Optional[int]) -> Optional[int]:
    try:
        return parse_minutes(text)
    except ValueError:
        return before
