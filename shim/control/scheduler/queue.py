"""The pending jobs in their order, and what makes two of them the same to the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from shim.core.check import partitions_of
from shim.core.layout.demand import job_demand
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job
from shim.core.standing import is_up, limit_reason, standing_reason, unavailable_nodes, usable_nodes

YEAR = 365 * 86400.0  # what a job without a limit is taken to run, as Slurm shows it

# Of a request, what decides where and when it can run.
_FIELDS = attrgetter(
    *("min_nodes", "max_nodes", "ntasks", "cpus_per_task", "ntasks_per_node", "ntasks_per_socket", "ntasks_per_core"),
    *("ntasks_per_gpu", "min_cpus", "sockets_per_node", "cores_per_socket", "threads_per_core", "tmp_disk"),
    *("mem_per_node", "mem_per_cpu", "mem_per_gpu", "gres", "gpus", "gpus_per_node", "gpus_per_socket"),
    *("gpus_per_task", "cpus_per_gpu", "node_list", "exclude", "constraint", "exclusive", "overcommit"),
    *("contiguous", "distribution", "spread_job", "use_min_nodes", "licenses", "time_min"),
)


def shape_key(job: Job) -> tuple[object, ...]:
    """Equal for jobs that differ in nothing that matters here."""
    return (job.partition, job.time_limit, *_FIELDS(job.request))


def in_order(pending: Sequence[Job], cluster: Cluster) -> list[Job]:
    """Partitions of a higher tier first, then priority, then the order of submission."""
    tiers = {partition.name: partition.priority_tier for partition in cluster.partitions}

    def rank(job: Job) -> tuple[float, ...]:
        tier = max(tiers.get(name, 0) for name in job.partition.split(","))
        return -tier, -job.priority, job.submit_time, job.array_job_id or job.job_id, job.array_task_id or 0, job.key

    return sorted(pending, key=rank)


class Want:
    """What all jobs of one shape want."""

    def __init__(self, job: Job, cluster: Cluster) -> None:
        self.request = job.request.replace(partition=job.partition or None, time_limit=job.time_limit)
        self.cluster = cluster
        wish = job_demand(self.request)
        self.min_nodes = wish.min_nodes
        self.min_cpus = 1 if wish.overcommit else wish.min_cpus  # on each node
        self.cpus = wish.cpus  # at least, of the whole job
        self.partitions = partitions_of(self.request, cluster)
        # Those whose limits allow such a job, each with the names of its nodes that are up and of the kind asked for.
        self.places = [
            (partition, [node.name for node in usable_nodes(self.request, cluster, partition) if is_up(node)])
            for partition in self.partitions
            if limit_reason(self.request, cluster, partition) is None
        ]
        self._standing: list[str | None] | None = None

    def seconds(self, partition: Partition) -> float:
        """How long such a job may run there."""
        limit = self.request.time_limit
        if limit is None:
            limit = partition.default_time if partition.default_time is not None else partition.max_time
        return YEAR if limit is None or limit < 0 else limit * 60.0

    def standing(self) -> str | None:
        """The reason for which such a job cannot start however idle the cluster is; None if it can in some partition."""
        if self._standing is None:
            self._standing = [
                standing_reason(self.request, self.cluster, one) or unavailable_nodes(self.request, self.cluster, one)
                for one in self.partitions
            ]
        return None if None in self._standing else (self._standing or ["PartitionConfig"])[0]
