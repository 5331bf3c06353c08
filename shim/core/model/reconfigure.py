"""A changed configuration while jobs are active: which clusters are in force, and which of them new jobs see.

Nodes, partitions and limits change at once. A cluster, partition or node that the new configuration does not have any more
stays in force until the active jobs that need it have ended; new jobs do not see it.
"""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.model import states
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.job import Job

_PLACE = ("kubeconfig", "context", "namespace")  # settings that say where a cluster's jobs are
_SHOWN = 5  # jobs that are named of those for whom something stays


class Reconfigured(Value):
    """The outcome.

    ``clusters``: the clusters in force, configured ones first. ``offered``: a cluster of which something is kept, as new jobs see it;
    None if it is not configured any more. ``blocked``: why a configured cluster takes no jobs. ``kept``: a line for each thing that
    is kept, with the jobs that need it.
    """

    clusters: tuple[Cluster, ...] = ()
    offered: dict[str, Any] = {}
    blocked: dict[str, str] = {}
    kept: tuple[str, ...] = ()


def reconfigure(before: Sequence[Cluster], wanted: Sequence[Cluster], active: Iterable[Job]) -> Reconfigured:
    """What is in force from now on. ``before``: until now; ``wanted``: as configured; ``active``: all jobs that have not ended."""
    old = {cluster.name: cluster for cluster in before}
    jobs: dict[str, list[Job]] = {}
    for job in active:
        jobs.setdefault(job.cluster, []).append(job)
    made: list[Cluster] = []
    offered: dict[str, Any] = {}
    blocked: dict[str, str] = {}
    kept: list[str] = []
    names = [cluster.name for cluster in wanted]
    for new in wanted:
        was, own = old.get(new.name), jobs.get(new.name, [])
        why = _unlike(was, new) if was is not None and own else ""
        if was is not None and why:
            blocked[new.name] = f"it stays as it was for {_named(own)}: {why}"
            kept.append(f"cluster {new.name}: {blocked[new.name]}")
            offered[new.name] = new
            made.append(was)
            continue
        force, notes = _merged(was, new, own) if was is not None else (new, [])
        if notes:
            kept += notes
            offered[new.name] = new
        made.append(force)
    for name, was in old.items():
        if name not in names and jobs.get(name):
            kept.append(f"cluster {name} stays for {_named(jobs[name])}: it is configured no more")
            offered[name] = None
            made.append(was)
    return Reconfigured(clusters=tuple(made), offered=offered, blocked=blocked, kept=tuple(kept))


def _unlike(was: Cluster, new: Cluster) -> str:
    """Why a cluster with active jobs cannot become the configured cluster of that name; "" if it can."""
    if was.backend != new.backend:
        return f"its backend cannot change from {was.backend} to {new.backend} under them"
    for word in _PLACE:
        if was.settings.get(word, "") != new.settings.get(word, ""):
            return f"its {word} cannot change under them"
    return ""


def _merged(was: Cluster, new: Cluster, jobs: Sequence[Job]) -> tuple[Cluster, list[str]]:
    """The new cluster with the nodes and partitions of the old one that active jobs need, and a line for each of them."""
    nodes, notes = _nodes(was, new, jobs)
    partitions, more = _partitions(was, new, jobs)
    notes += more
    return (new.replace(nodes=nodes, partitions=partitions) if notes else new), notes


def _nodes(was: Cluster, new: Cluster, jobs: Sequence[Job]) -> tuple[tuple[Node, ...], list[str]]:
    if not was.nodes or not new.nodes:
        return new.nodes, []  # known from the cluster itself
    users: dict[str, list[Job]] = {}
    for job in jobs:
        if job.state in states.ALLOCATED:
            for share in job.shares:
                users.setdefault(share.name, []).append(job)
    old = {node.name: node for node in was.nodes}
    made: list[Node] = []
    larger: dict[str, list[str]] = {}  # names, by for whom
    gone: dict[str, list[str]] = {}
    for node in new.nodes:
        own = users.pop(node.name, [])
        before = old.get(node.name)
        if before is not None and own and _too_small(node, own, one_machine=new.one_machine):
            larger.setdefault(_named(own), []).append(node.name)
            node = before.replace(address=node.address)
        made.append(node)
    for name, own in users.items():
        if name in old:
            gone.setdefault(_named(own), []).append(name)
            made.append(old[name])
    notes = [f"{_nodes_of(new, names)} as before: more than that is used by {whom}" for whom, names in larger.items()]
    notes += [f"{_nodes_of(new, names)} for {whom}: configured no more" for whom, names in gone.items()]
    return tuple(made), notes


def _nodes_of(cluster: Cluster, names: Sequence[str]) -> str:
    some = f"nodes {hostlist.fold_sorted(names)}" if len(names) > 1 else f"node {names[0]}"
    return f"{some} of cluster {cluster.name} stay{'' if len(names) > 1 else 's'}"


def _too_small(node: Node, jobs: Sequence[Job], *, one_machine: bool) -> bool:
    """Whether these jobs hold more of the node than the configured node has. Nodes on one machine share its CPUs and memory."""
    shares = [share for job in jobs for share in job.shares if share.name == node.name]
    if any(gpu >= node.gpus for share in shares for gpu in share.gpus):
        return True
    if one_machine:
        return False
    return sum(one.cpus for one in shares) > node.cpus or sum(one.memory for one in shares) > node.memory


def _partitions(was: Cluster, new: Cluster, jobs: Sequence[Job]) -> tuple[tuple[Partition, ...], list[str]]:
    users: dict[str, list[Job]] = {}
    for job in jobs:
        for name in {*(job.request.partition or "").split(","), job.partition}:
            users.setdefault(name, []).append(job)
    there = frozenset(node.name for node in new.nodes)
    made, notes = list(new.partitions), []
    for partition in was.partitions:
        own = users.get(partition.name)
        if own and new.partition(partition.name) is None:
            notes.append(
                f"partition {partition.name} of cluster {new.name} stays for {_named(own)}: it is configured no more"
            )
            left = tuple([name for name in partition.nodes if name in there]) if new.nodes else partition.nodes
            made.append(partition.replace(nodes=left, default=False))
    return tuple(made), notes


def _named(jobs: Sequence[Job]) -> str:
    ids = sorted({job.array_job_id or job.job_id for job in jobs})
    if len(ids) == 1:
        return f"job {ids[0]}"
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"jobs {','.join(map(str, ids[:_SHOWN]))}{more}"
