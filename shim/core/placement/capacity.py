"""What is free of one node, and what of it the tasks of a job can have."""

from __future__ import annotations

from shim.core.model.cluster import Node
from shim.core.placement import gpus
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.placement.resolve import MemoryRule, ResolvedRequest


class NodeFree(Value):
    """What is free of a node that may be used. ``memory`` in MiB; ``gpus``: free indexes. ``beyond``: further CPUs, which the partition
    does not let tasks have (MaxCPUsPerNode) but --mincpus counts.
    """

    node: Node
    cpus: int
    beyond: int = 0
    memory: int
    gpus: tuple[int, ...] = ()
    _nested = {"node": Node}

    @property
    def gpu_types(self) -> list[str]:
        """The types of the free GPUs, in the order of ``gpus``."""
        types = gpus.gpu_types(self.node)
        return [types[index] for index in self.gpus]


def usable_cpus(resolved: ResolvedRequest, rule: MemoryRule, one: NodeFree) -> int:
    """How many CPUs of ``one`` the job's tasks can have; 0 when the node cannot be part of the job at all.

    Slurm counts CPUs, not tasks: of 8 CPUs all count for tasks of 3, see ``tasks.spread``. With GPUs it counts whole tasks.
    With --overcommit the result is as many CPUs as the tasks want.
    """
    if not _fits_once(resolved, rule, one):
        return 0
    each = resolved.cpus_per_task
    if resolved.overcommit:
        cpus = max(resolved.ntasks or 1, 1) * each
    else:
        cpus = one.cpus + one.beyond
        if rule.per_cpu:
            cpus = min(cpus, one.memory // rule.per_cpu)
        if cpus < resolved.min_cpus:
            return 0
        cpus = min(cpus, one.cpus)
        if cpus < resolved.least_cpus:
            return 0
        if resolved.has_gres:
            cpus -= cpus % each
    cores = one.node.sockets * one.node.cores_per_socket
    for cap in (
        resolved.tasks_per_node,
        not resolved.overcommit and resolved.tasks_per_socket and resolved.tasks_per_socket * one.node.sockets,
        not resolved.overcommit and resolved.tasks_per_core and resolved.tasks_per_core * cores,
    ):
        if cap:
            cpus = min(cpus, cap * each)
    if resolved.task_gpus:
        own = gpus.total(resolved.task_gpus)
        tasks = min(gpus.capacity(resolved.task_gpus, one.gpu_types), gpu_limit(resolved, rule, one) // own)
        cpus = min(cpus, tasks * each)
    return cpus


def gpu_limit(resolved: ResolvedRequest, rule: MemoryRule, one: NodeFree) -> int:
    """For how many GPUs the node has the CPUs (--cpus-per-gpu) and the memory (--mem-per-gpu)."""
    limit = len(one.gpus)
    if resolved.cpus_per_gpu:
        limit = min(limit, one.cpus // resolved.cpus_per_gpu)
    if rule.per_gpu:
        limit = min(limit, one.memory // rule.per_gpu)
    return limit


def cap_gpus(demand: gpus.Demand, types: Sequence[str], limit: int) -> list[str]:
    """Of free GPUs of these ``types`` at most ``limit``, those first whose type ``demand`` names."""
    named = [kind for kind, _ in demand if kind]
    return sorted(types, key=lambda kind: kind not in named)[:limit]


def _fits_once(resolved: ResolvedRequest, rule: MemoryRule, one: NodeFree) -> bool:
    """Whether the node has what every node of the job must have."""
    return (
        _has_cpus(resolved, one)
        and _has_sockets(resolved, one.node)
        and (rule.per_node is None or one.memory >= (rule.per_node or one.node.memory))
        and _has_gres(resolved, rule, one)
    )


def _has_cpus(resolved: ResolvedRequest, one: NodeFree) -> bool:
    if one.cpus + one.beyond < resolved.min_cpus or one.node.cpus < resolved.one_node:
        return False
    # A job that gets the whole node gets it with all of its GPUs.
    return not resolved.whole or one.cpus >= max(one.node.cpus, resolved.cpus_per_gpu * len(one.gpus))


def _has_sockets(resolved: ResolvedRequest, node: Node) -> bool:
    """Whether the limits of tasks per node and socket fit the node at all; most of that counts with --overcommit too."""
    per_socket = resolved.tasks_per_socket or 0
    if node.cpus < (resolved.tasks_per_node or 0) or node.cores_per_socket * node.threads_per_core < per_socket:
        return False
    return resolved.overcommit or node.cpus >= per_socket * resolved.cpus_per_task


def _has_gres(resolved: ResolvedRequest, rule: MemoryRule, one: NodeFree) -> bool:
    own = gpus.total(resolved.node_gpus)
    if own and (gpus.capacity(resolved.node_gpus, one.gpu_types) < 1 or gpu_limit(resolved, rule, one) < own):
        return False
    for name, count in resolved.node_gres:
        if sum(gres.count for gres in one.node.gres if gres.name == name) < count:
            return False
    if resolved.job_gpus:
        # Of each type that the job names, however few of it are to come from here.
        return bool(one.gpus) and all(not kind or kind in one.gpu_types for kind, _ in resolved.job_gpus)
    return True
