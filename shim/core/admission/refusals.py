"""What the controller refuses at submission, with Slurm's texts and in Slurm's order.

Slurm accepts far more than it can run: a request that is only above a limit of its partition stays pending with a reason
(EnforcePartLimits=NO), see ``feasibility.pending_reason``.
"""

from __future__ import annotations

from shim.core.admission import partition_rules
from shim.core.admission.feasibility import too_much_memory
from shim.core.admission.partition_limits import BAD_TIME_MIN, PartitionLimits
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

    from shim.core.model.cluster import Cluster
    from shim.core.model.request import JobRequest

BAD_BATCH = "Job --batch option is invalid or not a subset of --constraints"
BAD_NICE = "Invalid --nice value"
BAD_PREFERENCE = "Invalid preferred feature specification"
NO_PARTITION = "No partition specified or system default partition"
TOO_MANY_JOBS = "Resource temporarily unavailable"


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
    check = _Check(request, cluster, partition_rules.Access(uid, groups, host))
    check.gres()  # Slurm's client looks at these itself
    check.nice_and_array(operator=operator)
    check.node_names()
    check.partitions()
    check.counts_and_times(now)
    check.memory()
    check.licenses()
    check.dependency()
    check.names()
    check.tried()


def check_job_count(active: int, requests: Sequence[JobRequest], cluster: Cluster) -> None:
    """Raises RequestError if ``requests`` beside the cluster's ``active`` jobs would be more than it takes (MaxJobCount)."""
    if active + len(requests) > cluster.max_jobs:
        raise submission_failed(requests[0].kind, TOO_MANY_JOBS)


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

    def __init__(self, request: JobRequest, cluster: Cluster, access: partition_rules.Access) -> None:
        self.request = request
        self.cluster = cluster
        self.access = access
        self.bad_tres = False
        self.limits: PartitionLimits  # made when it is known which resources can be read

    def error(self, reason: str, *before: str) -> RequestError:
        """The refusal as the command of this request prints it; ``before``: error lines that precede it."""
        return submission_failed(self.request.kind, reason, *before)

    def partitions(self) -> None:
        """Partitions that exist and allow the request as it was written."""
        if self.request.partition is not None:
            for name in comma_list(self.request.partition) or ("",):
                if self.cluster.partition(name) is None:
                    raise self.error(INVALID_PARTITION_NAME, f"invalid partition specified: {name or '(null)'}")
        if not partition_rules.partitions_of(self.request, self.cluster):
            raise self.error(NO_PARTITION)
        request = self.request
        if self.bad_tres:  # refused later, in ``names``
            request = request.replace(
                gres=None, gpus=None, gpus_per_node=None, gpus_per_socket=None, gpus_per_task=None
            )
        if request.exclude and not _names(request.exclude):  # refused later, in ``names``
            request = request.replace(exclude=None)
        self.limits = PartitionLimits(request, self.cluster, self.access)
        problem = self.limits.as_requested()
        if problem:
            raise self.error(problem)

    def memory(self) -> None:
        """EnforcePartLimits: more memory of a node than the partitions allow (with ANY: than each of them allows)."""
        if self.cluster.enforce_part_limits:
            usable = self.limits.usable
            above = [too_much_memory(self.request, self.cluster, partition, asked=True) for partition in usable]
            if (any if self.cluster.enforce_in_all else all)(above):
                raise self.error(MEMORY_NOT_AVAILABLE)

    def counts_and_times(self, now: float) -> None:
        """The node count of an array, the deadline, the shortest time."""
        request = self.request
        if request.min_nodes == 0 and request.array:
            raise self.error(INVALID_NODE_COUNT)
        if request.deadline and request.deadline < now:
            raise self.error(INVALID_TIME_LIMIT)
        problem = BAD_TIME_MIN if request.time_min == INFINITE else self.limits.times()
        if problem:
            raise self.error(problem)
        if request.deadline and request.time_min and now + 60 * request.time_min > request.deadline:
            raise self.error(BAD_TIME_MIN)

    def tried(self) -> None:
        """Limits and nodes of the partitions, one after the other."""
        problem, lines = self.limits.when_tried()
        if not problem and self.request.min_nodes == 0 and not self.request.hold:
            problem = INVALID_NODE_COUNT
        if problem:
            raise self.error(problem, *lines)

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
