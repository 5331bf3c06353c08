"""What is in use on each node from now on: a line of slots, each from its time to the next one's.

Running jobs give back what they hold at their end; reservations of jobs that wait take it again for a while. Where the nodes are
one machine (settings overcommit=machine) CPUs and memory are counted over all nodes against one node's, and a GPU index has one
owner whatever the node; a job alone on the machine may have more CPUs than the machine has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from shim.core.layout.place import NodeFree
from shim.core.model.cluster import Cluster
from shim.core.model.job import NodeShare

NO_GPUS: frozenset[int] = frozenset()


class Slot:
    """What is in use from ``time`` to the next slot's. ``rises``: something begins here."""

    __slots__ = ("cpus", "gpus", "jobs", "memory", "rises", "time")

    def __init__(self, time: float, size: int) -> None:
        self.time = time
        self.rises = False
        self.jobs = 0
        self.cpus = [0] * size
        self.memory = [0] * size
        self.gpus = [NO_GPUS] * size

    def copy(self, time: float) -> Slot:
        """The same use, from a later time."""
        other = Slot(time, 0)
        other.jobs = self.jobs
        other.cpus, other.memory, other.gpus = self.cpus[:], self.memory[:], self.gpus[:]
        return other

    def add(self, places: Sequence[tuple[int, NodeShare]]) -> None:
        """One more job holds these shares of the nodes at these indexes."""
        self.jobs += 1
        for index, share in places:
            self.cpus[index] += share.cpus
            self.memory[index] += share.memory
            if share.gpus:
                self.gpus[index] = self.gpus[index].union(share.gpus)

    def cover(self, other: Slot) -> None:
        """At least what the other slot uses, resource by resource."""
        self.jobs = max(self.jobs, other.jobs)
        self.cpus = list(map(max, self.cpus, other.cpus))
        self.memory = list(map(max, self.memory, other.memory))
        self.gpus = [mine | theirs for mine, theirs in zip(self.gpus, other.gpus)]


class Room:
    """What is free for one job during its whole run. ``total_cpus``, ``total_memory``: the most in use at any one time."""

    def __init__(self, profile: Profile, use: Slot, total_cpus: int, total_memory: int) -> None:
        self._cluster = profile.cluster
        self._use = use
        self._shared = profile.one_machine and use.jobs > 0  # a part of the machine is left, whatever the node
        self._one_machine = profile.one_machine
        self._cpus_left = profile.machine_cpus - total_cpus
        self._memory_left = profile.machine_memory - total_memory
        self._taken = NO_GPUS.union(*use.gpus) if self._shared else NO_GPUS

    def cpus(self, index: int) -> int:
        """The free CPUs of a node."""
        of_node = self._cluster.nodes[index].cpus
        if self._shared:
            return max(0, min(of_node, self._cpus_left))
        return of_node if self._one_machine else of_node - self._use.cpus[index]

    def node(self, index: int) -> NodeFree:
        """All that is free of a node."""
        node = self._cluster.nodes[index]
        memory, taken = node.memory - self._use.memory[index], self._use.gpus[index]
        if self._shared:
            memory, taken = max(0, min(node.memory, self._memory_left)), self._taken
        gpus = tuple(gpu for gpu in range(node.gpus) if gpu not in taken)
        return NodeFree(node=node, cpus=self.cpus(index), memory=memory, gpus=gpus)

    def holds(self, shares: Sequence[NodeShare]) -> bool:
        """Whether shares that fit node by node fit together."""
        if not self._shared:
            return True
        return (
            sum(share.cpus for share in shares) <= self._cpus_left
            and sum(share.memory for share in shares) <= self._memory_left
        )


class Profile:
    """The use of a cluster's nodes over time. Nodes go by their index in ``cluster.nodes``."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        self.cluster = cluster
        self.one_machine = cluster.settings.get("overcommit") == "machine"
        self.machine_cpus = max((node.cpus for node in cluster.nodes), default=0)
        self.machine_memory = max((node.memory for node in cluster.nodes), default=0)
        self._index = {node.name: index for index, node in enumerate(cluster.nodes)}
        self._slots = [Slot(now, len(cluster.nodes))]

    @property
    def times(self) -> list[float]:
        """When the use changes; the first is now."""
        return [slot.time for slot in self._slots]

    def index(self, name: str) -> int:
        """The index of the node of that name. A node that is gone from one machine counts as its first."""
        return self._index.get(name, 0) if self.one_machine else self._index[name]

    def hold(self, start: float, end: float, shares: Sequence[NodeShare]) -> None:
        """A job holds ``shares`` from ``start`` (not before now) to ``end``."""
        places = [(self.index(share.name), share) for share in shares if self.one_machine or share.name in self._index]
        first, last = self._split(start), self._split(end)
        self._slots[first].rises = True
        for slot in self._slots[first:last]:
            slot.add(places)

    def room(self, start: float, end: float) -> Room:
        """What is free all the time from ``start``, one of ``times``, to ``end``."""
        first = bisect_left(self._slots, start, key=_time)
        peak = self._slots[first]
        total_cpus, total_memory = sum(peak.cpus), sum(peak.memory)
        # Use only falls from slot to slot, except where something begins.
        later = [slot for slot in self._slots[first + 1 : bisect_left(self._slots, end, key=_time)] if slot.rises]
        if later:
            peak = peak.copy(start)
        for slot in later:
            peak.cover(slot)
            total_cpus, total_memory = max(total_cpus, sum(slot.cpus)), max(total_memory, sum(slot.memory))
        return Room(self, peak, total_cpus, total_memory)

    def _split(self, time: float) -> int:
        """The index of the slot that begins at ``time``, made where there is none."""
        index = bisect_left(self._slots, time, key=_time)
        if index == len(self._slots) or self._slots[index].time != time:
            self._slots.insert(index, self._slots[index - 1].copy(time))
        return index


def _time(slot: Slot) -> float:
    return slot.time
