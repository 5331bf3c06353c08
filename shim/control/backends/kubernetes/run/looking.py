"""What the fence and a grant stand on, read live: Nodes, the Leases of their kubelets, pods that are not there.

A watch may lag for any time, so nothing here comes from one (``evidence`` says what follows from what).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.evidence import Node, Renewals, renewals

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Evidence:
    """What live reads of one controller have shown. ``clock`` goes on while the machine sleeps."""

    def __init__(self, access: Access, namespace: str, clock: Callable[[], float]) -> None:
        self._access = access
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._clock = clock
        self._leases_readable = True
        self.leases: dict[str, Renewals] = {}
        self._absent: dict[str, dict[str, float]] = {}  # by record: uids, and since when

    async def nodes(self, wanted: Iterable[str]) -> dict[str, Node] | None:
        """The Node objects of these names as they are now; None where they may not be read. ApiError."""
        found = {}
        try:
            reads = await asyncio.gather(*[self._node(name) for name in sorted({name for name in wanted if name})])
        except ApiError as error:
            if error.forbidden:
                return None
            raise
        for name, node in reads:
            found[name] = node
        return found

    async def _node(self, name: str) -> tuple[str, Node]:
        # A list of one: whoever may list nodes need not be allowed to get them.
        listed = await self._access.get("/api/v1/nodes", {"fieldSelector": f"metadata.name={name}"})
        items: list[dict[str, Any]] = listed["items"]
        if not items:
            return name, Node(gone=True)
        node = items[0]
        taints = (node.get("spec") or {}).get("taints") or ()
        boot = str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")
        return name, Node(boot=boot, out_of_service=any(one.get("key") == _OUT_OF_SERVICE for one in taints))

    async def look_at_leases(self, nodes: Iterable[str]) -> None:
        """Reads the Leases of these nodes' kubelets, as far as that is allowed. ApiError."""
        for name in sorted(set(nodes)) if self._leases_readable else ():
            asked, before = self._clock(), self.leases.get(name)
            try:
                found = await self._access.get(f"{_LEASES}/{name}")
            except ApiError as error:
                if error.forbidden:
                    self._leases_readable = False
                    return
                if not error.missing:
                    raise
                self.leases.pop(name, None)
                continue
            value = str((found.get("spec") or {}).get("renewTime") or "")
            # What was read may be as old as the question, and as a beginning only as old as the answer.
            self.leases[name] = renewals(before, value, asked if before is not None else self._clock())

    async def absent(self, job_id: int, record: str, uids: Iterable[str]) -> dict[str, float]:
        """Which of these pods of a record are not there, and since when live reads have not shown them. ApiError."""
        selector = f"{names.selector()},{names.JOB_ID}={job_id}"
        listed = await self._access.get(self._pods, {"labelSelector": selector})
        there = {pod["metadata"]["uid"] for pod in listed["items"]}
        before = self._absent.get(record, {})
        # Seen after the read began: later than they went, never earlier.
        found = {uid: before.get(uid, self._clock()) for uid in uids if uid not in there}
        self._absent[record] = found
        return found

    def forget(self, record: str) -> None:
        """The record is gone."""
        self._absent.pop(record, None)
