"""The index of another user, as an operator whom that user has named sees it: each question goes to that user's controller.

Nothing is read in the folder, and nothing of it believed but what its owner's controller says (``operators.py``). What it tells is
as fresh as can be: the controller that answers is the one that writes.
"""

from __future__ import annotations

from shim.control import operators
from shim.control.index.query import JobQuery
from shim.control.index.reader import OUTLINE, Reader
from shim.core import jsonlite
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


class AskedReader(Reader):
    """The questions of ``Reader``, asked of a controller. Raises what ``operators.ask`` raises."""

    live = True

    def __init__(self) -> None:
        self.path = ""
        self._version = 0

    def __del__(self) -> None:
        """There is nothing to give back."""

    def close(self) -> None:
        """There is nothing to give back."""

    def jobs(self, query: JobQuery) -> list[Job]:
        """As Reader."""
        return _jobs("jobs", query=query.to_dict())

    def outlines(self, query: JobQuery) -> list[tuple[Any, ...]]:
        """As Reader."""
        lines = []
        for job in self.jobs(query):
            record = jsonlite.dumps(job.to_dict())
            lines.append((*(getattr(job, name) for name in OUTLINE), record))
        return lines

    def spans(self, since: float, *, gpus: bool = False) -> list[tuple[str, float, float, int, int]]:
        """As Reader."""
        return [(*found,) for found in _asked("spans", since=since, gpus=gpus)]

    def labels(self) -> list[tuple[str, str, str, str, str]]:
        """As Reader."""
        return [(*found,) for found in _asked("labels")]

    def first_submission(self, cluster: str) -> float:
        """As Reader."""
        return float(_asked("first_submission", cluster=cluster))

    def version(self) -> int:
        """Another one each time: whether anybody has written is not asked."""
        self._version += 1
        return self._version

    def crontab(self) -> str | None:
        """As Reader."""
        found = operators.ask("crontab", {"do": "get"})["text"]
        return str(found) if found is not None else None

    def array(self, cluster: str, array_job_id: int) -> list[Job]:
        """As Reader."""
        return _jobs("array", cluster=cluster, job_id=array_job_id)

    def job(self, cluster: str | None, job_id: int) -> Job | None:
        """As Reader."""
        found = _asked("job", cluster=cluster, job_id=job_id)
        return Job.from_dict(found) if found is not None else None

    def passed_jobs(self, job_ids: Sequence[int] = (), since: float = 0) -> list[Job]:
        """None: a real Slurm shows its jobs itself."""
        return []

    def passed_of(self, cluster: str, job_ids: Sequence[int] = (), since: float | None = None) -> list[Job]:
        """None: a real Slurm shows its jobs itself."""
        return []

    def steps_of(
        self, jobs: Iterable[Job], *, running: bool = False, every_run: bool = False
    ) -> list[tuple[Job, Step]]:
        """As Reader."""
        runs = {job.key: job for job in jobs}
        found = _asked("steps", runs=_runs(runs.values()), running=running, every_run=every_run) if runs else []
        return [(runs[key], Step.from_dict(step)) for key, step in found]

    def step(self, job: Job, step_id: str) -> Step | None:
        """As Reader."""
        found = _asked("step", runs=_runs([job]), step=step_id)
        return Step.from_dict(found) if found is not None else None

    def transitions(self, keys: Iterable[int]) -> dict[int, list[tuple[int, float, str]]]:
        """As Reader."""
        found = _asked("transitions", runs=[[key, 0] for key in keys])
        return {key: [(restart, moment, state) for restart, moment, state in became] for key, became in found}

    def cluster(self, name: str) -> Cluster | None:
        """As Reader."""
        found = _asked("cluster", cluster=name)
        return Cluster.from_dict(found) if found is not None else None

    def changes(self, cluster: str) -> dict[str, Any]:
        """As Reader."""
        found: dict[str, Any] = _asked("changes", cluster=cluster)
        return found

    def active(self) -> bool:
        """As Reader."""
        return bool(_asked("active"))

    def generation(self) -> int:
        """As Reader."""
        return int(_asked("generation"))

    def last_job_id(self, first: int = 1, end: int = 1 << 62) -> int:
        """As Reader."""
        return int(_asked("last_job_id", first=first, end=end))

    def pruned(self) -> float:
        """As Reader."""
        return float(_asked("pruned"))

    def troubles(self) -> list[tuple[str, str]]:
        """As Reader."""
        return [(name, why) for name, why in _asked("troubles")]

    def meta(self, name: str) -> str | None:
        """The controller keeps its words to itself."""
        return None

    def files(self) -> list[list[Any]]:
        """Where the owner's configuration is concerns nobody else."""
        return []

    def kept(self) -> list[str]:
        """As ``files``."""
        return []


def _asked(question: str, **fields: Any) -> Any:
    return operators.ask("look", {"question": question, **fields})["answer"]


def _jobs(question: str, **fields: Any) -> list[Job]:
    found: list[Job] = []

    def more(event: dict[str, Any]) -> None:
        found.extend([Job.from_dict(one) for one in event["jobs"]])

    operators.ask("look", {"question": question, **fields}, more)
    return found


def _runs(jobs: Iterable[Job]) -> list[list[int]]:
    return [[job.key, job.restarts] for job in jobs]
