"""Whether the nodes of a partition are of the kind that a request wants, however busy they are.

slurmctld looks at the demands on one node, each for itself over all nodes, then at all demands on the same node, then at
the GPUs of the whole job. It does not count nodes here: ``-N 9`` on four nodes is accepted and waits. CPUs it counts where the
number of nodes is given: ``-n 9`` waits on nodes of two CPUs each, ``-N 1 -n 9`` is refused.
"""

from __future__ import annotations

from shim.core.kinds import kinds
from shim.core.layout import features, gpus
from shim.core.layout.demand import job_demand
from shim.core.layout.memory import memory_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

    from shim.core.layout.gpus import Demand
    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.request import JobRequest

_CPUS = "CPU count per node can not be satisfied"
_MEMORY = "Memory specification can not be satisfied"
_DISK = "Temporary disk specification can not be satisfied"
_SOCKETS = "Socket, core and/or thread specification can not be satisfied"


class Shape:
    """A request against one partition, in the numbers that a node must have."""

    def __init__(self, request: JobRequest, cluster: Cluster, partition: Partition) -> None:
        self.request = request
        self.wish = job_demand(request)
        self.memory = memory_rule(request, cluster, partition)
        self.kinds = kinds(cluster).of(partition)
        per_node = request.ntasks_per_node or 1
        if request.ntasks is not None:
            per_node = min(per_node, request.ntasks)
        self.cpus = max(self.wish.min_cpus, per_node * self.wish.cpus_per_task)
        most = partition.max_cpus_per_node
        nodes = self.wish.max_nodes or len(partition.nodes)
        self.within = most is None or (
            self.cpus <= most and (self.wish.ntasks or 1) * self.wish.cpus_per_task <= most * nodes
        )

    def has_cpus(self, node: Node) -> bool:
        """Enough CPUs for the tasks that a node must take (-c, --ntasks-per-node, --mincpus, --cpus-per-gpu)."""
        wanted = 1 if self.wish.overcommit else self.cpus
        return node.cpus >= max(wanted, self.wish.cpus_per_gpu * gpus.total(self.wish.node_gpus))

    def has_memory(self, node: Node) -> bool:
        """Enough memory for one such share of the job."""
        own = max(gpus.total(self.wish.node_gpus), 1)
        return self.memory.of(node.memory, self.cpus, own) <= node.memory

    def has_disk(self, node: Node) -> bool:
        """Enough of TmpFS (--tmp)."""
        return node.tmp_disk >= (self.request.tmp_disk or 0)

    def has_sockets(self, node: Node) -> bool:
        """The sockets, cores and threads of -B and its long forms."""
        request = self.request
        return (
            node.sockets >= (request.sockets_per_node or 1)
            and node.cores_per_socket >= (request.cores_per_socket or 1)
            and node.threads_per_core >= (request.threads_per_core or 1)
        )

    def suits(self, node: Node, choice: str) -> bool:
        """Whether nodes of this kind can be part of the job: all demands on one node, its features among them."""
        if not features.matches(choice, frozenset(node.features)):
            return False
        if self.wish.node_gpus and gpus.capacity(self.wish.node_gpus, gpus.gpu_types(node)) < 1:
            return False
        if self.wish.task_gpus and gpus.capacity(self.wish.task_gpus, gpus.gpu_types(node)) < 1:
            return False
        for name, count in self.wish.node_gres:
            if sum(gres.count for gres in node.gres if gres.name == name) < count:
                return False
        return self.has_cpus(node) and self.has_memory(node) and self.has_disk(node) and self.has_sockets(node)


def unsuitable(shape: Shape) -> Optional[Sequence[str]]:
    """None if the partition has such nodes; else the lines that Slurm prints about it (perhaps none) before the refusal."""
    lines = [
        line
        for line, test in (
            (_CPUS, shape.has_cpus),
            (_MEMORY, shape.has_memory),
            (_DISK, shape.has_disk),
            (_SOCKETS, shape.has_sockets),
        )
        if not any(test(kind) for kind, _ in shape.kinds)
    ]
    if lines or not shape.within:
        return lines
    constraint = features.parse(shape.request.constraint)
    excluded = frozenset(shape.wish.excluded)
    for choice in constraint.choices:
        suiting = [
            (kind, [name for name in names if name not in excluded])
            for kind, names in shape.kinds
            if shape.suits(kind, choice)
        ]
        found = {name for _, names in suiting for name in names}
        if (
            found
            and found.issuperset(shape.wish.required)
            and _has_gpus(shape, suiting)
            and _holds_tasks(shape, suiting)
        ):
            return None
    return ()


def _holds_tasks(shape: Shape, suiting: Sequence[tuple[Node, Sequence[str]]]) -> bool:
    """Whether as many of these nodes as the job may have hold its tasks. A job for which the whole partition is too small waits."""
    wish = shape.wish
    most = wish.max_nodes
    if not wish.fixed_nodes or most is None or wish.ntasks is None or wish.overcommit:
        return True
    cpus = wish.ntasks * wish.cpus_per_task
    nodes = sum(len(names) for _, names in shape.kinds)
    if most > nodes or cpus > sum(kind.cpus * len(names) for kind, names in shape.kinds):
        return True
    return cpus <= most * max(kind.cpus for kind, _ in suiting)


def _has_gpus(shape: Shape, suiting: Sequence[tuple[Node, Sequence[str]]]) -> bool:
    """Whether all these nodes together have the GPUs of the whole job."""
    wish = shape.wish
    if wish.job_gpus:
        held: dict[str, int] = {}
        for kind, names in suiting:
            for name in gpus.gpu_types(kind):
                held[name] = held.get(name, 0) + len(names)
        if gpus.total(wish.job_gpus) > sum(held.values()):
            return False
        if any(held.get(name, 0) < count for name, count in _by_type(wish.job_gpus)):
            return False
    if wish.task_gpus:
        fitting = sum(gpus.capacity(wish.task_gpus, gpus.gpu_types(kind)) * len(names) for kind, names in suiting)
        return fitting >= (wish.ntasks or 1)
    return True


def _by_type(demand: Demand) -> list[tuple[str, int]]:
    """How many GPUs of each named type."""
    wanted: dict[str, int] = {}
    for name, count in demand:
        wanted[name] = wanted.get(name, 0) + count
    return [(name, count) for name, count in wanted.items() if name]
