"""What is free of one node, and how many tasks of a job fit there."""

from __future__ import annotations

from shim.core.layout import gpus
from shim.core.model.cluster import Node
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.layout.demand import JobDemand
    from shim.core.layout.memory import MemoryRule


class NodeFree(Value):
    """What is free of a node that may be used. ``memory`` in MiB; ``gpus``: free indexes."""

    node: Node
    cpus: int
    memory: int
    gpus: tuple[int, ...] = ()
    _nested = {"node": Node}

    @property
    def gpu_types(self) -> list[str]:
        """The types of the free GPUs, in the order of ``gpus``."""
        types = gpus.gpu_types(self.node)
        return [types[index] for index in self.gpus]


def room(wish: JobDemand, rule: MemoryRule, one: NodeFree) -> int:
    """How many tasks ``one`` can take; 0 when it cannot be part of the job at all."""
    if not _fits_once(wish, rule, one):
        return 0
    if wish.overcommit:
        tasks = max(wish.ntasks or 1, 1)
    else:
        tasks = one.cpus // wish.cpus_per_task
        if rule.per_cpu:
            tasks = min(tasks, one.memory // (rule.per_cpu * wish.cpus_per_task))
    cores = one.node.sockets * one.node.cores_per_socket
    for cap in (
        wish.tasks_per_node,
        wish.tasks_per_socket and wish.tasks_per_socket * one.node.sockets,
        wish.tasks_per_core and wish.tasks_per_core * cores,
    ):
        if cap:
            tasks = min(tasks, cap)
    if wish.task_gpus:
        tasks = min(tasks, gpus.capacity(wish.task_gpus, one.gpu_types))
    return tasks


def _fits_once(wish: JobDemand, rule: MemoryRule, one: NodeFree) -> bool:
    """Whether the node has what every node of the job must have."""
    if one.cpus < wish.min_cpus or (wish.whole and one.cpus < one.node.cpus):
        return False
    if rule.per_node is not None and one.memory < (rule.per_node or one.node.memory):
        return False
    if wish.node_gpus and (
        gpus.capacity(wish.node_gpus, one.gpu_types) < 1 or one.cpus < wish.cpus_per_gpu * gpus.total(wish.node_gpus)
    ):
        return False
    for name, count in wish.node_gres:
        if sum(gres.count for gres in one.node.gres if gres.name == name) < count:
            return False
    return not wish.job_gpus or any(not kind or kind in one.gpu_types for kind, _ in wish.job_gpus if one.gpus)
