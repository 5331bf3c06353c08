"""What the PriorityClasses of a cluster's partitions mean: how important their pods are, and whether they send others away."""

from __future__ import annotations

from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.core.model.cluster import Cluster

_NEVER = "Never"


async def with_priorities(cluster: Cluster, access: Access, namespace: str) -> Cluster:
    """The cluster with ``priority`` and ``preempts`` of its partitions. Raises ApiError for a server that does not answer."""
    known: dict[str, tuple[int, bool]] = {"": (0, False)}
    partitions = []
    for partition in cluster.partitions:
        settings = settings_of(cluster, partition.name)
        name = settings.priority_class
        if name not in known:
            known[name] = await _meaning(name, settings, access, namespace)
        priority, preempts = known[name]
        partitions.append(partition.replace(priority=priority, preempts=preempts))
    return cluster.replace(partitions=tuple(partitions))


async def _meaning(name: str, settings: Settings, access: Access, namespace: str) -> tuple[int, bool]:
    try:
        found = await access.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        return int(found.get("value") or 0), found.get("preemptionPolicy") != _NEVER
    except ApiError as error:
        if error.transient:
            raise
        if not error.forbidden:
            return 0, False  # no such class: admission says so of every job
    try:  # who may not read classes is told by what admission makes of a pod
        made = await access.post(f"/api/v1/namespaces/{namespace}/pods", _pod(name, settings), {"dryRun": "All"})
    except ApiError as error:
        if error.transient:
            raise
        return 0, False
    spec = made.get("spec") or {}
    return int(spec.get("priority") or 0), spec.get("preemptionPolicy") != _NEVER


def _pod(name: str, settings: Settings) -> dict[str, Any]:
    """A small pod that every namespace takes."""
    few = {"cpu": "1m", "memory": "1Mi"}
    container = {
        "name": "probe",
        "image": settings.image or "probe",
        "resources": {"limits": few, "requests": few},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": settings.root_uid, "seccompProfile": {"type": "RuntimeDefault"}}
    if settings.identity == "platform":
        del security["runAsUser"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "slurm-priority-probe"},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "priorityClassName": name,
            "securityContext": security,
            "containers": [container],
        },
    }
