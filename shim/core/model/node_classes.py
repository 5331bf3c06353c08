"""The nodes of a cluster by kind: what looks at every node's shape need look at each shape once.

A site has few kinds of nodes and may have thousands of nodes. What is found out is kept for the clusters that were asked about
last; a cluster is a value, so it stays true as long as the cluster lives.
"""

from __future__ import annotations

from shim.core.model.cluster import Cluster, Node, Partition

_KEPT = 8  # clusters; a changed node or partition makes another one


class Kinds:
    """Of one cluster: its nodes by ``name``, all ``features`` and names of ``gres``, and the kinds of each partition."""

    __slots__ = ("_kind_of", "_partitions", "cluster", "features", "gres", "nodes")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: dict[str, Node] = {}
        self._kind_of: dict[str, Node] = {}
        self._partitions: dict[str, list[tuple[Node, tuple[str, ...]]]] = {}
        first: dict[tuple[object, ...], Node] = {}
        for node in cluster.nodes:
            self.nodes[node.name] = node
            self._kind_of[node.name] = first.setdefault(_shape(node), node)
        self.features = frozenset(feature for node in first.values() for feature in node.features)
        self.gres = frozenset(gres.name for node in first.values() for gres in node.gres)

    def of(self, partition: Partition) -> list[tuple[Node, tuple[str, ...]]]:
        """The kinds of the partition's nodes: one node of each, and the names of all. A node's state is no part of its kind."""
        found = self._partitions.get(partition.name)
        if found is None:
            names: dict[str, tuple[Node, list[str]]] = {}
            for name in partition.nodes:
                kind = self._kind_of.get(name)
                if kind is not None:
                    names.setdefault(kind.name, (kind, []))[1].append(name)
            found = self._partitions[partition.name] = [(kind, tuple(own)) for kind, own in names.values()]
        return found


_known: list[Kinds] = []


def kinds(cluster: Cluster) -> Kinds:
    """The kinds of this very cluster."""
    for known in _known:
        if known.cluster is cluster:
            return known
    found = Kinds(cluster)
    _known.insert(0, found)
    del _known[_KEPT:]
    return found


def _shape(node: Node) -> tuple[object, ...]:
    gres = tuple((one.name, one.type, one.count) for one in node.gres)
    return (
        node.cpus,
        node.sockets,
        node.cores_per_socket,
        node.threads_per_core,
        node.memory,
        node.tmp_disk,
        gres,
        node.features,
    )
