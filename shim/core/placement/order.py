"""In which order Slurm takes nodes: by sets of neighbours, as select/cons_tres does without a topology.

A set is nodes that follow each other in the cluster's order and have the same weight; a node that the job cannot have ends it.
Of the sets one of the least weight is taken, the smallest that is enough for all that is still wanted, or else the largest.
So ``-n 9 -x node2`` gets node[3-4], though node1 is idle too.
"""

from __future__ import annotations

from shim.core.placement import gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shim.core.placement.capacity import NodeFree
    from shim.core.placement.resolve import JobDemand


class _Set:
    """Neighbours. ``named``: where in ``nodes`` those begin that stand behind the first node that -w names; None: none is."""

    __slots__ = ("cpus", "gpus", "named", "nodes", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.nodes: list[NodeFree] = []
        self.cpus = 0
        self.gpus = 0
        self.named: int | None = None

    def in_turn(self) -> list[NodeFree]:
        """From the first node on; where one is named, from that one up and then down."""
        at = self.named or 0
        return self.nodes[at:] + self.nodes[:at][::-1]


def by_sets(
    usable: Sequence[NodeFree],
    rooms: Mapping[str, int],
    position: Callable[[NodeFree], int],
    wish: JobDemand,
    most: int,
) -> list[NodeFree]:
    """The nodes in the order in which they are taken, those first that the job names.

    ``rooms``: the CPUs of each that the tasks can have; ``position``: its place in the cluster; ``most``: how many nodes the
    job takes if it can have them (of ``-N 2-4`` four).
    """
    named = [one for one in usable if one.node.name in wish.required]
    sets = _sets(usable, rooms, position, frozenset(wish.required))
    cpus = wish.cpus - sum(rooms[one.node.name] for one in named)
    devices = gpus.total(wish.job_gpus) - sum(len(one.gpus) for one in named)
    nodes = most - len(named)
    found = list(named)
    left = dict.fromkeys(sets)
    largest = _Largest(sets)
    while len(left) > 1 and (cpus > 0 or nodes > 0 or devices > 0):
        fewest = nodes - (most - wish.min_nodes)
        best = largest.best(left, cpus, fewest, devices) or _best(left, cpus, fewest, devices)
        del left[best]
        found += best.in_turn()
        cpus -= best.cpus
        nodes -= len(best.nodes)
        devices -= best.gpus
    for one in left:
        found += one.in_turn()
    return found


def _sets(
    usable: Sequence[NodeFree],
    rooms: Mapping[str, int],
    position: Callable[[NodeFree], int],
    named: frozenset[str],
) -> list[_Set]:
    """The sets that hold more than named nodes, in the cluster's order."""
    sets: list[_Set] = []
    end = -1
    for place, one in sorted(((position(one), one) for one in usable), key=lambda pair: pair[0]):
        if not sets or place != end + 1 or one.node.weight != sets[-1].weight:
            sets.append(_Set(one.node.weight))
        end = place
        last = sets[-1]
        if one.node.name not in named:
            last.nodes.append(one)
            last.cpus += rooms[one.node.name]
            last.gpus += len(one.gpus)
        elif last.named is None:
            last.named = len(last.nodes)
    return [one for one in sets if one.nodes]


class _Largest:
    """Knows the best of many sets at once while none of them can be enough: then it is the first of the largest."""

    def __init__(self, sets: Sequence[_Set]) -> None:
        plain = all(one.named is None for one in sets)
        # The best last.
        self._order = sorted(sets, key=lambda one: (one.weight, -one.cpus))[::-1] if plain else []
        self._nodes = max((len(one.nodes) for one in sets), default=0)
        self._gpus = max((one.gpus for one in sets), default=0)

    def best(self, left: Mapping[_Set, None], cpus: int, nodes: int, devices: int) -> _Set | None:
        """The best of those that are left; None: they must be looked at."""
        while self._order and self._order[-1] not in left:
            self._order.pop()
        if not self._order or not (self._order[-1].cpus < cpus or self._nodes < nodes or self._gpus < devices):
            return None
        return self._order[-1]


def _best(sets: Iterable[_Set], cpus: int, nodes: int, devices: int) -> _Set:
    """The set to take from next, for so much that is still wanted."""
    best = next(iter(sets))
    best_is_enough = False
    for one in sets:
        enough = one.cpus >= cpus and len(one.nodes) >= nodes and one.gpus >= devices
        if (
            one is best
            or (best.named is None and one.named is not None)
            or one.weight < best.weight
            or (
                one.weight == best.weight
                and ((enough and (not best_is_enough or one.cpus < best.cpus)) or (not enough and one.cpus > best.cpus))
            )
        ):
            best, best_is_enough = one, enough
    return best
