"""The elastic cluster: without a configuration, the nodes become as many and as large as a job asks.

A script that was written for another cluster names partitions, features, licences and sizes that this machine does not have. On an
elastic cluster (``Cluster.elastic``) such a script runs: an unknown name stands for the default, a note says so once, and the virtual
nodes grow up to a bound. GPUs are never pretended, because programs would not find their devices. A configured cluster is
strict: this module leaves its requests as they are.
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
    from collections.abc import Collection, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.request import JobRequest
    from shim.core.placement.resolve import ResolvedRequest

MOST_NODES = 64  # each node of a job is a process, and a name in its /etc/hosts
MOST_CPUS = 256  # of a node
MOST_MEMORY = 4 << 20  # MiB of a node
_GPU_FIELDS = ("gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")


def adapted(requests: Sequence[JobRequest], cluster: Cluster) -> tuple[list[JobRequest], list[str]]:
    """The requests without names that this cluster does not know, and a line that says what stands for them ([]: nothing does).

    Raises RequestError for GPUs that the machine does not have, and for sizes above the bounds.
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
    """The cluster with enough nodes for these ``adapted`` requests (the components of one job), and all of them large enough, up to the
    bounds; running jobs do not count.
    """
    if not cluster.elastic:
        return cluster
    try:
        resolved_requests = [resolve(request) for request in requests]
    except ValueError:
        return cluster  # ``check_request`` refuses them
    # Nodes that are drained or down do not count: others come in their place.
    there = [node for node in cluster.nodes if not node.state]
    count = min(sum(_nodes(resolved) for resolved in resolved_requests) + len(cluster.nodes) - len(there), MOST_NODES)
    nodes = list(all_nodes(cluster)[: max(count, len(cluster.nodes))])
    for request, resolved in zip(requests, resolved_requests):
        cpus = min(_cpus(resolved, len(there)), MOST_CPUS)
        # All of them: the next such job, or task of this array, would wait beside nodes that sinfo shows idle.
        nodes = [_larger(node, request, cpus) for node in nodes]
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
    for field in ("constraint", "prefer", "licenses", "reservation"):
        if getattr(request, field):
            changes[field] = None
            said.append(f"--{field}={getattr(request, field)} is met by every node")
    if request.extra.get("batch") is not None:
        changes["extra"] = {name: text for name, text in request.extra.items() if name != "batch"}
    for field, option in (("node_list", "nodelist"), ("exclude", "exclude")):
        text = getattr(request, field)
        if text and not _are_nodes(text):
            changes[field] = None
            said.append(f"--{option}={text} names no node here and is left out")
    changes.update(_known_resources(request, cluster, said))
    return request.replace(**changes) if changes else request


def _are_nodes(text: str) -> bool:
    """Whether this cluster has, or could grow, a node of every name."""
    try:
        return all(0 < _number(name) <= MOST_NODES for name in hostlist.expand(text))
    except hostlist.HostlistError:
        return True  # ``check_request`` refuses it


def _number(name: str) -> int:
    """The number in the name of a node; 0 for a name that no node of such a cluster has."""
    for prefix in ("node", "127.0.0."):
        digits = name[len(prefix) :]
        if name.startswith(prefix) and is_number(digits) and not digits.startswith("0"):
            return int(digits)
    return 0


def _known_resources(request: JobRequest, cluster: Cluster, said: list[str]) -> dict[str, Any]:
    """The changed fields of a request that keeps, of all generic resources, only GPUs, and no type of GPU that no node has."""
    try:
        entries = tres.parse_gres(request.gres or "")
        counts = {field: tres.parse_gpus(getattr(request, field) or "") for field in _GPU_FIELDS}
    except ValueError:
        return {}  # ``check_request`` refuses it
    gpus = [(kind, count) for name, kind, count in entries if name == "gpu"]
    others = [name for name, _, _ in entries if name != "gpu"]
    types = {one.type for node in cluster.nodes for one in node.gres if one.name == "gpu"}
    unknown = {kind for found in (gpus, *counts.values()) for kind, _ in found} - {*types, ""}
    if others:
        said.append(f"--gres={','.join(others)} is met by every node")
    if unknown and types:
        said.append(f"any GPU stands for {', '.join(sorted(unknown))}")
    changes: dict[str, Any] = {}
    if others or unknown:
        changes["gres"] = ",".join(f"gpu:{text}" for text in _of_types(gpus, types)) or None
    for field, found in counts.items():
        if any(kind in unknown for kind, _ in found):
            changes[field] = ",".join(_of_types(found, types))
    return changes


def _of_types(gpus: Sequence[tuple[str, int]], types: Collection[str]) -> list[str]:
    """``type:count`` of each entry, or the count alone where no node has GPUs of the type."""
    return [f"{kind}:{count}" if kind and kind in types else str(count) for kind, count in gpus]


def _check(request: JobRequest, cluster: Cluster) -> None:
    """Refuses GPUs that the machine does not have, and more nodes or CPUs than the bounds; the texts name the configuration to write."""
    try:
        resolved = resolve(request)
    except ValueError:
        return  # ``check_request`` refuses it
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
    if _nodes(resolved) > MOST_NODES or _cpus(resolved, len(cluster.nodes)) > MOST_CPUS:
        raise _refused(
            request,
            f"a cluster that nobody has configured becomes as large as a job asks, up to {MOST_NODES} nodes of {MOST_CPUS} CPUs;"
            f" for more, say so in the configuration: [clusters.{cluster.name}] nodes, cpus",
        )


def _refused(request: JobRequest, why: str) -> RequestError:
    return submission_failed(request.kind, NODE_CONFIG_UNAVAILABLE, why)


def _nodes(resolved: ResolvedRequest) -> int:
    """How many nodes the cluster must have for the request."""
    wanted = [resolved.min_nodes, *(_number(name) for name in resolved.required)]
    if resolved.tasks_per_node and resolved.ntasks:
        wanted.append(-(-resolved.ntasks // resolved.tasks_per_node))
    return max(wanted) + len(resolved.excluded)


def _cpus(resolved: ResolvedRequest, there: int) -> int:
    """How many CPUs of a node the job needs. ``there``: nodes that exist anyway."""
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
    return least


def _another(cluster: Cluster, number: int) -> Node:
    first = cluster.nodes[0]
    name = f"{first.name[: -len('1')]}{number}"
    # An operator's changes to the first node do not hold for others.
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
