"""What the controller refuses, with Slurm's texts, and why an accepted request cannot start on its partition.

Answers to the refusals of sbatch, salloc and srun that come from slurmctld. Slurm accepts far more than it can run:
what only a limit of a partition forbids stays pending with a reason (EnforcePartLimits=NO), see ``pending_reason``.
"""

from __future__ import annotations

from shim.core import hostlist, policy, tres
from shim.core.arrays import ArraySpec
from shim.core.dependency import Dependency
from shim.core.errors import (
    DEPENDENCY_PROBLEM,
    INVALID_ARRAY,
    INVALID_FEATURE,
    INVALID_GRES,
    INVALID_LICENSES,
    INVALID_NODE_COUNT,
    INVALID_NODE_NAME,
    INVALID_PARTITION_NAME,
    INVALID_RESERVATION,
    INVALID_TIME_LIMIT,
    INVALID_TRES,
    MEMORY_NOT_AVAILABLE,
    NODE_CONFIG_UNAVAILABLE,
    TOO_MANY_CPUS,
    RequestError,
    submission_failed,
)
from shim.core.kinds import kinds
from shim.core.layout import features
from shim.core.lists import comma_list
from shim.core.model.request import INFINITE
from shim.core.shape_check import Shape, unsuitable
from shim.core.standing import (
    exceeds,
    has_place,
    limit_reason,
    pending_reason,
    standing_reason,
    unavailable_nodes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest

__all__ = ["het_refusals", "partitions_of", "pending_reason", "refusals", "standing_reason", "unavailable_nodes"]

BAD_BATCH = "Job --batch option is invalid or not a subset of --constraints"
BAD_NICE = "Invalid --nice value"
BAD_PREFERENCE = "Invalid preferred feature specification"
BAD_TIME_MIN = "Invalid time-min specification (exceeds job's time or other limits)"
NO_PARTITION = "No partition specified or system default partition"
NOT_AVAILABLE = "Required partition not available (inactive or drain)"


def refusals(
    request: JobRequest,
    cluster: Cluster,
    uid: int,
    now: float,
    groups: Optional[policy.Groups] = None,
    *,
    operator: bool = False,
) -> None:
    """Raises RequestError if the controller of ``cluster`` refuses ``request`` of user ``uid``; else nothing happens.

    ``groups`` gives the names of the user's groups; None: partitions are for all.
    """
    check = _Check(request, cluster, uid, groups)
    check.gres()  # Slurm's client looks at these itself
    check.nice_and_array(operator=operator)
    check.node_names()
    partitions = check.partitions()
    check.counts_and_times(now)
    check.licenses()
    check.dependency()
    check.names(partitions)
    if not request.hold:  # slurmctld looks for nodes when a job may start
        check.shapes(partitions)
    check.limits(partitions)


def het_refusals(requests: Sequence[JobRequest]) -> None:
    """Raises RequestError for what the components of a heterogeneous job may not ask for together; each alone: ``refusals``."""
    if len(requests) < 2:
        return
    kind = requests[0].kind
    if any(request.array for request in requests):
        raise submission_failed(kind, INVALID_ARRAY)
    required = [set(_names(request.node_list)) for request in requests]
    if len(set().union(*required)) < sum(map(len, required)):
        raise submission_failed(kind, INVALID_NODE_NAME)
    if requests[0].immediate == 0:  # they are started in the scheduler's next round, never at once
        raise submission_failed(kind, "Job can not start immediately")


def _names(text: str | None) -> list[str]:
    try:
        return hostlist.expand(text or "")
    except hostlist.HostlistError:
        return []  # told with the component's own refusals


def partitions_of(request: JobRequest, cluster: Cluster) -> list[Partition]:
    """The partitions that the request names, highest tier first, else the default one. Unknown names are left out."""
    if not request.partition:
        return [cluster.default_partition] if cluster.default_partition is not None else []
    found = [cluster.partition(name) for name in request.partition.split(",")]
    return sorted((partition for partition in found if partition is not None), key=lambda one: -one.priority_tier)


class _Check:
    """The checks of one request; each raises."""

    def __init__(self, request: JobRequest, cluster: Cluster, uid: int, groups: Optional[policy.Groups]) -> None:
        self.request = request
        self.cluster = cluster
        self.uid = uid
        self.groups = groups
        self.bad_tres = False

    def error(self, reason: str, *before: str) -> RequestError:
        """The refusal as the command of this request prints it; ``before``: error lines that precede it."""
        return submission_failed(self.request.kind, reason, *before)

    def partitions(self) -> list[Partition]:
        """The partitions the job may start in."""
        if self.request.partition is not None:
            for name in comma_list(self.request.partition) or ("",):
                if self.cluster.partition(name) is None:
                    raise self.error(INVALID_PARTITION_NAME, f"invalid partition specified: {name or '(null)'}")
        found = partitions_of(self.request, self.cluster)
        if not found:
            raise self.error(NO_PARTITION)
        problems = [policy.access_problem(self.request, partition, self.uid, self.groups) for partition in found]
        refused = [problem for problem in problems if problem]
        if refused and (len(refused) == len(found) or self.cluster.enforce_part_limits):
            raise self.error(refused[0])
        allowed = [partition for partition, problem in zip(found, problems) if not problem]
        usable = [partition for partition in allowed if partition.state.upper() not in ("INACTIVE", "DRAIN")]
        if not usable:
            raise self.error(NOT_AVAILABLE)
        return usable

    def counts_and_times(self, now: float) -> None:
        """Node counts, the deadline, the shortest time."""
        request = self.request
        if request.min_nodes == 0 and (request.array or not request.hold):
            raise self.error(INVALID_NODE_COUNT)
        if request.deadline and request.deadline < now:
            raise self.error(INVALID_TIME_LIMIT)
        limit = request.time_limit
        if request.time_min == INFINITE or (limit != INFINITE and exceeds(request.time_min, limit)):
            raise self.error(BAD_TIME_MIN)
        if request.deadline and request.time_min and now + 60 * request.time_min > request.deadline:
            raise self.error(BAD_TIME_MIN)

    def nice_and_array(self, *, operator: bool) -> None:
        """What is looked at before anything else."""
        if self.request.nice < 0 and not operator:
            raise self.error(BAD_NICE)
        if self.request.array:
            try:
                ArraySpec.parse(self.request.array, self.cluster.max_array_size)
            except ValueError:
                raise self.error(INVALID_ARRAY) from None

    def dependency(self) -> None:
        """The dependency, also of a job that must start at once."""
        try:
            if self.request.dependency:
                Dependency.parse(self.request.dependency)
        except ValueError as error:
            raise self.error(str(error)) from None
        if self.request.hold and self.request.immediate == 0:
            raise self.error(DEPENDENCY_PROBLEM)

    def node_names(self) -> None:
        """Wanted nodes that do not exist."""
        self.nodes(self.request.node_list)

    def names(self, partitions: Sequence[Partition]) -> None:
        """Nodes of other partitions and such as are not wanted; features and reservations that do not exist."""
        wanted = self.nodes(self.request.node_list)
        if not wanted.isdisjoint(self.nodes(self.request.exclude)):
            raise self.error(INVALID_NODE_NAME)
        most = self.request.max_nodes or self.request.min_nodes
        if self.request.contiguous and wanted and most:
            places = [place for place, node in enumerate(self.cluster.nodes) if node.name in wanted]
            if places[-1] - places[0] >= most:
                raise self.error(INVALID_NODE_COUNT)
        elsewhere = wanted and not any(wanted.issubset(partition.nodes) for partition in partitions)
        if elsewhere and not self.request.hold:  # slurmctld looks for nodes when a job may start
            raise self.error(NODE_CONFIG_UNAVAILABLE)
        try:
            named = features.parse(self.request.constraint).names
        except features.FeatureError:
            raise self.error(INVALID_FEATURE) from None
        if self.request.extra.get("batch") is not None:
            self.batch_features(set(named))
        if not kinds(self.cluster).features.issuperset(named):
            raise self.error(INVALID_FEATURE)
        self.preferred()
        if self.request.reservation:
            raise self.error(INVALID_RESERVATION)
        if self.bad_tres:
            raise self.error(INVALID_TRES)

    def batch_features(self, named: set[str]) -> None:
        """--batch names features that --constraint names too."""
        words = self.request.extra["batch"].replace("|", "&").split("&")
        known = kinds(self.cluster).features
        if not named or not known.issuperset(named) or not named.issuperset(filter(None, words)):
            raise self.error(BAD_BATCH)

    def preferred(self) -> None:
        """--prefer names features as --constraint does."""
        if not self.request.prefer:
            return
        try:
            named = features.parse(self.request.prefer).names
        except features.FeatureError as error:
            bracket = isinstance(error, features.BracketError)
            raise self.error(BAD_PREFERENCE if bracket else INVALID_FEATURE) from None
        if not kinds(self.cluster).features.issuperset(named):
            raise self.error(BAD_PREFERENCE)

    def nodes(self, text: str | None) -> set[str]:
        """The names in a hostlist, all of them nodes."""
        try:
            names = set(hostlist.expand(text or ""))
        except hostlist.HostlistError:
            raise self.error(INVALID_NODE_NAME) from None
        if not kinds(self.cluster).nodes.keys() >= names:
            raise self.error(INVALID_NODE_NAME)
        return names

    def gres(self) -> None:
        """Slurm knows the names of resources (GresTypes) and refuses others in its client; gpu is always known here."""
        request = self.request
        known = kinds(self.cluster).gres | {"gpu", *self.cluster.gres_types}
        try:
            names = {name for name, _, count in tres.parse_gres(request.gres or "") if count}
            for text in (request.gpus, request.gpus_per_node, request.gpus_per_socket, request.gpus_per_task):
                tres.gpu_count(text)
        except ValueError as error:
            if str(error) == INVALID_TRES:
                self.bad_tres = True  # the controller says so, later
                return
            raise RequestError(f"error: {error}") from None
        if not names.issubset(known):
            raise RequestError(f"error: {INVALID_GRES}")

    def licenses(self) -> None:
        """Licences that the cluster has not, or not as many of."""
        if not self.request.licenses:
            return
        has = {one.name: one.count for one in self.cluster.licenses}
        try:
            wanted = tres.parse_licenses(self.request.licenses)
        except ValueError as error:
            raise self.error(str(error)) from None
        if any(count > has.get(name, -1) for name, count in wanted):
            raise self.error(INVALID_LICENSES)

    def shapes(self, partitions: Sequence[Partition]) -> None:
        """What no node of any of the partitions can give, nor all of them together.

        Above a limit of its only partition a job waits, whatever it wants; with several partitions that is no way out.
        """
        before: Sequence[str] = ()
        for partition in partitions:
            limit = limit_reason(self.request, self.cluster, partition)
            if limit is not None:
                if len(partitions) == 1 or limit not in _LIMITS or self.cluster.enforce_part_limits:
                    return
                continue
            lines = unsuitable(Shape(self.request, self.cluster, partition))
            if not lines and has_place(self.request, self.cluster, partition):
                return
            before = before or lines
        raise self.error(NODE_CONFIG_UNAVAILABLE, *before)

    def limits(self, partitions: Sequence[Partition]) -> None:
        """EnforcePartLimits: what would wait for ever because of a limit is refused at once."""
        if not self.cluster.enforce_part_limits:
            return
        problems = [self.enforced(partition) for partition in partitions]
        refused = [problem for problem in problems if problem]
        if refused and (self.cluster.enforce_in_all or len(refused) == len(problems)):
            raise self.error(refused[0])

    def enforced(self, partition: Partition) -> str:
        """The refusal of a partition whose limits the request is above; "" for none. One that is down is no limit."""
        account = policy.account_problem(self.request, self.cluster, partition)[1]
        if account:
            return account
        reason = standing_reason(self.request, self.cluster, partition)
        if reason in (None, "PartitionDown", "PartitionInactive"):
            return ""
        if not partition.nodes:
            return TOO_MANY_CPUS
        return _ENFORCED.get(reason or "", NODE_CONFIG_UNAVAILABLE)


_LIMITS = ("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "MaxMemPerLimit")  # of its size
_ENFORCED = {
    "PartitionTimeLimit": INVALID_TIME_LIMIT,
    "PartitionNodeLimit": INVALID_NODE_COUNT,
    "MaxMemPerLimit": MEMORY_NOT_AVAILABLE,
}
