"""What a pending job needs, as squeue %D %C and scontrol NumNodes, NumCPUs, NumTasks and TRES show it."""

from __future__ import annotations

from shim.core.model.node_classes import node_classes
from shim.core.placement import gpus
from shim.core.placement.resolve import resolve
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.resolve import ResolvedRequest


class PendingEstimate(Value):
    """The least a job needs.

    ``nodes`` is squeue's %D, ``guessed_nodes`` slurmctld's guess, which scontrol prints; ``min_nodes`` what was asked (TRES).
    """

    nodes: int = 1
    guessed_nodes: int = 1
    min_nodes: int = 1
    max_nodes: int | None = None  # None: no limit was asked
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    min_cpus_per_node: int = 1  # MinCPUsNode
    gpus: int = 0  # of the whole job

    @property
    def num_nodes(self) -> str:
        """scontrol's NumNodes: ``2-4`` for a range, ``2-2`` when -N was given, ``2`` when derived."""
        if self.max_nodes:
            return f"{min(self.guessed_nodes, self.max_nodes)}-{self.max_nodes}"
        return str(self.guessed_nodes)


def pending_estimate(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> PendingEstimate:
    """The needs of ``request``. Without ``partition`` its own (the first of a list), else the default, is taken."""
    resolved = resolve(request)
    if partition is None:
        first = (request.partition or "").split(",")[0]
        partition = cluster.partition(first) if first else cluster.default_partition
    tasks = resolved.ntasks if resolved.ntasks is not None else resolved.min_nodes
    largest = _largest_node(cluster, partition)
    if resolved.tasks_per_core:
        largest = _cores(cluster, partition) * resolved.tasks_per_core
    guess = _guess(resolved, largest)
    nodes = max(resolved.min_nodes, -(-(tasks * resolved.cpus_per_task) // largest))
    if resolved.tasks_per_node and nodes == 1:
        nodes = max(nodes, -(-tasks // resolved.tasks_per_node))
    return PendingEstimate(
        nodes=nodes,
        guessed_nodes=guess,
        min_nodes=resolved.min_nodes,
        max_nodes=resolved.max_nodes if resolved.fixed_nodes else None,
        cpus=resolved.cpus,
        tasks=tasks,
        cpus_per_task=resolved.cpus_per_task,
        min_cpus_per_node=max(resolved.min_cpus, resolved.cpus_per_task * (request.ntasks_per_node or 1)),
        gpus=max(
            gpus.total(resolved.job_gpus),
            gpus.total(resolved.node_gpus) * resolved.min_nodes,
            gpus.total(resolved.task_gpus) * tasks,
        ),
    )


def _guess(resolved: ResolvedRequest, largest: int) -> int:
    """slurmctld's guess at the nodes of a pending job. With -c, tasks that do not fill a node count as a further node.

    So ``-n1 -c2`` shows 2 where nodes have more than two CPUs, and 1 where two CPUs are all.
    """
    tasks = resolved.ntasks or 0
    if resolved.tasks_per_node:
        return max(resolved.min_nodes, tasks // resolved.tasks_per_node)
    if resolved.cpus_per_task > 1:
        per_node = max(1, largest // resolved.cpus_per_task)
        return max(resolved.min_nodes, tasks // per_node) + (1 if tasks % per_node else 0)
    return max(resolved.min_nodes, -(-tasks // largest))


def _cores(cluster: Cluster, partition: Partition | None) -> int:
    nodes = [kind for kind, _ in node_classes(cluster).of(partition)] if partition is not None else cluster.nodes
    return max((node.sockets * node.cores_per_socket for node in nodes), default=1)


def _largest_node(cluster: Cluster, partition: Partition | None) -> int:
    if partition is not None and partition.nodes:
        return max((kind.cpus for kind, _ in node_classes(cluster).of(partition)), default=1)
    return max((node.cpus for node in cluster.nodes), default=1)
