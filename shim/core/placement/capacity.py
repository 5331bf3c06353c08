"""What is free of one node, and what of it the tasks of a job can have."""

from __future__ import annotations

from shim.core.model.cluster import Node
from shim.core.placement import gpus
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.placement.memory import MemoryRule
    from shim.core.placement.resolve import JobDemand


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
    """How many CPUs of ``one`` the job's tasks can have; 0 when the node cannot be part of the job at all.

    Slurm counts CPUs, not tasks: of 8 CPUs all count for tasks of 3, see ``tasks.spread``. With GPUs it counts whole tasks.
    With overcommit: as many as the tasks want.
    """
    if not _fits_once(wish, rule, one):
        return 0
    each = wish.cpus_per_task
    if wish.overcommit:
        cpus = max(wish.ntasks or 1, 1) * each
    else:
        cpus = min(one.cpus, one.memory // rule.per_cpu) if rule.per_cpu else one.cpus
        if cpus < wish.min_cpus:
            return 0
        if wish.has_gres:
            cpus -= cpus % each
    cores = one.node.sockets * one.node.cores_per_socket
    for cap in (
        wish.tasks_per_node,
        not wish.overcommit and wish.tasks_per_socket and wish.tasks_per_socket * one.node.sockets,
        not wish.overcommit and wish.tasks_per_core and wish.tasks_per_core * cores,
    ):
        if cap:
            cpus = min(cpus, cap * each)
    if wish.task_gpus:
        own = gpus.total(wish.task_gpus)
        tasks = min(gpus.capacity(wish.task_gpus, one.gpu_types), gpu_limit(wish, rule, one) // own)
        cpus = min(cpus, tasks * each)
    return cpus


def gpu_limit(wish: JobDemand, rule: MemoryRule, one: NodeFree) -> int:
    """For how many GPUs the node has the CPUs (--cpus-per-gpu) and the memory (--mem-per-gpu)."""
    limit = len(one.gpus)
    if wish.cpus_per_gpu:
        limit = min(limit, one.cpus // wish.cpus_per_gpu)
    if rule.per_gpu:
        limit = min(limit, one.memory // rule.per_gpu)
    return limit


def limited(demand: gpus.Demand, types: Sequence[str], limit: int) -> list[str]:
    """Of free GPUs of these ``types`` at most ``limit``, those first whose type ``demand`` names."""
    named = [kind for kind, _ in demand if kind]
    return sorted(types, key=lambda kind: kind not in named)[:limit]


def _fits_once(wish: JobDemand, rule: MemoryRule, one: NodeFree) -> bool:
    """Whether the node has what every node of the job must have."""
    if one.cpus < wish.min_cpus or (wish.whole and one.cpus < one.node.cpus):
        return False
    if one.node.cpus < wish.one_node:
        return False
    if wish.whole and one.cpus < wish.cpus_per_gpu * len(one.gpus):
        return False  # with all of its GPUs
    socket = one.node.cores_per_socket * one.node.threads_per_core
    if one.node.cpus < (wish.tasks_per_node or 0) or socket < (wish.tasks_per_socket or 0):
        return False  # also with overcommit
    if not wish.overcommit and one.node.cpus < (wish.tasks_per_socket or 0) * wish.cpus_per_task:
        return False
    if rule.per_node is not None and one.memory < (rule.per_node or one.node.memory):
        return False
    if wish.node_gpus:
        own = gpus.total(wish.node_gpus)
        if gpus.capacity(wish.node_gpus, one.gpu_types) < 1 or gpu_limit(wish, rule, one) < own:
            return False
    for name, count in wish.node_gres:
        if sum(gres.count for gres in one.node.gres if gres.name == name) < count:
            return False
    return not wish.job_gpus or any(not kind or kind in one.gpu_types for kind, _ in wish.job_gpus if one.gpus)
