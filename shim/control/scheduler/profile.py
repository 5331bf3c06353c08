"""The use of each node over time: a list of slots, each of which lasts until the next one begins.

A running job gives its resources back at its end; the reservation of a waiting job takes them for a while. With
``share = "machine"`` all nodes are one machine: their CPUs and memory together are limited to those of one node, but a job
that is alone on the machine may have more CPUs than it has. GPUs of the machine have one owner, whichever node names them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from shim.control.scheduler.others import used_by_others
from shim.core.model.cluster import Cluster
from shim.core.model.job import NodeShare
from shim.core.placement.capacity import NodeFree

NO_GPUS: frozenset[int] = frozenset()


class Slot:
    """What is in use from ``time`` to the next slot's: on each node, and on all of them together."""

    __slots__ = ("all_cpus", "all_memory", "cpus", "gpus", "jobs", "memory", "time")

    def __init__(self, time: float, size: int) -> None:
        self.time = time
        self.jobs = self.all_cpus = self.all_memory = 0
        self.cpus = [0] * size
        self.memory = [0] * size
        self.gpus = [NO_GPUS] * size

    def copy(self, time: float) -> Slot:
        """The same use, from a later time."""
        other = Slot(time, 0)
        other.jobs, other.all_cpus, other.all_memory = self.jobs, self.all_cpus, self.all_memory
        other.cpus, other.memory, other.gpus = self.cpus[:], self.memory[:], self.gpus[:]
        return other

    def add(self, places: Sequence[tuple[int, NodeShare]]) -> None:
        """One more job holds these shares of the nodes at these indexes."""
        self.jobs += 1
        for index, share in places:
            self.all_cpus += share.cpus
            self.all_memory += share.memory
            self.cpus[index] += share.cpus
            self.memory[index] += share.memory
            if share.gpus:
                self.gpus[index] = self.gpus[index].union(share.gpus)

    def cover(self, other: Slot) -> None:
        """At least what the other slot uses, resource by resource."""
        self.jobs = max(self.jobs, other.jobs)
        self.all_cpus = max(self.all_cpus, other.all_cpus)
        self.all_memory = max(self.all_memory, other.all_memory)
        self.cpus = list(map(max, self.cpus, other.cpus))
        self.memory = list(map(max, self.memory, other.memory))
        self.gpus = [mine | theirs for mine, theirs in zip(self.gpus, other.gpus)]


class Room:
    """What is free for a job during its whole run. ``use``: the highest use of each resource in that time."""

    def __init__(self, profile: Profile, use: Slot) -> None:
        self._cluster = profile.cluster
        self._use = use
        self._shared = profile.one_machine and use.jobs > 0  # a part of the machine is left, whatever the node
        self._one_machine = profile.one_machine
        self._cpus_left = profile.machine_cpus - use.all_cpus
        self._memory_left = profile.machine_memory - use.all_memory
        self._taken = NO_GPUS.union(*use.gpus) if profile.one_set_of_gpus else None

    def cpus(self, index: int) -> int:
        """The free CPUs of a node."""
        of_node = self._cluster.nodes[index].cpus
        if self._shared:
            return max(0, min(of_node, self._cpus_left))
        return of_node if self._one_machine else of_node - self._use.cpus[index]

    def node(self, index: int) -> NodeFree:
        """The free resources of a node."""
        node = self._cluster.nodes[index]
        memory = node.memory - self._use.memory[index]
        taken = self._use.gpus[index] if self._taken is None else self._taken
        if self._shared:
            memory = max(0, min(node.memory, self._memory_left))
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

    def __init__(self, cluster: Cluster, now: float, above: int | None = None) -> None:
        """``above``: what others use counts from this priority on only; None: all of it."""
        self.cluster = cluster
        self.one_machine = cluster.one_machine
        self.one_set_of_gpus = cluster.one_set_of_gpus
        self.machine_cpus = max((node.cpus for node in cluster.nodes), default=0)
        self.machine_memory = max((node.memory for node in cluster.nodes), default=0)
        self._index = {node.name: index for index, node in enumerate(cluster.nodes)}
        self.cpus = sum(node.cpus for node in cluster.nodes)
        self._slots = [Slot(now, len(cluster.nodes))]
        self._rises: list[Slot] = []  # at which something begins
        for until, shares in used_by_others(cluster, now, above):
            if until == inf:
                self._slots[0].add([(self._index[share.name], share) for share in shares])
            else:
                self.hold(now, until, shares)

    def times(self, cpus: int) -> list[float]:
        """When the use changes, now first, as far as so many CPUs may be free then."""
        if self.one_machine:
            return [slot.time for slot in self._slots if not slot.jobs or slot.all_cpus + cpus <= self.machine_cpus]
        return [slot.time for slot in self._slots if slot.all_cpus + cpus <= self.cpus]

    def crowded(self, start: float, end: float, cpus: int) -> bool:
        """Whether so many CPUs are surely not free all the time from ``start`` to ``end``: quicker than ``room``."""
        if self.one_machine:
            return False
        most = self.cpus - cpus
        return self._at(start).all_cpus > most or any(slot.all_cpus > most for slot in self._later(start, end))

    def index(self, name: str) -> int:
        """The index of the node of that name. A node that is gone from one machine counts as its first."""
        return self._index.get(name, 0) if self.one_set_of_gpus else self._index[name]

    def hold(self, start: float, end: float, shares: Sequence[NodeShare]) -> None:
        """A job holds ``shares`` from ``start`` (not before now) to ``end``."""
        places = [
            (self.index(share.name), share) for share in shares if self.one_set_of_gpus or share.name in self._index
        ]
        first, last = self._split(start), self._split(end)
        if self._slots[first] not in self._rises:
            self._rises.append(self._slots[first])
        for slot in self._slots[first:last]:
            slot.add(places)

    def room(self, start: float, end: float) -> Room:
        """What is free all the time from ``start``, a time of ``times``, to ``end``."""
        peak = self._at(start)
        later = self._later(start, end)
        if later:
            peak = peak.copy(start)
        for slot in later:
            peak.cover(slot)
        return Room(self, peak)

    def _at(self, time: float) -> Slot:
        return self._slots[bisect_left(self._slots, time, key=_time)]

    def _later(self, start: float, end: float) -> list[Slot]:
        """The slots that may use more than the one at ``start``: use only falls, except where something begins."""
        return [slot for slot in self._rises if start < slot.time < end]

    def _split(self, time: float) -> int:
        """The index of the slot that begins at ``time``, made where there is none."""
        index = bisect_left(self._slots, time, key=_time)
        if index == len(self._slots) or self._slots[index].time != time:
            self._slots.insert(index, self._slots[index - 1].copy(time))
        return index


def _time(slot: Slot) -> float:
    return slot.time
