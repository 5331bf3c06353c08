"""Which job ids each cluster gives out: ranges that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable

from shim.control.config import ConfigError
from shim.core.model.cluster import Cluster

ABOVE_SLURM = 100_000_000  # first job id beside a real Slurm, whose ids end at 67108863
_WIDTH = 10_000_000  # of the range of a cluster whose ids are shared with other controllers
_NO_END = 1 << 62


def numbered(made: Iterable[Cluster]) -> tuple[Cluster, ...]:
    """The clusters with their ranges of job ids: those whose ids are given out here never get one of another's.

    Clusters that begin at the same id share a range, as do all that do not say; a range ends where the next begins. A
    Kubernetes cluster's ids are given out in its namespace: beside other clusters it has a range of its own.
    """
    found = tuple(made)
    own = [cluster for cluster in found if cluster.backend != "slurm"]
    shared = [cluster.name for cluster in own if cluster.backend == "kubernetes"]
    usual = ABOVE_SLURM if len(own) < len(found) else 1

    def first(cluster: Cluster) -> int:
        if cluster.first_job_id or cluster.backend == "slurm":
            return cluster.first_job_id or 1
        if cluster.name not in shared or len(own) == 1:
            return usual
        return usual // _WIDTH * _WIDTH + _WIDTH * (1 + shared.index(cluster.name))

    foreign = [(first(cluster), first(cluster) + _WIDTH) for cluster in own if cluster.name in shared]
    begins = sorted({first(cluster) for cluster in own}.union(end for _begin, end in foreign))
    segments = [
        pair
        for pair in zip(begins, [*begins[1:], _NO_END])
        if not any(begin <= pair[0] < end for begin, end in foreign)
    ]
    return tuple(
        cluster.replace(first_job_id=first(cluster), id_ranges=_ranges(cluster, first(cluster), segments))
        for cluster in found
    )


def _ranges(cluster: Cluster, first: int, segments: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Where the cluster's ids come from, one range after the other. ConfigError if it begins among those of a Kubernetes cluster."""
    if cluster.backend != "local":
        return (first, _NO_END)
    usable = [pair for pair in segments if pair[0] >= first]
    if usable[0][0] != first:
        raise ConfigError(
            f"error: clusters.{cluster.name}: first_job_id {first} lies among the job ids of a Kubernetes cluster"
        )
    return tuple(bound for pair in usable for bound in pair)
