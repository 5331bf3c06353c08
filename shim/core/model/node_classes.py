"""The nodes of a cluster by class: nodes of one class differ in name, state and address only.

A site may have thousands of nodes, but has few classes of them, so that a check of every class is cheap. The classes of the
clusters that were asked for last are kept: a cluster is an immutable value.
"""

from __future__ import annotations

from shim.core.model.cluster import Cluster, Node, Partition

_KEPT = 8  # clusters; a changed node or partition makes another one


class NodeClasses:
    """Of one cluster: its ``nodes`` by name, all ``features`` and names of ``gres``, and the node classes of each partition."""

    __slots__ = ("_class_of", "_partitions", "cluster", "features", "gres", "nodes")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: dict[str, Node] = {}
        self._class_of: dict[str, Node] = {}
        self._partitions: dict[str, list[tuple[Node, tuple[str, ...]]]] = {}
        first: dict[tuple[object, ...], Node] = {}
        for node in cluster.nodes:
            self.nodes[node.name] = node
            self._class_of[node.name] = first.setdefault(_shape(node), node)
        self.features = frozenset(feature for node in first.values() for feature in node.features)
        self.gres = frozenset(gres.name for node in first.values() for gres in node.gres)

    def of(self, partition: Partition) -> list[tuple[Node, tuple[str, ...]]]:
        """The classes of the partition's nodes: a node of each class, and the names of all of its nodes."""
        found = self._partitions.get(partition.name)
        if found is None:
            names: dict[str, tuple[Node, list[str]]] = {}
            for name in partition.nodes:
                first = self._class_of.get(name)
                if first is not None:
                    names.setdefault(first.name, (first, []))[1].append(name)
            found = self._partitions[partition.name] = [(first, tuple(own)) for first, own in names.values()]
        return found


_known: list[NodeClasses] = []


def node_classes(cluster: Cluster) -> NodeClasses:
    """The node classes of this very cluster."""
    for known in _known:
        if known.cluster is cluster:
            return known
    found = NodeClasses(cluster)
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
