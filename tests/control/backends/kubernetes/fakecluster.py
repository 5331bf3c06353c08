"""A cluster in memory: an ``Access`` whose objects behave as far as the backend relies on it. Pods do what the test says.

It has the Job controller (pods of a Job that is let go, once), the garbage collector, and a kubelet that ends deleted pods.
"""

from __future__ import annotations

import asyncio
import copy
import socket
from collections.abc import Callable
from typing import Any, cast

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from tests.control.backends.kubernetes.fakeleader import FakeLeader

Object = dict[str, Any]
Watcher = Callable[[str, Object], None]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
TERM = 1.0  # seconds in which pods end that are deleted
GRACE = 40  # seconds that they may take for it


class Killed(Exception):
    """The controller was killed at this moment."""


class FakeCluster:
    """``objects``: by path. ``said``: every write, as "POST jobs/slurm-7"."""

    kubeconfig = "/home/jane/.kube/config"
    context = "here"
    namespace = "default"

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.said: list[str] = []
        self.leader: FakeLeader | None = None
        self.printed = b""
        self.user = "jane"
        self.events: list[Object] = []
        self.may_not = {"operate"}
        self.kill_after = 0  # the write after which the controller is killed; 0: none
        self.silent_after = 0  # the write whose answer is lost
        self.refusals: dict[str, Exception] = {}  # what is answered to a write, or Killed
        self.deaf = False  # pods do not hear the TERM
        self.dark = False  # no kubelet hears anything
        self.last: Object = {}  # the status of the container of a pod that is deleted, once it has ended
        self.watchers: list[tuple[str, Watcher]] = []
        self.nodes: dict[str, Object] = {name: node(name) for name in ("n1", "n2", "n3")}
        self.before: dict[str, Callable[[], None]] = {}  # what happens just before a write
        self._version = 0

    @property
    def access(self) -> Access:
        return cast(Access, self)

    # What the backend asks

    async def get(self, path: str, query: Any = None) -> Object:
        if path.endswith("/events"):
            wanted = (query or {}).get("fieldSelector", "").partition("involvedObject.uid=")[2].partition(",")[0]
            return {"items": [{"involvedObject": {"uid": wanted}, **one} for one in self.events]}
        if path == "/api/v1/nodes":
            name = (query or {}).get("fieldSelector", "").removeprefix("metadata.name=")
            return {"items": [copy.deepcopy(self.nodes[name])] if name in self.nodes else []}
        if path in (JOBS, PODS):
            wanted = (query or {}).get("labelSelector", "")
            found = [one for key, one in self.objects.items() if key.startswith(f"{path}/") and selected(one, wanted)]
            return {"items": copy.deepcopy(found)}
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    async def post(self, path: str, body: Object, query: Any = None) -> Object:
        if path.endswith("/selfsubjectreviews"):
            return {"status": {"userInfo": {"username": self.user}}}
        key = f"{path}/{body['metadata']['name']}"
        self._refuse("POST", key)
        if key in self.objects:
            raise ApiError(409, "AlreadyExists", f"{key} already exists")
        made = copy.deepcopy(body)
        self._version += 1
        made["metadata"].update(uid=f"uid-{self._version}", generation=1)
        if path == PODS:
            made["status"] = {"phase": "Pending"}
        self._put("ADDED", key, made)
        self._begin(key)
        self._written("POST", key)
        return copy.deepcopy(made)

    async def put(self, path: str, body: Object) -> Object:
        self._refuse("PUT", path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        before = self.objects[path]["metadata"]
        if body["metadata"]["resourceVersion"] != before["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        if body["metadata"].get("uid", before["uid"]) != before["uid"]:
            raise ApiError(409, "Conflict", "the object is another one")
        body = {**body, "metadata": {**body["metadata"], "uid": before["uid"]}}
        self._put("MODIFIED", path, copy.deepcopy(body))
        self._written("PUT", path)
        return copy.deepcopy(self.objects[path])

    async def delete(
        self, path: str, *, grace: int | None = None, uid: str | None = None, version: str | None = None
    ) -> Object:
        self._refuse("DELETE", path)
        found = self.objects.get(path)
        if found is None:
            raise ApiError(404, "NotFound", f"{path} not found")
        metadata = found["metadata"]
        if uid not in (None, metadata["uid"]) or version not in (None, metadata["resourceVersion"]):
            raise ApiError(409, "Conflict", "the object is another one")
        if path.startswith(PODS):
            self._end_pod(path, grace)
        else:
            self.vanish(path)
        self._written("DELETE", path)
        return {}

    async def can(self, verb: str, resource: str, group: str = "", **_more: Any) -> bool:
        return resource != "podgroups" and verb not in self.may_not

    async def log(self, namespace: str, pod: str, container: str, *, limit: int) -> bytes:
        return self.printed

    async def exec(self, namespace: str, pod: str, container: str, command: Any) -> Any:
        if self.leader is None:
            raise ApiError(500, "InternalError", "the container is not there")
        here, there = socket.socketpair()
        self.leader.serve(there)
        return _Stream(here)

    async def forward(self, namespace: str, pod: str, port: int) -> Any:
        raise ApiError(403, "Forbidden", "pods/portforward is not for you")

    async def greet(self, timeout: float) -> None: ...

    def unheard(self) -> float:
        return 0.0

    async def close(self) -> None:
        if self.leader is not None:
            await self.leader.close()

    # What happens in it

    def pod(self, index: int, stem: str = "slurm-7") -> Object:
        """The pod with this index."""
        return next(
            pod
            for path, pod in self.objects.items()
            if f"{path}-".startswith(f"{PODS}/{stem}-{index}-") and "deletionTimestamp" not in pod["metadata"]
        )

    def bind(self, index: int, node: str, stem: str = "slurm-7") -> None:
        """The pod is given a node."""
        pod = self.pod(index, stem)
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        self.changed(pod)

    def unschedulable(self, index: int, text: str) -> None:
        pod = self.pod(index)
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": text}]
        self.changed(pod)

    def state(self, index: int, name: str, stem: str = "slurm-7", **fields: Any) -> None:
        """The container is ``running``, ``waiting`` or ``terminated``."""
        pod = self.pod(index, stem)
        pod["status"]["containerStatuses"] = [
            {"name": names.CONTAINER, "ready": name == "running", "state": {name: fields}}
        ]
        self.changed(pod)

    def run(self, *places: str, stem: str = "slurm-7") -> None:
        """All pods run, one on each of these nodes."""
        for index, node in enumerate(places):
            self.bind(index, node, stem)
            self.state(index, "running", stem)

    def leave(self, index: int, **ended: Any) -> None:
        """Somebody deletes the pod, and its container has ended before it is gone."""
        pod = self.pod(index)
        pod["metadata"]["deletionTimestamp"] = "2026-11-22T05:00:00Z"
        pod["status"]["containerStatuses"] = [{"name": names.CONTAINER, "ready": False, "state": {"terminated": ended}}]
        self.changed(pod)

    def suspend(self, stem: str = "slurm-7") -> None:
        """Somebody suspends the Job: its pods go, and it is as if it had never started."""
        job = self.objects[f"{JOBS}/{stem}"]
        job["spec"]["suspend"] = True
        job["metadata"]["generation"] += 1
        for path in self.pods():
            pod = self.objects.pop(path)
            pod["metadata"]["deletionTimestamp"] = "2026-11-22T05:00:00Z"
            self._tell("DELETED", path, pod)
        del job["status"]
        self.changed(job, JOBS)

    def silence(self, index: int) -> None:
        """The pod's node has stopped reporting."""
        self._silence(self.pod(index))

    def blackout(self) -> None:
        """All nodes have stopped reporting, and hear nothing."""
        self.dark, self.leader = True, None
        for path in self.pods():
            self._silence(self.objects[path])

    def _silence(self, pod: Object) -> None:
        pod["status"]["conditions"].append({"type": "Ready", "status": "False", "reason": "NodeStatusUnknown"})
        self.changed(pod)

    def changed(self, found: Object, path: str = PODS) -> None:
        self._put("MODIFIED", f"{path}/{found['metadata']['name']}", found)

    def pods(self) -> list[str]:
        """The pods that are there."""
        return [path for path in self.objects if path.startswith(PODS)]

    def vanish(self, path: str) -> None:
        """The object is gone, whoever did it, and what it owned goes with it."""
        gone = self.objects.pop(path)
        if path.startswith(PODS):
            gone["metadata"].setdefault("deletionTimestamp", "2026-11-22T05:00:00Z")
        self._tell("DELETED", path, gone)
        uid = gone["metadata"]["uid"]
        if path.startswith(PODS):
            self._failed(gone)
        for other, found in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in found["metadata"].get("ownerReferences", ())):
                if other.startswith(PODS):
                    self._end_pod(other, None)
                else:
                    self.vanish(other)

    def watch(self, path: str, watcher: Watcher) -> None:
        """``watcher`` is told what there is and what changes from now on."""
        self.watchers.append((path, watcher))
        for key, found in list(self.objects.items()):
            if key.startswith(f"{path}/"):
                watcher("ADDED", copy.deepcopy(found))

    def _refuse(self, verb: str, path: str) -> None:
        self.before.pop(f"{verb} {_short(path)}", lambda: None)()
        refusal = self.refusals.get(f"{verb} {_short(path)}")
        if refusal is not None:
            raise refusal

    def _written(self, verb: str, path: str) -> None:
        self.said.append(f"{verb} {_short(path)}")
        if len(self.said) == self.kill_after:
            raise Killed
        if len(self.said) == self.silent_after:
            raise ApiError(0, "Timeout", "the API server does not answer in time")

    def _put(self, kind: str, path: str, found: Object) -> None:
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = found
        self._tell(kind, path, found)

    def _tell(self, kind: str, path: str, found: Object) -> None:
        for prefix, watcher in list(self.watchers):
            if path.startswith(f"{prefix}/"):
                watcher(kind, copy.deepcopy(found))

    def _begin(self, path: str) -> None:
        """The Job controller: pods of a Job that is not suspended."""
        job = self.objects[path]
        if not path.startswith(JOBS) or job["spec"].get("suspend") or "status" in job:
            return
        job["status"] = {"startTime": "2026-11-22T05:00:00Z"}
        self.changed(job, JOBS)
        for index in range(job["spec"]["completions"]):
            name = f"{job['metadata']['name']}-{index}-{self._version}"
            template = job["spec"]["template"]
            metadata = {
                "name": name,
                "uid": f"uid-{name}",
                "labels": dict(template["metadata"]["labels"]),
                "annotations": {names.INDEX: str(index)},
                "ownerReferences": [{"uid": job["metadata"]["uid"]}],
                "namespace": "default",
            }
            self._put("ADDED", f"{PODS}/{name}", {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})

    def _failed(self, pod: Object) -> None:
        """The Job controller: an index whose pod is gone has failed."""
        owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())]
        for path, job in list(self.objects.items()):
            if path.startswith(JOBS) and job["metadata"]["uid"] in owners:
                status = job["status"]
                before = [one for one in status.get("failedIndexes", "").split(",") if one]
                status["failedIndexes"] = ",".join(sorted({*before, pod["metadata"]["annotations"][names.INDEX]}))
                self.changed(job, JOBS)

    def _end_pod(self, path: str, grace: int | None) -> None:
        pod = self.objects[path]
        states = [one["state"] for one in pod["status"].get("containerStatuses", ())]
        if not pod["spec"].get("nodeName") or any("terminated" in state for state in states) or grace == 0:
            self.vanish(path)
            return
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = "2026-11-22T05:00:00Z"
            pod["metadata"]["deletionGracePeriodSeconds"] = GRACE
            self._put("MODIFIED", path, pod)
        if not self.deaf or grace is not None:
            asyncio.get_running_loop().call_later(TERM, self._kubelet, path)

    def _kubelet(self, path: str) -> None:
        if path in self.objects and not self.dark:
            if self.last:
                pod = self.objects[path]
                pod["status"]["containerStatuses"] = [{"name": names.CONTAINER, "ready": False, **self.last}]
                self.changed(pod)
            asyncio.get_running_loop().call_soon(self._gone, path)

    def _gone(self, path: str) -> None:
        if path in self.objects:
            self.vanish(path)


class _Stream:
    def __init__(self, line: socket.socket) -> None:
        self.line = line


def selected(found: Object, selector: str) -> bool:
    """Whether a selector ("a=b,c=d") selects the object."""
    labels = found["metadata"].get("labels") or {}
    return all(
        labels.get(name) == value for name, _, value in (one.partition("=") for one in selector.split(",") if one)
    )


def _short(path: str) -> str:
    """``secrets/slurm-7-run``."""
    kind, name = path.split("/")[-2:]
    return f"{kind}/{name}"


def node(name: str, boot: str = "") -> Object:
    """A Node object."""
    return {"metadata": {"name": name}, "spec": {}, "status": {"nodeInfo": {"bootID": boot or f"boot-{name}"}}}
