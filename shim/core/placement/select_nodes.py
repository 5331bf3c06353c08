"""Which nodes a job gets and what it holds of each: all or nothing.

As select/cons_tres does by default: CPUs are packed on the first node, with at least one left for each of the others (``-N2 -n5``
gives 4 and 1); the result is in the cluster's order.

Nodes are taken by sets of neighbours, as select/cons_tres does without a topology. A set is nodes that follow each other in the
cluster's order and have the same weight; a node that the job cannot have ends it. The set with the least weight is taken, of
several the smallest that is enough for all that is still wanted, or else the largest. So ``-n 9 -x node2`` gets node[3-4], though
node1 is idle too.
"""

from __future__ import annotations

from shim.core.model.job import NodeShare
from shim.core.placement import features, gpus
from shim.core.placement.capacity import NodeFree, cap_gpus, gpu_limit, usable_cpus
from shim.core.placement.gpus import gpu_types
from shim.core.placement.resolve import memory_rule, resolve
from shim.core.placement.tasks import spread, task_counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.gpus import Demand
    from shim.core.placement.resolve import MemoryRule, ResolvedRequest

    Counts = Sequence[tuple[str, int]]  # features and how many nodes must have them
    Shares = tuple[NodeShare, ...]


def select_nodes(
    request: JobRequest, cluster: Cluster, free: Sequence[NodeFree], partition: Partition | None = None
) -> Shares | None:
    """The nodes for ``request`` among ``free``, or None when it cannot start on them.

    ``free`` holds only nodes of the job's partition that are up. --prefer is tried before --constraint. ``partition`` gives the memory defaults (else the
    cluster's). Memory is charged for jobs that ask for it or for whom a default exists. Where the nodes are one machine
    (settings overcommit=machine) two nodes of a job share a GPU only when there are not enough of them.
    """
    selection = _Selection(request, cluster, partition)
    if partition is not None and partition.max_cpus_per_node is not None:
        most = partition.max_cpus_per_node
        free = [one.replace(cpus=min(one.cpus, most), beyond=max(0, one.cpus - most)) for one in free]
    selection.look_at(free)
    excluded = frozenset(selection.resolved.excluded)
    candidates = [one for one in free if one.node.name not in excluded and selection.cpus_of[one.node.name] > 0]
    for text in (request.prefer, request.constraint) if request.prefer else (request.constraint,):
        try:
            constraint = features.parse(text)
        except features.FeatureError:
            continue
        for choice in constraint.choices:
            usable = [one for one in candidates if features.matches(choice, frozenset(one.node.features))]
            shares = selection.choose(usable, constraint.counts)
            if shares is not None:
                return shares
    return None


class _Selection:
    """The rules of one request, applied to sets of nodes."""

    def __init__(self, request: JobRequest, cluster: Cluster, partition: Partition | None) -> None:
        self.request = request
        self.resolved = resolve(request)
        self.most_nodes = partition.max_nodes if partition is not None else None  # that the partition gives to one job
        if self.most_nodes is not None and self.resolved.min_nodes <= self.most_nodes < (self.resolved.max_nodes or 0):
            self.resolved = self.resolved.replace(max_nodes=self.most_nodes)
        self.rule = memory_rule(request, cluster, partition)
        self.one_set_of_gpus = cluster.one_set_of_gpus
        self.least_loaded = partition is not None and partition.lln
        self.positions = {node.name: index for index, node in enumerate(cluster.nodes)}
        self.cpus_of: dict[str, int] = {}
        self.first = min((self.positions.get(name, 0) for name in self.resolved.required), default=0)
        if request.contiguous and self.resolved.required and self.positions.keys() >= set(self.resolved.required):
            # With all that lies between them.
            last = max(self.positions.get(name, 0) for name in self.resolved.required)
            between = tuple(node.name for node in cluster.nodes[self.first : last + 1])
            least, most = max(self.resolved.min_nodes, len(between)), self.resolved.max_nodes
            self.resolved = self.resolved.replace(
                required=between, min_nodes=least, max_nodes=most and max(most, least)
            )

    def look_at(self, free: Sequence[NodeFree]) -> None:
        """Notes how many CPUs of each node the tasks can have."""
        self.cpus_of = {one.node.name: usable_cpus(self.resolved, self.rule, one) for one in free}

    def position(self, one: NodeFree) -> int:
        return self.positions.get(one.node.name, len(self.positions))

    def in_turn(self, usable: Sequence[NodeFree]) -> list[NodeFree]:
        """The nodes in the order in which they are taken."""
        resolved = self.resolved
        if self.request.spread_job and not resolved.job_gpus:
            return sorted(usable, key=lambda one: (one.node.weight, self.position(one)))
        if self.least_loaded:
            ordered = sorted(usable, key=lambda one: (one.node.weight, self.position(one)))
            return sorted(ordered, key=lambda one: one.node.cpus - one.cpus)
        most = resolved.min_nodes if self.request.use_min_nodes else max(resolved.min_nodes, resolved.max_nodes or 0)
        return by_sets(usable, self.cpus_of, self.position, resolved, most)

    def choose(self, usable: Sequence[NodeFree], counts: Counts) -> Shares | None:
        """Fills from the nodes in turn, then from those with the most CPUs on, which finds a place if there is one."""
        if (
            sum(self.cpus_of[one.node.name] for one in usable)
            < (self.resolved.ntasks or 0) * self.resolved.cpus_per_task
        ):
            return None
        in_turn = self.in_turn(usable)
        roomy = sorted(in_turn, key=lambda one: -self.cpus_of[one.node.name])
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
        resolved = self.resolved
        picked = [one for one in order if one.node.name in resolved.required]
        if len(picked) < len(resolved.required):
            return None
        for name, wanted in counts:
            have = sum(name in one.node.features for one in picked)
            more = [one for one in order if name in one.node.features and one not in picked][: max(0, wanted - have)]
            if have + len(more) < wanted:
                return None
            picked.extend(more)
        pool = [*picked, *(one for one in order if one not in picked)]
        least = max(resolved.min_nodes, len(picked))
        most = len(pool) if resolved.max_nodes is None else min(resolved.max_nodes, len(pool))
        if resolved.ntasks is not None:
            most = min(most, max(resolved.ntasks, least))
        if self.most_nodes is not None:
            most = min(most, self.most_nodes)
        numbers = range(least, most + 1)
        # GPUs that are not counted by nodes come from as few nodes as have them.
        many_first = not (resolved.job_gpus or resolved.task_gpus) and (
            self.request.spread_job or (resolved.max_nodes is not None and not self.request.use_min_nodes)
        )
        for number in reversed(numbers) if many_first else numbers:
            shares = self.shares(pool[:number])
            if shares is not None:
                return shares
        return None

    def shares(self, nodes: Sequence[NodeFree]) -> Shares | None:
        """What the job holds of exactly these nodes, in the cluster's order; None when they do not suffice."""
        rooms = [self.cpus_of[one.node.name] for one in nodes]
        if not (self.resolved.whole or self.resolved.each_node):
            wanted = max(self.resolved.ntasks or 0, len(nodes)) * self.resolved.cpus_per_task
            if sum(rooms) < wanted:
                return None
            rooms = spread(rooms, wanted, self.resolved.min_cpus, self.resolved.min_nodes)
        pairs = sorted(zip(nodes, rooms), key=lambda pair: self.position(pair[0]))
        nodes = [one for one, _ in pairs]
        tasks = self.tasks([here for _, here in pairs])
        if tasks is None:
            return None
        own_gpus = _share_gpus(self.resolved, self.rule, nodes, tasks, self.one_set_of_gpus)
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
        resolved = self.resolved
        each = resolved.cpus_per_task
        if resolved.each_node:
            enough = resolved.each_node * len(rooms) >= max(resolved.ntasks or 0, self.request.ntasks or 0)
            fits = all(resolved.each_node * each <= here for here in rooms)
            return [resolved.each_node] * len(rooms) if enough and fits else None
        ntasks = max(resolved.ntasks or 0, len(rooms))
        if sum(rooms) < ntasks * each:
            return None
        if resolved.overcommit:
            return list(task_counts([1] * len(rooms), ntasks, resolved.tasks_per_node))
        return list(task_counts([here // each for here in rooms], ntasks))

    def share(self, one: NodeFree, tasks: int, own: tuple[int, ...]) -> NodeShare | None:
        room = self.cpus_of[one.node.name]
        cpus = min(tasks * self.resolved.cpus_per_task, room)
        if not one.beyond or cpus < room:  # tasks that have all that the partition gives get no more
            cpus = max(cpus, self.resolved.min_cpus)
        cpus = max(cpus, self.resolved.cpus_per_gpu * len(own))
        if self.resolved.overcommit:
            cpus = self.resolved.cpus_per_task
        if self.resolved.whole:
            cpus = one.node.cpus
        memory = self.rule.of(one.node.memory, cpus, len(own))
        if cpus > one.cpus + one.beyond or memory > one.memory:
            return None
        types = gpu_types(one.node)
        own_types = tuple(types[index] for index in own)
        return NodeShare(name=one.node.name, cpus=cpus, memory=memory, tasks=tasks, gpus=own, gpu_types=own_types)

    def with_tasks(self, shares: Sequence[NodeShare]) -> Shares:
        """The shares with the tasks that SLURM_TASKS_PER_NODE shows: without -n, what the CPUs have room for."""
        resolved = self.resolved
        if resolved.each_node:
            return tuple(shares)
        if resolved.tasks_per_node and resolved.ntasks is not None:
            # However few tasks there are.
            return tuple(share.replace(tasks=resolved.tasks_per_node) for share in shares)
        if resolved.ntasks is not None:
            return tuple(shares)
        return tuple(share.replace(tasks=max(1, share.cpus // resolved.cpus_per_task)) for share in shares)


def _share_gpus(
    resolved: ResolvedRequest, rule: MemoryRule, nodes: Sequence[NodeFree], tasks: Sequence[int], one_set_of_gpus: bool
) -> list[tuple[int, ...]] | None:
    """The GPU indexes on each node, or None when the nodes have too few.

    ``one_set_of_gpus``: an index is the same device on every node, so that two nodes of the job share one only when there
    are not enough of them.
    """
    chosen: list[tuple[int, ...]] = []
    used: list[int] = []
    left = resolved.job_gpus
    for position, (one, count) in enumerate(zip(nodes, tasks)):
        if resolved.task_gpus:
            demand = gpus.scale(resolved.task_gpus, count)
        elif resolved.node_gpus:
            demand = resolved.node_gpus
        else:
            usable = cap_gpus(left, one.gpu_types, gpu_limit(resolved, rule, one))
            demand = gpus.take_share(left, usable, after=len(nodes) - position - 1)
            left = gpus.subtract(left, demand)
        own = _pick_gpus(demand, one, used if one_set_of_gpus else [])
        if own is None:
            return None
        if resolved.whole:
            own = one.gpus
        used.extend(own)
        chosen.append(own)
    if gpus.total(resolved.job_gpus) > sum(len(own) for own in chosen):
        return None
    return chosen


def _pick_gpus(demand: Demand, one: NodeFree, used: list[int]) -> tuple[int, ...] | None:
    types = dict(enumerate(gpus.gpu_types(one.node)))
    unused = [index for index in one.gpus if index not in used]
    own = gpus.pick(demand, unused, types)
    if own is None and used:
        own = gpus.pick(demand, [*unused, *(index for index in one.gpus if index in used)], types)
    return own


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
    cpus_of: Mapping[str, int],
    position: Callable[[NodeFree], int],
    resolved: ResolvedRequest,
    most: int,
) -> list[NodeFree]:
    """The nodes in the order in which they are taken, those first that the job names.

    ``cpus_of``: the CPUs of each node that the tasks can have; ``position``: the node's place in the cluster; ``most``: how many
    nodes the job takes if they are free (four of ``-N 2-4``).
    """
    named = [one for one in usable if one.node.name in resolved.required]
    sets = _sets(usable, cpus_of, position, frozenset(resolved.required))
    cpus = resolved.cpus - sum(cpus_of[one.node.name] for one in named)
    devices = gpus.total(resolved.job_gpus) - sum(len(one.gpus) for one in named)
    nodes = most - len(named)
    found = list(named)
    left = dict.fromkeys(sets)
    largest = _Largest(sets)
    while len(left) > 1 and (cpus > 0 or nodes > 0 or devices > 0):
        fewest = nodes - (most - resolved.min_nodes)
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
    cpus_of: Mapping[str, int],
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
            last.cpus += cpus_of[one.node.name]
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
