"""Changes that operators made to nodes and partitions (``scontrol update``): plain data that the index keeps beside the configuration.

``{"nodes": {name: {field: value}}, "partitions": {name: {field: value}}}``: fields that differ from the configuration, or were set
back to it. Changes of nodes and partitions that do not exist any more have no effect.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from shim.core.model.cluster import Cluster, Node, Partition


def apply_changes(cluster: Cluster, changes: dict[str, Any]) -> Cluster:
    """The cluster with the changes applied."""
    nodes, partitions = changes.get("nodes", {}), changes.get("partitions", {})
    return cluster.replace(
        nodes=tuple([_changed(one, nodes[one.name]) if one.name in nodes else one for one in cluster.nodes]),
        partitions=tuple(
            [_changed(one, partitions[one.name]) if one.name in partitions else one for one in cluster.partitions]
        ),
    )


def differences(before: Cluster, after: Cluster) -> dict[str, Any]:
    """The changes that turn ``before`` into ``after``."""
    return {
        "nodes": _differing(before.nodes, after.nodes),
        "partitions": _differing(before.partitions, after.partitions),
    }


def merge_changes(changes: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both; where they differ, ``more`` counts."""
    made = {}
    for what in ("nodes", "partitions"):
        old, new = changes.get(what, {}), more.get(what, {})
        made[what] = {name: {**old.get(name, {}), **new.get(name, {})} for name in {**old, **new}}
    return made


def _changed(one: Any, fields: dict[str, Any]) -> Any:
    known = {name: value for name, value in fields.items() if hasattr(one, name)}
    return one.from_dict({**one.to_dict(), **known})


def _differing(before: tuple[Union[Node, Partition], ...], after: tuple[Union[Node, Partition], ...]) -> dict[str, Any]:
    found = {}
    for old, new in zip(before, after):
        if old == new:
            continue
        whole = new.to_dict()
        fields = [name for name in old._defaults if getattr(old, name) != getattr(new, name)]
        found[old.name] = {name: whole[name] if name in whole else getattr(new, name) for name in fields}
    return found
