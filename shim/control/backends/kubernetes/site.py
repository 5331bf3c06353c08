"""What the runs of one cluster share: the connection, what is seen of it, the streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.bundle import relay_command
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.objects import Objects
from shim.control.backends.kubernetes.observed import look
from shim.control.backends.kubernetes.seen import Seen
from shim.control.backends.kubernetes.turns import Turns

_log = logging.getLogger("shim.controller")
Object = dict[str, Any]


class Site:
    """One namespace of one cluster, as one owner."""

    def __init__(self, access: Access, namespace: str, cluster: str, owner: str) -> None:
        self.access = access
        self.namespace = namespace
        self.cluster = cluster
        self.owner = owner
        self.objects = Objects(access, namespace)
        self.seen = Seen(cluster)
        self.objects.noted = self.seen.note_job
        self.turns = Turns()
        self.synced = False  # both watches have told everything there is
        self.names_nodes = True  # nodes may be listed: jobs show the names of those that they are on
        self.nodes: Mapping[str, Object] | None = None  # None: not known yet
        self._tasks: set[asyncio.Task[None]] = set()

    now = staticmethod(time.time)
    log = staticmethod(_log.warning)

    def still_there(self, pods: Iterable[Object]) -> str:
        """Why a job cannot run again yet: which of the pods may still write its files; "" if none may."""
        left = [view for view in map(look, pods) if not view.over and not self.node_is_gone(view.node)]
        text = "pods of the run before are still there" if left else ""
        silent = sorted({view.node for view in left if view.silent or self.node_is_silent(view.node)})
        if silent:
            text += f", on {', '.join(silent)}: until it answers, is removed or tainted out-of-service"
        return text

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
