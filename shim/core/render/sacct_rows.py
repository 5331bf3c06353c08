"""What sacct lists: jobs and steps as accounting sees them, which of them are meant, and in which order."""

from __future__ import annotations

from shim.core.model import states
from shim.core.model.job import Step
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.step_fields import step_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shim.core.model.job import Job, NodeShare
    from shim.core.model.usage import Usage
    from shim.core.render.view import View

# States that slurmctld keeps as a flag beside RUNNING: accounting knows the state alone.
_RUNNING = frozenset((states.RUNNING, states.CONFIGURING, states.COMPLETING, states.STOPPED))
# Their end is recorded before the processes' status is known.
_NO_STATUS = frozenset((states.CANCELLED, states.TIMEOUT, states.NODE_FAIL, states.PREEMPTED, states.REQUEUED))
_STEP_ORDER = {"batch": -3, "extern": -2, "interactive": -1}


class Row:
    """One line: a job (``step`` None) or one of its steps, with the times that are shown. ``usage``: a job's is that of all its steps."""

    __slots__ = ("end", "job", "start", "step", "usage", "view")

    def __init__(self, job: Job, step: Step | None, view: View, usage: Usage | None = None) -> None:
        self.usage = usage if step is None else step.usage
        self.job = job
        self.step = step
        self.view = view
        started = job.start_time if job.state != states.PENDING else 0.0
        self.start = started if step is None else step.start_time
        self.end = ended(job) if step is None else step.end_time

    @property
    def state(self) -> str:
        """The state as accounting has it."""
        state = self.job.state if self.step is None else self.step.state
        return states.RUNNING if state in _RUNNING else state

    @property
    def cancelled_by(self) -> int | None:
        """Who ended it, as a uid."""
        return self.job.cancelled_by if self.step is None else self.step.cancelled_by

    @property
    def ran(self) -> bool:
        """Whether the job ever had nodes."""
        return bool(self.job.shares) or self.job.state == states.REQUEUED

    @property
    def elapsed(self) -> int:
        """Seconds from start to end, or to now; 0 for what never ran."""
        if not self.start or not self.ran:
            return 0
        return max(0, int(self.end or self.view.now) - int(self.start))

    @property
    def shares(self) -> tuple[NodeShare, ...]:
        """The shares that the row is about: of a step those of its nodes, of the batch step the first one."""
        if self.step is None:
            return self.job.shares
        if self.step.step_id == "batch":
            return self.job.shares[:1]
        return tuple(share for share in self.job.shares if share.name in self.step.nodes)

    @property
    def cpus(self) -> int:
        """Allocated CPUs; of a job that waits those it needs."""
        if self.step is None:
            return self.job.cpus
        shares = self.shares
        return shares[0].cpus if self.step.step_id == "batch" and shares else self.step.cpus

    @property
    def label(self) -> str:
        """``12``, ``12_3``, ``12_[4-9]``, ``12.0``, ``12_3.batch``, ``12+1.0``."""
        if self.step is None:
            return facts.label(self.job)
        return f"{self.job.array_label}.{self.step.step_id}" if self.job.het_job_id else step_label(self.job, self.step)

    @property
    def raw_label(self) -> str:
        """The same by the job's own id."""
        return str(self.job.job_id) + ("" if self.step is None else f".{self.step.step_id}")

    @property
    def status(self) -> int:
        """The raw wait status as accounting has it."""
        if self.step is not None:
            return self.step.exit_status
        return 0 if self.job.state in _NO_STATUS or self.job.state not in states.TERMINAL else self.job.exit_status

    def truncate(self, since: float, until: float) -> None:
        """``--truncate``: times outside of the window are moved to its edge."""
        if self.start:
            self.start = max(self.start, since)
        if until and (not self.end or self.end > until):
            self.end = until


def earlier_runs(job: Job, transitions: Iterable[tuple[int, float, str]]) -> list[Job]:
    """The runs before a requeue as jobs of their own, from what was recorded of them: (restart count, time, state)."""
    found: dict[int, Job] = {}
    for restart, moment, state in transitions:
        if restart >= job.restarts or state == states.PENDING:
            continue
        run = found.get(restart) or job.replace(restarts=restart, start_time=0.0)
        if state in (states.CONFIGURING, states.RUNNING):
            run = run.replace(start_time=moment)
        found[restart] = run.replace(
            state=state,
            end_time=moment,
            exit_status=0,
            derived_status=0,
            cancelled_by=None,
            usage=None,
            script_status=None,
        )
    return [found[restart] for restart in sorted(found)]


def exit_code(status: int) -> str:
    """``code:signal``; of a code from 128 up accounting shows what is above."""
    code = status >> 8 & 0xFF
    return f"{code - 128 if code >= 128 else code}:{status & 0x7F}"


def ended(job: Job) -> float:
    """When the job ended; 0 for one that has not."""
    return job.end_time if job.state in states.TERMINAL or job.state == states.REQUEUED else 0.0


def in_window(job: Job, wanted: Sequence[str], since: float, until: float) -> bool:
    """Whether the job counts between ``since`` and ``until``: it was there; with states, it was in one of them."""
    if not wanted:
        end = int(ended(job))
        return bool(job.eligible_time) and int(job.eligible_time) <= until and (not end or end >= since)
    return any(_was(job, state, since, until) for state in wanted)


def _was(job: Job, state: str, since: float, until: float) -> bool:
    """Whether the job was in the state at some time between the two, both of which count. Accounting knows whole seconds."""
    end, waits = int(ended(job)), job.state == states.PENDING
    started = 0 if waits or not job.shares else int(job.start_time)
    if state == states.PENDING:
        if not job.eligible_time or int(job.eligible_time) > until:
            return False
        return since <= started if started else waits or since <= end
    if state in (states.RUNNING, states.SUSPENDED):
        if state == states.SUSPENDED and not job.suspend_time:
            return False
        return bool(started) and started <= until and (not end or since <= end)
    return job.state == state and since <= end <= until


def order(job: Job) -> tuple[int, int, int, int]:
    """Plain jobs by id, then arrays task by task, then what is left of each; several runs of one job by age."""
    if not job.array_job_id:
        return 0, job.job_id, 0, job.restarts
    task = INFINITE & 0xFFFFFFFF if job.array_task_id is None else job.array_task_id
    return job.array_job_id, task, job.job_id, job.restarts


def step_order(step: Step) -> tuple[int, str]:
    """batch, extern and interactive before the numbers."""
    if step.step_id.isdigit():
        return int(step.step_id), ""
    return _STEP_ORDER.get(step.step_id, -1), step.step_id


def used(steps: Iterable[tuple[Job, Step]]) -> dict[tuple[int, int], Usage]:
    """What all steps of each run have used together, by the job's key and restart count."""
    found: dict[tuple[int, int], Usage] = {}
    for job, step in steps:
        if step.usage is not None:
            run = (job.key, step.restart)
            found[run] = step.usage.plus(found.get(run))
    return found


def rows(
    jobs: Iterable[Job],
    steps: Iterable[tuple[Job, Step]],
    view_of: dict[str, View],
    usage: Mapping[tuple[int, int], Usage],
) -> list[Row]:
    """The jobs in sacct's order, each with its steps behind it. ``usage``: as ``used`` has it."""
    by_run: dict[tuple[int, int], list[Step]] = {}
    for job, step in steps:
        by_run.setdefault((job.key, step.restart), []).append(step)
    found = []
    for job in sorted(jobs, key=order):
        view = view_of[job.cluster]
        found.append(Row(job, None, view, usage.get((job.key, job.restarts))))
        own = by_run.get((job.key, job.restarts), ())
        found.extend(Row(job, step, view) for step in sorted(own, key=step_order))
    return found


def batch_step(job: Job) -> Step | None:
    """The batch script as the step that accounting makes of it; None for a job without one, and one that never ran.

    Of a heterogeneous job the first component has it.
    """
    if job.request.kind != "batch" or not job.shares or job.het_offset:
        return None
    status = job.exit_status if job.script_status is None else job.script_status
    code, number = status >> 8 & 0xFF, status & 0x7F
    state = states.RUNNING
    if job.state == states.OUT_OF_MEMORY:
        state = job.state
    elif ended(job):
        state = states.CANCELLED if number else states.FAILED if code else states.COMPLETED
    return Step(
        job_id=job.job_id,
        restart=job.restarts,
        step_id="batch",
        name="batch",
        state=state,
        nodes=(job.shares[0].name,),
        cpus=job.shares[0].cpus,
        start_time=job.start_time,
        end_time=ended(job),
        exit_status=status,
        usage=job.usage,
    )
