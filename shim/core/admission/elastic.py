"""The cluster that nobody configured: its nodes become as many and as large as a job asks, and the site's own names stand for what is there.

A script that was written for some cluster names partitions, features, licences and sizes that a machine without configuration has
not. On such a cluster (``Cluster.elastic``) they stand in nobody's way: a name that is unknown stands for the usual thing, which is
said once, and the virtual nodes grow up to a bound. GPUs are real or none: nothing runs that would not find its devices. Once
somebody has configured a cluster it is strict, and nothing here is asked.
"""

from __future__ import annotations

from shim.core.errors import NODE_CONFIG_UNAVAILABLE, RequestError, submission_failed
from shim.core.formats import hostlist, tres
from shim.core.formats.integers import is_number
from shim.core.formats.lists import comma_list
from shim.core.placement.gpus import total
from shim.core.placement.resolve import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.request import JobRequest
    from shim.core.placement.resolve import ResolvedRequest

MOST_NODES = 64  # each node of a job is a process, and a name in its /etc/hosts
MOST_CPUS = 256  # of a node
MOST_MEMORY = 4 << 20  # MiB of a node
_GPU_FIELDS = ("gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")


def adapted(requests: Sequence[JobRequest], cluster: Cluster) -> tuple[list[JobRequest], list[str]]:
    """The requests with nothing in them that this cluster does not know, and a line that says what stands for what; [] for nothing.

    Raises RequestError for GPUs that the machine has not, and for what is above the bounds.
    """
    if not cluster.elastic:
        return list(requests), []
    said: list[str] = []
    made = [_known_names(request, cluster, said) for request in requests]
    for request in made:
        _check(request, cluster)
    if not said:
        return made, []
    return made, [
        f"note: nobody has configured this cluster: {'; '.join(dict.fromkeys(said))} (shim init makes it strict)"
    ]


def all_nodes(cluster: Cluster) -> list[Node]:
    """The nodes that the cluster has or may get."""
    more = range(len(cluster.nodes) + 1, MOST_NODES + 1) if cluster.elastic else range(0)
    return [*cluster.nodes, *(_another(cluster, number) for number in more)]


def grown(cluster: Cluster, requests: Sequence[JobRequest]) -> Cluster:
    """The cluster with nodes for these (``adapted``) requests, the components of one job, when nothing else runs; up to the bounds."""
    if not cluster.elastic:
        return cluster
    try:
        wishes = [resolve(request) for request in requests]
    except ValueError:
        return cluster  # refused as everywhere
    # Nodes that are drained or down are no help: others come in their place.
    there = [node for node in cluster.nodes if not node.state]
    count = min(sum(_nodes(resolved) for resolved in wishes) + len(cluster.nodes) - len(there), MOST_NODES)
    nodes = list(all_nodes(cluster)[: max(count, len(cluster.nodes))])
    in_service = {node.name: place for place, node in enumerate(node for node in nodes if not node.state)}
    for request, resolved in zip(requests, wishes):
        large, cpus = _cpus(resolved, len(there))
        for place, node in enumerate(nodes):
            if in_service.get(node.name, large) < large or len(wishes) > 1 or node.name in resolved.required:
                nodes[place] = _larger(node, request, min(cpus, MOST_CPUS))
    if tuple(nodes) == cluster.nodes:
        return cluster
    names = tuple(node.name for node in nodes)
    return cluster.replace(nodes=tuple(nodes), partitions=tuple(one.replace(nodes=names) for one in cluster.partitions))


def _known_names(request: JobRequest, cluster: Cluster, said: list[str]) -> JobRequest:
    changes: dict[str, Any] = {}
    unknown = [one for one in comma_list(request.partition) if cluster.partition(one) is None]
    if unknown:
        known = [one for one in comma_list(request.partition) if one not in unknown]
        changes["partition"] = ",".join(known) or None
        usual = cluster.default_partition
        stands = known[0] if known else usual.name if usual is not None else ""
        said.append(f'partition "{stands}" stands for "{",".join(unknown)}"')
    for field, option in (
        ("constraint", "constraint"),
        ("prefer", "prefer"),
        ("licenses", "licenses"),
        ("reservation", "reservation"),
    ):
        if getattr(request, field):
            changes[field] = None
            said.append(f"--{option}={getattr(request, field)} is met by every node")
    if request.extra.get("batch") is not None:
        changes["extra"] = {name: text for name, text in request.extra.items() if name != "batch"}
    for field, option in (("node_list", "nodelist"), ("exclude", "exclude")):
        text = getattr(request, field)
        if text and not _are_nodes(text):
            changes[field] = None
            said.append(f"--{option}={text} names no node here and is left out")
    changes.update(_resources(request, cluster, said))
    return request.replace(**changes) if changes else request


def _are_nodes(text: str) -> bool:
    """Whether every name is one that this cluster has, or gets when it is asked for."""
    try:
        return all(0 < _number(name) <= MOST_NODES for name in hostlist.expand(text))
    except hostlist.HostlistError:
        return True  # refused as everywhere


def _number(name: str) -> int:
    """The number of a node of that name, 0 for a name that such a node has not."""
    for prefix in ("node", "127.0.0."):
        digits = name[len(prefix) :]
        if name.startswith(prefix) and is_number(digits) and not digits.startswith("0"):
            return int(digits)
    return 0


def _resources(request: JobRequest, cluster: Cluster, said: list[str]) -> dict[str, Any]:
    """--gres without what is no GPU, and all GPUs without types that no node has."""
    types = {one.type for node in cluster.nodes for one in node.gres if one.name == "gpu"}
    changes: dict[str, Any] = {}
    try:
        entries = tres.parse_gres(request.gres or "")
        counts = {field: tres.parse_gpus(getattr(request, field) or "") for field in _GPU_FIELDS}
    except ValueError:
        return {}  # refused as everywhere
    others = [name for name, _, _ in entries if name != "gpu"]
    if others:
        said.append(f"--gres={','.join(others)} is met by every node")
    strange = {kind for name, kind, _ in entries if name == "gpu"} | {
        kind for kinds in counts.values() for kind, _ in kinds
    }
    strange -= {*types, ""}
    if others or strange:
        kept = [(kind if kind in types else "", count) for name, kind, count in entries if name == "gpu"]
        changes["gres"] = ",".join("gpu:" + (f"{kind}:" if kind else "") + str(count) for kind, count in kept) or None
    if strange and types:
        said.append(f"any GPU stands for {', '.join(sorted(strange))}")
    for field, kinds in counts.items():
        if strange.intersection(kind for kind, _ in kinds):
            changes[field] = ",".join((f"{kind}:" if kind in types else "") + str(count) for kind, count in kinds)
    return changes


def _check(request: JobRequest, cluster: Cluster) -> None:
    """Refuses GPUs that the machine has not, saying how some would be pretended, and more nodes or CPUs than are pretended."""
    try:
        resolved = resolve(request)
    except ValueError:
        return  # refused as everywhere
    has = max((node.gpus for node in cluster.nodes), default=0)
    wanted = max(
        total(resolved.node_gpus), -(-total(resolved.job_gpus) // max(1, resolved.min_nodes)), total(resolved.task_gpus)
    )
    if wanted > has:
        many = f"{has or 'no'} GPU{'' if has == 1 else 's'}"
        raise _refused(
            request,
            f"{wanted} GPU{'' if wanted == 1 else 's'} of a node asked for, and this machine has {many}; to pretend them (no device"
            f" will be there), write to the configuration (shim init SCRIPT does): [clusters.{cluster.name}] gpus = {wanted}",
        )
    if _nodes(resolved) > MOST_NODES or _cpus(resolved, len(cluster.nodes))[1] > MOST_CPUS:
        raise _refused(
            request,
            f"a cluster that nobody has configured becomes as large as a job asks, up to {MOST_NODES} nodes of {MOST_CPUS} CPUs;"
            f" for more, say so in the configuration: [clusters.{cluster.name}] nodes, cpus",
        )


def _refused(request: JobRequest, why: str) -> RequestError:
    return submission_failed(request.kind, NODE_CONFIG_UNAVAILABLE, why)


def _nodes(resolved: ResolvedRequest) -> int:
    """How many nodes there must be for it."""
    wanted = [resolved.min_nodes, *(_number(name) for name in resolved.required)]
    if resolved.tasks_per_node and resolved.ntasks:
        wanted.append(-(-resolved.ntasks // resolved.tasks_per_node))
    return max(wanted) + len(resolved.excluded)


def _cpus(resolved: ResolvedRequest, there: int) -> tuple[int, int]:
    """How many of the first nodes must have how many CPUs each for the job to fit them; ``there``: how many there are anyway."""
    least = max(resolved.min_cpus, resolved.one_node, (resolved.each_node or 1) * resolved.cpus_per_task)
    least = max(
        least,
        resolved.cpus_per_gpu
        * max(1, total(resolved.node_gpus), -(-total(resolved.job_gpus) // max(1, resolved.min_nodes))),
    )
    nodes = max(1, _nodes(resolved))
    if resolved.ntasks and not resolved.overcommit and not resolved.each_node:
        if not resolved.fixed_nodes:
            nodes = max(nodes, min(resolved.ntasks, there, resolved.max_nodes or there))
        least = max(least, -(-resolved.ntasks // max(1, nodes - len(resolved.excluded))) * resolved.cpus_per_task)
    return nodes, least


def _another(cluster: Cluster, number: int) -> Node:
    first = cluster.nodes[0]
    name = f"{first.name[: -len('1')]}{number}"
    # An operator's word on the first node is no other's.
    own = {
        "state": "",
        "reason": "",
        "reason_user": "",
        "reason_uid": None,
        "reason_time": 0,
        "comment": "",
        "extra": "",
    }
    return first.replace(name=name, address=f"127.0.{number // 250}.{number % 250}", **own)


def _larger(node: Node, request: JobRequest, cpus: int) -> Node:
    threads = max(node.threads_per_core, request.threads_per_core or 1)
    sockets = max(node.sockets, request.sockets_per_node or 1)
    cores = max(node.cores_per_socket, request.cores_per_socket or 1, -(-cpus // (sockets * threads)))
    if cpus > node.cpus or sockets * cores * threads > node.cpus:
        if not (request.sockets_per_node or request.cores_per_socket or request.threads_per_core):
            sockets, cores, threads = 1, max(cpus, node.cpus), 1
        node = node.replace(
            cpus=sockets * cores * threads, sockets=sockets, cores_per_socket=cores, threads_per_core=threads
        )
    per_cpu = (request.mem_per_cpu or 0) * (node.cpus if request.exclusive == "node" else max(cpus, 1))
    memory = max(node.memory, request.mem_per_node or 0, per_cpu, (request.mem_per_gpu or 0) * max(1, node.gpus))
    disk = max(node.tmp_disk, request.tmp_disk or 0)
    if (memory, disk) != (node.memory, node.tmp_disk):
        node = node.replace(memory=min(memory, max(MOST_MEMORY, node.memory)), tmp_disk=disk)
    return node
