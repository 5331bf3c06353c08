"""What a partition allows whom, and what it makes of a job that asks for it: slurm.conf's words on PartitionName lines."""

from __future__ import annotations

from shim.core.errors import ACCESS_DENIED, PARTITION_CONFIG_UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Callable, Dict, Optional

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest

    # The names of the groups of the user who asks; looked up only where a partition is for some groups.
    Groups = Callable[[], Collection[str]]

BAD_ACCOUNT = "Invalid account or account/partition combination specified"
BAD_QOS = "Invalid qos specification"
NOT_IN_GROUP = "User's group not permitted to use this partition"


def operates(operators: Optional[Collection[str]], uid: int, name: str, owner: int) -> bool:
    """Whether the user may do what Slurm leaves to operators: root, who is named, and the index's owner unless nobody is to be one."""
    if uid == 0:
        return True
    if operators is None:
        return uid == owner
    return name in operators or str(uid) in operators or (bool(operators) and uid == owner)


def access_problem(request: JobRequest, partition: Partition, uid: int, groups: Optional[Groups]) -> str:
    """Why user ``uid`` may not use the partition at all, in Slurm's words; "" if he may. ``groups`` None: nobody knows them."""
    if partition.req_resv and not request.reservation:
        return ACCESS_DENIED
    if partition.root_only and uid != 0:
        return ACCESS_DENIED
    if partition.disable_root_jobs and uid == 0:
        return ACCESS_DENIED
    if partition.allow_groups.upper() == "ALL" or uid == 0 or groups is None:
        return ""
    return "" if set(partition.allow_groups.split(",")).intersection(groups()) else NOT_IN_GROUP


def account_problem(request: JobRequest, cluster: Cluster, partition: Partition) -> tuple[str, str]:
    """What the partition's lists of accounts and QOS come to: the reason for which a job waits, and the refusal where limits
    are enforced (EnforcePartLimits); empty for nothing. Without accounting no account is known, and no QOS counts.
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


def in_partition(request: JobRequest, cluster: Cluster, partition: Partition) -> JobRequest:
    """The request as slurmctld keeps it for this partition: shared or not, with its least nodes, with more CPUs for more memory
    than one CPU may bring.
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
    elif most and (request.mem_per_node or 0) > most:
        changes["min_cpus"] = max(request.min_cpus or 1, -(-(request.mem_per_node or 0) // most))
    return request.replace(**changes) if changes else request


def restricted(cluster: Cluster) -> Dict[str, str]:
    """Its hidden partitions, and those that are for some groups, which are named."""
    return {
        one.name: "" if one.hidden else one.allow_groups
        for one in cluster.partitions
        if one.hidden or one.allow_groups.upper() != "ALL"
    }
