"""What the runs of one cluster share: the connection, what is seen of it, the streams."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, ApiError
from shim.control.backends.kubernetes.api.exec_stream import UNREACHED, ExecStream
from shim.control.backends.kubernetes.api.stream_slots import Turns
from shim.control.backends.kubernetes.cluster.cluster_cache import Seen
from shim.control.backends.kubernetes.cluster.events import Events
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.bundle import relay_command
from shim.control.backends.kubernetes.objects.run_objects import Objects
from shim.control.backends.kubernetes.records.store import Records
from shim.control.backends.kubernetes.run.looking import Evidence
from shim.job.pod.asking import boot_time
from shim.job.pod.places import PORT

_REMEMBERED = 600.0  # seconds
_NOT_YET = 2.0  # seconds in which an agent that was seen to run should listen at its port
_log = logging.getLogger("shim.controller")
Object = dict[str, Any]


class Site:
    """One namespace of one cluster. ``owner`` names this host's index among all that use it."""

    def __init__(self, access: Access, namespace: str, cluster: str, owner: str) -> None:
        self.access = access
        self.namespace = namespace
        self.cluster = cluster
        self.owner = owner
        self.host = os.uname().nodename
        self.objects = Objects(access, namespace)
        self.records = Records(access, namespace)
        self.seen = Seen(lambda: self.clock())
        self.evidence = Evidence(access, namespace, lambda: self.clock())
        self.events = Events(access, namespace)
        self.turns = Turns()
        self.place = ""  # uid of the ConfigMap that numbers the jobs of the namespace; "": not known yet
        self.all_known = asyncio.Event()  # the watches have told everything there is
        self.known_user = ""
        self.who = ""  # the API server's name for this user
        self.names_nodes = True  # nodes may be listed: jobs show the names of those that they are on
        self.nodes: Mapping[str, Object] | None = None  # None: not known yet
        self._forwards = True  # pods/portforward is allowed, as far as is known
        self._refused: dict[str, float] = {}  # pods at whose port nobody has answered, and since when
        self._tasks: set[asyncio.Task[None]] = set()

    async def user(self) -> str:
        """Who this user is for the API server, as a label may say it. ApiError."""
        if not self.known_user:
            self.who = await whoami(self.access)
            self.known_user = hashlib.sha256(f"slurm-shim {self.who}".encode()).hexdigest()[:40]
        return self.known_user

    now = staticmethod(time.time)
    clock = staticmethod(boot_time)
    log = staticmethod(_log.warning)

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

    @property
    def synced(self) -> bool:
        """Whether the watches have told everything there is."""
        return self.all_known.is_set()

    async def clear(self, job_id: int) -> None:
        """Removes what is left of records that are no more and has no owner with which it would go. ApiError."""
        left = self.seen.orphans(job_id)
        known = self.records.find(job_id)
        if not left or (known is not None and all(names.label(one, names.RECORD) == known.uid for one in left)):
            return
        record = await self.records.read(job_id)
        for one in left:
            if record is None or names.label(one, names.RECORD) != record.uid:
                path = self.objects.jobs if "completions" in one["spec"] else self.objects.pods
                await self.remove(job_id, path, one["metadata"]["name"], one["metadata"]["uid"])

    async def remove(self, job_id: int, path: str, name: str, uid: str, *, grace: int | None = None) -> None:
        """Removes a Job or a pod of the job, if it is still this very one; it is shown no longer if it is not. ApiError."""
        if not await self.objects.remove(path, name, uid, grace=grace):
            self.seen.drop(job_id, uid)

    async def connect(self, pod: str) -> Any:
        """A socket to the agent in the pod. Raises ApiError.

        To its port, if that is allowed and the pod's runtime can do it; else by a program in the pod, which costs five times as much.
        """
        now = self.clock()
        if self._forwards and now - self._refused.get(pod, now) <= _NOT_YET:
            try:
                stream = await self.access.forward(self.namespace, pod, PORT)
            except ApiError as error:
                if error.missing or error.status in (NO_CONNECTION, 429):
                    raise
                self._forwards = not error.forbidden
                self._refused[pod] = now - _NOT_YET - 1
            else:
                self.soon(self._note_refusal(pod, stream))
                return stream.line
        stream = await self.access.exec(self.namespace, pod, names.CONTAINER, relay_command())
        return stream.line

    async def _note_refusal(self, pod: str, stream: ExecStream) -> None:
        """Nobody answers at a port: not yet, or because the pod has a network that the node does not see (virtual machines)."""
        try:
            await stream.status()
        except ApiError as error:
            if error.reason == UNREACHED:
                now = self.clock()
                known = {name: since for name, since in self._refused.items() if now - since < _REMEMBERED}
                self._refused = {pod: now, **known}

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


async def whoami(access: Access) -> str:
    """The API server's name for this user; the uid here where that cannot be asked (before Kubernetes 1.28). ApiError."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await access.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", dict(kind))
    except ApiError as error:
        if not error.missing and not error.forbidden:
            raise
        return f"uid-{os.getuid()}"
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def plain_name(who: str) -> str:
    """The API server's name for a user as listings show it: ``alice`` for a service account or a certificate of that name."""
    return who.rpartition(":")[2]
