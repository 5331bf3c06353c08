"""Which of its partitions take a request at submission, whether limits are enforced (EnforcePartLimits) or not.

slurmctld looks at the partitions twice. First in the order of the request, at what the request says: who may use them, sizes, times.
That also fixes the job's own least number of nodes and longest time, over all partitions together. Then, highest tier first, each is
tried: may the job run there (limits), could it if the partition were idle (nodes)? What follows from the answers depends on the mode:

NO   a limit keeps nobody out; trying ends at the first partition that has the nodes; else the last one tried decides.
ANY  partitions with a limit are passed over; one that has the nodes is enough.
ALL  each limit refuses; of the nodes, again, those of one partition are enough.

A partition that is down has no limits of size or time; as the last one tried it makes the job wait, whatever it lacks.
"""

from __future__ import annotations

from shim.core.admission import partition_rules
from shim.core.admission.feasibility import NodeRequirements, all_cpus, exceeds, fits_when_idle, limit_reason
from shim.core.errors import (
    INVALID_NODE_COUNT,
    INVALID_TIME_LIMIT,
    NODE_CONFIG_UNAVAILABLE,
    PARTITION_CONFIG_UNAVAILABLE,
    PARTITION_NOT_AVAILABLE,
    TOO_MANY_CPUS,
)
from shim.core.model.request import INFINITE
from shim.core.placement.resolve import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest

    Refusal = Tuple[str, List[str]]  # Slurm's reason ("": none), and the lines that it prints before

DOWN = "PartitionDown"
NODE_LIMIT = "PartitionNodeLimit"
MEMORY = "MaxMemPerLimit"
INFINITE_NODES = 1 << 32  # of a job whose first partition is not for its user, and that names no number itself
BAD_TIME_MIN = "Invalid time-min specification (exceeds job's time or other limits)"
NOT_IN_PARTITION = "Requested nodes not in this partition"


class PartitionLimits:
    """The partitions of one request, ``usable``: those that take jobs at all, in the order of the request."""

    def __init__(
        self,
        request: JobRequest,
        cluster: Cluster,
        access: partition_rules.Access,
    ) -> None:
        self.request = request
        self.cluster = cluster
        self.access = access
        self.resolved = resolve(request)
        self.enforced = cluster.enforce_part_limits
        self.in_all = self.enforced and cluster.enforce_in_all
        found = partition_rules.partitions_of(request, cluster)
        self.choice = len(found) > 1
        self.by_tier = [one for one in found if one.state.upper() in partition_rules.TAKES_JOBS]
        named = (request.partition or "").split(",")
        self.usable = sorted(self.by_tier, key=lambda one: named.index(one.name)) if request.partition else self.by_tier
        self._denied = {one.name: problem for one in self.usable if (problem := access.problem(request, one))}
        # A job may use no partition from here on: slurmctld looks no further, and forgets what these would allow.
        first = next((place for place, one in enumerate(self.usable) if one.name in self._denied), len(self.usable))
        self.looked_at = self.usable[:first]

    def as_requested(self) -> str:
        """The refusal of the first look, "" for none."""
        if not self.usable:
            return PARTITION_NOT_AVAILABLE
        problem = self._no_partition_allows()
        return problem or self._nodes_together()

    def _no_partition_allows(self) -> str:
        problems: list[str] = []
        for partition in self.usable:
            denied = self._denied.get(partition.name, "")
            if denied and (self.in_all or not self.choice):
                return problems[0] if self.in_all and problems and problems[0] else denied
            if denied and self.enforced:
                return PARTITION_NOT_AVAILABLE if "" in problems else denied
            if denied:
                return ""
            problems.append(self.above(partition))
            if self.in_all and problems[-1]:
                return problems[-1]
        return problems[-1] if self.enforced and "" not in problems else ""

    def above(self, partition: Partition) -> str:
        """The first limit of the partition that the request as it was written is above, as a refusal; "" for none."""
        least, most = self._asked_nodes()
        resolved, up = self.resolved, partition.state.upper() != "DOWN"
        if up and resolved.cpus > all_cpus(self.cluster, partition):
            return TOO_MANY_CPUS
        if up and (least or 0) > len(partition.nodes):
            return INVALID_NODE_COUNT
        if not set(resolved.required).issubset(partition.nodes):
            return NOT_IN_PARTITION
        if up and most is not None and partition.max_nodes is not None and most > partition.max_nodes:
            return INVALID_NODE_COUNT
        if up and least is not None and least < partition.min_nodes:
            return INVALID_NODE_COUNT
        if up and exceeds(self.request.time_limit, partition.max_time):
            return INVALID_TIME_LIMIT
        account = partition_rules.account_problem(self.request, self.cluster, partition)[1]
        return account if self.enforced and account != PARTITION_CONFIG_UNAVAILABLE else ""

    def _asked_nodes(self) -> tuple[Optional[int], Optional[int]]:
        """The least and the greatest number of nodes that the request names: by -N; the least also by --nodelist."""
        request = self.request
        if request.min_nodes is None:
            return (self.resolved.min_nodes if self.resolved.required else None), None
        return self.resolved.min_nodes, (request.min_nodes if request.max_nodes is None else request.max_nodes) or None

    def _nodes_together(self) -> str:
        """EnforcePartLimits: a number of nodes that none of the partitions allows."""
        least, most = self._asked_nodes()
        limits = [one.max_nodes for one in self.looked_at]
        if not self.enforced:
            return ""
        if least is not None and None not in limits and least > max(filter(None, limits), default=1):
            return INVALID_NODE_COUNT
        return INVALID_NODE_COUNT if most is not None and most < self._least_of_partitions() else ""

    def _least_of_partitions(self) -> int:
        """The least number of nodes that one of the partitions gives to a job; more than there are for no partition."""
        return min((one.min_nodes for one in self.looked_at), default=INFINITE_NODES)

    def times(self) -> str:
        """The refusal of --time-min and, where limits are enforced, of --time; "" for none."""
        request = self.request
        longest: Optional[int] = 0
        for partition in self.looked_at:
            longest = None if longest is None or partition.max_time is None else max(longest, partition.max_time)
        if request.time_min is not None and exceeds(request.time_min, longest):
            return BAD_TIME_MIN
        limit = self.usable[0].default_time if request.time_limit is None else request.time_limit
        if self.enforced and request.time_min is None and exceeds(limit, longest):
            return INVALID_TIME_LIMIT
        if limit == INFINITE:
            return ""
        return BAD_TIME_MIN if request.time_min is not None and exceeds(request.time_min, limit) else ""

    def when_tried(self) -> Refusal:
        """The refusal of the second look, at limits and nodes."""
        if not self.choice:
            return self._only()
        request = self.request
        down, refused, found, said = False, PARTITION_CONFIG_UNAVAILABLE, False, list[str]()
        for partition in self.by_tier:
            limit = self.limit(partition)
            down = limit == DOWN
            if limit and self.in_all and not down:
                return PARTITION_CONFIG_UNAVAILABLE, said
            if limit and self.enforced and not self.in_all:
                continue
            if not limit or down:  # CPUs that were added for the memory stay if the next partition's limits refuse
                request = self._ruled(partition)
            refused, lines = self.lacks(partition, request)
            said = lines if partition.nodes else said  # slurmctld looks for nothing where there are none
            if refused == PARTITION_CONFIG_UNAVAILABLE and self.in_all:
                return refused, said
            found = found or not refused or (down and self.in_all)
            if found and not self.in_all:
                break
        if found or down or (refused == PARTITION_CONFIG_UNAVAILABLE and not self.enforced):
            return "", []
        return refused, said

    def _only(self) -> Refusal:
        partition = self.usable[0]
        limit = self.limit(partition)
        if limit and limit != DOWN:
            return (PARTITION_CONFIG_UNAVAILABLE if self.enforced else ""), []
        refused, lines = self.lacks(partition, self._ruled(partition))
        return ("" if refused == PARTITION_CONFIG_UNAVAILABLE and not self.enforced else refused), lines

    def limit(self, partition: Partition) -> str:
        """The reason for which the job would wait in this partition, ``DOWN`` among others; "" for none."""
        if self.enforced and partition_rules.account_problem(self.request, self.cluster, partition)[1]:
            return "InvalidAccount"
        request = self.request.replace(time_min=None)
        if request.min_nodes is None and not self.looked_at and partition.name not in self._denied:
            return DOWN if partition.state.upper() == "DOWN" else NODE_LIMIT  # INFINITE_NODES
        if request.hold and request.min_nodes is None:
            request = request.replace(node_list=None)  # how many these are is looked at when the job may start
        return limit_reason(request, self.cluster, partition, self.access) or ""

    def _ruled(self, partition: Partition) -> JobRequest:
        return partition_rules.apply_partition_rules(self.request, self.cluster, partition)

    def lacks(self, partition: Partition, request: JobRequest) -> Refusal:
        """Why the job could not run in the partition if it were idle: its nodes do not suffice, or it does not give as many to a job."""
        cluster = self.cluster
        if request.hold:
            return "", []  # slurmctld looks for nodes when a job may start
        if partition_rules.account_problem(request, cluster, partition)[1]:
            return PARTITION_CONFIG_UNAVAILABLE, []
        lines = NodeRequirements(request, cluster, partition).unmet()
        if lines or not partition.nodes or not set(self.resolved.required).issubset(partition.nodes):
            return NODE_CONFIG_UNAVAILABLE, lines
        least = max(resolve(request).min_nodes, partition.min_nodes)
        if self.request.min_nodes is None and not self.looked_at:
            least = INFINITE_NODES
        most = min(partition.max_nodes or 1 << 31, self._asked_nodes()[1] or 1 << 31)
        if least > most:
            return PARTITION_CONFIG_UNAVAILABLE, []
        return ("" if fits_when_idle(request, cluster, partition) else NODE_CONFIG_UNAVAILABLE), []
