"""Job and step ids as users write them: ``12``, ``12_3``, ``12_[3-5,7]``, ``12.0``, ``12_3.batch``, ``12+1``."""

from __future__ import annotations

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.core.model.job import Job

_MOST_TASKS = 4_000_001  # MaxArraySize cannot be larger


class JobId(Value):
    """One id. ``tasks``: indexes of an array (a text such as ``3`` or ``3-5``), None = not said. ``step``: likewise.

    ``het``: the number of a component of a heterogeneous job (``12+1``), None = not said.
    """

    job_id: int
    tasks: str | None = None
    het: int | None = None
    step: str | None = None

    def indexes(self) -> frozenset[int] | None:
        """The array indexes meant; None for the whole job or array."""
        if self.tasks is None:
            return None
        from shim.core.formats.array_spec import ArraySpec

        return frozenset(ArraySpec.parse(self.tasks, max_size=_MOST_TASKS))


def parse_job_id(text: str) -> JobId | None:
    """Reads a single id; None for any other text."""
    base, dot, step = text.partition(".")
    if dot and not (step in ("batch", "extern", "interactive") or _is_number(step)):
        return None
    number, underscore, tasks = base.partition("_")
    number, plus, component = number.partition("+")
    if plus and (underscore or not _is_number(component)):
        return None
    if not _is_number(number) or int(number) == 0:
        return None
    if not underscore:
        return JobId(job_id=int(number), het=int(component) if plus else None, step=step or None)
    if tasks.startswith("[") and tasks.endswith("]"):
        tasks = tasks[1:-1]
    elif not _is_number(tasks):
        return None
    found = JobId(job_id=int(number), tasks=tasks, step=step or None)
    try:
        found.indexes()
    except ValueError:
        return None
    return found


def narrowed(job: Job, wanted: Iterable[JobId]) -> Job | None:
    """The part of the record that these ids name: the whole job, the named tasks of an array's rest, or None.

    The id of a heterogeneous job means all its components, whichever of them it names.
    """
    tasks: set[int] = set()
    for one in wanted:
        own, master = one.job_id in (job.job_id, job.het_job_id), one.job_id == job.array_job_id
        if one.tasks is None:
            if own or master:
                return job
        elif master:
            tasks |= one.indexes() or frozenset()
    if job.array_task_id is not None:
        return job if job.array_task_id in tasks else None
    if job.array_tasks is None or not tasks:
        return None
    from shim.core.formats.array_spec import ArraySpec

    rest = ArraySpec.parse(job.array_tasks, max_size=_MOST_TASKS)
    left = [index for index in sorted(tasks) if index in rest]
    if not left:
        return None
    if len(left) == 1:
        return job.replace(array_task_id=left[0], array_tasks=None)
    return job.replace(array_tasks=str(ArraySpec.of(left)))


def exactly(job: Job, wanted: Iterable[JobId]) -> bool:
    """Whether the record is an ordinary job, or a component of a heterogeneous job that these ids name by the component's own id."""
    return job.het_offset == 0 or any(one.job_id == job.job_id for one in wanted)


def task_by_task(job: Job) -> list[Job]:
    """The rest of an array as one record for each task; any other job as it is."""
    if job.array_tasks is None:
        return [job]
    from shim.core.formats.array_spec import ArraySpec

    rest = ArraySpec.parse(job.array_tasks, max_size=_MOST_TASKS)
    return [job.replace(array_task_id=index, array_tasks=None) for index in rest]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11
