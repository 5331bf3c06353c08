"""What a request wants of a node, against the kinds of nodes that a partition has, however busy they are.

slurmctld looks at these demands each for itself, over all nodes, and has a line for each that no node meets. Whether the job
finds a place when all demands are taken together it tries out (``standing.has_place``).
"""

from __future__ import annotations

from shim.core.errors import MEMORY_NOT_SATISFIED
from shim.core.model.node_classes import kinds
from shim.core.placement.memory import wanted_memory
from shim.core.placement.resolve import job_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.request import JobRequest

_CPUS = "CPU count per node can not be satisfied"
_DISK = "Temporary disk specification can not be satisfied"
_SOCKETS = "Socket, core and/or thread specification can not be satisfied"


class Shape:
    """A request against one partition, in the numbers that a node must have."""

    def __init__(self, request: JobRequest, cluster: Cluster, partition: Partition) -> None:
        self.request = request
        self.wish = job_demand(request)
        self.memory = wanted_memory(request, cluster, partition)
        self.kinds = kinds(cluster).of(partition)

    def has_cpus(self, node: Node) -> bool:
        """Enough CPUs for the tasks that a node must take (-c, --ntasks-per-node, --mincpus)."""
        return node.cpus >= self.wish.min_cpus

    def has_memory(self, node: Node) -> bool:
        """Enough memory for one CPU, or for the share of a node; whether memory is counted or not."""
        return max(self.memory.per_node or 0, self.memory.per_cpu or 0) <= node.memory

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


def unsuitable(shape: Shape) -> list[str]:
    """The demands of which no node of the partition meets so much as this one, in Slurm's words."""
    return [
        line
        for line, test in (
            (_CPUS, shape.has_cpus),
            (MEMORY_NOT_SATISFIED, shape.has_memory),
            (_DISK, shape.has_disk),
            (_SOCKETS, shape.has_sockets),
        )
        if not any(test(kind) for kind, _ in shape.kinds)
    ]
