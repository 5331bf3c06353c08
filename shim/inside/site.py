"""The clusters as a command inside a pod knows them: the one that its job runs on, with the nodes of the job."""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.routing import ClusterRef

from .run import spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster
    from shim.core.options.grammar import Grammar


def clusters() -> tuple[Cluster, ...]:
    """The one."""
    return (cluster(),)


def cluster(name: str | None = None) -> Cluster:
    """That of the job. Slurm's text for any other name."""
    found = spec().cluster
    if name not in (None, found.name):
        raise unknown(str(name), found)
    # Agents are given no lists of nodes by partition; in here the partition of the job has the job's.
    nodes = tuple([node.name for node in found.nodes])
    return found.replace(partitions=tuple([one.replace(nodes=nodes) for one in found.partitions]))


def cluster_refs() -> tuple[ClusterRef, ...]:
    """The cluster as commands see it that look through all clusters."""
    return (ClusterRef(spec().cluster.name, "kubernetes"),)


def restricted() -> dict[str, dict[str, str]]:
    """Whoever is inside may see the partition that the job is in."""
    return {}


def backends() -> dict[str, str]:
    """The cluster's name and backend."""
    return {spec().cluster.name: "kubernetes"}


def backend(names: str | None = None) -> str:
    """Pods are Kubernetes'."""
    return "kubernetes"


def grammar() -> Grammar | None:
    """No options of its own, where the job's environment does not carry the submitting machine's."""
    return None


def unknown(name: str, default: Cluster) -> ShimError:
    """Slurm's text for ``-M`` with another name."""
    return ShimError(
        "error: Problem talking to database",
        f"error: '{name}' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.",
    )
