"""The Kubernetes backend. See ``backends.base.Backend`` for what each method promises."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from shim.control.backends.base import BackendError, Kept, Observer, Order, Progress, Run, Wanted
from shim.control.backends.kubernetes.api.api_health import Hearing
from shim.control.backends.kubernetes.api.errors import AccessError, ApiError
from shim.control.backends.kubernetes.api.threads import beside
from shim.control.backends.kubernetes.cluster import autoscaling, pinned_context
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.cluster.lease import Lease, identity
from shim.control.backends.kubernetes.cluster.shape import FIRST_LOOK, Shape
from shim.control.backends.kubernetes.cluster.watches import Watching
from shim.control.backends.kubernetes.objects import names, volumes
from shim.control.backends.kubernetes.objects.bundle import Bundle, bundle
from shim.control.backends.kubernetes.objects.gang_builder import probe
from shim.control.backends.kubernetes.objects.preparing import Preparing
from shim.control.backends.kubernetes.run import run_folders, stage_out
from shim.control.backends.kubernetes.run.driver import Driver, next_number
from shim.control.backends.kubernetes.run.fetching import Fetching
from shim.control.backends.kubernetes.run.legacy import Legacy, is_legacy
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.control.backends.kubernetes.submit import ids, submit_checks
from shim.control.backends.kubernetes.submit.accepting import Accepting
from shim.control.backends.kubernetes.submit.arrays import Arrays
from shim.control.backends.kubernetes.submit.wishing import Wishes
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.job.pod.places import ROOT, Places
from shim.job.spec import RunSpec

WRITTEN = 10.0  # seconds in which a record should be written for a command that waits
SEEN_TO = 3.0  # seconds in which the machine that orders the jobs should have seen to what is wanted of one
LOOK_ON = 0.5  # seconds in which a Lease that is free should be had
RETRY = 2.0
# Final: whoever removes a record has seen the job's end, so no run of it may follow.
_GONE = {
    "kind": "ended",
    "state": states.NODE_FAIL,
    "status": 0,
    "detail": "another machine has removed its record",
    "final": True,
}


class KubernetesBackend:
    """Pods of one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._configured = cluster
        self._cluster = cluster
        self._chooses: Callable[[], bool] = lambda: False  # whether the cluster chooses the nodes and tells them
        self._observer: Observer
        self._site: Site
        self._shape: Shape
        self._bundle: Bundle
        self._hearing: Hearing
        self._lease: Lease
        self._drivers: dict[int, Driver] = {}
        self._fetching: dict[int, Fetching] = {}
        self._legacy: dict[int, Legacy] = {}  # runs of the version before
        self._index: dict[int, Job] = {}  # the index's jobs, as they were committed last
        self._by_partition: dict[str, Settings] = {}  # as configured: every look at a job asks for them
        self._troubles: dict[str, str] = {}  # of the watches, by what they watch
        self._recovered = False
        self._found_ended: set[str] = set()  # uids of records that another machine has brought to their end
        self._news: set[int] | None = None  # jobs that others may have changed, for one who looks on; None: any
        self._untold = False  # jobs that the index does not know were told, and not asked for yet

    # Opening and closing

    async def open(self, observer: Observer) -> Cluster:
        self._observer = observer
        settings = settings_of(self._configured)
        volumes.check(settings)
        for partition in self._configured.partitions:
            autoscaling.check(settings_of(self._configured, partition.name))
        try:
            access, found = await pinned_context.find(self._configured)
            pinned_context.note(self._configured.name, found)
        except AccessError as error:
            raise ShimError(f"error: cluster {self._configured.name}: {error}") from error
        namespace, cluster = found.namespace, self._configured.name
        # From here on every job's settings know the namespace, whoever said it.
        self._configured = self._configured.replace(
            settings={**self._configured.settings, "namespace": f'"{namespace}"'}
        )
        self._by_partition.clear()
        self._site = Site(access, namespace, cluster, names.owner(cluster))
        self._dry_runs = submit_checks.DryRuns(self._site)
        self._bundle = await beside(bundle)
        limit = settings.timeout
        self._hearing = Hearing(
            lambda: access.greet(limit + 1), access.unheard, limit, lambda text: self._trouble("server", text)
        )
        self._watching = Watching(self._site, self._changed, self._synced, self._trouble)
        self._lease = Lease(access, namespace, identity(self._site.owner), settings.lease, self._lost)
        self._shape = Shape(self._site, self._configured, self._reshaped, self._counts)
        self._chooses = lambda: self._shape.names_nodes
        self._wishes = Wishes(self._site)
        self._arrays = Arrays(self._site, lambda: self._index, self._overtaken)
        self._accepting = Accepting(self._site, self._wishes, self._configured, self._arrays)
        self._preparing = Preparing(self._configured, self._site, self._bundle, self._shape)
        self._watching.start()
        self._lease.start()
        patience = min(FIRST_LOOK, limit)
        self._cluster = await self._shape.open(patience)
        if access.unheard() == math.inf:
            self._hearing.miss(f"no answer from the API server within {patience:g} s")
        return self._cluster

    @property
    def _followed(self) -> list[Driver | Legacy]:
        return [*self._drivers.values(), *self._legacy.values()]

    def _counts(self, job_id: int) -> bool:
        """Whether the index counts itself what a job's pods hold."""
        job = self._index.get(job_id)
        return job is not None and job.state in states.ALLOCATED

    def _synced(self) -> None:
        self._site.all_known.set()
        for one in self._followed:
            one.poke()
        self._fetch_known(self._index)

    def _trouble(self, path: str, text: str | None) -> None:
        if text is None:
            self._troubles.pop(path, None)
        else:
            self._troubles[path] = text or "it does not answer"
            self._site.log("cluster %s: %s", self._site.cluster, self._troubles[path])
        self._observer.trouble(self._site.cluster, next(iter(self._troubles.values()), ""))

    def _changed(self, job_id: int) -> None:
        one = self._legacy.get(job_id) or self._drivers.get(job_id)
        if job_id in self._fetching:
            self._fetching[job_id].poke()
        self._fetch_known([job_id])
        if one is not None:
            one.poke()
        elif job_id in self._index and self._drive(self._index[job_id]):
            pass
        elif job_id >= 0 and self._recovered:
            self._shape.look()
        if job_id >= 0 and self._site.synced:
            self._look_for(job_id)
            if self.orders and self._recovered and self._site.seen.orphans(job_id):
                self._site.soon(self._site.clear(job_id))

    def _fetch_known(self, job_ids: Iterable[int]) -> None:
        """While another machine orders the jobs: has those fetched that are to be, whatever was known first, the job, its record or the user."""
        if self._recovered or self.orders or not self._site.synced or not self._site.known_user:
            return
        for job_id in list(job_ids):
            job = self._index.get(job_id)
            if job is not None and job.place in ("", self.place):
                self._fetch(job)

    def _fetch(self, job: Job) -> None:
        """Another machine orders the job, or has brought it to its end: this one has its output fetched, and srun a way to it."""
        record = self._site.records.find(job.job_id)
        own = record is not None and record.user == self._site.known_user and not record.settled
        one = self._fetching.get(job.job_id)
        if one is None and record is not None and own and (record.register is not None or record.ended):
            watches = record.host == self._site.host
            if self.orders and not (watches and record.ended):
                return
            one = self._fetching[job.job_id] = Fetching(
                self._site, job.job_id, self._settings, self._observer, self._accepting.ways, watches
            )
            self._site.soon(self._end_fetching(job.job_id, one))
        if one is not None:
            one.index = job
            one.poke()

    async def _end_fetching(self, job_id: int, one: Fetching) -> None:
        await one.done.wait()
        if self._fetching.get(job_id) is one:
            del self._fetching[job_id]

    def _look_for(self, job_id: int) -> None:
        """Another machine may have submitted the job, want something of it, or order it."""
        record = self._site.records.find(job_id)
        if not self.orders and self._news is not None:
            self._news.add(job_id)
        news = not self.orders or (self._recovered and record is not None and job_id not in self._index)
        if news:
            self._tell_news()
        if not self.orders:
            self._site.soon(self._wishes.look())
        elif self._recovered and record is not None and record.wishes:
            self._observer.wanted(self._site.cluster)

    def _tell_news(self) -> None:
        if not self._untold:
            self._untold = True
            self._observer.unknown(self._site.cluster)

    def _reshaped(self, cluster: Cluster) -> None:
        if cluster != self._cluster:
            self._cluster = cluster
            self._observer.cluster_changed(cluster)

    def _lost(self) -> None:
        """Another machine orders the jobs: this one looks on, from the beginning."""
        self._site.log("cluster %s: another machine orders its jobs", self._site.cluster)
        self._observer.outdated(self._site.cluster)

    def _overtaken(self) -> None:
        """Another machine has ordered the jobs since this one was told of them."""
        self._site.log("cluster %s: another machine has ordered its jobs meanwhile", self._site.cluster)
        self._observer.outdated(self._site.cluster)

    async def close(self) -> None:
        for one in (*self._followed, *self._fetching.values()):
            await one.close()
        await self._shape.close()
        await self._hearing.close()
        await self._watching.close()
        await self._accepting.close()
        try:
            await self._lease.close()
        except ApiError as error:
            self._site.log("cluster %s: %s", self._site.cluster, error.message)
        await self._site.close()
        await self._site.access.close()

    # Runs

    @property
    def place(self) -> str:
        """See ``KeepsJobs``: the uid of the object that numbers the jobs."""
        return self._site.place if hasattr(self, "_site") else ""

    @property
    def orders(self) -> bool:
        """See ``KeepsJobs``."""
        return hasattr(self, "_lease") and self._lease.held.is_set()

    async def ordering(self) -> None:
        """See ``KeepsJobs``."""
        await self._watching.synced.wait()
        await self._learn()
        try:
            async with asyncio.timeout(LOOK_ON):
                await self._lease.held.wait()
        except TimeoutError:
            self._observer.unknown(self._site.cluster)  # what is there is shown from the beginning
            await self._lease.held.wait()

    async def _learn(self) -> None:
        while True:
            try:
                await self._site.user()
                await self._accepting.learn_place()
                self._index = {one: job for one, job in self._index.items() if job.place in ("", self.place)}
                await self._wishes.learn()
                self._fetch_known(self._index)
                return
            except (ApiError, BackendError) as error:
                self._site.log("cluster %s: %s", self._site.cluster, error)
                await asyncio.sleep(RETRY)

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        await self.ordering()
        for fetching in list(self._fetching.values()):
            await fetching.close()
        self._fetching.clear()
        await self._shape.settled()
        wanted = {run.job_id: (run, seen) for run, seen in runs}
        for job_id, (run, seen) in wanted.items():
            if is_legacy(run):
                self._follow_legacy(run, seen)
                continue
            record = self._site.records.find(job_id)
            register = record.register if record is not None else None
            if register is not None and register.restart == run.restart:
                driver = self._driver(job_id)
                # One of whose journal nothing is known is started again, which completes what was begun.
                if seen:
                    driver.follow(run, seen)
            elif seen and record is None:
                self._observer.happened(run, {**_GONE, "at": self._site.now()})
            elif seen:
                self._observer.lost(run, "the cluster has no record of it")
        await self._clear_folders(wanted)
        for job_id in self._site.seen.job_ids:
            self._site.soon(self._site.clear(job_id))
        self._recovered = True
        for job in list(self._index.values()):
            self.keep(job)
        if self._wishes.waiting():
            self._observer.wanted(self._site.cluster)

    async def _clear_folders(self, wanted: Container[int]) -> None:
        """Removes the folders of runs that nobody asks for and that the cluster does not know."""
        for one in run_folders.known(self._site.cluster):
            if one.job_id in wanted:
                continue
            if is_legacy(one):
                self._follow_legacy(one, 1)
                await self._legacy[one.job_id].forget()  # its end was committed
            elif self._site.records.find(one.job_id) is None:
                run_folders.remove(self._site.cluster, one.job_id)

    def _driver(self, job_id: int) -> Driver:
        driver = self._drivers.get(job_id)
        if driver is None or driver.done.is_set():
            driver = self._drivers[job_id] = Driver(
                self._site, job_id, self._settings, self._configured.kill_wait, self._observer, self._accepting.ways
            )
            driver.index = self._index.get(job_id)
            driver.ended_elsewhere, driver.fetch = self._found_ended, self._fetch
            driver.holds_tasks, driver.tidy = self._arrays.has_tasks, self._arrays.tidy
            self._site.soon(self._end(job_id, driver))
        return driver

    async def _end(self, job_id: int, driver: Driver) -> None:
        await driver.done.wait()
        if self._drivers.get(job_id) is driver:
            del self._drivers[job_id]
            self._index.pop(job_id, None)
            jobs = list(self._index.values())
            await beside(lambda: stage_out.prune(self._site.cluster, jobs))

    def _settings(self, partition: str) -> Settings:
        found = self._by_partition.get(partition)
        if found is None:
            found = self._by_partition[partition] = settings_of(self._configured, partition)
        return found

    def _follow_legacy(self, run: Run, seen: int) -> None:
        if run.job_id not in self._legacy:
            job = self._index.get(run.job_id)
            nodes, settings = (job.nodes, self._settings(job.partition)) if job is not None else (1, self._settings(""))
            one = self._legacy[run.job_id] = Legacy(self._site, run, nodes, settings, self._observer, seen)
            self._site.soon(self._end_legacy(one))

    async def _end_legacy(self, one: Legacy) -> None:
        await one.done.wait()
        del self._legacy[one.run.job_id]

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        job = spec.job
        record = self._site.records.find(job.job_id)
        if record is not None and record.files and not self._accepting.has_files(record) and not record.register:
            why = f"its working directory is on {record.files} alone: it starts when that machine orders the jobs"
            raise BackendError(why, transient=True)
        run = Run(cluster=spec.cluster.name, job_id=job.job_id, restart=job.restarts)
        self.keep(job)
        if is_legacy(run):
            self._follow_legacy(run, 0)
            return
        if run.job_id in self._legacy:
            raise BackendError("the run before is not over yet", transient=True)
        try:
            await self._accepting.ensure(job, spool)
            await self._preparing.common()
        except ApiError as error:
            raise BackendError(error.message, transient=True) from error
        prepare = self._preparing.of(spec, environment, script, spool)
        await self._driver(job.job_id).begin(run, spec.nodes[0].host, prepare)

    async def order(self, run: Run, order: Order) -> None:
        one = self._legacy.get(run.job_id) or self._drivers.get(run.job_id)
        if one is not None:
            # A leader obeys each number once, whoever it comes from: those of different indexes must not be the same.
            one.order(order.replace(number=(int(self._site.owner[:8], 16) << 32) + order.number))

    async def fetch(self, run: Run) -> tuple[int, int, str]:
        """See ``ReturnsFiles``."""
        driver = self._drivers.get(run.job_id)
        if driver is None or driver.course is None:
            raise BackendError("another machine of yours orders this job: its files come when it has ended")
        return await driver.course.fetch()

    def progress(self, run: Run) -> Progress | None:
        """See ``ShowsProgress``."""
        driver = self._drivers.get(run.job_id)
        return driver.course.progress() if driver is not None and driver.course is not None else None

    async def forget(self, run: Run) -> None:
        one = self._legacy.get(run.job_id) or self._drivers.get(run.job_id)
        if one is not None:
            await one.forget()
        if run.job_id in self._legacy:
            return  # it is still to be removed, and its folder says so
        if self._site.records.find(run.job_id) is not None:
            run_folders.ensure(run.replace(restart=run.restart + 1))  # a folder says that the cluster holds the job
        run_folders.remove(self._site.cluster, run.job_id, run.restart + 1)

    def reach(self, run: Run) -> str:
        return run_folders.path_of(run)

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        record = self._site.records.find(job.job_id) if hasattr(self, "_site") else None
        number = next_number(record.register if record is not None else None, job.restarts)
        planned = self._chooses() and not job.request.node_list
        return tuple(
            share.replace(host=names.host(job.job_id, number, index), planned=planned)
            for index, share in enumerate(shares)
        )

    def commands(self) -> str:
        return Places(ROOT, "").commands

    # Jobs

    async def accept(self, job: Job, handed_in: Mapping[str, Any], script: bytes | None, spool: str) -> int:
        """See ``KeepsJobs``."""
        self._index[job.job_id] = job  # it is told to nobody as unknown
        try:
            # While there is a folder of it the cluster is where the job was accepted, whatever kubectl is switched to.
            run_folders.ensure(Run(cluster=self._site.cluster, job_id=job.job_id))
            return await self._accepting.accept(job, handed_in, script, spool)
        except (ApiError, BackendError) as error:
            del self._index[job.job_id]
            self._site.soon(self._look_again(1.0))  # for what has come of it all the same
            if isinstance(error, ApiError):
                raise BackendError(error.message, transient=error.transient) from error
            raise

    def keep(self, job: Job) -> None:
        """See ``KeepsJobs``."""
        if self.place and job.place not in ("", self.place):
            return  # of a cluster, or a namespace, that was here before: another job may have its id
        self._index[job.job_id] = job
        driver = self._drivers.get(job.job_id)
        if driver is not None:
            driver.index = job
        if not self._drive(job):
            self._fetch_known([job.job_id])
        if self.orders:
            self._accepting.keep(job)
        elif self._site.synced and self._news is not None and job.job_id in self._news:
            self._tell_news()  # of what came while the index was being told of it

    def _drive(self, job: Job) -> bool:
        """Whoever orders the jobs looks after each that has a run, or has ended and (again, by a late request) has a record: whether this is one."""
        record = self._site.records.find(job.job_id)
        if self._recovered and record is not None and (job.state in states.TERMINAL or record.register is not None):
            self._driver(job.job_id).poke()
            return True
        return False

    async def written(self, job_ids: Sequence[int]) -> None:
        """See ``KeepsJobs``."""
        try:
            async with asyncio.timeout(WRITTEN):
                await self._accepting.write_now(job_ids)
        except TimeoutError as error:
            raise BackendError("the API server does not answer", transient=True) from error
        except ApiError as error:
            raise BackendError(error.message, transient=True) from error

    async def kept(self) -> list[Kept]:
        """See ``KeepsJobs``."""
        self._untold = False
        found = []
        try:
            if self.orders:
                await self._arrays.complete()
        except ApiError as error:
            raise BackendError(error.message, transient=True) from error
        for record in self._site.records.all():
            known = self._index.get(record.job_id)
            again = known is not None and known.state in states.TERMINAL and record.begins
            if known is not None and not again:
                continue
            try:
                if await self._accepting.is_of_here(record):
                    if record.ended:
                        self._found_ended.add(record.uid)
                    found.append(await self._accepting.kept(record, orders=self.orders))
            except ApiError as error:
                raise BackendError(error.message, transient=True) from error
        pause = self._accepting.look_again
        if pause is not None:
            self._site.soon(self._look_again(pause))
        return [one for one in found if one is not None]

    async def shown(self, known: Sequence[Job]) -> list[Job]:
        """See ``KeepsJobs``."""
        try:
            return await self._shown(known)
        except (ApiError, BackendError) as error:
            self._news = None
            self._site.soon(self._look_again(RETRY))
            raise BackendError(str(error), transient=True) from error

    async def _shown(self, known: Sequence[Job]) -> list[Job]:
        await self._accepting.learn_place()
        news, self._news = self._news, None if self.orders or not self._site.synced else set()
        if self._news is not None:
            # What is heard of a job that is just being recorded is told as soon as it is known.
            heard = news if news is not None else {*self._site.records.departed, *self._site.records.known}
            self._news |= heard.difference(job.job_id for job in known)
        asked = [job for job in known if self.orders or news is None or job.job_id in news]
        found = [now for before in asked if (now := await self._shown_now(before)) is not None]
        return [job for job in found if job not in known]

    async def _shown_now(self, before: Job) -> Job | None:
        """The job as its record has it; None where nothing is known of it that the index does not have."""
        active = before.state in states.ACTIVE
        if before.place not in ("", self.place):
            return _gone(before, self._site.now()) if active else None
        record = self._site.records.find(before.job_id)
        if record is not None and not await self._accepting.is_whole(record, before):
            if self._news is not None:
                self._news.add(before.job_id)
            record = None
        if record is None:
            record = self._site.records.departed.pop(before.job_id, None)
            if record is None or not record.ended:
                again = self.orders and self._accepting.may_be_made_again(before)
                return _gone(before, self._site.now()) if active and self._site.synced and not again else None
        if not await self._accepting.is_of_here(record):
            return None
        if record.ended:
            self._found_ended.add(record.uid)
        if not self.orders:
            self._fetch(before)
        return self._accepting.as_shown(record, before, orders=self.orders)

    async def handed_in(self, job: Job) -> Kept:
        """See ``KeepsJobs``."""
        try:
            record = await self._site.records.read(job.job_id)
            if record is None:
                raise BackendError("its record is gone")
            return await self._accepting.handed_in(record)
        except ApiError as error:
            raise BackendError(error.message, transient=True) from error

    @property
    def operates(self) -> bool:
        """See ``KeepsJobs``."""
        return hasattr(self, "_wishes") and self._wishes.operates

    async def want(self, job_id: int, op: str, message: Mapping[str, Any], *, done: bool = False) -> bool:
        """See ``KeepsJobs``."""
        try:
            async with asyncio.timeout(WRITTEN):
                wish = await self._wishes.note(job_id, op, message, done=done)
        except TimeoutError as error:
            raise BackendError("the API server does not answer", transient=True) from error
        return done or await self._wishes.answered(job_id, wish, SEEN_TO)

    def wanted(self) -> list[Wanted]:
        """See ``KeepsJobs``."""
        return self._wishes.waiting()

    def see_to(self, wanted: Wanted) -> None:
        """See ``KeepsJobs``."""
        self._wishes.see_to(wanted)
        job = self._index.get(wanted.job_id)
        if job is not None:
            self._accepting.keep(job)

    async def _look_again(self, pause: float) -> None:
        """Nobody tells of a payload that comes late, or never."""
        await asyncio.sleep(pause)
        self._tell_news()

    async def take_up(self, run: Run) -> None:
        """See ``KeepsJobs``."""
        record = self._site.records.find(run.job_id)
        if record is not None and record.register is not None and record.register.restart == run.restart:
            self._driver(run.job_id).follow(run, 0)

    # What only shared clusters need

    async def listen(self) -> None:
        """See ``Listens``."""
        await self._hearing.listen()

    async def shaped(self) -> Cluster:
        """See ``ShapedLater``."""
        return await self._shape.known()

    async def reserve(self, first: int) -> range:
        """See ``NumbersJobs``."""
        found, self._site.place = await ids.reserve(self._site.access, self._site.namespace, first)
        return found

    async def try_out(self, job: Job, spool: str, progress: Progress) -> list[str]:
        """See ``TriesOut``: packs the working directory, and has the API server judge the Job and one pod (dry run)."""
        settings = settings_of(self._configured, job.partition)
        if not self._shape.names_nodes:
            submit_checks.check_described(job)
        notes = await submit_checks.keep_files(job, spool, settings, progress)
        progress.begin("the cluster is asked about the job")

        async def ask() -> None:
            await self._dry_runs.ask_reach()
            # It asks for the user's groups and folder: either may be on a server that does not answer.
            gang = await beside(lambda: probe(job, settings, self._bundle))
            await self._dry_runs.ask(gang, settings)

        problem = await self._hearing.unless_silent(ask)
        if problem:
            raise BackendError(f"{self._site.cluster}: {problem}", transient=True)
        return notes


def _gone(job: Job, now: float) -> Job:
    """A job whose record is there no more, and whose end was not seen: it never runs again."""
    state = states.CANCELLED if job.state == states.PENDING else states.NODE_FAIL
    comment = "its record was removed while this machine did not look: how it ended is not known here"
    return job.replace(state=state, reason="None", end_time=now, system_comment=comment)
