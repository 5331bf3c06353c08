"""A pass of the scheduler under way: what is taken, what is reserved, and the plan so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shim.control.scheduler.others import OVERDUE, YEAR
from shim.control.scheduler.profile import Profile
from shim.control.scheduler.queue import Members, Want, seconds, shape_key
from shim.core.formats import tres
from shim.core.formats.array_spec import ArraySpec
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.placement.capacity import NodeFree
from shim.core.placement.select_nodes import select_nodes

RESERVATIONS = 16  # jobs that get a time: each costs a pass a fraction of a millisecond
_ANY_SIZE = 1 << 30  # of arrays: checked at submission

Shares = Sequence[NodeShare]


class Plan:
    """What a pass found.

    ``starts``: jobs that start now, in order, with their shares. Such a job carries the partition it starts in and, from the
    rest of an array, the task (``array_task_id``); the rest may occur several times. ``reasons``: why a job waits, by key.
    ``expected``: when (epoch seconds) and on which nodes it will start, as far as is known, by key. ``crowded``: whether a job
    waits for what others have.
    """

    def __init__(self) -> None:
        self.starts: list[tuple[Job, Shares]] = []
        self.reasons: dict[int, str] = {}
        self.expected: dict[int, tuple[float, tuple[str, ...]]] = {}
        self.crowded = False


class Caps:
    """MaxCPUsPerNode: what the partitions that have such a limit use of each node, and until when. The others cost nothing here."""

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


class Pass:
    """One pass under way: what is taken, what was found out, and the plan so far."""

    def __init__(self, cluster: Cluster, running: Iterable[Job], now: float, members: Members) -> None:
        self.cluster = cluster
        self.now = now
        self.members = members
        self.plan = Plan()
        self.profile = Profile(cluster, now)
        self.over: dict[int, Profile] = {}  # what those of a priority find in use, who send others away
        self.holds: list[tuple[int, float, float, Shares]] = []  # of our own: priority, start, end
        self.preempts = any(partition.preempts for partition in cluster.partitions)
        self.caps = Caps(cluster)
        self.licenses = {one.name: one.count for one in cluster.licenses}
        self.tasks: dict[int, int] = {}  # of each array, how many run
        self.waiting: list[tuple[Job, Want]] = []  # jobs for which nothing is reserved yet
        self.reserved = 0
        self.wants: dict[tuple[object, ...], Want] = {}
        self.blocked: dict[
            tuple[object, ...], float
        ] = {}  # shapes that cannot start now; before when they cannot at all
        self.contended: set[str] = set()  # partitions in which some job waits for resources
        for job in running:
            self.count(job)
            self.hold(job)
            self.caps.hold(job.partition, now, self.end_of(job), job.shares)

    def hold(self, job: Job) -> None:
        """A running job has its shares until its limit."""
        self.take(job.partition, self.now, self.end_of(job), job.shares)

    def take(self, partition: str, start: float, end: float, shares: Shares) -> None:
        """A job of that partition has these shares from ``start`` to ``end``."""
        self.profile.hold(start, end, shares)
        if self.preempts:
            found = self.cluster.partition(partition)
            held = (found.priority if found is not None else 0, start, end, shares)
            self.holds.append(held)
            for priority, profile in self.over.items():
                if held[0] >= priority:
                    profile.hold(*held[1:])

    def end_of(self, job: Job) -> float:
        if not job.end_time:
            return self.now + YEAR
        return job.end_time if job.end_time > self.now else self.now + OVERDUE

    def count(self, job: Job) -> None:
        """A running job uses licences and counts for its array's limit."""
        for name, number in _licenses(job):
            self.licenses[name] = self.licenses.get(name, 0) - number
        if job.array_job_id:
            self.tasks[job.array_job_id] = self.tasks.get(job.array_job_id, 0) + 1

    def consider(self, job: Job) -> str | None:
        """Starts the job, or of the rest of an array as many tasks as may; the reason for which (the rest of) it waits."""
        if job.array_tasks is None:
            limit = ArraySpec.parse(job.array_spec, _ANY_SIZE).throttle if job.array_spec else 0
            return self.try_one(job, None, limit)
        rest: ArraySpec | None = ArraySpec.parse(job.array_tasks, _ANY_SIZE)
        while rest is not None:
            reason = self.try_one(job, rest.first, rest.throttle)
            if reason is not None:
                return reason
            rest = rest.without(rest.first)
        return None

    def try_one(self, job: Job, task: int | None, array_limit: int) -> str | None:
        """None if the job (of an array's rest: this task) starts."""
        if array_limit and self.tasks.get(job.array_job_id, 0) >= array_limit:
            return "JobArrayTaskLimit"
        want = self.want(job)
        if self.licenses_missing([job]):
            return want.standing(job) or "Licenses"
        short = self.shortened(job, want)
        found = self.fit_now(short, want)
        if found is not None and self.waiting:
            self.reserve_all()
            found = self.fit_now(short, want)
        if found is None:
            return want.standing(job) or self.wait(job, want)
        self.start(short, task, *found)
        return None

    def shortened(self, job: Job, want: Want) -> Job:
        """A job with --time-min that would start before others of its partition: it gets no more than that, as in Slurm."""
        least = job.request.time_min
        if not least or self.contended.isdisjoint(partition.name for partition in want.partitions):
            return job
        return job if job.time_limit is not None and 0 <= job.time_limit <= least else job.replace(time_limit=least)

    def want(self, job: Job) -> Want:
        """What jobs of this shape want."""
        key = shape_key(job)
        if key not in self.wants:
            self.wants[key] = Want(job, self.cluster, self.members)
        return self.wants[key]

    def licenses_missing(self, jobs: Sequence[Job]) -> bool:
        """Whether the jobs together want licences that are not free; jobs behind them get none of these then."""
        wanted: dict[str, int] = {}
        for job in jobs:
            for name, number in _licenses(job):
                wanted[name] = wanted.get(name, 0) + number
        missing = [name for name, number in wanted.items() if number > self.licenses.get(name, 0)]
        self.licenses.update(dict.fromkeys(missing, 0))
        return bool(missing)

    def fit_now(self, job: Job, want: Want) -> tuple[Partition, Shares] | None:
        """Where the job can start at once: where nothing is in its way, else where the cluster sends away what is."""
        found = self.fit(job, want, self.now)
        if found is None and self.preempts:
            for partition, names in want.allowed(job):
                if partition.preempts:
                    run = seconds(job, partition)
                    shares = self.fit_in(partition, names, want, self.now, run, self.above(partition.priority))
                    if shares is not None:
                        return partition, shares
        return found

    def above(self, priority: int) -> Profile:
        """What is in use by those who need not make way for that priority."""
        if priority not in self.over:
            made = self.over[priority] = Profile(self.cluster, self.now, priority)
            for own, start, end, shares in self.holds:
                if own >= priority:
                    made.hold(start, end, shares)
        return self.over[priority]

    def fit(self, job: Job, want: Want, start: float) -> tuple[Partition, Shares] | None:
        """The first partition in which the job can start then, taking nothing from anybody, and its shares there."""
        for partition, names in want.allowed(job):
            run = seconds(job, partition)
            if want.hopeless(partition, start, run):
                continue
            shares = self.fit_in(partition, names, want, start, run)
            if shares is not None:
                return partition, shares
            want.does_not_fit(partition, start, run)
        return None

    def fit_in(
        self,
        partition: Partition,
        names: Sequence[str],
        want: Want,
        start: float,
        run: float,
        profile: Profile | None = None,
    ) -> Shares | None:
        """The job's shares if it has room all the time; ``profile``: where not everything counts as in use."""
        profile = profile or self.profile
        if profile.crowded(start, start + run, want.cpus):
            return None
        room = profile.room(start, start + run)
        indexes = [profile.index(name) for name in names]
        free = [cpus for cpus in map(room.cpus, indexes) if cpus >= want.min_cpus]
        if len(free) < want.min_nodes or sum(free) < want.cpus:
            return None  # cheaper than placing, and the usual case on a busy cluster
        nodes = self.caps.trimmed(partition, [room.node(index) for index in indexes], start, start + run)
        shares = select_nodes(want.request, self.cluster, nodes, partition)
        return shares if shares is not None and room.holds(shares) else None

    def start(self, job: Job, task: int | None, partition: Partition, shares: Shares) -> None:
        started = job.replace(partition=partition.name, array_task_id=job.array_task_id if task is None else task)
        self.plan.starts.append((started, shares))
        self.hold_at(self.now, job, partition, shares)
        self.count(started)

    def wait(self, job: Job, want: Want) -> str:
        """Why a job must wait."""
        self.waiting.append((job, want))
        return self.contends({partition.name for partition in want.partitions})

    def contends(self, names: set[str]) -> str:
        """The reason of a job that waits for resources in these partitions: Resources for the first in one, Priority for those behind."""
        self.plan.crowded = True
        first = names.isdisjoint(self.contended)
        self.contended |= names
        return "Resources" if first else "Priority"

    @property
    def may_reserve(self) -> bool:
        """Whether one more job may get a time."""
        return self.reserved < RESERVATIONS

    def reserve_all(self) -> None:
        """Reserves for the jobs that wait, in their order; only a job behind that could start now makes this matter."""
        for job, want in self.waiting:
            if self.may_reserve:
                self.reserve(job, want)
        self.waiting.clear()

    def reserve(self, job: Job, want: Want) -> None:
        """Holds the shares that the job can have first."""
        shortest = min((seconds(job, partition) for partition, _ in want.places), default=0.0)
        earliest = max(want.earliest(shortest), self.now)
        for time in self.profile.times(want.cpus):
            found = self.fit(job, want, time) if time >= earliest and time > self.now else None
            if found is not None:
                partition, shares = found
                self.reserved += 1
                self.reserve_at(time, job, partition, shares)
                want.reserved(time, seconds(job, partition))
                return

    def hold_at(self, time: float, job: Job, partition: Partition, shares: Shares) -> None:
        """The job has these shares from ``time`` on, as long as it may run."""
        end = time + seconds(job, partition)
        self.take(partition.name, time, end, shares)
        self.caps.hold(partition.name, time, end, shares)

    def reserve_at(self, time: float, job: Job, partition: Partition, shares: Shares) -> None:
        """A reservation from ``time`` on."""
        self.hold_at(time, job, partition, shares)
        self.plan.expected[job.key] = (time, tuple(share.name for share in shares))


def _licenses(job: Job) -> tuple[tuple[str, int], ...]:
    return tres.parse_licenses(job.request.licenses) if job.request.licenses else ()
