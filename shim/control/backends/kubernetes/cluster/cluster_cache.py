"""The Jobs and pods of the namespace's jobs, as the watches tell of them. A cache: what is decided by it may wait, or be repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.pod_view import PodView, look

Object = dict[str, Any]
_BELIEVED = 30.0  # seconds in which a watch should tell of what the API server has answered
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
)


class Seen:
    """Of all jobs of the namespace, whoever's they are."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._noted: dict[str, float] = {}  # uids of what no watch has told of yet, and until when it is believed
        self._pods: dict[int, dict[str, Object]] = {}
        self._jobs: dict[int, dict[str, Object]] = {}
        self._over: dict[int, set[str]] = {}

    # What is told

    def pod_event(self, kind: str, pod: Object) -> int:
        """Takes a change of a pod in; the id of the job that it is of, -1 for none."""
        job_id = names.job_of(pod)
        if job_id >= 0:
            view = look(pod)
            if view.ended is not None and view.ended.known:
                self._over.setdefault(job_id, set()).add(view.uid)
            self._noted.pop(pod["metadata"].get("uid", ""), None)
            _put(self._pods.setdefault(job_id, {}), kind, pod)
        return job_id

    def job_event(self, kind: str, job: Object) -> int:
        """Takes a change of a Job in; the id of the job that it is of, -1 for none."""
        job_id = names.job_of(job)
        if job_id >= 0:
            self._noted.pop(job["metadata"].get("uid", ""), None)
            _put(self._jobs.setdefault(job_id, {}), kind, job)
        return job_id

    def note(self, made: Object) -> None:
        """A Job or a pod as the API server has answered it: the watch will tell of it, unless it has gone, or goes while the watch is lost."""
        known = self._pods if made.get("kind") == "Pod" else self._jobs
        found, name = known.setdefault(names.job_of(made), {}), made["metadata"]["name"]
        if name not in found:
            found[name] = self.trim(made)
            self._noted[made["metadata"]["uid"]] = self._clock() + _BELIEVED

    def drop(self, job_id: int, uid: str) -> None:
        """The API server says that this Job or pod is there no more. One that came and went while a watch was lost is never told of as deleted."""
        for known in (self._pods, self._jobs):
            found = known.get(job_id, {})
            for name in [name for name, one in found.items() if one["metadata"].get("uid") == uid]:
                del found[name]

    def forget(self, job_id: int) -> None:
        """The job's record is gone, and all evidence with it."""
        self._over.pop(job_id, None)

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

    def over(self, job_id: int) -> frozenset[str]:
        """The uids of pods that were ever shown as ended, by a kubelet that knew."""
        return frozenset(self._over.get(job_id, ()))

    def jobs_of(self, job_id: int, record: str) -> list[Object]:
        """The Jobs of all runs of the record."""
        return [job for job in self._told(self._jobs, job_id) if names.label(job, names.RECORD) == record]

    def pods_of(self, job_id: int, record: str) -> list[Object]:
        """The pods of all runs of the record."""
        return [pod for pod in self._told(self._pods, job_id) if names.label(pod, names.RECORD) == record]

    def _told(self, known: dict[int, dict[str, Object]], job_id: int) -> list[Object]:
        """What a watch has told, or an answer not long ago."""
        found = list(known.get(job_id, {}).values())
        if not self._noted:
            return found
        for one in found:
            uid = one["metadata"].get("uid", "")
            if self._noted.get(uid, math.inf) < self._clock():
                del self._noted[uid]
                self.drop(job_id, uid)
        return list(known.get(job_id, {}).values())

    def views(self, job_id: int, record: str, number: int, members: Container[str] = ()) -> list[PodView]:
        """The pods of one run; of several with one index the one that the run was granted to (``members``, uids), else one that is not going."""
        found = [look(pod) for pod in self.pods_of(job_id, record) if names.number_of(pod, names.RUN) == number]
        newest: dict[int, PodView] = {}
        for view in sorted(found, key=lambda one: (one.uid in members, not one.leaving, one.ended is None)):
            newest[view.index] = view
        return list(newest.values())

    def orphans(self, job_id: int) -> list[Object]:
        """Jobs and pods of runs that nothing owns (any more): they do not go with a record."""
        found = [*self._jobs.get(job_id, {}).values(), *self._pods.get(job_id, {}).values()]
        return [one for one in found if names.label(one, names.RECORD) and _is_orphan(one["metadata"])]

    @property
    def job_ids(self) -> set[int]:
        """Of all jobs that something is shown of."""
        return {*self._jobs, *self._pods}


def _is_orphan(metadata: Object) -> bool:
    return not metadata.get("ownerReferences") and "deletionTimestamp" not in metadata


def _put(found: dict[str, Object], kind: str, one: Object) -> None:
    if kind == "DELETED":
        found.pop(one["metadata"]["name"], None)
    else:
        found[one["metadata"]["name"]] = one
