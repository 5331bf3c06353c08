"""What a pending job needs, as squeue %D %C and scontrol NumNodes, NumCPUs, NumTasks and TRES show it."""

from __future__ import annotations

from shim.core.kinds import kinds
from shim.core.layout import gpus
from shim.core.layout.demand import job_demand
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest


class Needs(Value):
    """The least a job needs. ``nodes`` (%D) counts the nodes its CPUs fill; ``min_nodes`` what was asked (TRES)."""

    nodes: int = 1
    min_nodes: int = 1
    max_nodes: int | None = None  # None: no limit was asked
    fixed_nodes: bool = False
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    min_cpus_per_node: int = 1  # MinCPUsNode
    gpus: int = 0  # of the whole job

    @property
    def num_nodes(self) -> str:
        """scontrol's NumNodes: ``2-4`` for a range, ``2-2`` when -N was given, ``2`` when derived."""
        if self.fixed_nodes:
            return f"{self.min_nodes}-{self.max_nodes or self.min_nodes}"
        return str(self.nodes)


def needs(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> Needs:
    """The needs of ``request``. Without ``partition`` its own (the first of a list), else the default, is taken."""
    wish = job_demand(request)
    if partition is None:
        first = (request.partition or "").split(",")[0]
        partition = cluster.partition(first) if first else cluster.default_partition
    tasks = wish.ntasks if wish.ntasks is not None else wish.min_nodes
    largest = _largest_node(cluster, partition)
    nodes = max(wish.min_nodes, -(-(tasks * wish.cpus_per_task) // largest))
    if wish.tasks_per_node and nodes == 1:
        nodes = max(nodes, -(-tasks // wish.tasks_per_node))
    return Needs(
        nodes=nodes,
        min_nodes=wish.min_nodes,
        max_nodes=wish.max_nodes,
        fixed_nodes=wish.fixed_nodes,
        cpus=wish.cpus,
        tasks=tasks,
        cpus_per_task=wish.cpus_per_task,
        min_cpus_per_node=max(wish.min_cpus, wish.cpus_per_task * (request.ntasks_per_node or 1)),
        gpus=max(
            gpus.total(wish.job_gpus), gpus.total(wish.node_gpus) * wish.min_nodes, gpus.total(wish.task_gpus) * tasks
        ),
    )


def _largest_node(cluster: Cluster, partition: Partition | None) -> int:
    if partition is not None and partition.nodes:
        return max((kind.cpus for kind, _ in kinds(cluster).of(partition)), default=1)
    return max((node.cpus for node in cluster.nodes), default=1)
