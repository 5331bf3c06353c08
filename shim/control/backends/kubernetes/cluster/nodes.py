"""The cluster's Node objects, and the pods on them, as Slurm's nodes. Pure.

What a node offers is what Kubernetes would still give away there: whole CPUs of its allocatable, less what pods that are not
jobs of ours request. Pods that are being deleted count until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shim.control.backends.kubernetes.cluster import autoscaling
from shim.control.backends.kubernetes.cluster.usage_sums import Sums, Use, others
from shim.control.backends.kubernetes.objects import names, quantities
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster, Gres, Node, Partition


def shaped(
    configured: Cluster,
    nodes: Iterable[Mapping[str, Any]],
    sums: Sums,
    counted: Callable[[Any], bool] = lambda run: True,
) -> Cluster:
    """The configured cluster with its nodes as they are. ``counted(run)``: the index counts what that run of ours holds."""
    settings = settings_of(configured)
    by_name = {node["metadata"]["name"]: node for node in nodes}
    objects = [by_name[name] for name in hostlist.natural_sorted(by_name)]
    preempts = any(one.preempts for one in configured.partitions)
    used = sums.by_node(counted)
    made = {}
    for one in objects:
        name = one["metadata"]["name"]
        made[name] = _node(one, sums.daemons(name), used.get(name, {}), settings, preempts)
    partitions = []
    for partition in configured.partitions:
        own = settings_of(configured, partition.name)
        members = tuple(one["metadata"]["name"] for one in objects if _fits(one, own))
        members = _chosen(partition, members)
        if own.autoscale:
            new = autoscaling.nodes(partition.name, own, [made[name] for name in members])
            made.update((node.name, node) for node in new)
            members += tuple(node.name for node in new)
        note = "" if members else _why_none(partition.name, objects, own)
        partitions.append(partition.replace(nodes=members, note=note))
    wanted = {name for partition in partitions for name in partition.nodes}
    return configured.replace(
        nodes=tuple(node for name, node in made.items() if name in wanted), partitions=tuple(partitions)
    )


def _why_none(partition: str, objects: Sequence[Mapping[str, Any]], settings: Settings) -> str:
    """Why no node of the cluster is one of the partition's."""
    labelled = [one for one in objects if _labelled(one["metadata"].get("labels") or {}, settings.node_selector)]
    if objects and not labelled:
        wanted = ", ".join(f"{name}={text}" for name, text in settings.node_selector.items())
        return f"none of the cluster's {len(objects)} nodes has the labels of partition {partition}: {wanted}"
    taints = {str(taint.get("key")) for one in labelled for taint in (one.get("spec") or {}).get("taints") or ()}
    return f"partition {partition} tolerates no node of the cluster: {', '.join(sorted(taints))}" if taints else ""


def hostname(node: Mapping[str, Any]) -> str:
    """The label by which pods are bound to a node."""
    return str((node["metadata"].get("labels") or {}).get(names.HOSTNAME) or node["metadata"]["name"])


def _chosen(partition: Partition, members: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in members if name in partition.nodes) if partition.nodes else members


def _node(
    node: Mapping[str, Any], taken: Use, parts: Mapping[tuple[float, int], Use], settings: Settings, preempts: bool
) -> Node:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    free = status.get("allocatable") or {}
    scale = settings.cpu_request
    # A CPU of a job requests ``scale`` per cent of one: so many jobs' CPUs are there.
    cpus = max(1, (quantities.millis(free.get("cpu", 0)) - taken.cpus) * 100 // scale // 1000)
    gpus = int(quantities.parse(free.get(settings.gpu_resource, 0)))
    state, reason = _state(node)
    held = others(parts, scale, by_priority=preempts)
    return Node(
        name=node["metadata"]["name"],
        address=_address(status),
        cpus=cpus,
        cores_per_socket=cpus,
        memory=max(1, int(quantities.parse(free.get("memory", 0)) / quantities.MIB) - taken.memory),
        tmp_disk=int(quantities.parse(free.get("ephemeral-storage", 0)) / quantities.MIB),
        gres=(Gres(name="gpu", type=_gpu_type(labels, settings), count=gpus),) if gpus else (),
        features=tuple(name for name, wanted in settings.node_features.items() if _labelled(labels, wanted)),
        state=state,
        reason=reason,
        others_cpus=min(cpus, -(-sum(one.cpus for one in held) // 1000)),
        others_memory=sum(one.memory for one in held),
        others_gpus=min(gpus, sum(one.gpus for one in held)),
        others=held if any(one.until or one.priority for one in held) else (),
    )


def _state(node: Mapping[str, Any]) -> tuple[str, str]:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            return "DOWN", str(condition.get("reason") or "NotReady")
    if (node.get("spec") or {}).get("unschedulable"):
        return "DRAIN", "cordoned"
    return "", ""


def _address(status: Mapping[str, Any]) -> str:
    for one in status.get("addresses") or ():
        if one.get("type") == "InternalIP":
            return str(one["address"])
    return ""


def _gpu_type(labels: Mapping[str, str], settings: Settings) -> str:
    return next((name for name, wanted in settings.gpu_types.items() if _labelled(labels, wanted)), "")


def _labelled(labels: Mapping[str, str], wanted: Mapping[str, Any]) -> bool:
    return all(
        labels.get(name) in (value if isinstance(value, list) else [str(value)]) for name, value in wanted.items()
    )


def _fits(node: Mapping[str, Any], settings: Settings) -> bool:
    """Whether pods of the partition may be placed on the node: its labels, and taints that they tolerate."""
    if not _labelled(node["metadata"].get("labels") or {}, settings.node_selector):
        return False
    for taint in (node.get("spec") or {}).get("taints") or ():
        passing = str(taint.get("key", "")).startswith("node.kubernetes.io/")  # NotReady, cordoned: shown as a state
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not passing and not _tolerated(taint, settings):
            return False
    return True


def _tolerated(taint: Mapping[str, Any], settings: Settings) -> bool:
    for one in settings.tolerations:
        same = not one.get("key") or one["key"] == taint.get("key")
        value = one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")
        if same and value and one.get("effect") in (None, "", taint.get("effect")):
            return True
    return False
