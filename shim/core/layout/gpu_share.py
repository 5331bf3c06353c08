"""Which GPUs a job gets on each of its nodes."""

from __future__ import annotations

from shim.core.layout import gpus
from shim.core.layout.room import gpu_limit, limited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.layout.demand import JobDemand
    from shim.core.layout.gpus import Demand
    from shim.core.layout.memory import MemoryRule
    from shim.core.layout.room import NodeFree


def share_gpus(
    wish: JobDemand, rule: MemoryRule, nodes: Sequence[NodeFree], tasks: Sequence[int], one_set_of_gpus: bool
) -> list[tuple[int, ...]] | None:
    """The GPU indexes on each node, or None when the nodes have too few.

    ``one_set_of_gpus``: an index is the same device on every node, so that two nodes of the job share one only when there
    are not enough of them.
    """
    chosen: list[tuple[int, ...]] = []
    used: list[int] = []
    left = wish.job_gpus
    for position, (one, count) in enumerate(zip(nodes, tasks)):
        if wish.task_gpus:
            demand = gpus.times(wish.task_gpus, count)
        elif wish.node_gpus:
            demand = wish.node_gpus
        else:
            usable = limited(left, one.gpu_types, gpu_limit(wish, rule, one))
            demand = gpus.part(left, usable, after=len(nodes) - position - 1)
            left = gpus.less(left, demand)
        own = _pick(demand, one, used if one_set_of_gpus else [])
        if own is None:
            return None
        if wish.whole:
            own = one.gpus
        used.extend(own)
        chosen.append(own)
    if gpus.total(wish.job_gpus) > sum(len(own) for own in chosen):
        return None
    return chosen


def _pick(demand: Demand, one: NodeFree, used: list[int]) -> tuple[int, ...] | None:
    types = dict(enumerate(gpus.gpu_types(one.node)))
    unused = [index for index in one.gpus if index not in used]
    own = gpus.pick(demand, unused, types)
    if own is None and used:
        own = gpus.pick(demand, [*unused, *(index for index in one.gpus if index in used)], types)
    return own
