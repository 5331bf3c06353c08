"""Whether a request can start on an idle partition, and the reason for which it waits if not.

Limits and state of the partition are looked at first, then what each class of nodes has, then whether all demands together find a
place. Nodes that are out of service have a reason of their own.
"""

from __future__ import annotations

from shim.core.admission.partition_rules import TAKES_JOBS, account_problem, partitions_of
from shim.core.errors import MEMORY_NOT_SATISFIED
from shim.core.formats import hostlist
from shim.core.model.node_classes import node_classes
from shim.core.model.request import INFINITE
from shim.core.placement.capacity import NodeFree
from shim.core.placement.resolve import resolve, wanted_memory
from shim.core.placement.select_nodes import select_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional

    from shim.core.admission.partition_rules import Access
    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.resolve import ResolvedRequest

NODES_NOT_AVAILABLE = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
_CPUS = "CPU count per node can not be satisfied"
_DISK = "Temporary disk specification can not be satisfied"
_SOCKETS = "Socket, core and/or thread specification can not be satisfied"


def pending_reason(request: JobRequest, cluster: Cluster, access: Optional[Access] = None) -> str | None:
    """The reason for which ``request`` waits in all of its partitions though they are idle; None if it can start in one.

    ``access`` None: whoever asks may use them all.
    """
    if request.partition:
        named = [cluster.partition(name) for name in request.partition.split(",")]
    else:
        named = [cluster.default_partition]
    reasons = [
        reason_in_partition(request, cluster, one, access) if one is not None else "PartitionConfig" for one in named
    ]
    return None if None in reasons else reasons[0]


def reason_in_partition(
    request: JobRequest, cluster: Cluster, partition: Partition, access: Optional[Access]
) -> str | None:
    """As ``pending_reason``, for one partition."""
    limited = limit_reason(request, cluster, partition, access)
    if limited is not None:
        return limited
    nodes = idle_nodes(usable_nodes(request, cluster, partition))
    if select_nodes(request, cluster, nodes, partition) is not None:
        return None
    anywhere = request.replace(constraint=None, node_list=None, exclude=None, contiguous=False, distribution=None)
    too_large = select_nodes(anywhere, cluster, nodes, partition) is None
    return "PartitionConfig" if too_large else "BadConstraints"


def limit_reason(request: JobRequest, cluster: Cluster, partition: Partition, access: Optional[Access]) -> str | None:
    """The part of ``reason_in_partition`` that looks at limits and state of the partition only, and who may use it. It costs little."""
    if access is not None and access.problem(request, partition):
        return "PartitionConfig"
    state = partition.state.upper()
    if state in ("DOWN", "INACTIVE"):
        return "PartitionDown" if state == "DOWN" else "PartitionInactive"
    resolved = resolve(request)
    if partition.nodes and resolved.cpus > all_cpus(cluster, partition):
        return "PartitionConfig"
    if _breaks_node_limits(request, resolved, cluster, partition):
        return "PartitionNodeLimit"
    limit = request.time_min if request.time_min is not None else request.time_limit
    if exceeds(limit, partition.max_time):
        return "PartitionTimeLimit"
    if too_much_memory(request, cluster, partition):
        return "MaxMemPerLimit"
    return account_problem(request, cluster, partition)[0] or None


def _breaks_node_limits(request: JobRequest, resolved: ResolvedRequest, cluster: Cluster, partition: Partition) -> bool:
    """Whether -N asks for more nodes than the partition gives to one job, or for fewer. Without -N a job gets the least number that
    one of its partitions wants.
    """
    most = len(partition.nodes) if partition.max_nodes is None else min(partition.max_nodes, len(partition.nodes))
    if request.min_nodes is None:
        others = partitions_of(request, cluster) if "," in (request.partition or "") else [partition]
        least = max(
            resolved.min_nodes, min((one.min_nodes for one in others if one.state.upper() in TAKES_JOBS), default=0)
        )
        return least > most or least < partition.min_nodes
    if resolved.min_nodes > most or (resolved.max_nodes and resolved.max_nodes < partition.min_nodes):
        return True
    return partition.max_nodes is not None and (request.max_nodes or 0) > partition.max_nodes


def exceeds(limit: int | None, most: int | None) -> bool:
    """Whether a time limit in minutes (INFINITE too) is above ``most``. None: no limit was asked for, or nothing is too long."""
    return most is not None and limit is not None and (limit == INFINITE or limit > most)


def all_cpus(cluster: Cluster, partition: Partition) -> int:
    """How many CPUs the partition has."""
    most = partition.max_cpus_per_node
    return sum(
        (node.cpus if most is None else min(node.cpus, most)) * len(names)
        for node, names in node_classes(cluster).of(partition)
    )


def too_much_memory(request: JobRequest, cluster: Cluster, partition: Partition, *, asked: bool = False) -> bool:
    """Whether the job wants more memory of a node than its partition's MaxMemPerNode. Who asks for none, and has no default, wants all
    of a node, even where memory is not counted. ``asked``: only what the request itself says counts.
    """
    per_node = partition.max_mem_per_node if partition.max_mem_per_node is not None else cluster.max_mem_per_node
    if per_node is None:
        return False
    memory = wanted_memory(request, cluster, None if asked else partition)
    if asked and request.mem_per_node is None and request.mem_per_cpu is None:
        return False
    if memory.per_gpu is not None:
        return False
    if not memory.per_node and not memory.per_cpu:  # all of a node
        return any(node.memory > per_node for node, _ in node_classes(cluster).of(partition))
    cpus = max((request.cpus_per_task or 1) * (request.ntasks_per_node or 1), request.min_cpus or 1)
    if request.exclusive == "node" and memory.per_cpu:
        cpus = max([cpus, *(node.cpus for node, _ in node_classes(cluster).of(partition))])
    # A job that wants more memory than one CPU may bring gets more CPUs (``apply_partition_rules``) and is not refused.
    return max(memory.per_node or 0, (memory.per_cpu or 0) * cpus) > per_node


class NodeRequirements:
    """What a request requires of each node, compared with the node classes of one partition, however busy the nodes are.

    slurmctld looks at each requirement by itself, over all nodes. Whether the job finds a place when all of them are taken
    together, ``fits_when_idle`` tries out.
    """

    def __init__(self, request: JobRequest, cluster: Cluster, partition: Partition) -> None:
        self.request = request
        self.resolved = resolve(request)
        self.memory = wanted_memory(request, cluster, partition)
        self.classes = node_classes(cluster).of(partition)

    def cpus_suffice(self, node: Node) -> bool:
        """Enough CPUs for the tasks that a node must take (-c, --ntasks-per-node, --mincpus)."""
        return node.cpus >= self.resolved.min_cpus

    def memory_suffices(self, node: Node) -> bool:
        """Enough memory for one CPU, or for the share of a node; whether memory is counted or not."""
        return max(self.memory.per_node or 0, self.memory.per_cpu or 0) <= node.memory

    def disk_suffices(self, node: Node) -> bool:
        """Enough of TmpFS (--tmp)."""
        return node.tmp_disk >= (self.request.tmp_disk or 0)

    def sockets_suffice(self, node: Node) -> bool:
        """The sockets, cores and threads of -B and its long forms."""
        request = self.request
        return (
            node.sockets >= (request.sockets_per_node or 1)
            and node.cores_per_socket >= (request.cores_per_socket or 1)
            and node.threads_per_core >= (request.threads_per_core or 1)
        )

    def usable(self) -> list[tuple[Node, tuple[str, ...]]]:
        """The classes with the disk and the sockets: a node of each, and the names of all."""
        return [found for found in self.classes if self.disk_suffices(found[0]) and self.sockets_suffice(found[0])]

    def unmet(self) -> list[str]:
        """slurmctld's line if no class of nodes meets all requirements: the first one that the last class does not meet."""
        tests = (
            (_CPUS, self.cpus_suffice),
            (MEMORY_NOT_SATISFIED, self.memory_suffices),
            (_DISK, self.disk_suffices),
            (_SOCKETS, self.sockets_suffice),
        )
        unmet = [next((line for line, suffices in tests if not suffices(node)), "") for node, _ in self.classes]
        return [] if "" in unmet else unmet[-1:]


def usable_nodes(request: JobRequest, cluster: Cluster, partition: Partition) -> list[Node]:
    """The nodes of the partition with the disk and the sockets asked for, up or not."""
    usable = {name for _, names in NodeRequirements(request, cluster, partition).usable() for name in names}
    nodes = node_classes(cluster).nodes
    return [nodes[name] for name in partition.nodes if name in usable]


def fits_when_idle(request: JobRequest, cluster: Cluster, partition: Partition) -> bool:
    """Whether the job could start if the partition were idle and all of its nodes in service. Else Slurm refuses it."""
    nodes = idle_nodes(_sample(request, cluster, partition))
    return select_nodes(request, cluster, nodes, partition) is not None


def _sample(request: JobRequest, cluster: Cluster, partition: Partition) -> list[Node]:
    """Of each class as many nodes as the job could have, and the nodes that it names: a partition may have thousands."""
    if request.contiguous or "*" in f"{request.constraint} {request.prefer}":
        return usable_nodes(request, cluster, partition)
    resolved = resolve(request)
    gpus = sum(count for _, count in resolved.job_gpus)
    enough = resolved.max_nodes or max(resolved.min_nodes, resolved.ntasks or 1, gpus)
    excluded, required = frozenset(resolved.excluded), frozenset(resolved.required)
    nodes = node_classes(cluster).nodes
    found = []
    for _, names in NodeRequirements(request, cluster, partition).usable():
        left = [name for name in names if name not in excluded] if excluded else names
        found += [*left[:enough], *(name for name in left[enough:] if name in required)]
    return [nodes[name] for name in found]


def unavailable_nodes(request: JobRequest, cluster: Cluster, partition: Partition) -> str | None:
    """The reason if nodes that are down or drained keep ``request`` from ever starting; None if the others suffice.

    ``ReqNodeNotAvail, UnavailableNodes:n4`` when it names such a node.
    """
    nodes = usable_nodes(request, cluster, partition)
    out = [node.name for node in nodes if not is_up(node)]
    if not out:
        return None
    missing = set(resolve(request).required).intersection(out)
    if missing:
        return f"ReqNodeNotAvail, UnavailableNodes:{hostlist.fold_sorted(missing)}"
    up = idle_nodes(node for node in nodes if is_up(node))
    return NODES_NOT_AVAILABLE if select_nodes(request, cluster, up, partition) is None else None


def is_up(node: Node) -> bool:
    """Whether the administrator lets jobs start on the node."""
    return not node.state


def idle_nodes(nodes: Iterable[Node]) -> list[NodeFree]:
    """The nodes with nothing running on them."""
    return [NodeFree(node=node, cpus=node.cpus, memory=node.memory, gpus=tuple(range(node.gpus))) for node in nodes]
