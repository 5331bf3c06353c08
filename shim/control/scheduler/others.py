"""What others than our jobs use of each node, and until when. A job may ignore uses of a lower priority, which it may preempt."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from shim.core.model.cluster import NO_END, Cluster, Node, Others
from shim.core.model.job import NodeShare

YEAR = 365 * 86400.0  # what a job without a limit is taken to run, as Slurm shows it
OVERDUE = 30.0  # seconds until what is past its limit is taken to be gone
_STEPS = ((3600.0, 60.0), (6 * 3600.0, 300.0), (inf, 3600.0))  # how far ahead an end is, and how finely it is told then


def used_by_others(cluster: Cluster, now: float, above: int | None = None) -> list[tuple[float, Sequence[NodeShare]]]:
    """The parts of nodes that others use, by the time at which they end. Of the GPUs those with the highest indexes count as used.

    ``above``: only uses of this priority or a higher one, which a job of this priority may not preempt; None: all uses.
    """
    found: dict[float, list[NodeShare]] = {}
    for node in cluster.nodes:
        if not node.others:
            if node.others_cpus or node.others_memory or node.others_gpus:
                gpus = range(node.gpus - node.others_gpus, node.gpus)
                found.setdefault(inf, []).append(
                    NodeShare(name=node.name, cpus=node.others_cpus, memory=node.others_memory, gpus=tuple(gpus))
                )
            continue
        for until, share in _levels(node, now, above):
            found.setdefault(until, []).append(share)
    return sorted(found.items(), reverse=True)


def _levels(node: Node, now: float, above: int | None) -> list[tuple[float, NodeShare]]:
    """The uses of a node by their ends, the last end first."""
    parts: dict[float, list[Others]] = {}
    for one in node.others:
        if above is None or one.priority >= above:
            parts.setdefault(_end(one.until, now), []).append(one)
    made = []
    cpus = shown = memory = 0
    top = node.gpus
    for until in sorted(parts, reverse=True):
        cpus += sum(one.cpus for one in parts[until])
        more, shown = ceil(cpus / 1000) - shown, ceil(cpus / 1000)
        here = sum(one.memory for one in parts[until])
        memory += here
        gpus = min(top, sum(one.gpus for one in parts[until]))
        made.append((until, NodeShare(name=node.name, cpus=more, memory=here, gpus=tuple(range(top - gpus, top)))))
        top -= gpus
    return made


def _end(until: float, now: float) -> float:
    if not until:
        return inf
    if until >= NO_END:
        return now + YEAR
    left = max(until - now, OVERDUE)
    step = next(step for far, step in _STEPS if left <= far)
    return ceil((now + left) / step) * step
