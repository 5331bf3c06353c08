"""What a pending job needs, as squeue %D %C and scontrol NumNodes, NumCPUs, NumTasks and TRES show it."""

from __future__ import annotations

from shim.core.model.node_classes import kinds
from shim.core.placement import gpus
from shim.core.placement.resolve import job_demand
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.resolve import JobDemand


class Needs(Value):
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


def needs(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> Needs:
    """The needs of ``request``. Without ``partition`` its own (the first of a list), else the default, is taken."""
    wish = job_demand(request)
    if partition is None:
        first = (request.partition or "").split(",")[0]
        partition = cluster.partition(first) if first else cluster.default_partition
    tasks = wish.ntasks if wish.ntasks is not None else wish.min_nodes
    largest = _largest_node(cluster, partition)
    if wish.tasks_per_core:
        largest = _cores(cluster, partition) * wish.tasks_per_core
    guess = _guess(wish, largest)
    nodes = max(wish.min_nodes, -(-(tasks * wish.cpus_per_task) // largest))
    if wish.tasks_per_node and nodes == 1:
        nodes = max(nodes, -(-tasks // wish.tasks_per_node))
    return Needs(
        nodes=nodes,
        guessed_nodes=guess,
        min_nodes=wish.min_nodes,
        max_nodes=wish.max_nodes if wish.fixed_nodes else None,
        cpus=wish.cpus,
        tasks=tasks,
        cpus_per_task=wish.cpus_per_task,
        min_cpus_per_node=max(wish.min_cpus, wish.cpus_per_task * (request.ntasks_per_node or 1)),
        gpus=max(
            gpus.total(wish.job_gpus), gpus.total(wish.node_gpus) * wish.min_nodes, gpus.total(wish.task_gpus) * tasks
        ),
    )


def _guess(wish: JobDemand, largest: int) -> int:
    """slurmctld's guess at the nodes of a pending job. With -c a rest of tasks is counted beside the least of one node.

    So ``-n1 -c2`` shows 2 where nodes have more than two CPUs, and 1 where two CPUs are all.
    """
    tasks = wish.ntasks or 0
    if wish.tasks_per_node:
        return max(wish.min_nodes, tasks // wish.tasks_per_node)
    if wish.cpus_per_task > 1:
        per_node = max(1, largest // wish.cpus_per_task)
        return max(wish.min_nodes, tasks // per_node) + (1 if tasks % per_node else 0)
    return max(wish.min_nodes, -(-tasks // largest))


def _cores(cluster: Cluster, partition: Partition | None) -> int:
    nodes = [kind for kind, _ in kinds(cluster).of(partition)] if partition is not None else cluster.nodes
    return max((node.sockets * node.cores_per_socket for node in nodes), default=1)


def _largest_node(cluster: Cluster, partition: Partition | None) -> int:
    if partition is not None and partition.nodes:
        return max((kind.cpus for kind, _ in kinds(cluster).of(partition)), default=1)
    return max((node.cpus for node in cluster.nodes), default=1)
