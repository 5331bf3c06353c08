"""Which nodes a job gets and what it holds of each: all or nothing.

As select/cons_tres does by default: nodes in sets of neighbours (``order``), CPUs packed on the first node with at least one
left for each of the others (``-N2 -n5`` gives 4 and 1), the nodes of the result in the cluster's order.
"""

from __future__ import annotations

from shim.core.model.job import NodeShare
from shim.core.placement import features, gpus
from shim.core.placement.capacity import NodeFree, gpu_limit, limited, room
from shim.core.placement.gpus import gpu_types
from shim.core.placement.memory import memory_rule
from shim.core.placement.order import by_sets
from shim.core.placement.pending_estimate import Needs, needs
from shim.core.placement.resolve import job_demand
from shim.core.placement.tasks import spread, task_counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.gpus import Demand
    from shim.core.placement.memory import MemoryRule
    from shim.core.placement.resolve import JobDemand

    Counts = Sequence[tuple[str, int]]  # features and how many nodes must have them
    Shares = tuple[NodeShare, ...]

__all__ = ["Needs", "NodeFree", "needs", "place"]


def place(
    request: JobRequest, cluster: Cluster, free: Sequence[NodeFree], partition: Partition | None = None
) -> Shares | None:
    """The nodes for ``request`` among ``free``, or None when it cannot start on them.

    ``free`` holds only nodes of the job's partition that are up. --prefer is tried before --constraint. ``partition`` gives the memory defaults (else the
    cluster's). Memory is charged for jobs that ask for it or for whom a default exists. Where the nodes are one machine
    (settings overcommit=machine) two nodes of a job share a GPU only when there are not enough of them.
    """
    placing = _Placing(request, cluster, partition)
    if partition is not None and partition.max_cpus_per_node is not None:
        free = [one.replace(cpus=min(one.cpus, partition.max_cpus_per_node)) for one in free]
    placing.look_at(free)
    excluded = frozenset(placing.wish.excluded)
    candidates = [one for one in free if one.node.name not in excluded and placing.rooms[one.node.name] > 0]
    for text in (request.prefer, request.constraint) if request.prefer else (request.constraint,):
        try:
            constraint = features.parse(text)
        except features.FeatureError:
            continue
        for choice in constraint.choices:
            usable = [one for one in candidates if features.matches(choice, frozenset(one.node.features))]
            shares = placing.choose(usable, constraint.counts)
            if shares is not None:
                return shares
    return None


class _Placing:
    """The rules of one request, applied to sets of nodes."""

    def __init__(self, request: JobRequest, cluster: Cluster, partition: Partition | None) -> None:
        self.request = request
        self.wish = job_demand(request)
        largest = partition.max_nodes if partition is not None else None
        if largest is not None and self.wish.min_nodes <= largest < (self.wish.max_nodes or 0):
            self.wish = self.wish.replace(max_nodes=largest)  # -N1-8 takes as many as the partition gives to one job
        self.rule = memory_rule(request, cluster, partition)
        self.one_set_of_gpus = cluster.one_set_of_gpus
        self.least_loaded = partition is not None and partition.lln
        self.positions = {node.name: index for index, node in enumerate(cluster.nodes)}
        self.rooms: dict[str, int] = {}
        self.first = min((self.positions.get(name, 0) for name in self.wish.required), default=0)
        if request.contiguous and self.wish.required and self.positions.keys() >= set(self.wish.required):
            # With all that lies between them.
            last = max(self.positions.get(name, 0) for name in self.wish.required)
            between = tuple(node.name for node in cluster.nodes[self.first : last + 1])
            least, most = max(self.wish.min_nodes, len(between)), self.wish.max_nodes
            self.wish = self.wish.replace(required=between, min_nodes=least, max_nodes=most and max(most, least))

    def look_at(self, free: Sequence[NodeFree]) -> None:
        """Notes how many CPUs of each node the tasks can have."""
        self.rooms = {one.node.name: room(self.wish, self.rule, one) for one in free}

    def position(self, one: NodeFree) -> int:
        return self.positions.get(one.node.name, len(self.positions))

    def in_turn(self, usable: Sequence[NodeFree]) -> list[NodeFree]:
        """The nodes in the order in which they are taken."""
        wish = self.wish
        if self.request.spread_job and not wish.job_gpus:
            return sorted(usable, key=lambda one: (one.node.weight, self.position(one)))
        if self.least_loaded:
            ordered = sorted(usable, key=lambda one: (one.node.weight, self.position(one)))
            return sorted(ordered, key=lambda one: one.node.cpus - one.cpus)
        most = wish.min_nodes if self.request.use_min_nodes else max(wish.min_nodes, wish.max_nodes or 0)
        return by_sets(usable, self.rooms, self.position, wish, most)

    def choose(self, usable: Sequence[NodeFree], counts: Counts) -> Shares | None:
        """Fills from the nodes in turn, then from the roomiest first, which finds a place if there is one."""
        if sum(self.rooms[one.node.name] for one in usable) < (self.wish.ntasks or 0) * self.wish.cpus_per_task:
            return None
        in_turn = self.in_turn(usable)
        roomy = sorted(in_turn, key=lambda one: -self.rooms[one.node.name])
        for order in (in_turn, roomy):
            for candidates in self.neighbours(order) if self.request.contiguous else [order]:
                shares = self.fill(candidates, counts)
                if shares is not None:
                    return shares
        return None

    def neighbours(self, usable: Sequence[NodeFree]) -> list[list[NodeFree]]:
        """For --contiguous: from every node on, in the order given, the unbroken run of nodes that follow it."""
        ordered = sorted(usable, key=self.position)
        turns = {one.node.name: turn for turn, one in enumerate(usable)}
        runs: list[list[NodeFree]] = []
        for start, first in enumerate(ordered):
            run = [first]
            for one in ordered[start + 1 :]:
                if self.position(one) != self.position(run[-1]) + 1:
                    break
                run.append(one)
            runs.append(run)
        runs.sort(key=lambda run: turns[run[0].node.name])
        return runs

    def fill(self, order: Sequence[NodeFree], counts: Counts) -> Shares | None:
        """Takes nodes from ``order`` until the job has all it wants: the most nodes of a -N range, else the fewest."""
        wish = self.wish
        picked = [one for one in order if one.node.name in wish.required]
        if len(picked) < len(wish.required):
            return None
        for name, wanted in counts:
            have = sum(name in one.node.features for one in picked)
            more = [one for one in order if name in one.node.features and one not in picked][: max(0, wanted - have)]
            if have + len(more) < wanted:
                return None
            picked.extend(more)
        pool = [*picked, *(one for one in order if one not in picked)]
        least = max(wish.min_nodes, len(picked))
        most = len(pool) if wish.max_nodes is None else min(wish.max_nodes, len(pool))
        if wish.ntasks is not None:
            most = min(most, max(wish.ntasks, least))
        numbers = range(least, most + 1)
        # GPUs that are not counted by nodes come from as few nodes as have them.
        many_first = not (wish.job_gpus or wish.task_gpus) and (
            self.request.spread_job or (wish.max_nodes is not None and not self.request.use_min_nodes)
        )
        for number in reversed(numbers) if many_first else numbers:
            shares = self.shares(pool[:number])
            if shares is not None:
                return shares
        return None

    def shares(self, nodes: Sequence[NodeFree]) -> Shares | None:
        """What the job holds of exactly these nodes, in the cluster's order; None when they do not suffice."""
        rooms = [self.rooms[one.node.name] for one in nodes]
        if not (self.wish.whole or self.wish.each_node):
            wanted = max(self.wish.ntasks or 0, len(nodes)) * self.wish.cpus_per_task
            if sum(rooms) < wanted:
                return None
            rooms = spread(rooms, wanted, self.wish.min_cpus, self.wish.min_nodes)
        pairs = sorted(zip(nodes, rooms), key=lambda pair: self.position(pair[0]))
        nodes = [one for one, _ in pairs]
        tasks = self.tasks([here for _, here in pairs])
        if tasks is None:
            return None
        own_gpus = _share_gpus(self.wish, self.rule, nodes, tasks, self.one_set_of_gpus)
        if own_gpus is None:
            return None
        made = []
        for one, count, own in zip(nodes, tasks, own_gpus):
            share = self.share(one, count, own)
            if share is None:
                return None
            made.append(share)
        return self.with_tasks(made)

    def tasks(self, rooms: Sequence[int]) -> list[int] | None:
        """Tasks to make room for on each node, where they may have so many CPUs: dealt round, at least one a node."""
        wish = self.wish
        each = wish.cpus_per_task
        if wish.each_node:
            enough = wish.each_node * len(rooms) >= max(wish.ntasks or 0, self.request.ntasks or 0)
            fits = all(wish.each_node * each <= here for here in rooms)
            return [wish.each_node] * len(rooms) if enough and fits else None
        ntasks = max(wish.ntasks or 0, len(rooms))
        if sum(rooms) < ntasks * each:
            return None
        if wish.overcommit:
            return list(task_counts([1] * len(rooms), ntasks, wish.tasks_per_node))
        return list(task_counts([here // each for here in rooms], ntasks))

    def share(self, one: NodeFree, tasks: int, own: tuple[int, ...]) -> NodeShare | None:
        cpus = min(tasks * self.wish.cpus_per_task, self.rooms[one.node.name])
        cpus = max(cpus, self.wish.min_cpus, self.wish.cpus_per_gpu * len(own))
        if self.wish.overcommit:
            cpus = self.wish.cpus_per_task
        if self.wish.whole:
            cpus = one.node.cpus
        memory = self.rule.of(one.node.memory, cpus, len(own))
        if cpus > one.cpus or memory > one.memory:
            return None
        types = gpu_types(one.node)
        own_types = tuple(types[index] for index in own)
        return NodeShare(name=one.node.name, cpus=cpus, memory=memory, tasks=tasks, gpus=own, gpu_types=own_types)

    def with_tasks(self, shares: Sequence[NodeShare]) -> Shares:
        """The shares with the tasks that SLURM_TASKS_PER_NODE shows: without -n, what the CPUs have room for."""
        wish = self.wish
        if wish.each_node:
            return tuple(shares)
        if wish.tasks_per_node and wish.ntasks is not None:
            return tuple(share.replace(tasks=wish.tasks_per_node) for share in shares)  # however few tasks there are
        if wish.ntasks is not None:
            return tuple(shares)
        return tuple(share.replace(tasks=max(1, share.cpus // wish.cpus_per_task)) for share in shares)


def _share_gpus(
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
        own = _pick_gpus(demand, one, used if one_set_of_gpus else [])
        if own is None:
            return None
        if wish.whole:
            own = one.gpus
        used.extend(own)
        chosen.append(own)
    if gpus.total(wish.job_gpus) > sum(len(own) for own in chosen):
        return None
    return chosen


def _pick_gpus(demand: Demand, one: NodeFree, used: list[int]) -> tuple[int, ...] | None:
    types = dict(enumerate(gpus.gpu_types(one.node)))
    unused = [index for index in one.gpus if index not in used]
    own = gpus.pick(demand, unused, types)
    if own is None and used:
        own = gpus.pick(demand, [*unused, *(index for index in one.gpus if index in used)], types)
    return own
