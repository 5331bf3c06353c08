"""GPUs as requests name them and as nodes hold them.

A *demand* is a tuple of ``(type, count)``, type "" for any. A node's GPUs have indexes 0, 1, … in the order of its gres
entries, so that ``gpu:a100:2,gpu:h100:1`` gives the types ``("a100", "a100", "h100")``.
"""

from __future__ import annotations

from shim.core.formats import tres

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shim.core.model.cluster import Node

    Demand = tuple[tuple[str, int], ...]


def gpu_types(node: Node) -> tuple[str, ...]:
    """The type of each GPU of ``node``, by index."""
    types: list[str] = []
    for gres in node.gres:
        if gres.name == "gpu":
            types.extend([gres.type] * gres.count)
    return tuple(types)


def gpu_demand(text: str | None) -> Demand:
    """``--gpus``, ``--gpus-per-node``, ``--gpus-per-task``. Raises ValueError for what is no such text."""
    return tuple((kind, count) for kind, count in tres.parse_gpus(text) if count) if text else ()


def gres_demand(text: str | None) -> tuple[Demand, Demand]:
    """``--gres``: the GPUs, and every other resource as ``(name, count)``. Raises ValueError for what is no such text."""
    entries = [entry for entry in tres.parse_gres(text or "") if entry[2]]
    found = tuple((kind, count) for name, kind, count in entries if name == "gpu")
    return found, tuple((name, count) for name, _, count in entries if name != "gpu")


def total(demand: Demand) -> int:
    """How many GPUs of all types."""
    return sum(count for _, count in demand)


def show(demand: Demand) -> str:
    """The demand in Slurm's errors: ``gpu:a100:2``."""
    return ",".join(f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in demand)


def scale(demand: Demand, factor: int) -> Demand:
    """The demand, ``factor`` times over."""
    return tuple((kind, count * factor) for kind, count in demand)


def capacity(demand: Demand, types: Iterable[str]) -> int:
    """How many times ``demand`` fits into free GPUs of these types; 0 for an empty demand."""
    wanted: dict[str, int] = {}
    for kind, count in demand:
        wanted[kind] = wanted.get(kind, 0) + count
    each = sum(wanted.values())
    if not each:
        return 0
    free = list(types)
    return min([len(free) // each, *(free.count(kind) // count for kind, count in wanted.items() if kind and count)])


def pick(demand: Demand, free: Sequence[int], types: Mapping[int, str]) -> tuple[int, ...] | None:
    """The lowest of the ``free`` indexes that satisfy ``demand``, sorted; None when they do not suffice.

    ``types``: the type of each index.
    """
    left = list(free)
    chosen: list[int] = []
    for kind, count in typed_first(demand):
        fitting = [index for index in left if not kind or types[index] == kind][:count]
        if len(fitting) < count:
            return None
        chosen.extend(fitting)
        left = [index for index in left if index not in fitting]
    return tuple(sorted(chosen))


def typed_first(demand: Demand) -> list[tuple[str, int]]:
    """Named types before "any", so that "any" does not take what a name needs."""
    return sorted(demand, key=lambda item: not item[0])


def take_share(left: Demand, free: Sequence[str], after: int) -> Demand:
    """Of a demand on several nodes, the part of one node: all that it has, less one GPU for each of the ``after`` nodes behind it.

    ``free``: the types of the node's free GPUs. ``-N2 --gpus=4`` gives 3 and 1. Of GPUs of any type for one node too many the
    first node gets none; for still more nodes every node gets all that it has, because Slurm's count goes below zero.
    """
    rest = list(free)
    taken = []
    for kind, count in typed_first(left):
        here = len([own for own in rest if not kind or own == kind])
        if kind:
            here = min(here, max(count - after, min(count, 1)))
        elif count >= after:
            here = min(here, count - after)
        for _ in range(here):
            rest.remove(kind if kind else rest[-1])
        taken.append((kind, here))
    return tuple(taken)


def subtract(demand: Demand, taken: Demand) -> Demand:
    """What is left of ``demand``."""
    gone = dict(taken)
    return tuple((kind, count - gone.get(kind, 0)) for kind, count in demand)
