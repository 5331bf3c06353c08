"""The Jobs and pods of all runs, as the watches tell of them and as the API server has answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.leaders import Leaders
from shim.control.backends.kubernetes.observed import changes, look, queued, suspended

Object = dict[str, Any]
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class Seen:
    """Of one cluster of the configuration, whoever's runs they are."""

    def __init__(self, cluster: str) -> None:
        self.leaders = Leaders()
        self._cluster = cluster
        self._pods: dict[Run, dict[str, Object]] = {}
        self._jobs: dict[Run, Object] = {}
        self._replaced: set[str] = set()  # uids of Jobs that are gone, which the watch has not told yet

    # What is told

    def pod_event(self, kind: str, pod: Object) -> Run | None:
        """Takes a change of a pod in; the run that it is of."""
        run = names.run_of(pod["metadata"], self._cluster)
        if run is None:
            return None
        pods = self._pods.setdefault(run, {})
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            view, job = look(pod), self._jobs.get(run)
            if job is not None and view.index == 0 and names.submission_of(pod) == names.submission_of(job):
                self.leaders.left(run, view, job)
            pods.pop(name, None)
            if not pods:
                del self._pods[run]
        else:
            if name not in pods and look(pod).index == 0:
                self.leaders.came(run)
            pods[name] = pod
        return run

    def job_event(self, kind: str, job: Object) -> Run | None:
        """Takes a change of a Job in; the run that it is of."""
        run = names.run_of(job["metadata"], self._cluster)
        if run is not None:
            uid, before = _uid(job), self._jobs.get(run)
            if uid in self._replaced:
                if kind == "DELETED":
                    self._replaced.discard(uid)
            elif before is not None and _uid(before) != uid:
                pass  # of an earlier one, which was not known here: the watch lags
            elif kind == "DELETED":
                self._jobs.pop(run, None)
                self.leaders.forget(run)
            elif before is None or changes(job) >= changes(before):  # a watch that lags tells what was
                self._put(run, before, job)
        return run

    def note_job(self, run: Run, job: Object) -> None:
        """A Job as it is now: the watch will tell of it, and may still have to tell of one of its name before."""
        before = self._jobs.get(run)
        if before is not None and _uid(before) != _uid(job):
            self._replaced.add(_uid(before))
            self.leaders.forget(run)
            before = None
        if before is None or changes(job) > changes(before):
            self._put(run, before, self.trim(job))

    def job_is_gone(self, run: Run) -> None:
        """The API server has no Job of the run: a watch that has never told of it will not tell that it is gone."""
        job = self._jobs.pop(run, None)
        if job is not None:
            self._replaced.add(_uid(job))
            self.leaders.forget(run)

    def _put(self, run: Run, before: Object | None, job: Object) -> None:
        self.leaders.changed(run, before, job, self.pods_of(run))
        self._jobs[run] = job

    def drop(self, owner: str) -> None:
        """The owner's objects are watched no more."""
        for run in self.runs_of(owner):
            self._jobs.pop(run, None)
            self._pods.pop(run, None)

    @staticmethod
    def trim(found: Object) -> Object:
        """What is looked at of a Job or a pod: of 40 KB a pod has, two are kept."""
        spec, metadata = found.get("spec") or {}, found["metadata"]
        kept = {name: metadata[name] for name in _METADATA if name in metadata}
        return {
            **found,
            "metadata": kept,
            "spec": {name: spec[name] for name in ("nodeName", "suspend", "completions") if name in spec},
        }

    # What is known

    def runs(self) -> set[Run]:
        """The runs of which there is a Job or a pod."""
        return {*self._jobs, *self._pods}

    def runs_of(self, owner: str) -> list[Run]:
        """The owner's runs of which there is a Job or a pod."""
        return [run for run in self.runs() if self.owner_of(run) == owner]

    def owner_of(self, run: Run) -> str | None:
        """Whose run it is, as its objects say; None for one of which nothing is seen."""
        for found in (*filter(None, (self._jobs.get(run),)), *self._pods.get(run, {}).values()):
            return names.owner_of(found)
        return None

    def has_job(self, run: Run) -> bool:
        """Whether the run's Job is there."""
        return run in self._jobs

    def job(self, run: Run) -> Object | None:
        """The run's Job."""
        return self._jobs.get(run)

    def suspended(self, run: Run) -> bool:
        """Whether the run's Job is suspended."""
        return suspended(self._jobs.get(run) or {})

    def never_let_go(self, run: Run) -> bool:
        """Whether the run's Job is as it was made: an answer was lost, and with it what was asked."""
        job = self._jobs.get(run)
        return job is not None and not queued(job) and suspended(job) and changes(job) == 0

    def pods_of(self, run: Run) -> Iterable[Object]:
        """The pods of a run."""
        return list(self._pods.get(run, {}).values())

    def strays(self, run: Run) -> list[Object]:
        """Pods that a Job has left which is there no more."""
        job = self._jobs.get(run)
        attempt = names.submission_of(job) if job is not None else None
        return [pod for pod in self.pods_of(run) if names.submission_of(pod) != attempt]


def _uid(found: Object) -> str:
    return str(found["metadata"].get("uid", ""))
