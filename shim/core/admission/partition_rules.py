"""The rules of a partition: who may use it, and how it changes a job that asks for it (PartitionName lines of slurm.conf)."""

from __future__ import annotations

from shim.core.errors import ACCESS_DENIED, PARTITION_CONFIG_UNAVAILABLE
from shim.core.formats import hostlist
from shim.core.model.node_classes import node_classes
from shim.core.placement.resolve import wanted_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Callable, Dict, List, Optional

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.job import Job
    from shim.core.model.request import JobRequest

    # The names of the groups of the user who asks; looked up only where a partition is for some groups.
    Groups = Callable[[], Collection[str]]

BAD_ACCOUNT = "Invalid account or account/partition combination specified"
BAD_QOS = "Invalid qos specification"
NOT_IN_GROUP = "User's group not permitted to use this partition"


TAKES_JOBS = ("UP", "DOWN")  # states of partitions; jobs of one that is down wait


def partitions_of(request: JobRequest, cluster: Cluster) -> List[Partition]:
    """The partitions that the request names, highest tier first, else the default one. Unknown names are left out."""
    if not request.partition:
        return [cluster.default_partition] if cluster.default_partition is not None else []
    found = [cluster.partition(name) for name in dict.fromkeys(request.partition.split(","))]
    return sorted((partition for partition in found if partition is not None), key=lambda one: -one.priority_tier)


def first_of(text: str, cluster: Cluster) -> Optional[Partition]:
    """The first partition of a comma list, whatever its tier."""
    return cluster.partition(text.partition(",")[0])


def that_take_jobs(text: str, cluster: Cluster) -> str:
    """The comma list without the partitions that take no jobs now; "" if none is left."""
    found = {name: cluster.partition(name) for name in text.split(",")}
    closed = [name for name, one in found.items() if one is not None and one.state.upper() not in TAKES_JOBS]
    left = ",".join(name for name in text.split(",") if name not in closed)
    return left if left.strip(",") else ""


def is_operator(operators: Optional[Collection[str]], uid: int, name: str, owner: int) -> bool:
    """Whether the user is an operator: root, the users whose names or uids are in ``operators``, and the index's owner.

    ``operators`` None: nobody is named; empty: the owner is none either.
    """
    if uid == 0:
        return True
    if operators is None:
        return uid == owner
    return name in operators or str(uid) in operators or (bool(operators) and uid == owner)


def access_of(job: Job, members: Callable[[int], Collection[str]]) -> Access:
    """Who asked for the job; ``members`` gives the groups of a user.

    Of a job from another machine its user's groups are not known here: they were looked at where it was submitted.
    """
    return Access(job.uid, None if job.origin else lambda: members(job.uid), job.submit_host)


class Access:
    """Who asks for a job, from where: which partitions these may use. Asked at submission and each time the job might start."""

    def __init__(self, uid: int, groups: Optional[Groups], host: str = "") -> None:
        """``groups`` None: the user's groups are not known, and no partition is closed because of them; ``host``: "" for anywhere."""
        self.uid = uid
        self.groups = groups
        self.host = host

    def problem(self, request: JobRequest, partition: Partition) -> str:
        """Why the request may not use the partition at all, in Slurm's words; "" if it may."""
        if self.host and not _allocates(partition, self.host):
            return ACCESS_DENIED
        if partition.req_resv and not request.reservation:
            return ACCESS_DENIED
        if partition.root_only and self.uid != 0:
            return ACCESS_DENIED
        if partition.disable_root_jobs and self.uid == 0:
            return ACCESS_DENIED
        if partition.allow_groups.upper() == "ALL" or self.uid == 0 or self.groups is None:
            return ""
        return "" if set(partition.allow_groups.split(",")).intersection(self.groups()) else NOT_IN_GROUP


def _allocates(partition: Partition, host: str) -> bool:
    if partition.alloc_nodes.upper() == "ALL":
        return True
    try:
        return host in hostlist.expand(partition.alloc_nodes)
    except hostlist.HostlistError:
        return False


def account_problem(request: JobRequest, cluster: Cluster, partition: Partition) -> tuple[str, str]:
    """What the partition's lists of accounts and QOS mean for the job: the reason for which it waits, and the refusal where limits
    are enforced (EnforcePartLimits); both empty for a job that they allow. Without accounting no account is known, and no QOS counts.
    """
    name, account, known = partition.name, request.account, cluster.accounting
    allowed, denied = partition.allow_accounts, partition.deny_accounts
    if allowed.upper() != "ALL":
        if not known:
            why = f"Job's account not known, so it can't use this partition ({name} allows {allowed})"
            return (why if account else ""), BAD_ACCOUNT
        if account and account not in allowed.lower().split(","):
            why = f"Job's account not permitted to use this partition ({name} allows {allowed} not {account})"
            return why, BAD_ACCOUNT
    elif account and account in denied.lower().split(","):
        why = f"Job's account not permitted to use this partition ({name} denies {denied} including {account})"
        return (why if known else ""), (BAD_ACCOUNT if known else PARTITION_CONFIG_UNAVAILABLE)
    return _qos_problem(request.qos, partition) if known and request.qos else ("", "")


def _qos_problem(qos: str, partition: Partition) -> tuple[str, str]:
    begin = "Job's QOS not permitted to use this partition"
    if partition.allow_qos.upper() != "ALL":
        if qos not in partition.allow_qos.split(","):
            return f"{begin} ({partition.name} allows {partition.allow_qos} not {qos})", BAD_QOS
    elif qos in partition.deny_qos.split(","):
        return f"{begin} ({partition.name} denies {partition.deny_qos} including {qos})", BAD_QOS
    return "", ""


def apply_partition_rules(request: JobRequest, cluster: Cluster, partition: Partition) -> JobRequest:
    """The request as slurmctld keeps it for this partition: shared or exclusive, with the partition's least number of nodes, with
    more CPUs where the job wants more memory than MaxMemPerCPU allows for one CPU.
    """
    changes: dict[str, Any] = {}
    sharing = partition.oversubscribe.partition(":")[0].upper()
    if sharing == "EXCLUSIVE" and request.exclusive is None and not request.oversubscribe:
        changes["exclusive"] = "node"
    elif sharing == "FORCE" and request.exclusive is None:
        changes["oversubscribe"] = True
    if partition.min_nodes > 1 and request.min_nodes is None:
        changes.update(min_nodes=partition.min_nodes, max_nodes=0)
    most = partition.max_mem_per_cpu if partition.max_mem_per_cpu is not None else cluster.max_mem_per_cpu
    if most and (request.mem_per_cpu or 0) > most:
        wanted = request.mem_per_cpu or 0
        times = -(-wanted // most)
        changes.update(cpus_per_task=(request.cpus_per_task or 1) * times, mem_per_cpu=-(-wanted // times))
    elif most and request.mem_per_cpu is None:
        wanted = _memory_of_node(request, cluster, partition)
        if wanted > most:
            changes["min_cpus"] = max(request.min_cpus or 1, -(-wanted // most))
    return request.replace(**changes) if changes else request


def _memory_of_node(request: JobRequest, cluster: Cluster, partition: Partition) -> int:
    """MiB of a node that the job wants: all of one, if neither the request nor a default says less; 0 if it does not go by nodes."""
    memory = wanted_memory(request, cluster, partition)
    if memory.per_cpu or memory.per_gpu:
        return 0
    return memory.per_node or max((node.memory for node, _ in node_classes(cluster).of(partition)), default=0)


def restricted_partitions(cluster: Cluster) -> Dict[str, str]:
    """The cluster's hidden partitions (value ""), and the partitions that are for some groups only (value: the groups)."""
    return {
        one.name: "" if one.hidden else one.allow_groups
        for one in cluster.partitions
        if one.hidden or one.allow_groups.upper() != "ALL"
    }
