"""The cluster's shape as it is now: its nodes and what others use of them, watched where that is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.reflector import DELETED, Reflector
from shim.control.backends.kubernetes.cluster import nodes, priorities, usage_sums
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.settings import settings_of
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster

REST = 0.2  # seconds between two looks: pods come and go in swarms
_LONG = 20.0  # seconds that a submission waits for the nodes
FIRST_LOOK = 5.0  # seconds for the nodes at the beginning
AGAIN = 5.0  # seconds until a cluster that did not answer is asked again
Object = dict[str, Any]


class Shape:
    """``changed(cluster)`` is called when the shape may be another; ``active(job_id)``: the index counts what the job's run holds."""

    def __init__(
        self, site: Site, configured: Cluster, changed: Callable[[Cluster], None], active: Callable[[int], bool]
    ) -> None:
        self.names_nodes = False  # the nodes are those of the cluster, not described ones
        self.pod_groups = False
        self._site = site
        self._configured = configured
        self._ranked = configured  # with what the partitions' PriorityClasses mean
        self._changed = changed
        self._active = active
        self._nodes: Reflector | None = None
        self._pods: Reflector | None = None
        self._sums = usage_sums.Sums(self._ours)
        self._there = asyncio.Event()
        self._counted = asyncio.Event()  # all pods are known
        self._known = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.Task[None] | None = None

    async def open(self, patience: float = FIRST_LOOK) -> Cluster:
        """Begins to watch; the shape, as far as it is told within ``patience`` seconds. Raises ShimError where neither the cluster nor the configuration tells the nodes.

        A cluster that does not answer is asked again, in the background: the others need not wait for it.
        """
        try:
            async with asyncio.timeout(patience):
                await self._begin()
        except (ApiError, TimeoutError) as error:
            self._site.log("cluster %s: %s", self._site.cluster, str(error) or "it does not answer")
            self._later = asyncio.get_running_loop().create_task(self._try_again())
        return self.now()

    async def _try_again(self) -> None:
        while True:
            await asyncio.sleep(AGAIN)
            try:
                await self._begin()
                return
            except ApiError:
                continue  # its watches log the trouble
            except ShimError as error:
                self._site.log("%s", error)
                return

    async def _begin(self) -> None:
        access = self._site.access
        listed = await access.can("list", "nodes", namespace="")
        if not listed and not self._configured.nodes:
            raise ShimError(
                f"error: cluster {self._configured.name}: its nodes may not be listed;"
                ' "nodes", "cpus" and "memory" in the configuration must describe them'
            )
        self.pod_groups = await self._has_pod_groups()
        self._ranked = await priorities.with_priorities(self._configured, access, self._site.namespace)
        self.names_nodes = listed and not self._configured.nodes
        self._site.names_nodes = self.names_nodes
        if not self.names_nodes:
            self._known.set()
            return
        if self._nodes is None:
            self._nodes = Reflector(
                access, "/api/v1/nodes", on_event=self._event, on_synced=self._there.set, trim=_trim_node
            )
            self._nodes.start()
        if self._pods is None and await access.can("list", "pods", namespace=""):
            self._pods = Reflector(
                access,
                "/api/v1/pods",
                on_event=self._pod,
                on_synced=self._counted.set,
                trim=partial(usage_sums.trim, gpu=settings_of(self._configured).gpu_resource),
                fields="status.phase!=Succeeded,status.phase!=Failed",
            )
            self._pods.start()
        await self._there.wait()
        if self._pods is not None:
            await self._counted.wait()  # nodes seem free until it is known what runs on them
        self._site.nodes = self._nodes.objects  # not before all are there: one that is missing counts as gone
        self._known.set()
        self.look()

    async def settled(self) -> None:
        """Returns when the shape is known."""
        await self._known.wait()

    async def known(self) -> Cluster:
        """The shape once it is known. Raises BackendError where that takes long."""
        try:
            async with asyncio.timeout(_LONG):
                await self._known.wait()
        except TimeoutError:
            raise BackendError("the cluster has not told its nodes yet", transient=True) from None
        return self.now()

    async def _has_pod_groups(self) -> bool:
        mode = settings_of(self._configured).gang
        if mode == "suspend":
            return False
        try:
            await self._site.access.get("/apis/scheduling.k8s.io/v1alpha2")
        except ApiError as error:
            if error.missing or error.forbidden:
                return False
            raise
        return await self._site.access.can("create", "podgroups", "scheduling.k8s.io", namespace=self._site.namespace)

    @property
    def counts(self) -> bool:
        """Whether it is known what is free: a job that is let go has its nodes at once, unless somebody was quicker."""
        return self._pods is not None and self._counted.is_set()

    def now(self) -> Cluster:
        """The shape as it is known; as configured until nodes and pods are."""
        if self._nodes is None or not self._known.is_set():
            return self._configured
        return nodes.shaped(self._ranked, self._nodes.objects.values(), self._sums, self._active)

    def _ours(self, metadata: Mapping[str, Any]) -> int | None:
        """The job of this namespace that a pod is of."""
        found = {"metadata": metadata}
        own = metadata.get("namespace") == self._site.namespace and names.label(found, names.MANAGED) == names.MANAGER
        job_id = names.job_of(found)
        return job_id if own and job_id >= 0 else None

    def _pod(self, kind: str, found: Object) -> None:
        (self._sums.drop if kind == DELETED else self._sums.put)(found)
        self.look()

    def hostname(self, node: str) -> str:
        """The label by which pods are bound to the node."""
        found = self._nodes.objects.get(node) if self._nodes is not None else None
        return nodes.hostname(found) if found is not None else node

    def _event(self, kind: str, found: Object) -> None:
        self.look()

    def look(self) -> None:
        """Something may have changed: looked at soon, together with what follows."""
        if self._timer is None and self._nodes is not None and self._known.is_set():
            self._timer = asyncio.get_running_loop().call_later(REST, self._look)

    def _look(self) -> None:
        self._timer = None
        self._changed(self.now())

    async def close(self) -> None:
        """Watches no more."""
        if self._later is not None:
            self._later.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for watch in (self._nodes, self._pods):
            if watch is not None:
                await watch.close()


def _trim_node(node: Object) -> Object:
    status = node.get("status") or {}
    kept = {name: status[name] for name in ("allocatable", "addresses", "conditions") if name in status}
    conditions = [one for one in kept.get("conditions", ()) if one.get("type") == "Ready"]
    # Heartbeats change nothing here.
    kept["conditions"] = [{key: one.get(key) for key in ("type", "status", "reason")} for one in conditions]
    return {**node, "status": kept}
