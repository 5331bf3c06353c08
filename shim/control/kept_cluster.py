"""A cluster in the form in which it is kept between commands: small, and quick to read back.

Hot path. Nodes of one kind differ in a few words, and partitions often have the same nodes: kinds and node lists are kept once.
``pack`` gives what ``marshal`` can hold; ``unpack`` gives an equal cluster.
"""

from __future__ import annotations

from shim.core.model.cluster import Cluster, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = ("name", "address", "weight", "state", "reason")  # what nodes of one kind differ in


def pack(cluster: Cluster) -> dict[str, Any]:
    """The cluster as plain data."""
    kinds: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    nodes = []
    for node in cluster.nodes:
        kind = {field: value for field, value in node.to_dict().items() if field not in _OWN}
        place = places.setdefault(repr(kind), len(kinds))
        if place == len(kinds):
            kinds.append(kind)
        nodes.append((place, node.name, node.address, node.weight, node.state, node.reason))
    numbers = {node.name: number for number, node in enumerate(cluster.nodes)}
    lists: dict[tuple[Any, ...], int] = {}
    partitions = []
    for partition in cluster.partitions:
        members = tuple([numbers.get(name, name) for name in partition.nodes])
        partitions.append({**partition.to_dict(), "nodes": lists.setdefault(members, len(lists))})
    rest = cluster.replace(nodes=(), partitions=()).to_dict()
    return {"rest": rest, "kinds": kinds, "nodes": nodes, "lists": list(lists), "partitions": partitions}


def unpack(data: dict[str, Any]) -> Cluster:
    """The cluster that was packed."""
    kinds = [Node.from_dict({"name": "", **kind}) for kind in data["kinds"]]
    nodes = []
    for place, name, address, weight, state, reason in data["nodes"]:
        nodes.append(kinds[place].replace(name=name, address=address, weight=weight, state=state, reason=reason))
    names = [node[1] for node in data["nodes"]]
    lists = [tuple([names[one] if one.__class__ is int else one for one in members]) for members in data["lists"]]
    rest = Cluster.from_dict({**data["rest"], "partitions": [{**one, "nodes": ()} for one in data["partitions"]]})
    return rest.replace(
        nodes=tuple(nodes),
        partitions=tuple(
            [one.replace(nodes=lists[kept["nodes"]]) for one, kept in zip(rest.partitions, data["partitions"])]
        ),
    )
