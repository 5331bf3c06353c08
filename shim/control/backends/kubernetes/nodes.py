"""The cluster's Node objects, and the pods on them, as Slurm's nodes. Pure.

What a node offers is what Kubernetes would still give away there: whole CPUs of its allocatable, less what pods that are not
jobs of ours request. Pods that are being deleted count until they are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shim.control.backends.kubernetes import names, quantities
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.value import Value


class Use(Value):
    """What pods of others request on a node. CPUs in thousandths, memory in MiB."""

    cpus: int = 0
    memory: int = 0
    gpus: int = 0


def requests(pod: Mapping[str, Any], gpu: str) -> Use:
    """What the scheduler reserves for a pod: the larger of its containers together and of each init container."""
    spec = pod["spec"]
    own = (spec.get("resources") or {}).get("requests") or {}
    together, largest = Use(), Use()
    for one in spec.get("initContainers") or ():
        use = _container(one, gpu)
        if one.get("restartPolicy") == "Always":  # a sidecar: it stays
            together = _sum(together, use)
            largest = _most(largest, together)
        else:
            largest = _most(largest, _sum(together, use))
    for one in spec.get("containers") or ():
        together = _sum(together, _container(one, gpu))
    found = _sum(_most(together, largest), _of(spec.get("overhead") or {}, gpu))
    stated = _of(own, gpu)
    return found.replace(cpus=stated.cpus or found.cpus, memory=stated.memory or found.memory)


def use_of(pods: Iterable[Mapping[str, Any]], gpu: str) -> dict[str, Use]:
    """What is requested on each node."""
    found: dict[str, Use] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName")
        if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            found[node] = _sum(found.get(node, Use()), requests(pod, gpu))
    return found


def shaped(configured: Cluster, nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> Cluster:
    """The configured cluster with its nodes as they are; ``pods``: those that are no jobs of this index."""
    settings = settings_of(configured)
    by_name = {node["metadata"]["name"]: node for node in nodes}
    objects = [by_name[name] for name in hostlist.natural_sorted(by_name)]
    known = list(pods)
    used = use_of((pod for pod in known if not _of_the_node(pod)), settings.gpu_resource)
    taken = use_of((pod for pod in known if _of_the_node(pod)), settings.gpu_resource)
    made = {}
    for one in objects:
        name = one["metadata"]["name"]
        made[name] = _node(one, taken.get(name, Use()), used.get(name, Use()), settings)
    partitions = []
    for partition in configured.partitions:
        own = settings_of(configured, partition.name)
        members = tuple(one["metadata"]["name"] for one in objects if _fits(one, own))
        partitions.append(partition.replace(nodes=_chosen(partition, members)))
    wanted = {name for partition in partitions for name in partition.nodes}
    return configured.replace(
        nodes=tuple(node for name, node in made.items() if name in wanted), partitions=tuple(partitions)
    )


def hostname(node: Mapping[str, Any]) -> str:
    """The label by which pods are bound to a node."""
    return str((node["metadata"].get("labels") or {}).get(names.HOSTNAME) or node["metadata"]["name"])


def _chosen(partition: Partition, members: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in members if name in partition.nodes) if partition.nodes else members


def _of_the_node(pod: Mapping[str, Any]) -> bool:
    """A daemon's: it is on the node as long as the node is there, so nobody is ever offered what it takes."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(one.get("kind") in ("DaemonSet", "Node") for one in owners)


def _node(node: Mapping[str, Any], taken: Use, use: Use, settings: Settings) -> Node:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    free = status.get("allocatable") or {}
    scale = settings.cpu_request
    # A CPU of a job requests ``scale`` per cent of one: so many jobs' CPUs are there.
    cpus = max(1, (quantities.millis(free.get("cpu", 0)) - taken.cpus) * 100 // scale // 1000)
    gpus = int(quantities.parse(free.get(settings.gpu_resource, 0)))
    state, reason = _state(node)
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
        others_cpus=min(cpus, -(-use.cpus * 100 // scale // 1000)),
        others_memory=use.memory,
        others_gpus=min(gpus, use.gpus),
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


def _container(container: Mapping[str, Any], gpu: str) -> Use:
    resources = container.get("resources") or {}
    return _of({**(resources.get("limits") or {}), **(resources.get("requests") or {})} if resources else {}, gpu)


def _of(table: Mapping[str, Any], gpu: str) -> Use:
    return Use(
        cpus=quantities.millis(table.get("cpu", 0)),
        memory=quantities.mebibytes(table.get("memory", 0)),
        gpus=int(quantities.parse(table.get(gpu, 0))),
    )


def _sum(one: Use, other: Use) -> Use:
    return Use(cpus=one.cpus + other.cpus, memory=one.memory + other.memory, gpus=one.gpus + other.gpus)


def _most(one: Use, other: Use) -> Use:
    return Use(cpus=max(one.cpus, other.cpus), memory=max(one.memory, other.memory), gpus=max(one.gpus, other.gpus))
