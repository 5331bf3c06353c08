"""What the runs of one cluster share: the connection, the watched objects, the streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names, record
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.bundle import relay_command
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.objects import Objects, changes
from shim.control.backends.kubernetes.observed import PodView, look
from shim.control.backends.kubernetes.turns import Turns

_log = logging.getLogger("shim.controller")
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


class Site:
    """``changed(run)`` is called when an object of a run has changed."""

    def __init__(self, access: Access, namespace: str, cluster: str, owner: str) -> None:
        self.access = access
        self.namespace = namespace
        self.cluster = cluster
        self.owner = owner
        self.objects = Objects(access, namespace)
        self.objects.noted = self.note_job
        self.turns = Turns()
        self.synced = False  # both watches have told everything there is
        self.names_nodes = True  # nodes may be listed: jobs show the names of those that they are on
        self.nodes: Mapping[str, Object] | None = None  # None: not known yet
        self._pods: dict[Run, dict[str, Object]] = {}
        self._jobs: dict[Run, Object] = {}
        self._interrupted: set[Run] = set()
        self._gone: dict[Run, PodView] = {}
        self._unbegun: set[Run] = set()
        self._replaced: set[str] = set()  # uids of Jobs that are gone, which the watch has not told yet
        self._tasks: set[asyncio.Task[None]] = set()

    now = staticmethod(time.time)
    log = staticmethod(_log.warning)

    def pod_event(self, kind: str, pod: Object) -> Run | None:
        """Takes a change of a pod in; the run that it is of."""
        run = names.run_of(pod["metadata"], self.cluster)
        if run is None:
            return None
        pods = self._pods.setdefault(run, {})
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self._last_seen(run, pod)
            pods.pop(name, None)
            if not pods:
                del self._pods[run]
        else:
            if name not in pods and look(pod).index == 0:
                self._unbegun.discard(run)  # that was said of another one
            pods[name] = pod
        return run

    def _last_seen(self, run: Run, pod: Object) -> None:
        """A pod is gone. After a break in the watch ``pod`` is what was seen before: what it shows then must hold for ever."""
        view, job = look(pod), self._jobs.get(run)
        if job is None or view.index != 0 or names.submission_of(pod) != names.submission_of(job):
            return
        if record.began(view):
            self._gone[run] = view
        elif (view.leaving and not view.node) or record.never_began(
            view
        ):  # a pod that is being deleted is bound to no node
            self._unbegun.add(run)

    def job_event(self, kind: str, job: Object) -> Run | None:
        """Takes a change of a Job in; the run that it is of."""
        run = names.run_of(job["metadata"], self.cluster)
        if run is not None:
            uid, before = _uid(job), self._jobs.get(run)
            if uid in self._replaced:
                if kind == "DELETED":
                    self._replaced.discard(uid)
            elif kind == "DELETED":
                self._jobs.pop(run, None)
                self._forget_pods(run)
            elif before is None or changes(job) >= changes(before):  # a watch that lags tells what was
                if before is not None and not _suspended(before) and _suspended(job):
                    self._interrupted.add(run)
                if before is not None and _suspended(before) and not _suspended(job):
                    self._unbegun.discard(run)  # its pods are made anew
                self._jobs[run] = job
        return run

    def _forget_pods(self, run: Run) -> None:
        self._gone.pop(run, None)
        self._interrupted.discard(run)
        self._unbegun.discard(run)

    def leader_unknown(self, run: Run, job: Object) -> bool:
        """Whether ``job``, of which there is no first pod, has had one, and it was not seen that it had not begun."""
        status = job.get("status") or {}
        lists = (str(status.get(name) or "") for name in ("failedIndexes", "completedIndexes"))
        over = any(one.split(",")[0].split("-")[0] == "0" for one in lists)
        return (over or self._was_suspended(run, job)) and run not in self._unbegun

    def _was_suspended(self, run: Run, job: Object) -> bool:
        """Whether somebody has suspended the Job after it was let go: what became of its pods then its status does not say."""
        if names.QUEUE in (job["metadata"].get("labels") or {}):
            return False  # that is its queue's daily work, before the start
        return run in self._interrupted or changes(job) > (0 if _suspended(job) else 1)

    def owner_of(self, run: Run) -> str | None:
        """Whose run it is, as its objects say; None for one of which nothing is seen."""
        for found in (*filter(None, (self._jobs.get(run),)), *self._pods.get(run, {}).values()):
            return names.owner_of(found)
        return None

    def runs_of(self, owner: str) -> list[Run]:
        """The owner's runs of which there is a Job or a pod."""
        return [run for run in self.runs() if self.owner_of(run) == owner]

    def drop(self, owner: str) -> None:
        """The owner's objects are watched no more."""
        for run in self.runs_of(owner):
            self._jobs.pop(run, None)
            self._pods.pop(run, None)

    def pods_of(self, run: Run) -> Iterable[Object]:
        """The pods of a run."""
        return list(self._pods.get(run, {}).values())

    def strays(self, run: Run) -> list[Object]:
        """Pods that a Job has left which is there no more."""
        job = self._jobs.get(run)
        attempt = names.submission_of(job) if job is not None else None
        return [pod for pod in self.pods_of(run) if names.submission_of(pod) != attempt]

    def still_there(self, pods: Iterable[Object]) -> str:
        """Why a job cannot run again yet: which of the pods may still write its files; "" if none may."""
        left = [view for view in map(look, pods) if not view.over and not self.node_is_gone(view.node)]
        text = "pods of the run before are still there" if left else ""
        silent = sorted({view.node for view in left if view.silent or self.node_is_silent(view.node)})
        if silent:
            text += f", on {', '.join(silent)}: until it answers, is removed or tainted out-of-service"
        return text

    def runs(self) -> set[Run]:
        """The runs of which there is a Job or a pod."""
        return {*self._jobs, *self._pods}

    def has_job(self, run: Run) -> bool:
        """Whether the run's Job is there."""
        return run in self._jobs

    def job(self, run: Run) -> Object | None:
        """The run's Job."""
        return self._jobs.get(run)

    def suspended(self, run: Run) -> bool:
        """Whether the run's Job is suspended."""
        return _suspended(self._jobs.get(run) or {})

    def interrupted(self, run: Run) -> bool:
        """Whether the run's Job was suspended after it had been let go: its pods are made anew when it is resumed, or were already."""
        return run in self._interrupted

    def gone_leader(self, run: Run) -> PodView | None:
        """The last of a leader that has begun the run and is gone, while the run's Job is there."""
        return self._gone.get(run)

    def note_job(self, run: Run, job: Object) -> None:
        """A Job as it is now: the watch will tell of it, and may still have to tell of one of its name before."""
        before = self._jobs.get(run)
        if before is not None and _uid(before) != _uid(job):
            self._replaced.add(_uid(before))
            self._forget_pods(run)
            before = None
        if before is None or changes(job) > changes(before):
            self._jobs[run] = self.trim(job)

    def node_is_gone(self, node: str) -> bool:
        """Whether nothing can run on the node any more: it was removed, or an administrator says that it is out of service."""
        if not self.names_nodes or self.nodes is None or not node:
            return False
        found = self.nodes.get(node)
        if found is None:
            return True
        return any(
            taint.get("key") == "node.kubernetes.io/out-of-service"
            for taint in (found.get("spec") or {}).get("taints") or ()
        )

    def node_is_silent(self, node: str) -> bool:
        """Whether the node's kubelet is known to have stopped reporting. What runs there may go on."""
        conditions = ((self.nodes or {}).get(node, {}).get("status") or {}).get("conditions") or ()
        return any(one.get("type") == "Ready" and one.get("status") == "Unknown" for one in conditions)

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

    async def connect(self, pod: str) -> Any:
        """A socket to the agent in the pod. Raises ApiError."""
        stream = await self.access.exec(self.namespace, pod, names.CONTAINER, relay_command())
        return stream.line

    def soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Does ``work`` beside everything else; the API server's refusals are logged. The task never fails."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: work.close())  # one that was cancelled before it began
        return task

    async def _logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ApiError, OSError) as error:
            self.log("%s", error)

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _uid(found: Object) -> str:
    return str(found["metadata"].get("uid", ""))


def _suspended(job: Object) -> bool:
    return bool(job.get("spec", {}).get("suspend"))
