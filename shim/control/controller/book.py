"""The jobs that matter now, in memory and in the index. Nothing changes in memory before it is committed.

with book.change() as change:
    change.put(job)               # a job as it is to be from now on
    change.order(job, Order(…))   # what is wanted of its run
# committed: memory has it, and those who follow the job are told
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from shim.control.backends.base import Order
from shim.control.controller import crash
from shim.control.controller.ids import IdStock
from shim.control.index.query import JobQuery
from shim.control.index.store import Store
from shim.control.lifecycle.tasks import pending_tasks
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, Step

Follower = Callable[[Job | None, Job], None]


class Change:
    """One transaction under way."""

    def __init__(self, book: Book, store: Store) -> None:
        self._book = book
        self._store = store
        self.jobs: dict[int, tuple[Job | None, Job]] = {}  # key -> (as it was committed, as it will be)
        self.orders: list[tuple[int, int, int, Order]] = []
        self.over: list[int] = []  # keys of jobs whose run is over
        self._written: dict[int, Job] = {}  # key -> a new record as it is in the index so far

    def get(self, key: int) -> Job | None:
        """The job as this transaction has it so far."""
        return self.jobs[key][1] if key in self.jobs else self._book.jobs.get(key)

    def next_id(self, cluster: Cluster, count: int = 1) -> int:
        """The first of ``count`` job ids of the cluster that nobody had before. IdsUsedUp where they are shared."""
        stock = self._book.stocks.get(cluster.name)
        if stock is not None:
            return stock.take(count)
        return self._store.next_job_id(cluster.id_ranges, count)

    def add(self, job: Job, now: float, token: str = "") -> Job:
        """A new record; the job with its key."""
        job = self._store.add_job(job, token)
        self.jobs[job.key] = (None, job)
        self._written[job.key] = job
        self._store.transition(job, "", now)
        return job

    def put(self, job: Job, now: float) -> Job:
        """The job as it is from now on. A change of state, and a restart, are recorded for accounting."""
        old = self.get(job.key)
        if old is job or old == job:
            return job
        if old is None or old.restarts != job.restarts:
            self._ran_before(old, job, now)
        elif old.state != job.state:
            self._store.transition(job, old.state, now)
        before = self.jobs[job.key][0] if job.key in self.jobs else old
        self.jobs[job.key] = (before, job)
        return job

    def save(self) -> None:
        """Writes the jobs that changed, each once, however often it was put."""
        for key, (before, job) in self.jobs.items():
            if self._written.get(key, before) is not job:
                self._store.save_job(job)

    def _ran_before(self, old: Job | None, job: Job, now: float) -> None:
        if old is not None and old.state not in states.TERMINAL:
            self._store.transition(old.replace(state=states.REQUEUED), old.state, now)
        self._store.transition(job, states.REQUEUED, now)

    def step(self, job: Job, step: Step) -> None:
        """A step as it is from now on."""
        self._store.save_step(job.key, step)

    def order(self, job: Job, order: Order) -> Order:
        """Keeps an order until it is obeyed; the order with its number. One for a component is its leader's to obey."""
        if job.het_offset:
            order, job = order.replace(component=job.het_offset), self._book.leader(job)
        record = order.replace(number=0).to_dict()  # the row has the number
        numbered = order.replace(number=self._store.add_order(job, record))
        self.orders.append((numbered.number, job.key, job.restarts, numbered))
        return numbered

    def drop_orders(self, job: Job) -> None:
        """The run of this job is over."""
        if job.key in self._book.ordered or self.orders:
            self._store.drop_orders(job.key)
        self.over.append(job.key)
        self.orders = [entry for entry in self.orders if entry[1] != job.key]


class Book:
    """All jobs that have not ended and those that ended lately; older ones are looked up in the index."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store = store
        self.clock = clock
        self.jobs: dict[int, Job] = {}
        self.orders: dict[int, tuple[int, int, Order]] = {}  # number -> (job key, restart, order)
        self._ids: dict[tuple[str, int], int] = {}
        self._names: dict[str, None] = {}  # of clusters that had jobs
        self.clusters: dict[str, None] = {}  # those whose jobs run from here
        self._arrays: dict[tuple[str, int], list[int]] = {}
        self._whole: set[tuple[str, int]] = set()  # arrays of which memory has every record
        self._active: dict[int, None] = {}
        self.stocks: dict[str, IdStock] = {}  # of clusters whose ids are shared with other controllers
        self.followers: list[Follower] = []

    def load(self, lately: float) -> None:
        """Reads what is active and what ended less than ``lately`` seconds ago."""
        for job in self.store.jobs(JobQuery(active=False, ended_since=self.clock() - lately)):
            self._remember(job)
        for number, key, restart, record in self.store.orders():
            self.orders[number] = (key, restart, Order.from_dict({**record, "number": number}))

    @contextmanager
    def change(self) -> Iterator[Change]:
        """A transaction: all of it is committed and taken over, or nothing. Raises IndexFault when it cannot be written."""
        change = Change(self, self.store)
        with self.store.transaction():
            yield change
            change.save()
            crash.point("commit")
        crash.point("committed")
        if self.ordered.intersection(change.over):
            self.orders = {number: entry for number, entry in self.orders.items() if entry[0] not in change.over}
        for old, job in change.jobs.values():
            self._remember(job)
            if old is None and job.array_tasks is not None:
                self._whole.add((job.cluster, job.job_id))
        for number, key, restart, order in change.orders:
            self.orders[number] = (key, restart, order)
        for old, job in change.jobs.values():
            for follower in self.followers:
                follower(old, job)

    def _remember(self, job: Job) -> None:
        before = self.jobs.get(job.key)
        if before is not None and before.cluster != job.cluster:
            self._forget_names(before)
        self.jobs[job.key] = job
        self._names[job.cluster] = None
        self._ids[job.cluster, job.job_id] = job.key
        if job.array_job_id:
            keys = self._arrays.setdefault((job.cluster, job.array_job_id), [])
            if job.key not in keys:
                keys.append(job.key)
        if job.state in states.ACTIVE:
            self._active[job.key] = None
        else:
            self._active.pop(job.key, None)

    @property
    def ordered(self) -> set[int]:
        """The keys of the jobs of whose runs something is wanted."""
        return {key for key, _restart, _order in self.orders.values()}

    def orders_of(self, job: Job) -> list[Order]:
        """What is still wanted of the present run of this job, oldest first."""
        return [order for key, restart, order in self.orders.values() if key == job.key and restart == job.restarts]

    def active(self, cluster: str | None = None) -> list[Job]:
        """The jobs that have not ended, in the order of their records."""
        found = [self.jobs[key] for key in self._active]
        return found if cluster is None else [job for job in found if job.cluster == cluster]

    @property
    def idle(self) -> bool:
        """Whether no job is left that could do anything."""
        return not self._active

    def find(self, job_id: int, cluster: str | None = None) -> Job | None:
        """The record with exactly this id, ended ones too."""
        for name in self._names if cluster is None else (cluster,):
            key = self._ids.get((name, job_id))
            if key is not None:
                return self.jobs[key]
        return self.store.job(cluster, job_id)

    def array(self, job_id: int, cluster: str | None = None) -> list[Job]:
        """All records of the array with this id, ended ones too; empty if there is no such array."""
        job = self.find(job_id, cluster)
        if job is None or job.array_job_id != job_id:
            return []
        return sorted(self._records(job.cluster, job_id), key=attrgetter("key"))

    def components(self, job: Job) -> list[Job]:
        """All components of the heterogeneous job that this one is of; a plain job is alone."""
        if not job.het_job_id:
            return [job]
        found = [self.find(job.het_job_id + offset, job.cluster) for offset in range(job.het_size)]
        return [one for one in found if one is not None]

    def leader(self, job: Job) -> Job:
        """The job whose run this one is part of: its own, but for components of a heterogeneous job."""
        return (self.find(job.het_job_id, job.cluster) or job) if job.het_offset else job

    def known(self, cluster: str, job_id: int, task: int | None) -> list[Job]:
        """What a dependency on this job looks at: its record, or those of the array or of the one task.

        A job of this cluster, else of another one of ours: they share their ids.
        """
        names = dict.fromkeys((cluster, *self.clusters))
        records = next(filter(None, (self._records(name, job_id) for name in names)), [])
        if task is None:
            return records
        return [job for job in records if job.array_task_id == task] or [job for job in records if _waits(job, task)]

    def _records(self, cluster: str, job_id: int) -> list[Job]:
        """The job's record, or all records of the array."""
        if (cluster, job_id) not in self._whole:
            job = self.find(job_id, cluster)
            if job is None or job.array_job_id != job_id:
                return [job] if job is not None else []
            for record in self.store.array(cluster, job_id):
                if record.key not in self.jobs:
                    self._remember(record)
            self._whole.add((cluster, job_id))
        return [self.jobs[key] for key in self._arrays[cluster, job_id]]

    def spool_key(self, job: Job) -> int:
        """The key under which the job's script and environment are kept: tasks share those of the array, components their leader's."""
        if job.het_offset:
            return self.leader(job).key
        if not job.array_job_id or job.job_id == job.array_job_id:
            return job.key
        master = self.find(job.array_job_id, job.cluster)
        return master.key if master is not None else job.key

    def spooled(self) -> tuple[set[int], int]:
        """The keys whose scripts and environments may still be needed, and the newest key of all."""
        return {self.spool_key(job) for job in self.jobs.values()}, self.store.newest_key()

    def forget_before(self, moment: float) -> None:
        """Drops from memory what ended before ``moment``; the index keeps it. An array goes as a whole."""
        busy = {self.jobs[key].array_job_id for key in self._active}
        kept = {job.array_job_id for job in self.jobs.values() if job.end_time >= moment} | busy
        for key, job in list(self.jobs.items()):
            if key in self._active or job.end_time >= moment or (job.array_job_id and job.array_job_id in kept):
                continue
            del self.jobs[key]
            self._forget_names(job)

    def _forget_names(self, job: Job) -> None:
        """The job, and the array that it is of, can no longer be found by cluster and id."""
        self._ids.pop((job.cluster, job.job_id), None)
        self._arrays.pop((job.cluster, job.array_job_id), None)
        self._whole.discard((job.cluster, job.array_job_id))


def _waits(job: Job, task: int) -> bool:
    """Whether the task is in this record, the pending rest of its array."""
    spec = pending_tasks(job)
    return spec is not None and task in spec
