"""``change_nodes`` and ``change_partition``: what operators change of a cluster. Kept in the index, beside the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.control.controller.book import Change
from shim.control.controller.connection import Connection
from shim.control.controller.operations import cancelling
from shim.control.controller.operations.choosing import cluster_named
from shim.control.controller.world import World
from shim.control.groups import user_name
from shim.control.lifecycle import site_updating
from shim.control.lifecycle.site_updating import By
from shim.control.lifecycle.update_field import UpdateRefused
from shim.core.errors import INVALID_NODE_NAME, INVALID_USER_ID, ShimError, Unsupported, plain
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job


async def change_nodes(
    world: World, order: Callable[[Job], None], connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """The operation. ``name``: a host list, or ALL. As in Slurm, the names before an unknown name are changed."""
    _operator(connection)
    name, fields = _asked(message)
    cluster = _with(world, message, lambda one: _has_node(one, name))
    if cluster.backend == "kubernetes":
        raise Unsupported(
            f"error: nodes of cluster {cluster.name} are Kubernetes': kubectl cordon, drain and uncordon change them, and sinfo shows it"
        )
    by = By(uid=connection.uid, name=user_name(connection.uid), now=world.clock())
    nodes = {node.name: node for node in cluster.nodes}
    refused = ""
    changed: list[str] = []
    for one in site_updating.named_nodes(cluster, name):
        if one not in nodes:
            refused = INVALID_NODE_NAME
            break
        try:
            nodes[one] = site_updating.node_changed(nodes[one], fields, by)
            changed.append(one)
        except UpdateRefused as error:
            refused = str(error)
    lost: list[Job] = []
    with world.book.change() as change:
        after = cluster.replace(nodes=tuple(nodes[node.name] for node in cluster.nodes))
        world.amend(after)
        if fields.get("State") == "DOWN":
            lost = _lose(world, change, cluster.name, frozenset(changed), by)
    world.take(after)
    for job in lost:
        order(job)
    return _answer(refused)


async def change_partition(world: World, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The operation. ``fields`` are those of a Partition."""
    _operator(connection)
    name, fields = _asked(message)
    cluster = _with(world, message, lambda one: one.partition(name) is not None)
    if cluster.backend == "kubernetes" and "nodes" in fields:
        raise Unsupported(f"error: which nodes a partition of cluster {cluster.name} has is said by its configuration")
    try:
        after = site_updating.partition_changed(cluster, name, fields)
    except UpdateRefused as error:
        return _answer(str(error))
    with world.book.store.transaction():
        world.amend(after)
    world.take(after)
    return {}


def _operator(connection: Connection) -> None:
    if not connection.admin:
        raise ShimError(plain(f"slurm_update error: {INVALID_USER_ID}"))


def _asked(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(message.get("name") or ""), dict(message.get("fields") or {})


def _answer(refused: str) -> dict[str, Any]:
    if refused:
        raise ShimError(plain(f"slurm_update error: {refused}"))
    return {}


def _with(world: World, message: dict[str, Any], has: Callable[[Cluster], bool]) -> Cluster:
    """The cluster that -M names, else the first that has what is named, else the default one."""
    named = message.get("cluster")
    if named:
        return cluster_named(world, str(named))
    return next((one for one in world.clusters.values() if has(one)), None) or cluster_named(world, None)


def _has_node(cluster: Cluster, text: str) -> bool:
    return any(cluster.node(name) is not None for name in site_updating.named_nodes(cluster, text))


def _lose(world: World, change: Change, cluster: str, nodes: frozenset[str], by: By) -> list[Job]:
    """The jobs on nodes that are down now: they end, or are queued again, as when a node fails."""
    found = []
    for job in world.book.active(cluster):
        here = job.state in states.ALLOCATED and any(share.name in nodes for share in job.shares)
        if here and job.state != states.COMPLETING:
            leader = world.book.leader(job)
            if leader not in found:
                found.append(leader)
    return [cancelling.end(change, job, states.NODE_FAIL, by.uid, by.now) for job in found]
