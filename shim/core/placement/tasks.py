"""Which task (rank) runs on which node: block, cyclic, plane and arbitrary distributions.

Slurm decides first how many tasks each node gets, by dealing tasks round over the nodes that still have CPUs, and then
numbers them by the distribution. When CPUs run out, dealing goes on over all nodes (--overcommit).
"""

from __future__ import annotations

from shim.core.formats.integers import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Ranks = tuple[tuple[int, ...], ...]


PACKS = ("pack", "nopack")  # they may stand alone in ``-m``, or behind a comma


def distribution_kind(distribution: str | None, ntasks: int, nodes: int) -> str:
    """``block``, ``cyclic``, ``plane=N`` or ``arbitrary``: the node part of ``-m``, or Slurm's default for the shape.

    ``-m '*'`` and an absent option mean block with more tasks than nodes, otherwise cyclic (SLURM_DISTRIBUTION shows it).
    """
    first = (distribution or "*").split(",")[0].split(":")[0].lower()
    if first in ("*", "", *PACKS):
        return "block" if ntasks > nodes else "cyclic"
    return first


def task_counts(cpus: Sequence[int], ntasks: int, cap: int | None = None) -> tuple[int, ...]:
    """How many of ``ntasks`` each node gets. ``cpus``: how many tasks each node has CPUs for; ``cap``: at most per node.

    A cap that leaves tasks over is ignored, as srun does.
    """
    if cap is not None and ntasks > cap * len(cpus):
        cap = None
    room = [max(1, count) if cap is None else min(max(1, count), cap) for count in cpus]
    counts = [0] * len(room)
    left = ntasks
    turn = 0
    full = False
    while left > 0 and counts:
        more = False
        for index, here in enumerate(room):
            if left and (turn < here or (full and (cap is None or counts[index] < cap))):
                counts[index] += 1
                left -= 1
                more = more or turn + 1 < here
        full = full or not more
        turn += 1
    return tuple(counts)


def spread(cpus: Sequence[int], wanted: int, least: int, nodes: int) -> list[int]:
    """How many CPUs of each node the tasks of a job may have: the first nodes give all of theirs.

    ``wanted``: CPUs of all nodes together; ``least``: of each node; one CPU is left for each further node, up to ``nodes``.
    Five tasks of three CPUs get 8 and 7 CPUs on two nodes, and ``task_counts`` gives one node a task more than it has CPUs for.
    """
    found = []
    for index, here in enumerate(cpus):
        found.append(min(here, max(wanted - max(nodes - index - 1, 0), least)))
        wanted -= found[-1]
    return found


def task_layout(
    cpus: Sequence[int],
    ntasks: int,
    distribution: str | None = None,
    *,
    cap: int | None = None,
    arbitrary: Sequence[int] = (),
) -> Ranks:
    """The ranks of each node, ascending. ``cpus`` as in ``task_counts``.

    ``arbitrary``: the node index of each task, for that distribution (the list is repeated when it is too short).
    """
    kind = distribution_kind(distribution, ntasks, len(cpus))
    if kind == "arbitrary" and arbitrary:
        ranks: list[list[int]] = [[] for _ in cpus]
        for rank in range(ntasks):
            ranks[arbitrary[rank % len(arbitrary)]].append(rank)
        return tuple(tuple(own) for own in ranks)
    counts = task_counts(cpus, ntasks, cap)
    if kind == "cyclic":
        return _dealt(counts, 1)
    if kind.startswith("plane"):
        return _dealt(counts, _plane_size(kind))
    ranks = []
    start = 0
    for count in counts:
        ranks.append(list(range(start, start + count)))
        start += count
    return tuple(tuple(own) for own in ranks)


def _plane_size(kind: str) -> int:
    number = kind.partition("=")[2]
    return max(1, int(number)) if is_number(number) else 1


def _dealt(counts: Sequence[int], size: int) -> Ranks:
    """Ranks dealt round in packets of ``size``; a node that has its count is passed over."""
    ranks: list[list[int]] = [[] for _ in counts]
    rank = 0
    ntasks = sum(counts)
    while rank < ntasks:
        for own, count in zip(ranks, counts):
            for _ in range(min(size, count - len(own))):
                own.append(rank)
                rank += 1
    return tuple(tuple(own) for own in ranks)
