"""The pending jobs in their order, and what makes two of them the same to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter

from shim.control.scheduler.others import YEAR
from shim.core.admission.feasibility import (
    exceeds,
    is_up,
    limit_reason,
    reason_in_partition,
    unavailable_nodes,
    usable_nodes,
)
from shim.core.admission.partition_rules import access_of, partitions_of
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job
from shim.core.placement.resolve import resolve

Members = Callable[[int], Collection[str]]  # the names of the groups that a user is in

# Of a request, what decides where and when it can run.
_FIELDS = attrgetter(
    *("min_nodes", "max_nodes", "ntasks", "cpus_per_task", "ntasks_per_node", "ntasks_per_socket", "ntasks_per_core"),
    *("ntasks_per_gpu", "min_cpus", "sockets_per_node", "cores_per_socket", "threads_per_core", "tmp_disk"),
    *("mem_per_node", "mem_per_cpu", "mem_per_gpu", "gres", "gpus", "gpus_per_node", "gpus_per_socket"),
    *("gpus_per_task", "cpus_per_gpu", "node_list", "exclude", "constraint", "exclusive", "overcommit"),
    *("contiguous", "distribution", "spread_job", "use_min_nodes", "licenses", "account", "qos", "reservation"),
)


def shape_key(job: Job) -> tuple[object, ...]:
    """Equal for jobs that differ in nothing that matters here, but perhaps in their time limits."""
    return (job.partition, job.uid, job.submit_host, job.origin, *_FIELDS(job.request))


def seconds(job: Job, partition: Partition) -> float:
    """How long the job may run in that partition."""
    limit = job.time_limit
    if limit is None:
        limit = partition.default_time if partition.default_time is not None else partition.max_time
    return YEAR if limit is None or limit < 0 else limit * 60.0


def too_long(job: Job, partition: Partition) -> bool:
    """Whether the job's limit (the least it takes, with --time-min) is above the partition's."""
    least = job.request.time_min
    return exceeds(job.time_limit if least is None else least, partition.max_time)


def in_order(pending: Sequence[Job], cluster: Cluster) -> list[Job]:
    """Partitions of a higher tier first, then priority, then the order of submission."""
    tiers = {partition.name: partition.priority_tier for partition in cluster.partitions}

    def rank(job: Job) -> tuple[float, ...]:
        tier = max(tiers.get(name, 0) for name in job.partition.split(","))
        return -tier, -job.priority, job.submit_time, job.array_job_id or job.job_id, job.array_task_id or 0, job.key

    return sorted(pending, key=rank)


class Want:
    """What all jobs of one shape want, and what was found out about it in this pass."""

    def __init__(self, job: Job, cluster: Cluster, members: Members) -> None:
        self.access = access_of(job, members)
        self.request = job.request.replace(partition=job.partition or None, time_limit=None, time_min=None)
        self.cluster = cluster
        resolved = resolve(self.request)
        self.min_nodes = resolved.min_nodes
        self.min_cpus = 1 if resolved.overcommit else resolved.min_cpus  # on each node
        self.cpus = resolved.cpus  # at least, of the whole job
        self.partitions = partitions_of(self.request, cluster)
        # Those that are for the job's user and whose limits allow such a job, each with the names of its nodes that are up and of the kind asked for.
        self.places = [
            (partition, [node.name for node in usable_nodes(self.request, cluster, partition) if is_up(node)])
            for partition in self.partitions
            if limit_reason(self.request, cluster, partition, self.access) is None
        ]
        self._refused: dict[tuple[str, float], float] = {}  # partition and start: the shortest run that does not fit
        self._reserved: list[tuple[float, float]] = []  # runs and when they start
        self._standing: dict[str, str | None] = {}

    def allowed(self, job: Job) -> list[tuple[Partition, list[str]]]:
        """``places``, but partitions whose time limit is below the job's."""
        return [(partition, names) for partition, names in self.places if not too_long(job, partition)]

    def hopeless(self, partition: Partition, start: float, run: float) -> bool:
        """Whether a job of this shape that runs no longer was found not to fit: what is free only becomes less."""
        return self._refused.get((partition.name, start), run + 1) <= run

    def does_not_fit(self, partition: Partition, start: float, run: float) -> None:
        """Remembers for ``hopeless``."""
        self._refused[partition.name, start] = min(run, self._refused.get((partition.name, start), run))

    def reserved(self, start: float, run: float) -> None:
        """Remembers for ``earliest``."""
        self._reserved.append((run, start))

    def earliest(self, run: float) -> float:
        """Before when no run of that length can start: equal and shorter ones before it had to wait until then."""
        return max((start for other, start in self._reserved if other <= run), default=0.0)

    def standing(self, job: Job) -> str | None:
        """The reason for which the job cannot start however idle the cluster is; None if it can in some partition.

        Of several partitions slurmctld looks at limits first, at nodes where these allow the job, and the last one that it looks at counts.
        """
        reasons = {one.name: self._standing_of(job, one) for one in self.partitions}
        if None in reasons.values():
            return None
        tried = [reasons[partition.name] for partition, _ in self.allowed(job)]
        return (tried or list(reasons.values()) or ["PartitionConfig"])[-1]

    def _standing_of(self, job: Job, partition: Partition) -> str | None:
        if not too_long(job, partition):
            return self._standing_in(partition)
        size = limit_reason(self.request, self.cluster, partition, self.access)
        return size if size in ("PartitionConfig", "PartitionNodeLimit") else "PartitionTimeLimit"

    def _standing_in(self, partition: Partition) -> str | None:
        if partition.name not in self._standing:
            reason = reason_in_partition(self.request, self.cluster, partition, self.access)
            self._standing[partition.name] = reason or unavailable_nodes(self.request, self.cluster, partition)
        return self._standing[partition.name]
