"""What jobs used of clusters in a period, summed up from the jobs' records: for sreport.

A cluster is reported from the moment on from which its jobs are kept. Nodes count as down from when they were taken out of service, if they
still are: what was before is not recorded. Resources that nobody counts (energy …) are 0.
"""

from __future__ import annotations

import time

from shim.core.render import job_facts as facts
from shim.core.render.sacct_rows import ended
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.job import Job

TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages", "gres/gpu")
_HOUR = 3600
_OF_JOB: dict[str, Callable[[Job], int]] = {
    "cpu": lambda job: job.cpus,
    "billing": lambda job: job.cpus,
    "mem": lambda job: sum(share.memory for share in job.shares),
    "node": lambda job: job.nodes,
    "gres/gpu": facts.gpu_total,
}
_OF_NODE: dict[str, Callable[[Node], int]] = {
    "cpu": lambda node: node.cpus,
    "billing": lambda node: node.cpus,
    "mem": lambda node: node.memory,
    "node": lambda node: 1,
    "gres/gpu": lambda node: node.gpus,
}


def of_job(job: Job, tres: str) -> int:
    """How much of the resource the job holds."""
    return _OF_JOB[tres](job) if tres in _OF_JOB else 0


class Period(Value):
    """Whole hours, from ``start`` up to and without ``end``."""

    start: int
    end: int

    @property
    def seconds(self) -> int:
        """How long it is."""
        return self.end - self.start

    def __str__(self) -> str:
        form = "%Y-%m-%dT%H:%M:%S"
        return " - ".join(time.strftime(form, time.localtime(when)) for when in (self.start, self.end - 1))

    def within(self, begin: float, end: float) -> float:
        """How many seconds of a time lie in the period."""
        return max(0.0, min(end, self.end) - max(begin, self.start))


def period(start: float | None, end: float | None, now: float) -> Period:
    """The hours that begin between the two; yesterday where nothing is said, one hour at least."""
    today = time.localtime(now)[:3]
    midnight = int(time.mktime((*today, 0, 0, 0, 0, 0, -1)))
    yesterday = time.localtime(midnight - _HOUR)[:3]
    first = _whole(start if start is not None else time.mktime((*yesterday, 0, 0, 0, 0, 0, -1)))
    last = _whole(end if end is not None else midnight)
    return Period(start=first, end=last if last > first else first + _HOUR)


def _whole(when: float) -> int:
    """The begin of that hour, by the clock on the wall."""
    here = time.localtime(when)
    return int(when) - here.tm_min * 60 - here.tm_sec


class Ran(Value):
    """A run of a job, ``seconds`` of it in the period."""

    job: Job
    seconds: float


def ran(jobs: Iterable[Job], over: Period, now: float) -> list[Ran]:
    """The runs that have a part in the period, up to now."""
    found = []
    for job in jobs:
        has_run = bool(job.start_time) and (bool(job.shares) or job.state == "REQUEUED")
        seconds = over.within(job.start_time, min(now, ended(job) or now)) if has_run else 0.0
        if seconds > 0:
            found.append(Ran(job=job, seconds=seconds))
    return found


class Utilization:
    """How a cluster was used. ``jobs``: its runs, and the jobs that wait; ``since``: from when on they are kept."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], over: Period, since: float, now: float) -> None:
        self.cluster = cluster
        self._over = over
        self._now = now
        self._known = over.within(since, now)
        self._ran = ran(jobs, over, now)
        self._jobs = jobs

    def count(self, tres: str) -> int:
        """How much of the resource the cluster has."""
        return sum(_OF_NODE[tres](node) for node in self.cluster.nodes) if tres in _OF_NODE else 0

    def figures(self, tres: str) -> dict[str, float]:
        """Seconds of the resource by column of ``cluster utilization``; together all but the last two are what is reported."""
        whole = self.reported(tres)
        allocated = min(whole, sum(of_job(one.job, tres) * one.seconds for one in self._ran))
        down = min(whole - allocated, self._down(tres))
        wanted = sum(of_job(job, tres) * self._waited(job) for job in self._jobs)
        planned = min(whole - allocated - down, wanted)
        return {
            "Allocated": allocated,
            "Down": down,
            "PLND Down": 0,
            "Idle": whole - allocated - down - planned,
            "Planned": planned,
            "Over Comm": wanted - planned,
            "Reported": whole,
        }

    def reported(self, tres: str) -> float:
        """Seconds of the resource of which something is known."""
        return self.count(tres) * self._known

    @property
    def possible(self) -> int:
        """The seconds of the period, of which those are a part from which something is known."""
        return self._over.seconds

    def _down(self, tres: str) -> float:
        out = [node for node in self.cluster.nodes if node.state and node.reason_time and tres in _OF_NODE]
        return sum(_OF_NODE[tres](node) * self._over.within(node.reason_time, self._now) for node in out)

    def _waited(self, job: Job) -> float:
        """Seconds in which the job could have started, had there been room."""
        if not job.eligible_time or job.held:
            return 0
        started = job.start_time if job.shares or job.state == "REQUEUED" else 0
        return self._over.within(job.eligible_time, started or ended(job) or self._now)


class Form(Value):
    """How times are shown: ``divisor`` of seconds (0: not), and whether the part of the whole is shown."""

    name: str
    divisor: int
    part: bool = False

    @property
    def wide(self) -> bool:
        """Whether both are shown."""
        return bool(self.divisor) and self.part

    def show(self, seconds: float, whole: float) -> str:
        """``12``, ``0.50%``, ``12(0.50%)``."""
        part = f"{100 * seconds / whole if whole else 0:.2f}%"
        if not self.divisor:
            return part
        amount = f"{seconds / self.divisor:.0f}"
        return f"{amount}({part})" if self.part else amount


FORMS = (
    Form(name="SecPer", divisor=1, part=True),
    Form(name="MinPer", divisor=60, part=True),
    Form(name="HourPer", divisor=3600, part=True),
    Form(name="Seconds", divisor=1),
    Form(name="Minutes", divisor=60),
    Form(name="Hours", divisor=3600),
    Form(name="Percent", divisor=0, part=True),
)
_UNITS = {1: "Seconds", 60: "Minutes", 3600: "Hours"}
MINUTES = FORMS[4]


def form_of(word: str) -> Form | None:
    """The form that ``word`` names or abbreviates."""
    return next((form for form in FORMS if word and form.name.lower().startswith(word.lower())), None)


def unit_text(form: Form, what: str) -> str:
    """``CPU Minutes/Percentage of Total``; ``what`` ("CPU ") stands before the unit, if there is one."""
    if not form.divisor:
        return "Percentage of Total"
    return f"{what}{_UNITS[form.divisor]}" + ("/Percentage of Total" if form.part else "")
