"""Which cluster a submission goes to, and when and where it would start there (``--test-only``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from shim.control import site
from shim.control.controller.operations.depending import foreign
from shim.control.controller.world import World
from shim.control.groups import names_of
from shim.control.lifecycle import het
from shim.control.lifecycle.submission import Submitter
from shim.control.scheduler import Plan, plan
from shim.core.admission import elastic, partition_rules, refusals
from shim.core.errors import DEPENDENCY_PROBLEM, NODE_CONFIG_UNAVAILABLE, ShimError, submission_failed
from shim.core.formats import hostlist
from shim.core.formats.dependency import Dependency, unfulfilled
from shim.core.formats.lists import comma_list
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import INFINITE, JobRequest
from shim.core.options.support import refuse_het


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
    return _soonest(world, requests_of(message), chosen, who())


def cluster_named(world: World, name: str | None) -> Cluster:
    """The cluster of that name, or the default one. Raises ShimError with Slurm's text."""
    known = world.for_new_jobs()
    if not known:
        raise ShimError("error: no cluster of the configuration runs its jobs here")
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise site.unknown(name, next(iter(known.values())))
    return known[name]


def _listed(world: World, text: str) -> list[str]:
    if text == "all":
        return list(world.for_new_jobs())
    return list(dict.fromkeys(comma_list(text)))


def _with_partition(world: World, partitions: str, home: object) -> Cluster:
    """The first cluster, the usual one before the others, that has these partitions; else the usual one."""
    known = world.for_new_jobs()
    usual = known.get(str(home)) or cluster_named(world, None)
    wanted = comma_list(partitions)
    for cluster in (usual, *known.values()):
        if wanted and all(cluster.partition(name) is not None for name in wanted):
            return cluster
    return usual


def _soonest(world: World, requests: list[JobRequest], chosen: list[Cluster], who: Submitter) -> Cluster:
    """Where the job would start first; of equal ones the one that was named first."""
    found: list[tuple[float, Cluster]] = []
    refused: ShimError | None = None
    for cluster in chosen:
        try:
            if cluster.name in world.blocked:
                raise ShimError(f"error: cluster {cluster.name}: {world.blocked[cluster.name]}")
            found.append((float(trial(world, requests, cluster, who, 0)["start"]), cluster))
        except ShimError as error:
            refused = refused or error
    if not found:
        assert refused is not None
        raise refused
    return min(found, key=lambda pair: pair[0])[1]


def requests_of(message: dict[str, Any]) -> list[JobRequest]:
    """What a submission asks for: one request, of a heterogeneous job one for each component."""
    return [JobRequest.from_dict(record) for record in (message["request"], *(message.get("components") or ()))]


def fitting(world: World, message: dict[str, Any], cluster: Cluster) -> tuple[dict[str, Any], Cluster, list[str]]:
    """The submission and the cluster as a cluster that nobody configured takes both, and notes for the submitter; else as they are."""
    if not cluster.elastic:
        return message, cluster, []
    requests, notes = elastic.adapted(requests_of(message), cluster)
    first, *others = [request.to_dict() for request in requests]
    if cluster is world.clusters.get(cluster.name):  # nothing is kept of another configuration
        cluster = elastic.grown(cluster, requests)
    return {**message, "request": first, "components": others}, cluster, notes


def accepted(world: World, message: dict[str, Any], cluster: Cluster, uid: int, *, operator: bool) -> list[JobRequest]:
    """The requests of a submission. Raises ShimError for what Slurm refuses, and what the cluster's backend cannot start."""
    requests = requests_of(message)
    _check(world, requests, cluster, uid, operator=operator, host=host_of(message))
    return requests


def host_of(message: dict[str, Any]) -> str:
    """Where a submission comes from, by its own word; else from this machine."""
    return str(message.get("submit_host") or os.uname().nodename)


def _check(world: World, requests: list[JobRequest], cluster: Cluster, uid: int, *, operator: bool, host: str) -> None:
    now = int(world.clock())
    refuse_het(len(requests), cluster.backend)
    refusals.check_components(requests)
    for request in requests:
        refusals.check_request(request, cluster, uid, now, lambda: names_of(uid), operator=operator, host=host)
    refusals.check_job_count(len(world.book.active(cluster.name)), requests, cluster)


def pending_jobs(
    world: World, requests: list[JobRequest], cluster: Cluster, who: Submitter, first_id: int, now: float
) -> list[Job]:
    """The records of a submission as they will be committed. Dependencies that are fulfilled already are gone."""
    return het.submitted([_depending(world, request, cluster) for request in requests], cluster, who, first_id, now)


def _depending(world: World, request: JobRequest, cluster: Cluster) -> JobRequest:
    if not request.dependency:
        return request
    dependency = Dependency.parse(request.dependency)
    why = foreign(world, cluster.name, dependency)
    if why:
        raise submission_failed(request.kind, DEPENDENCY_PROBLEM, why)
    known = unfulfilled(dependency, lambda job, task: world.book.known(cluster.name, job, task))
    return request.replace(dependency=known, extra={**request.extra, "dependency": request.dependency})


def trial(world: World, requests: list[JobRequest], cluster: Cluster, who: Submitter, first_id: int) -> dict[str, Any]:
    """When and where the job would start if it were submitted now. Raises ShimError for one that never could."""
    now = world.clock()
    _check(world, requests, cluster, who.uid, operator=who.operator, host=who.host)
    jobs = pending_jobs(
        world,
        [_on_named_nodes(_within_limits(one, cluster), cluster).replace(array=None) for one in requests],
        cluster,
        who,
        first_id,
        now,
    )
    # Keys that no record has: what is planned for these jobs is found by them.
    jobs = [
        job.replace(key=-place, dependency="", held="", request=job.request.replace(begin=0))
        for place, job in enumerate(jobs, 1)
    ]
    others = world.book.active(cluster.name)
    pending = [other for other in others if other.state == states.PENDING]
    running = [other for other in others if other.state in states.ALLOCATED]
    held = world.beside(cluster, world.book.active)
    whole = world.clusters[cluster.name] if cluster.name in world.offered else cluster
    return _answer(jobs, requests, plan([*pending, *jobs], whole, running, now, held, members=world.members), now)


def _within_limits(request: JobRequest, cluster: Cluster) -> JobRequest:
    """The request with no more time than its partitions allow at most: Slurm's trial does not ask for it."""
    longest = [partition.max_time for partition in partition_rules.partitions_of(request, cluster)]
    limits = [limit for limit in longest if limit is not None]
    if not limits or len(limits) < len(longest) or request.time_limit is None or cluster.enforce_part_limits:
        return request
    too_long = request.time_limit == INFINITE or request.time_limit > max(limits)
    return request.replace(time_limit=max(limits)) if too_long else request


def _on_named_nodes(request: JobRequest, cluster: Cluster) -> JobRequest:
    """Slurm's trial looks at no other nodes than those that --nodelist names, though the job may get more than these. It knows
    nothing of --use-min-nodes either.
    """
    request = request.replace(use_min_nodes=False)
    if not request.node_list:
        return request
    named = set(hostlist.expand(request.node_list))
    return request.replace(exclude=hostlist.fold([node.name for node in cluster.nodes if node.name not in named]))


def _answer(jobs: list[Job], requests: list[JobRequest], made: Plan, now: float) -> dict[str, Any]:
    """The start of all components together, and what they get."""
    started = {job.key: (job, shares) for job, shares in made.starts}
    start, processors, nodes = 0.0, 0, list[str]()
    for job, request in zip(jobs, requests):
        begin = max(now, float(request.begin))
        if job.key in started:
            shares = started[job.key][1]
            start, processors = max(start, begin), processors + sum(share.cpus for share in shares)
            nodes += [share.name for share in shares]
        elif job.key in made.expected:
            when, names = made.expected[job.key]
            start, processors = max(start, when, begin), processors + job.cpus
            nodes += names
        else:
            raise submission_failed(request.kind, NODE_CONFIG_UNAVAILABLE)
    first = started[jobs[0].key][0] if jobs[0].key in started else jobs[0]
    return {
        "job_id": first.job_id,
        "start": int(start),
        "processors": processors,
        "nodes": hostlist.fold_sorted(nodes),
        "partition": first.partition,
    }
