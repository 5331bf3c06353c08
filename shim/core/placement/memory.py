"""How much memory a job is charged on a node, in MiB."""

from __future__ import annotations

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest


class MemoryRule(Value):
    """MiB per node (0 = all of the node), per CPU or per GPU; None where it does not count."""

    per_node: int | None = None
    per_cpu: int | None = None
    per_gpu: int | None = None

    def of(self, node_memory: int, cpus: int, gpus: int) -> int:
        """MiB on a node with ``node_memory`` for so many CPUs and GPUs; 0 = not charged."""
        if self.per_node is not None:
            return self.per_node or node_memory
        return (self.per_cpu or 0) * cpus + (self.per_gpu or 0) * gpus


def memory_rule(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> MemoryRule:
    """What a job is charged: what it wants, on a cluster that counts memory."""
    return wanted_memory(request, cluster, partition) if cluster.counts_memory else MemoryRule()


def wanted_memory(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> MemoryRule:
    """What the request says, else the default of its partition or cluster, else nothing: memory is not charged."""
    if request.mem_per_node is not None:
        return MemoryRule(per_node=request.mem_per_node)
    if request.mem_per_cpu is not None:
        return MemoryRule(per_cpu=request.mem_per_cpu) if request.mem_per_cpu else MemoryRule(per_node=0)
    if request.mem_per_gpu is not None:
        return MemoryRule(per_gpu=request.mem_per_gpu)
    for source in (partition, cluster):
        if source is not None and source.def_mem_per_cpu is not None:
            return MemoryRule(per_cpu=source.def_mem_per_cpu)
        if source is not None and source.def_mem_per_node is not None:
            return MemoryRule(per_node=source.def_mem_per_node or None)
    return MemoryRule()
