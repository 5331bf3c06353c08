"""MaxCPUsPerNode: how much of a node all jobs of a partition together may use."""

from __future__ import annotations

from collections.abc import Sequence

from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import NodeShare
from shim.core.placement.capacity import NodeFree


class Caps:
    """What the partitions that have such a limit use of each node, and until when. The others cost nothing here."""

    def __init__(self, cluster: Cluster) -> None:
        # By partition and node: from when to when how many CPUs.
        self._uses: dict[str, dict[str, list[tuple[float, float, int]]]] = {
            partition.name: {} for partition in cluster.partitions if partition.max_cpus_per_node is not None
        }

    def hold(self, partition: str, start: float, end: float, shares: Sequence[NodeShare]) -> None:
        """A job of that partition has these shares from ``start`` to ``end``."""
        uses = self._uses.get(partition)
        if uses is not None:
            for share in shares:
                uses.setdefault(share.name, []).append((start, end, share.cpus))

    def trimmed(self, partition: Partition, free: list[NodeFree], start: float, end: float) -> list[NodeFree]:
        """The nodes with no more CPUs than the partition may still use of them all the time from ``start`` to ``end``."""
        uses, most = self._uses.get(partition.name), partition.max_cpus_per_node
        if not uses or most is None:
            return free
        found = []
        for one in free:
            used = sum(cpus for begin, until, cpus in uses.get(one.node.name, ()) if begin < end and until > start)
            found.append(one.replace(cpus=max(0, min(one.cpus, most - used))) if used else one)
        return found
