"""What the parts of the controller share: the clock, the book, the clusters and their backends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from itertools import chain
from typing import Any

from shim.control.backends.base import Backend, KeepsJobs, Run
from shim.control.channel import ChannelClosed
from shim.control.controller.book import Book
from shim.control.controller.connection import Connection
from shim.control.controller.ids import LOW, IdStock
from shim.control.groups import names_of, user_name
from shim.control.index.errors import IndexFault
from shim.core.admission.partition_rules import is_operator
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.cluster_changes import apply_changes, differences, merge_changes
from shim.core.model.job import OTHERS, Job, NodeShare

log = logging.getLogger("shim.controller")
GROUPS_LAST = 60.0  # seconds for which a user's groups are remembered: to look them up may ask a directory service


class World:
    """One controller's surroundings. ``clock``: seconds since the epoch; tests inject their own."""

    def __init__(self, book: Book, clock: Callable[[], float]) -> None:
        self.book = book
        self.clock = clock
        self.uid = os.getuid()  # whose jobs are run, and nobody else's
        self.clusters: dict[str, Cluster] = {}
        self.backends: dict[str, Backend] = {}
        self.offered: dict[
            str, Cluster | None
        ] = {}  # what keeps something for its jobs, as new jobs see it; None: not at all
        self.blocked: dict[str, str] = {}  # why a cluster takes no jobs
        self.outdated: Callable[[], bool] = lambda: (
            False
        )  # whether nothing is to be started: the configuration is another one
        self.usable: Callable[[Cluster], Awaitable[None]] = _always  # raises ShimError for a cluster that takes no jobs
        self.untold: list[str] = []  # for whoever submits next
        self.unseen: set[str] = set()  # clusters that have not yet said what runs there: nothing is started on them
        self.seen: Callable[[], None] = lambda: None  # called when one has
        self.taken: Callable[[Cluster], None] = lambda cluster: None  # called with a cluster as it is from now on
        self.reshape: Callable[[Cluster], None] = lambda cluster: (
            None
        )  # called with a cluster whose nodes are others now
        self._groups: dict[int, tuple[float, Collection[str]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Who waits for a change of one job: woken and forgotten when it changes.
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        book.followers.append(self._changed)

    def may(self, connection: Connection, job: Job) -> bool:
        """Whether the client may change the job: its owner, and operators. Of what others have submitted to a place this machine's are none."""
        if job.uid == connection.uid:
            return True
        return connection.admin and (
            job.origin != OTHERS or bool(getattr(self.backends.get(job.cluster), "operates", False))
        )

    def place(self, cluster: str) -> str:
        """Where the ids of the cluster's jobs are counted; "" for one whose ids are this index's."""
        backend = self.backends.get(cluster)
        return backend.place if isinstance(backend, KeepsJobs) else ""

    def looks_on(self, cluster: str) -> bool:
        """Whether another machine orders the cluster's jobs."""
        backend = self.backends.get(cluster)
        return isinstance(backend, KeepsJobs) and not backend.orders

    def operates(self, uid: int) -> bool:
        """Whether the user may do what Slurm leaves to operators."""
        return is_operator(self.operators, uid, user_name(uid), os.getuid())

    def members(self, uid: int) -> Collection[str]:
        """The names of the groups that the user is in, not older than GROUPS_LAST."""
        now = self.clock()
        until, names = self._groups.get(uid, (0.0, ()))
        if until <= now:
            names = names_of(uid)
            self._groups[uid] = now + GROUPS_LAST, names
        return names

    @property
    def operators(self) -> list[str] | None:
        """The names that the configuration has; None where it says nothing of operators."""
        named = [one.operators for one in self.clusters.values() if one.operators is not None]
        return [*chain.from_iterable(named)] if named else None

    def cluster_of(self, job: Job) -> Cluster:
        """The job's cluster; one that is configured no more is an empty one."""
        return self.clusters.get(job.cluster) or Cluster(name=job.cluster)

    def for_new_jobs(self) -> dict[str, Cluster]:
        """The clusters that new jobs can go to, as they see them; the default one first."""
        if not self.offered:
            return self.clusters
        seen = {name: self.offered.get(name, cluster) for name, cluster in self.clusters.items()}
        return {name: cluster for name, cluster in seen.items() if cluster is not None}

    def told(self) -> list[str]:
        """Notes for the next submitter, each returned once."""
        lines, self.untold = self.untold, []
        return lines

    def take(self, cluster: Cluster) -> Cluster:
        """A cluster as it is configured, or as its backend sees it now; with what operators changed of it from here on."""
        cluster = apply_changes(cluster, self.book.store.changes(cluster.name))
        self.clusters[cluster.name] = cluster
        self.taken(cluster)
        try:
            self.book.store.save_cluster(cluster)
        except IndexFault as fault:
            log.error("%s", fault)  # readers see it as it was; the next change writes it again
        self.seen()
        return cluster

    def amend(self, cluster: Cluster) -> None:
        """Writes down, in the transaction that is under way, what operators make of the cluster. ``take`` it when that is committed."""
        known = self.book.store.changes(cluster.name)
        self.book.store.save_changes(
            cluster.name, merge_changes(known, differences(self.clusters[cluster.name], cluster))
        )

    def barred(self, job: Job) -> tuple[str, ...]:
        """The nodes that operators keep the job from: out of service, or out of its partition, by their word alone."""
        cluster, changes = self.cluster_of(job), self.book.store.changes(job.cluster)
        changed = changes.get("nodes", {})
        found = [node.name for node in cluster.nodes if node.name in changed and node.state]
        partition = cluster.partition(job.partition)
        if partition is not None and "nodes" in changes.get("partitions", {}).get(partition.name, {}):
            found += [node.name for node in cluster.nodes if node.name not in partition.nodes]
        return tuple(dict.fromkeys(found))

    def neighbours(self, cluster: Cluster) -> list[str]:
        """The other clusters that share the machine's devices, or all of it, with this one."""
        if not cluster.one_set_of_gpus:
            return []
        return [other.name for other in self.clusters.values() if other.one_set_of_gpus and other.name != cluster.name]

    def beside(self, cluster: Cluster, of: Callable[[str], Iterable[Job]]) -> list[Job]:
        """The running jobs of ``of(name)`` of its neighbours, with what they hold of what is counted once: of two clusters that are
        each the whole machine everything, else the GPUs.
        """
        found = []
        for name in self.neighbours(cluster):
            whole = cluster.one_machine and self.clusters[name].one_machine
            for job in of(name):
                if job.state in states.ALLOCATED:
                    found.append(job if whole else job.replace(shares=_devices(job)))
        return found

    async def ids_for(self, cluster: Cluster) -> None:
        """Sees to it that the next job of the cluster gets an id. Raises ShimError when there is none to be had."""
        stock = self.book.stocks.get(cluster.name)
        if stock is None:
            return
        await stock.ensure()
        if len(stock) < LOW:
            self.task(self._stock_up(stock))

    async def _stock_up(self, stock: IdStock) -> None:
        try:
            await stock.ensure(LOW)
        except ShimError as error:
            log.warning("%s", error)

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` beside everything else; an error in it is logged, never lost."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task failed", exc_info=task.exception())

    async def finish(self, seconds: float) -> None:
        """Cancels everything that runs beside; waits for it, but not longer than ``seconds``."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def changed(self, keys: list[int], gone: asyncio.Future[None], limit: float | None = None) -> None:
        """Returns after the next change of any of these jobs, or after ``limit`` seconds.

        Raises ChannelClosed once ``gone`` is done: the client that asked is there no more. Changes count from the call on:
        what awaits this must not have given way to others since it looked at the jobs.
        """
        woken = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, []).append(woken)
        try:
            await asyncio.wait((woken, gone), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            for key in keys:
                waiting = self._waiting.get(key, [])
                if woken in waiting:
                    waiting.remove(woken)
                if not waiting:
                    self._waiting.pop(key, None)
        if gone.done():
            raise ChannelClosed("the client is gone")

    def _changed(self, old: Job | None, job: Job) -> None:
        for woken in self._waiting.pop(job.key, ()):
            if not woken.done():
                woken.set_result(None)


def _devices(job: Job) -> tuple[NodeShare, ...]:
    return tuple(share.replace(cpus=0, memory=0) for share in job.shares if share.gpus)


async def _always(cluster: Cluster) -> None:
    """Any cluster takes jobs."""


def run_of(job: Job) -> Run:
    """The present run of a job."""
    return Run(cluster=job.cluster, job_id=job.job_id, restart=job.restarts)
