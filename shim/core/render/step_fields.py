"""The fields of a step that ``squeue -s`` knows. An item is the step with its job."""

from __future__ import annotations

from shim.core.formats import hostlist, times
from shim.core.model import states
from shim.core.render import job_facts as facts
from shim.core.render.columns import by_letter, by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job, Step
    from shim.core.render.columns import Field

    Item = tuple[Job, Step]


def step_label(job: Job, step: Step) -> str:
    """``12.0``, ``12_3.batch``."""
    name = job.array_label if job.array_task_id is not None else str(job.job_id)
    return f"{name}.{step.step_id}"


def step_elapsed(step: Step, now: float) -> float:
    """Seconds that the step has run, or ran."""
    until = step.end_time if step.state in states.TERMINAL and step.end_time else now
    return max(0, int(until) - int(step.start_time)) if step.start_time else 0


def step_order(item: Item) -> tuple[str, int, int, str]:
    """The default order: partition, job, number; batch and extern after the numbers."""
    job, step = item
    number = int(step.step_id) if step.step_id.isdigit() else 1 << 32
    return job.partition, job.job_id, number, step.step_id


_COLUMNS: tuple[Field[Item], ...] = (
    ("A", "numtasks", "TASKS", lambda item, view: str(item[1].tasks)),
    ("b", "gres tres-per-node", "TRES_PER_NODE", lambda item, view: facts.tres_per_node(item[0]) or "N/A"),
    ("i", "stepid", "STEPID", lambda item, view: step_label(*item)),
    ("j", "stepname", "NAME", lambda item, view: item[1].name),
    ("l", "timelimit", "TIME_LIMIT", lambda item, view: times.show_minutes(item[1].time_limit)),
    ("M", "timeused", "TIME", lambda item, view: times.show_elapsed(step_elapsed(item[1], view.now))),
    ("N", "nodes nodelist", "NODELIST", lambda item, view: hostlist.fold(item[1].nodes)),
    ("P", "partition", "PARTITION", lambda item, view: item[0].partition),
    ("S", "starttime", "START_TIME", lambda item, view: view.stamp(item[1].start_time)),
    ("u", "username", "USER", lambda item, view: item[0].user or str(item[0].uid)),
    ("U", "userid", "UID", lambda item, view: str(item[0].uid)),
    ("", "arrayjobid", "ARRAY_JOB_ID", lambda item, view: str(item[0].array_job_id or item[0].job_id)),
    (
        "",
        "arraytaskid",
        "ARRAY_TASK_ID",
        lambda item, view: "N/A" if item[0].array_task_id is None else str(item[0].array_task_id),
    ),
    ("", "cluster", "CLUSTER", lambda item, view: item[0].cluster),
    ("", "jobid", "JOBID", lambda item, view: str(item[0].job_id)),
    ("", "numcpus", "NUM_CPUS", lambda item, view: str(item[1].cpus)),
    ("", "stepstate", "STATE", lambda item, view: item[1].state),
)
LETTERS = by_letter(_COLUMNS)
NAMES = by_name(_COLUMNS)
