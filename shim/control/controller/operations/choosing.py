"""Which cluster a submission goes to, and when and where it would start there (``--test-only``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.control import site
from shim.control.controller.world import World
from shim.control.lifecycle import submission
from shim.control.lifecycle.submission import Submitter
from shim.control.scheduler import plan
from shim.core import check, hostlist
from shim.core.dependency import Dependency, unfulfilled
from shim.core.errors import RequestError, ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import INFINITE, JobRequest

_FAILED = {
    "batch": "error: Batch job submission failed: ",
    "alloc": "error: Job submit/allocate failed: ",
    "run": "error: Unable to allocate resources: ",
}


def refusal(request: JobRequest, text: str) -> RequestError:
    """Slurm's line for a submission that is refused because of ``text``."""
    return RequestError(_FAILED[request.kind] + text)


def cluster_for(world: World, message: dict[str, Any], who: Callable[[], Submitter]) -> Cluster:
    """Of the clusters that ``-M`` names the one where the job can start first; else the one that has its partition.

    ``home``, the cluster of the job that submits from inside, stands where the default cluster would.
    Raises ShimError with Slurm's text for a name that is none, and the first cluster's refusal where all of them refuse.
    """
    names = message.get("cluster")
    if not names:
        return _with_partition(world, str(message["request"].get("partition") or ""), message.get("home"))
    chosen = [cluster_named(world, name) for name in _listed(world, str(names))]
    if len(chosen) == 1:
        return chosen[0]
    return _soonest(world, JobRequest.from_dict(message["request"]), chosen, who())


def cluster_named(world: World, name: str | None) -> Cluster:
    """The cluster of that name, or the default one. Raises ShimError with Slurm's text."""
    if not world.clusters:
        raise ShimError("error: no cluster of the configuration runs its jobs here")
    if name is None:
        return next(iter(world.clusters.values()))
    if name not in world.clusters:
        raise site.unknown(name, next(iter(world.clusters.values())))
    return world.clusters[name]


def _listed(world: World, text: str) -> list[str]:
    return list(world.clusters) if text == "all" else list(dict.fromkeys(name for name in text.split(",") if name))


def _with_partition(world: World, partitions: str, home: object) -> Cluster:
    """The first cluster, the usual one before the others, that has these partitions; else the usual one."""
    usual = world.clusters.get(str(home)) or cluster_named(world, None)
    wanted = [name for name in partitions.split(",") if name]
    for cluster in (usual, *world.clusters.values()):
        if wanted and all(cluster.partition(name) is not None for name in wanted):
            return cluster
    return usual


def _soonest(world: World, request: JobRequest, chosen: list[Cluster], who: Submitter) -> Cluster:
    """Where the job would start first; of equal ones the one that was named first."""
    found: list[tuple[float, Cluster]] = []
    refused: ShimError | None = None
    for cluster in chosen:
        try:
            found.append((float(trial(world, request, cluster, who, 0)["start"]), cluster))
        except ShimError as error:
            refused = refused or error
    if not found:
        assert refused is not None
        raise refused
    return min(found, key=lambda pair: pair[0])[1]


def pending_job(world: World, request: JobRequest, cluster: Cluster, who: Submitter, job_id: int, now: float) -> Job:
    """The record of a submission as it will be committed. Dependencies that are fulfilled already are gone."""
    if request.dependency:
        known = unfulfilled(
            Dependency.parse(request.dependency), lambda job, task: world.book.known(cluster.name, job, task)
        )
        request = request.replace(dependency=known)
    return submission.submitted(request, cluster, who, job_id, now)


def trial(world: World, request: JobRequest, cluster: Cluster, who: Submitter, job_id: int) -> dict[str, Any]:
    """When and where the job would start if it were submitted now. Raises ShimError for one that never could."""
    now = world.clock()
    check.refusals(request, cluster, who.uid, int(now))
    job = pending_job(world, _within_limits(request, cluster).replace(array=None), cluster, who, job_id, now)
    job = job.replace(dependency="", held="", request=job.request.replace(begin=0))
    others = world.book.active(cluster.name)
    pending = [other for other in others if other.state == states.PENDING]
    running = [other for other in others if other.state in states.ALLOCATED]
    beside = [other for name in world.neighbours(cluster) for other in world.book.active(name)]
    held = [other for other in beside if other.state in states.ALLOCATED]
    made = plan([*pending, job], cluster, running, now, held)
    begin = max(now, float(request.begin))
    for started, shares in made.starts:
        if started.key == job.key and started.job_id == job_id:
            nodes = [share.name for share in shares]
            return _answer(started, begin, sum(share.cpus for share in shares), nodes)
    if job.key in made.expected:
        start, expected = made.expected[job.key]
        return _answer(job, max(start, begin), job.cpus, list(expected))
    raise refusal(request, "Requested node configuration is not available")


def _within_limits(request: JobRequest, cluster: Cluster) -> JobRequest:
    """The request with no more time than its partitions allow at most: Slurm's trial does not ask for it."""
    longest = [partition.max_time for partition in check.partitions_of(request, cluster)]
    limits = [limit for limit in longest if limit is not None]
    if not limits or len(limits) < len(longest) or request.time_limit is None or cluster.enforce_part_limits:
        return request
    too_long = request.time_limit == INFINITE or request.time_limit > max(limits)
    return request.replace(time_limit=max(limits)) if too_long else request


def _answer(job: Job, start: float, processors: int, nodes: list[str]) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "start": int(start),
        "processors": processors,
        "nodes": hostlist.fold_sorted(nodes),
        "partition": job.partition,
    }
