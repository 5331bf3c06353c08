"""sinfo's rows: the nodes of a partition for which all columns show the same (of all partitions, if no column shows the partition)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.render.node_state import NodeUse

# Letters of columns that belong to the partition, and of those that nodes of one row must agree in.
PARTITION_LETTERS = frozenset("aghIlLMpPrRsSB")
_APART: dict[str, Callable[[NodeUse], Any]] = {
    "t": lambda use: use.short,
    "T": lambda use: use.long,
    "b": lambda use: use.node.features,
    "f": lambda use: use.node.features,
    "G": lambda use: use.node.gres,
    "E": lambda use: use.node.reason,
    "u": lambda use: use.node.reason_user,
    "U": lambda use: use.node.reason_user,
    "H": lambda use: use.node.reason_time,
    "n": lambda use: use.node.name,
    "o": lambda use: use.node.address,
}
# Sizes keep nodes apart only with --exact; otherwise the smallest is shown with a plus.
_EXACT: dict[str, Callable[[NodeUse], Any]] = {
    "c": lambda use: use.node.cpus,
    "m": lambda use: use.node.memory,
    "d": lambda use: use.node.tmp_disk,
    "w": lambda use: use.node.weight,
    "X": lambda use: use.node.sockets,
    "Y": lambda use: use.node.cores_per_socket,
    "Z": lambda use: use.node.threads_per_core,
    "z": lambda use: (use.node.sockets, use.node.cores_per_socket, use.node.threads_per_core),
}
DEFAULT_ORDER = "#P,-t"
NODE_ORDER = "N,#P"


class Row:
    """One line: nodes with the partition in which they were found first; no nodes: a partition none of whose nodes were asked for."""

    __slots__ = ("partition", "place", "uses")

    def __init__(self, partition: Partition, place: int) -> None:
        self.partition = partition
        self.place = place  # of the partition in the configuration
        self.uses: list[NodeUse] = []


def make_rows(
    cluster: Cluster,
    uses: dict[str, NodeUse],
    letters: Iterable[str],
    *,
    partitions: Sequence[str] = (),
    unseen: Collection[str] = (),
    wanted: Callable[[NodeUse], bool] = lambda use: True,
    by_node: bool = False,
    exact: bool = False,
    empty: bool = True,
) -> list[Row]:
    """The rows of a listing with these columns. ``empty``: also partitions without a node that is ``wanted``.

    ``partitions``: these only; ``unseen``: those that the listing leaves out.
    """
    shown = set(letters)
    apart = [key for letter, key in _APART.items() if letter in shown]
    if exact:
        apart += [key for letter, key in _EXACT.items() if letter in shown]
    # sinfo -N has a line for each partition of a node, whatever its columns show.
    by_partition = by_node or bool(shown & PARTITION_LETTERS)
    found: dict[Any, Row] = {}
    for place, partition in enumerate(cluster.partitions):
        if (partitions and partition.name not in partitions) or partition.name in unseen:
            continue
        some = False
        for name in partition.nodes:
            use = uses.get(name)
            if use is None or not wanted(use):
                continue
            some = True
            key = (place if by_partition else 0, name if by_node else "", *(part(use) for part in apart))
            row = found.setdefault(key, Row(partition, place))
            if use not in row.uses:
                row.uses.append(use)
        if not some and empty and by_partition and not by_node:
            found[place, None] = Row(partition, place)
    return list(found.values())


def ordered(rows: list[Row], text: str) -> list[Row]:
    """``rows`` by the letters of ``-S``; ``#P`` is the partitions' order in the configuration."""
    from shim.core.formats.hostlist import natural_sorted
    from shim.core.render.job_order import letters

    names = {name: at for at, name in enumerate(natural_sorted({use.node.name for row in rows for use in row.uses}))}
    keys: dict[str, Callable[[Row], Any]] = {
        "#P": lambda row: row.place,
        "P": lambda row: row.partition.name,
        "R": lambda row: row.partition.name,
        "N": lambda row: min((names[use.node.name] for use in row.uses), default=-1),
        "n": lambda row: min((names[use.node.name] for use in row.uses), default=-1),
        "t": lambda row: row.uses[0].number if row.uses else 0,
        "T": lambda row: row.uses[0].number if row.uses else 0,
        "D": lambda row: len(row.uses),
        "c": lambda row: min((use.node.cpus for use in row.uses), default=0),
        "m": lambda row: min((use.node.memory for use in row.uses), default=0),
        "d": lambda row: min((use.node.tmp_disk for use in row.uses), default=0),
        "w": lambda row: min((use.node.weight for use in row.uses), default=0),
        "a": lambda row: row.partition.state,
        "l": lambda row: row.partition.max_time if row.partition.max_time is not None else float("inf"),
        "E": lambda row: row.uses[0].node.reason if row.uses else "",
    }
    found = list(rows)
    for letter, reverse in reversed(letters(text.replace("#P", "#"), extra="#")):
        key = keys.get("#P" if letter == "#" else letter)
        if key is not None:
            found.sort(key=key, reverse=reverse)
    return found
