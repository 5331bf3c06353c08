"""One job and its steps, asked for as if they were an index."""

from __future__ import annotations

from shim.control.index.query import JobQuery
from shim.core.model import states

from ..client import Unreachable
from ..run import job_and_steps, spec
from ..site import cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job, Step


class Reader:
    """The methods of ``shim.control.index.reader.Reader`` that commands use."""

    live = False  # ``shim.inside.alive`` answers

    def __init__(self) -> None:
        self._job, self._steps = job_and_steps()

    def jobs(self, query: JobQuery) -> list[Job]:
        """The job, if it fits."""
        return [self._job] if _fits(self._job, query) else []

    def job(self, cluster: str | None, job_id: int) -> Job | None:
        """The job, if that is its id."""
        return self._job if job_id == self._job.job_id and cluster in (None, self._job.cluster) else None

    def steps(self, jobs: Iterable[Job], *, running: bool = False) -> list[Step]:
        """The steps of this run."""
        if not any(job.job_id == self._job.job_id for job in jobs):
            return []
        return [step for step in self._steps if not (running and step.state in states.TERMINAL)]

    def steps_of(
        self, jobs: Iterable[Job], *, running: bool = False, every_run: bool = False
    ) -> list[tuple[Job, Step]]:
        """The same with the job. Runs before this one are not known here."""
        return [(self._job, step) for step in self.steps(jobs, running=running)]

    def transitions(self, keys: Iterable[int]) -> dict[int, list[tuple[int, float, str]]]:
        """What became of the job before is not known here."""
        return {}

    def crontab(self) -> str | None:
        """The user's table is not known here."""
        raise Unreachable("crontab")

    def labels(self) -> list[tuple[str, str, str, str, str]]:
        """What the job names."""
        asked = self._job.request
        return [(self._job.cluster, self._job.user, asked.account or "", asked.qos or "", asked.wckey or "")]

    def first_submission(self, cluster: str) -> float:
        """The job's own."""
        return self._job.submit_time

    def passed_jobs(self, job_ids: Sequence[int] = (), since: float = 0) -> list[Job]:
        """No job went from here to a real Slurm."""
        return []

    def passed_of(self, cluster: str, job_ids: Sequence[int] = (), since: float | None = None) -> list[Job]:
        """None either of that cluster."""
        return []

    def last_job_id(self, first: int = 1, end: int = 1 << 62) -> int:
        """The job's own: no other was given out here."""
        return self._job.job_id

    def cluster(self, name: str) -> Cluster | None:
        """The cluster, if that is its name."""
        return cluster(name) if name == spec().cluster.name else None

    def changes(self, cluster: str) -> dict[str, Any]:
        """What operators changed is not known here: the cluster is as it was when the run began."""
        return {}

    def active(self) -> bool:
        """Always: the job that asks."""
        return True

    def troubles(self) -> list[tuple[str, str]]:
        """The job's own cluster is never asked from here."""
        return []

    def pruned(self) -> float:
        """The job is here."""
        return 0

    def generation(self) -> int:
        """Nothing is ever behind."""
        return 1


def open_reader(path: str) -> Reader | None:
    """The one reader."""
    return Reader()


def _fits(job: Job, query: JobQuery) -> bool:
    """The conditions of ``query.where``."""
    ended = job.state in states.TERMINAL
    if query.active:
        if ended:
            return False
    elif query.ended_since is not None and ended and job.end_time < query.ended_since:
        return False
    return (
        (not query.cluster or query.cluster == job.cluster)
        and (not query.clusters or job.cluster in query.clusters)
        and (not query.job_ids or job.job_id in query.job_ids or job.array_job_id in query.job_ids)
        and (not query.states or job.state in query.states)
        and (not query.users or job.uid in query.users)
        and (not query.names or job.name in query.names)
        and (not query.partitions or job.partition in query.partitions)
    )
