"""``scontrol update`` of nodes and partitions: what an operator makes of them. Slurm's texts for what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shim.control.lifecycle.update_field import UpdateRefused
from shim.core.errors import INVALID_NODE_NAME, INVALID_PARTITION_NAME
from shim.core.formats import hostlist
from shim.core.formats.lists import comma_list
from shim.core.model.cluster import Cluster, Node
from shim.core.value import Value

BAD_STATE = "Invalid node state specified"


class By(Value):
    """Who changes a node, and when."""

    uid: int
    name: str
    now: float


def node_changed(node: Node, fields: Mapping[str, Any], by: By) -> Node:
    """The node with ``fields`` (canonical names) changed. Raises UpdateRefused."""
    changes: dict[str, Any] = {field: fields[word] for word, field in _NODE_FIELDS.items() if word in fields}
    if "features" in changes:
        changes["features"] = comma_list(changes["features"])
    after = node.replace(**changes)
    if "State" in fields:
        after = after.replace(state=_next_state(node.state, fields["State"]))
    if not after.state:
        return after.replace(reason="", reason_user="", reason_uid=None, reason_time=0)
    if "Reason" not in fields:
        return after
    reason = fields["Reason"].partition("\n")[0]
    return after.replace(reason=reason, reason_user=by.name, reason_uid=by.uid, reason_time=float(int(by.now)))


_NODE_FIELDS = {"Weight": "weight", "Features": "features", "Comment": "comment", "Extra": "extra"}


def _next_state(old: str, asked: str) -> str:
    down, drained = old.startswith("DOWN"), old.endswith("DRAIN")
    if asked == "RESUME" and not old:
        raise UpdateRefused(BAD_STATE)
    if asked in ("RESUME", "IDLE"):
        down = drained = False
    elif asked == "DOWN":
        down = True
    elif asked in ("DRAIN", "UNDRAIN"):
        drained = asked == "DRAIN"
    else:
        raise UpdateRefused(BAD_STATE)
    return "+".join(word for word, given in (("DOWN", down), ("DRAIN", drained)) if given)


def partition_changed(cluster: Cluster, name: str, fields: Mapping[str, Any]) -> Cluster:
    """The cluster with ``fields`` (those of Partition) of that partition changed. Raises UpdateRefused."""
    old = cluster.partition(name)
    if old is None:
        raise UpdateRefused(INVALID_PARTITION_NAME)
    changes = dict(fields)
    if "nodes" in changes:
        changes["nodes"] = _nodes(cluster, changes["nodes"])
    new = old.replace(**{field: check(changes[field]) for field, check in _PARTITION.items() if field in changes})
    alone = new.default and not old.default
    others = [one.replace(default=False) if alone and one is not old else one for one in cluster.partitions]
    return cluster.replace(partitions=tuple(new if one is old else one for one in others))


def _nodes(cluster: Cluster, text: object) -> tuple[str, ...]:
    try:
        names = hostlist.natural_sorted(set(hostlist.expand(str(text))))
    except ValueError:  # a list that is none, or a number that nobody can sort by
        raise UpdateRefused(INVALID_NODE_NAME) from None
    if text == "ALL":
        return tuple(node.name for node in cluster.nodes)
    if any(cluster.node(name) is None for name in names):
        raise UpdateRefused(INVALID_NODE_NAME)
    return tuple(names)


def named_nodes(cluster: Cluster, text: str) -> list[str]:
    """The names that an update of nodes gives, known or not; of ``ALL`` every node."""
    if text.upper() == "ALL":
        return [node.name for node in cluster.nodes]
    try:
        return hostlist.expand(text)
    except hostlist.HostlistError:
        return [text]


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise UpdateRefused(f"Invalid value {value!r}")
    return value


def _limit(value: object) -> int | None:
    """A number, or None for no limit."""
    return None if value is None else _count(value)


def _text(value: object) -> str:
    return str(value)[:4096]


_PARTITION: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("default", "hidden", "root_only", "disable_root_jobs", "req_resv", "lln"), bool),
    **dict.fromkeys(("min_nodes", "priority_tier"), _count),
    **dict.fromkeys(
        (
            *("max_time", "default_time", "max_nodes", "max_cpus_per_node"),
            *("def_mem_per_cpu", "def_mem_per_node", "max_mem_per_cpu", "max_mem_per_node"),
        ),
        _limit,
    ),
    **dict.fromkeys(
        (
            "state",
            "oversubscribe",
            "alloc_nodes",
            "allow_groups",
            "allow_accounts",
            "deny_accounts",
            "allow_qos",
            "deny_qos",
        ),
        _text,
    ),
    "nodes": tuple,
}
