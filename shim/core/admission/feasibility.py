"""Why an accepted request cannot start however idle the cluster is: limits and size of a partition, nodes out of service."""

from __future__ import annotations

from shim.core.admission.partition_rules import account_problem
from shim.core.admission.shape_check import Shape
from shim.core.formats import hostlist
from shim.core.model.node_classes import kinds
from shim.core.model.request import INFINITE
from shim.core.placement.resolve import job_demand
from shim.core.placement.select_nodes import NodeFree, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.job import NodeShare
    from shim.core.model.request import JobRequest

NODES_NOT_AVAILABLE = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def pending_reason(request: JobRequest, cluster: Cluster) -> str | None:
    """The reason for which ``request`` waits in all of its partitions though they are idle; None if it can start in one."""
    if request.partition:
        named = [cluster.partition(name) for name in request.partition.split(",")]
    else:
        named = [cluster.default_partition]
    reasons = [standing_reason(request, cluster, one) if one is not None else "PartitionConfig" for one in named]
    return None if None in reasons else reasons[0]


def standing_reason(request: JobRequest, cluster: Cluster, partition: Partition) -> str | None:
    """As ``pending_reason``, for one partition."""
    limited = limit_reason(request, cluster, partition)
    if limited is not None:
        return limited
    nodes = usable_nodes(request, cluster, partition)
    if placed(request, cluster, idle(nodes), partition) is not None:
        return None
    anywhere = request.replace(constraint=None, node_list=None, exclude=None, contiguous=False, distribution=None)
    return "PartitionConfig" if placed(anywhere, cluster, idle(nodes), partition) is None else "BadConstraints"


def limit_reason(request: JobRequest, cluster: Cluster, partition: Partition) -> str | None:
    """The part of ``standing_reason`` that is the partition's limits and state, and costs little."""
    state = partition.state.upper()
    if state in ("DOWN", "INACTIVE"):
        return "PartitionDown" if state == "DOWN" else "PartitionInactive"
    wish = job_demand(request)
    if partition.nodes and wish.cpus > all_cpus(cluster, partition):
        return "PartitionConfig"
    most = len(partition.nodes) if partition.max_nodes is None else min(partition.max_nodes, len(partition.nodes))
    if wish.min_nodes > most or (wish.max_nodes and wish.max_nodes < partition.min_nodes):
        return "PartitionNodeLimit"
    limit = request.time_min if request.time_min is not None else request.time_limit
    if exceeds(limit, partition.max_time):
        return "PartitionTimeLimit"
    if too_much_memory(request, cluster, partition):
        return "MaxMemPerLimit"
    return account_problem(request, cluster, partition)[0] or None


def all_cpus(cluster: Cluster, partition: Partition) -> int:
    """How many CPUs the partition has."""
    most = partition.max_cpus_per_node
    return sum(
        (kind.cpus if most is None else min(kind.cpus, most)) * len(names)
        for kind, names in kinds(cluster).of(partition)
    )


def has_place(request: JobRequest, cluster: Cluster, partition: Partition) -> bool:
    """Whether the job could start if the partition were idle and all of its nodes in service. Else Slurm refuses it."""
    return placed(request, cluster, idle(_sample(request, cluster, partition)), partition) is not None


def _sample(request: JobRequest, cluster: Cluster, partition: Partition) -> list[Node]:
    """Of each kind of nodes as many as the job could have, and those that it names: a partition may have thousands."""
    wish = job_demand(request)
    shape = Shape(request, cluster, partition)
    if request.contiguous or "*" in f"{request.constraint} {request.prefer}":
        return usable_nodes(request, cluster, partition)
    gpus = sum(count for _, count in wish.job_gpus)
    enough = wish.max_nodes or max(wish.min_nodes, wish.ntasks or 1, gpus)
    excluded, required = frozenset(wish.excluded), frozenset(wish.required)
    nodes = kinds(cluster).nodes
    found = []
    for kind, names in shape.kinds:
        if shape.has_disk(kind) and shape.has_sockets(kind):
            left = [name for name in names if name not in excluded] if excluded else names
            found += [*left[:enough], *(name for name in left[enough:] if name in required)]
    return [nodes[name] for name in found]


def placed(
    request: JobRequest, cluster: Cluster, free: Sequence[NodeFree], partition: Partition
) -> tuple[NodeShare, ...] | None:
    """``layout.place`` within the partition's limit of nodes."""
    shares = place(request, cluster, free, partition)
    if shares is not None and partition.max_nodes is not None and len(shares) > partition.max_nodes:
        return None
    return shares


def unavailable_nodes(request: JobRequest, cluster: Cluster, partition: Partition) -> str | None:
    """The reason if nodes that are down or drained keep ``request`` from ever starting; None if the others suffice.

    ``ReqNodeNotAvail, UnavailableNodes:n4`` when it names such a node.
    """
    nodes = usable_nodes(request, cluster, partition)
    out = [node.name for node in nodes if not is_up(node)]
    if not out:
        return None
    missing = set(job_demand(request).required).intersection(out)
    if missing:
        return f"ReqNodeNotAvail, UnavailableNodes:{hostlist.fold_sorted(missing)}"
    if placed(request, cluster, idle(node for node in nodes if is_up(node)), partition) is None:
        return NODES_NOT_AVAILABLE
    return None


def exceeds(limit: int | None, most: int | None) -> bool:
    """Whether a time limit in minutes (INFINITE too) is above ``most``. None is no limit asked for, or nothing above."""
    return most is not None and limit is not None and (limit == INFINITE or limit > most)


def is_up(node: Node) -> bool:
    """Whether the administrator lets jobs start on the node."""
    return not node.state


def idle(nodes: Iterable[Node]) -> list[NodeFree]:
    """The nodes with nothing running on them."""
    return [NodeFree(node=node, cpus=node.cpus, memory=node.memory, gpus=tuple(range(node.gpus))) for node in nodes]


def usable_nodes(request: JobRequest, cluster: Cluster, partition: Partition) -> list[Node]:
    """The nodes of the partition with the disk and the sockets asked for, up or not."""
    shape = Shape(request, cluster, partition)
    fitting = {
        name for kind, names in shape.kinds if shape.has_disk(kind) and shape.has_sockets(kind) for name in names
    }
    nodes = kinds(cluster).nodes
    return [nodes[name] for name in partition.nodes if name in fitting]


def too_much_memory(request: JobRequest, cluster: Cluster, partition: Partition) -> bool:
    """Whether the job wants more memory of a node than its partition's MaxMemPerNode."""
    per_node = partition.max_mem_per_node if partition.max_mem_per_node is not None else cluster.max_mem_per_node
    if per_node is not None and request.mem_per_node == 0:  # all of a node
        return any(kind.memory > per_node for kind, _ in kinds(cluster).of(partition))
    cpus = (request.cpus_per_task or 1) * (request.ntasks_per_node or 1)
    # More than one CPU may bring means more CPUs (policy.in_partition), not too much.
    return per_node is not None and max(request.mem_per_node or 0, (request.mem_per_cpu or 0) * cpus) > per_node
