"""What the controller refuses at submission, with Slurm's texts and in Slurm's order.

Slurm accepts far more than it can run: a request that is only above a limit of its partition stays pending with a reason
(EnforcePartLimits=NO), see ``feasibility.pending_reason``.
"""

from __future__ import annotations

from shim.core.admission import partition_rules
from shim.core.admission.feasibility import (
    NodeRequirements,
    all_cpus,
    exceeds,
    fits_when_idle,
    limit_reason,
    too_much_memory,
)
from shim.core.errors import (
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
    PARTITION_CONFIG_UNAVAILABLE,
    TOO_MANY_CPUS,
    RequestError,
    submission_failed,
)
from shim.core.formats import hostlist, tres
from shim.core.formats.array_spec import ArraySpec
from shim.core.formats.dependency import Dependency
from shim.core.formats.lists import comma_list
from shim.core.model.node_classes import node_classes
from shim.core.model.request import INFINITE
from shim.core.placement import features
from shim.core.placement.resolve import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest

BAD_BATCH = "Job --batch option is invalid or not a subset of --constraints"
BAD_NICE = "Invalid --nice value"
BAD_PREFERENCE = "Invalid preferred feature specification"
BAD_TIME_MIN = "Invalid time-min specification (exceeds job's time or other limits)"
NOT_IN_PARTITION = "Requested nodes not in this partition"
NO_PARTITION = "No partition specified or system default partition"
NOT_AVAILABLE = "Required partition not available (inactive or drain)"


def check_request(
    request: JobRequest,
    cluster: Cluster,
    uid: int,
    now: float,
    groups: Optional[partition_rules.Groups] = None,
    *,
    operator: bool = False,
    host: str = "",
) -> None:
    """Raises RequestError if the controller of ``cluster`` refuses ``request`` of user ``uid``; else nothing happens.

    ``groups`` gives the names of the user's groups; None: partitions are for all. ``host``: where the job is submitted.
    """
    check = _Check(request, cluster, uid, groups, host)
    check.gres()  # Slurm's client looks at these itself
    check.nice_and_array(operator=operator)
    check.node_names()
    partitions = check.partitions()
    check.counts_and_times(partitions, now)
    check.memory()
    check.licenses()
    check.dependency()
    check.names()
    check.enforced_limits(partitions)
    if not request.hold:  # slurmctld looks for nodes when a job may start
        check.fit(partitions)


def check_components(requests: Sequence[JobRequest]) -> None:
    """Raises RequestError if the components of a heterogeneous job may not be submitted together; ``check_request`` looks at each."""
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
        return []  # ``check_request`` refuses it


class _Check:
    """The checks of one request; each raises."""

    def __init__(
        self, request: JobRequest, cluster: Cluster, uid: int, groups: Optional[partition_rules.Groups], host: str
    ) -> None:
        self.request = request
        self.cluster = cluster
        self.uid = uid
        self.groups = groups
        self.host = host
        self.bad_tres = False
        self.choice = (
            len(partition_rules.partitions_of(request, cluster)) > 1
        )  # of several partitions each is looked at

    def error(self, reason: str, *before: str) -> RequestError:
        """The refusal as the command of this request prints it; ``before``: error lines that precede it."""
        return submission_failed(self.request.kind, reason, *before)

    def partitions(self) -> list[Partition]:
        """The partitions the job may start in."""
        if self.request.partition is not None:
            for name in comma_list(self.request.partition) or ("",):
                if self.cluster.partition(name) is None:
                    raise self.error(INVALID_PARTITION_NAME, f"invalid partition specified: {name or '(null)'}")
        found = partition_rules.partitions_of(self.request, self.cluster)
        if not found:
            raise self.error(NO_PARTITION)
        if self.cluster.enforce_part_limits:
            found = self.within_limits(found)
        else:
            problems = [
                partition_rules.access_problem(self.request, one, self.uid, self.groups, self.host) for one in found
            ]
            if all(problems):
                raise self.error(problems[0])
            found = [partition for partition, problem in zip(found, problems) if not problem]
        usable = [partition for partition in found if _takes_jobs(partition)]
        if not usable:
            raise self.error(NOT_AVAILABLE)
        return usable

    def within_limits(self, found: Sequence[Partition]) -> list[Partition]:
        """EnforcePartLimits: the partitions that allow the job. A job above a limit is refused at once and does not wait.

        The partitions are looked at in the order in which they were named. With ALL the first refusal counts. With ANY the
        last refusal counts, and only if no partition allows the job. A user without access to one of the partitions is refused
        in any case (with another text if an earlier partition allowed the job).
        """
        every = self.cluster.enforce_in_all
        named = (self.request.partition or "").split(",")
        in_order = sorted(found, key=lambda one: named.index(one.name)) if self.request.partition else found
        limiting = _limiting(found)
        if not every:  # one that is down is as good as any to it
            limiting = [one for one in found if one in limiting or one.state.upper() == "DOWN"]
        allowed: list[Partition] = []
        problem = ""
        for partition in in_order:
            denied = partition_rules.access_problem(self.request, partition, self.uid, self.groups, self.host)
            if denied:
                raise self.error(NOT_AVAILABLE if allowed and not every else denied)
            if partition not in limiting:
                continue
            above = self.above(partition)
            if above and every:
                raise self.error(above)
            if not above:
                allowed.append(partition)
            problem = above or problem
        if not allowed:
            raise self.error(problem or NOT_AVAILABLE)
        return [partition for partition in found if partition in allowed or partition not in limiting]

    def memory(self) -> None:
        """EnforcePartLimits: more memory of a node than the partitions allow (with ANY: than each of them allows)."""
        if self.cluster.enforce_part_limits:
            limiting = _limiting(partition_rules.partitions_of(self.request, self.cluster))
            above = [too_much_memory(self.request, self.cluster, partition) for partition in limiting]
            if (any if self.cluster.enforce_in_all else all)(above):
                raise self.error(MEMORY_NOT_AVAILABLE)

    def above(self, partition: Partition, request: Optional[JobRequest] = None) -> str:
        """The first limit of the partition that the request is above, as a refusal; "" for none."""
        request = request or self.request
        resolved = resolve(request)
        if resolved.cpus > all_cpus(self.cluster, partition):
            return TOO_MANY_CPUS
        if resolved.min_nodes > len(partition.nodes):
            return INVALID_NODE_COUNT
        if not set(resolved.required).issubset(partition.nodes):
            return NOT_IN_PARTITION
        most = max(resolved.min_nodes, (request.max_nodes or 0) if request.min_nodes is not None else 0)
        if partition.max_nodes is not None and most > partition.max_nodes:
            return INVALID_NODE_COUNT
        if (request.min_nodes is not None or resolved.required) and resolved.min_nodes < partition.min_nodes > 1:
            return INVALID_NODE_COUNT
        if exceeds(request.time_limit, partition.max_time):
            return INVALID_TIME_LIMIT
        account = partition_rules.account_problem(request, self.cluster, partition)[1]
        return "" if account == PARTITION_CONFIG_UNAVAILABLE else account

    def counts_and_times(self, partitions: Sequence[Partition], now: float) -> None:
        """The node count of an array, the deadline, the shortest time."""
        request = self.request
        if request.min_nodes == 0 and request.array:
            raise self.error(INVALID_NODE_COUNT)
        if request.deadline and request.deadline < now:
            raise self.error(INVALID_TIME_LIMIT)
        bounds = [request.time_limit]
        longest = [partition.max_time for partition in partitions]
        if None not in longest:
            bounds.append(max(filter(None, longest), default=None))
        if request.time_min == INFINITE or any(exceeds(request.time_min, one) for one in bounds if one != INFINITE):
            raise self.error(BAD_TIME_MIN)
        if request.deadline and request.time_min and now + 60 * request.time_min > request.deadline:
            raise self.error(BAD_TIME_MIN)

    def nice_and_array(self, *, operator: bool) -> None:
        """--nice and --array, which slurmctld looks at first."""
        if self.request.nice < 0 and not operator:
            raise self.error(BAD_NICE)
        if self.request.array:
            try:
                ArraySpec.parse(self.request.array, self.cluster.max_array_size)
            except ValueError:
                raise self.error(INVALID_ARRAY) from None

    def dependency(self) -> None:
        """The dependency; a job that must start at once may not be held."""
        try:
            if self.request.dependency:
                Dependency.parse(self.request.dependency)
        except ValueError as error:
            raise self.error(str(error)) from None

    def node_names(self) -> None:
        """Refuses required nodes that do not exist."""
        self.nodes(self.request.node_list)

    def names(self) -> None:
        """Refuses nodes both required and excluded, and features and reservations that do not exist."""
        wanted = self.nodes(self.request.node_list)
        if not wanted.isdisjoint(self.nodes(self.request.exclude)):
            raise self.error(INVALID_NODE_NAME)
        most = self.request.max_nodes or self.request.min_nodes
        if self.request.contiguous and wanted and most:
            places = [place for place, node in enumerate(self.cluster.nodes) if node.name in wanted]
            if places[-1] - places[0] >= most:
                raise self.error(INVALID_NODE_COUNT)
        try:
            named = features.parse(self.request.constraint).names
        except features.FeatureError:
            raise self.error(INVALID_FEATURE) from None
        if self.request.extra.get("batch") is not None:
            self.batch_features(set(named))
        if not node_classes(self.cluster).features.issuperset(named):
            raise self.error(INVALID_FEATURE)
        self.preferred()
        if self.request.reservation:
            raise self.error(INVALID_RESERVATION)
        if self.bad_tres:
            raise self.error(INVALID_TRES)

    def batch_features(self, named: set[str]) -> None:
        """--batch names features that --constraint names too."""
        words = self.request.extra["batch"].replace("|", "&").split("&")
        known = node_classes(self.cluster).features
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
        if not node_classes(self.cluster).features.issuperset(named):
            raise self.error(BAD_PREFERENCE)

    def nodes(self, text: str | None) -> set[str]:
        """The names in a hostlist, all of them nodes."""
        try:
            names = set(hostlist.expand(text or ""))
        except hostlist.HostlistError:
            raise self.error(INVALID_NODE_NAME) from None
        if not node_classes(self.cluster).nodes.keys() >= names:
            raise self.error(INVALID_NODE_NAME)
        return names

    def gres(self) -> None:
        """Slurm knows the names of resources (GresTypes) and refuses others in its client; gpu is always known here."""
        request = self.request
        known = node_classes(self.cluster).gres | {"gpu", *self.cluster.gres_types}
        unknown = tres.unknown_gres(request.gres or "", known)
        if unknown == INVALID_GRES:
            raise RequestError(f"error: {INVALID_GRES}")
        self.bad_tres = bool(unknown)
        try:
            tres.parse_gres(request.gres or "")
            for text in (request.gpus, request.gpus_per_node, request.gpus_per_socket, request.gpus_per_task):
                tres.gpu_count(text)
        except ValueError as error:
            if str(error) == INVALID_TRES:
                self.bad_tres = True  # the controller says so, later
                return
            raise RequestError(f"error: {error}") from None

    def licenses(self) -> None:
        """Refuses licences that the cluster does not have, or not as many of."""
        if not self.request.licenses:
            return
        has = {one.name: one.count for one in self.cluster.licenses}
        try:
            wanted = tres.parse_licenses(self.request.licenses)
        except ValueError as error:
            raise self.error(str(error)) from None
        if any(count > has.get(name, -1) for name, count in wanted):
            raise self.error(INVALID_LICENSES)

    def enforced_limits(self, partitions: Sequence[Partition]) -> None:
        """EnforcePartLimits: the remaining limits also refuse the job, held or not. That a partition is down is no such limit."""
        if not self.cluster.enforce_part_limits:
            return
        waits = [self.waits(one) for one in partitions]
        if not (any if self.cluster.enforce_in_all else all)(waits):
            return
        before: list[str] = []
        if self.cluster.enforce_in_all and not self.request.hold:  # what the partitions before say was said already
            before = next(filter(any, map(self.unmet, partitions[: waits.index(True)])), [])
        raise self.error(PARTITION_CONFIG_UNAVAILABLE, *filter(None, before))

    def waits(self, partition: Partition) -> bool:
        """Whether the job would wait for a limit of this one of its partitions."""
        limit = limit_reason(self.request, self.cluster, partition)
        return (
            partition_rules.account_problem(self.request, self.cluster, partition)[1] == PARTITION_CONFIG_UNAVAILABLE
            or limit not in (None, *_NO_LIMITS)
            or (limit is None and self.choice and self.above(partition, self.with_nodes()) == INVALID_NODE_COUNT)
        )

    def with_nodes(self) -> JobRequest:
        """The request with the least number of nodes that any of its partitions wants, where it says none itself."""
        if self.request.min_nodes is not None:
            return self.request
        least = min(one.min_nodes for one in _limiting(partition_rules.partitions_of(self.request, self.cluster)))
        return self.request.replace(min_nodes=max(1, least), max_nodes=0)

    def unmet(self, partition: Partition) -> list[str]:
        """Slurm's lines about what no node of the partition has."""
        request = partition_rules.apply_partition_rules(self.request, self.cluster, partition)
        return NodeRequirements(request, self.cluster, partition).unmet()

    def fit(self, partitions: Sequence[Partition]) -> None:
        """Refuses a job for which the partitions do not have the nodes, however idle they are.

        A job above a limit of its only partition waits, whatever it wants. Of several partitions in which the job cannot start
        the last one decides; there a job that wants more than the nodes have is refused even if it is above a limit too.
        """
        refused, before = False, [""]
        if self.cluster.enforce_part_limits and self.choice:
            partitions = [partition for partition in partitions if not self.waits(partition)]
        for partition in partitions:
            limit = limit_reason(self.request, self.cluster, partition)
            if limit is not None and not self.choice:
                return
            if limit is None and self.request.min_nodes == 0:
                raise self.error(INVALID_NODE_COUNT)
            refused = (limit is None or limit in _OF_SIZE) and not self.above_its_nodes(partition)
            if not refused:
                continue
            request = partition_rules.apply_partition_rules(self.request, self.cluster, partition)
            lines = NodeRequirements(request, self.cluster, partition).unmet()
            refused = bool(lines) or not fits_when_idle(request, self.cluster, partition)
            if not refused and limit is None:
                return
            before = lines if any(lines) and not any(before) else before
        if refused:
            raise self.error(NODE_CONFIG_UNAVAILABLE, *filter(None, before))

    def above_its_nodes(self, partition: Partition) -> bool:
        """Whether the job wants more nodes than the partition gives to one job; a partition without nodes gives none."""
        most = partition.max_nodes if partition.nodes else 0
        return most is not None and resolve(self.request).min_nodes > most


def _limiting(found: Sequence[Partition]) -> list[Partition]:
    """The partitions whose limits are enforced: all that are up or, if none is up, those that take jobs nevertheless."""
    return [one for one in found if one.state.upper() == "UP"] or [one for one in found if _takes_jobs(one)]


def _takes_jobs(partition: Partition) -> bool:
    return partition.state.upper() not in ("INACTIVE", "DRAIN")


_NO_LIMITS = ("PartitionDown", "PartitionInactive", "PartitionTimeLimit")  # of --time-min only: -t was looked at before
_OF_SIZE = ("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "MaxMemPerLimit")
