"""The shape of clusters that is known only from the cluster itself: as the controller recorded it last.

Hot path. A cluster of virtual nodes is what its configuration says, or, where nobody configured it, what its jobs made of it, and what operators
changed; one on Kubernetes is looked at by the controller, which writes its nodes, and what others use of them, into the index.
"""

from __future__ import annotations

from shim.control import paths
from shim.control.index.reader import open_reader
from shim.core import memo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.control.index.reader import Reader
    from shim.core.model.cluster import Cluster


def opened() -> Reader | None:
    """The index, as it is each time that it is asked something; a command opens it once. None: there is none yet."""
    return memo.once("index", lambda: open_reader(paths.index_path()))


def recorded(cluster: Cluster) -> Cluster:
    """The cluster as it was last seen; as it is configured if it never was."""
    reader = opened()
    if reader is None:
        return cluster
    if cluster.backend == "kubernetes":
        return reader.cluster(cluster.name) or cluster
    return _changed(_grown(cluster, reader) if cluster.elastic else cluster, reader)


def _grown(cluster: Cluster, reader: Reader) -> Cluster:
    """With the nodes that its jobs made it have; it has none of these left once they are all over."""
    found = reader.cluster(cluster.name) if reader.active() else None
    return (
        cluster
        if found is None or not found.elastic
        else cluster.replace(nodes=found.nodes, partitions=found.partitions)
    )


def current(cluster: Cluster, program: str) -> Cluster:
    """A recorded cluster after a controller has looked at it, where it takes one: it is started where none is there."""
    if cluster.backend != "kubernetes":
        return cluster
    from shim.control import alive

    reader = opened()
    if reader is None:
        from shim.control import client

        client.call("ping", {})
        reader = opened()
    elif not alive.alive():
        alive.refresh(reader, program)
    return (reader.cluster(cluster.name) if reader is not None else None) or cluster


def _changed(cluster: Cluster, reader: Reader) -> Cluster:
    """A configured cluster with what operators changed of it."""
    changes = reader.changes(cluster.name)
    if not changes:
        return cluster
    from shim.core.model.cluster_changes import apply_changes

    return apply_changes(cluster, changes)


def opened_or_closed(cluster: str) -> bool:
    """Whether operators changed who is shown which of the cluster's partitions."""
    reader = opened()
    changes = reader.changes(cluster) if reader is not None else {}
    return any("hidden" in one or "allow_groups" in one for one in changes.get("partitions", {}).values())
