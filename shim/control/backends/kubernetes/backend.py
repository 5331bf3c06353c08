"""The Kubernetes backend. See ``backends.base.Backend`` for what each method promises."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from shim.control.backends.base import BackendError, Observer, Order, Orphan, Run, Taking
from shim.control.backends.kubernetes import grown, ids, names, place, tickets, trying, volumes
from shim.control.backends.kubernetes.adopting import Adopting
from shim.control.backends.kubernetes.bundle import Bundle, bundle
from shim.control.backends.kubernetes.errors import AccessError, ApiError
from shim.control.backends.kubernetes.estates import Estates
from shim.control.backends.kubernetes.gang import probe
from shim.control.backends.kubernetes.hearing import Hearing
from shim.control.backends.kubernetes.life import Life
from shim.control.backends.kubernetes.making import Making
from shim.control.backends.kubernetes.orphans import TOLD, Orphans
from shim.control.backends.kubernetes.settings import settings_of
from shim.control.backends.kubernetes.shape import FIRST_LOOK, Shape
from shim.control.backends.kubernetes.site import Site
from shim.control.backends.kubernetes.sweeping import Sweeping
from shim.control.backends.kubernetes.threads import beside
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.job.pod.places import ROOT, Places
from shim.job.spec import RunSpec

PATIENCE = 5.0  # seconds for what is left of others to be cleared away
SYNC_LIMIT = 30.0  # seconds in which the watches must have told what there is
STARTS_END = 600.0  # seconds in which a start that was under way has ended, one way or another


class KubernetesBackend:
    """Pods of one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._configured = cluster
        self._cluster = cluster
        self._lives: dict[Run, Life] = {}
        self._chooses: Callable[[], bool] = lambda: False  # whether the cluster chooses the nodes and tells them
        self._observer: Observer
        self._site: Site
        self._shape: Shape
        self._bundle: Bundle
        self._troubles: dict[str, str] = {}  # of the watches, by what they watch
        self._estates: Estates
        self._hearing: Hearing
        self._sweeping: Sweeping
        self._forgetting: set[Run] = set()  # lives that come to their end
        self._told_lost: set[Run] = set()  # another machine's: a start that is still under way must make nothing

    # Opening and closing

    async def open(self, observer: Observer) -> Cluster:
        self._observer = observer
        settings = settings_of(self._configured)
        volumes.check(settings)
        for partition in self._configured.partitions:
            grown.check(settings_of(self._configured, partition.name))
        try:
            access, found = await place.find(self._configured)
            place.note(self._configured.name, found)
        except AccessError as error:
            raise ShimError(f"error: cluster {self._configured.name}: {error}") from error
        namespace = found.namespace
        # From here on every job's settings know the namespace, whoever said it.
        self._configured = self._configured.replace(
            settings={**self._configured.settings, "namespace": f'"{namespace}"'}
        )
        self._site = Site(access, namespace, self._configured.name, names.owner(self._configured.name))
        self._dry_runs = trying.DryRuns(self._site)
        self._bundle = await beside(bundle)
        self._estates = Estates(self._site, settings.lease, self._changed, self._one_synced, self._trouble, self._lost)
        self._sweeping = Sweeping(self._site, self._estates)
        limit = settings.timeout
        self._hearing = Hearing(
            lambda: access.greet(limit + 1), access.unheard, limit, lambda text: self._trouble("server", text)
        )
        self._adopting = Adopting(self._site, self._estates)
        self._orphans = Orphans(self._site, self._estates, self._configured)
        self._estates.watch()
        self._shape = Shape(self._site, self._configured, self._reshaped, self._lives.__contains__)
        self._chooses = lambda: self._shape.names_nodes
        self._making = Making(
            self._configured,
            self._site,
            self._estates,
            self._bundle,
            self._shape,
            self._sweeping,
            self._lives,
            self._told_lost,
        )
        patience = min(FIRST_LOOK, limit)
        self._cluster = await self._shape.open(patience)
        if access.unheard() == math.inf:
            self._hearing.miss(f"no answer from the API server within {patience:g} s")
        return self._cluster

    def _one_synced(self) -> None:
        if self._estates.all_synced:
            self._site.synced = True
            for life in self._lives.values():
                life.poke()

    def _trouble(self, path: str, text: str | None) -> None:
        if text is None:
            self._troubles.pop(path, None)
        else:
            self._troubles[path] = text or "it does not answer"
            self._site.log("cluster %s: %s", self._site.cluster, self._troubles[path])
        self._observer.trouble(self._site.cluster, next(iter(self._troubles.values()), ""))

    def _changed(self, run: Run | None) -> None:
        if run is not None and run in self._lives:
            self._lives[run].poke()
        elif run is not None and self._site.synced:
            self._shape.look()
            if self._estates.adopted and run not in self._site.seen.runs():
                self._sweeping.look()

    def _reshaped(self, cluster: Cluster) -> None:
        if cluster != self._cluster:
            self._cluster = cluster
            self._observer.cluster_changed(cluster)

    async def close(self) -> None:
        for life in list(self._lives.values()):
            await life.close()
        await self._shape.close()
        await self._hearing.close()
        await self._estates.close()
        await self._site.close()
        await self._site.access.close()

    # Runs

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        await self._wait_known()
        wanted = dict(runs)
        for run in {*self._site.seen.runs(), *tickets.known(self._site.cluster)} - set(wanted):
            estate = self._estates.of(run)
            gone = estate is not None and estate.synced.is_set() and run not in self._site.seen.runs()
            if gone or estate in (self._estates.home, None):
                self._sweeping.sweep(run)  # of another machine's runs the index may yet have to be told: see orphans
        for run, seen in wanted.items():
            # One of whose journal nothing is known is started again, which completes what was begun.
            folder = TicketFolder(run)
            known = folder.load() is not None
            if known and self._estates.is_lost(run):
                self._tell_lost(run)
            elif known and seen:
                await self._live(run, folder, seen)
            elif seen:
                self._observer.lost(run, "this host has no key of it any more")
        await asyncio.wait([self._sweeping.look()], timeout=PATIENCE)

    async def _wait_known(self) -> None:
        """Returns when it is known what there is, and whose it is; or when the cluster did not tell in time."""
        try:
            async with asyncio.timeout(SYNC_LIMIT):
                await self._estates.synced()
                await self._estates.check()
                await self._shape.settled()
        except (TimeoutError, ApiError):
            self._site.log("cluster %s does not answer; its jobs are looked at when it does", self._site.cluster)

    # Runs that another machine acts for

    def _lost(self, owner: str) -> None:
        """Somebody else holds an estate: its runs are let go as they are."""
        for run in [run for run in self._lives if self._estates.is_lost(run)]:
            self._site.soon(self._let_go(run))

    async def _let_go(self, run: Run) -> None:
        life = self._lives.pop(run, None)
        if life is not None:
            try:
                await life.close()
            finally:
                self._tell_lost(run)

    def _tell_lost(self, run: Run) -> None:
        if run not in self._told_lost:
            self._told_lost.add(run)
            for line in TOLD:
                self._observer.happened(run, {"at": self._site.now(), **line})

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        run = Run(cluster=spec.cluster.name, job_id=spec.job.job_id, restart=spec.job.restarts)
        await self._sweeping.swept(run)
        if run in self._forgetting:
            raise BackendError("the try before is not over yet", transient=True)
        if run in self._lives or run in self._told_lost:
            return  # a start that was under way when the run was told to be another machine's: its ticket is gone by now
        folder = TicketFolder(run)
        found = folder.load()
        if self._estates.is_lost(run):
            if found is None:
                raise BackendError("this home begins anew in the cluster", transient=True)
            self._tell_lost(run)
            return
        if found is not None and (found.verdict is not None or found.adopted):
            await self._live(run, folder, 0)  # what was decided about it is carried out first
            return
        await self._making.make(spec, run, folder, environment, script, spool)
        if self._estates.is_lost(run):
            self._tell_lost(run)
        else:
            await self._live(run, folder, 0)

    async def _live(self, run: Run, folder: TicketFolder, seen: int) -> None:
        if run in self._lives:
            return
        partition = folder.ticket.partition if folder.ticket is not None else ""
        life = Life(self._site, run, settings_of(self._configured, partition), folder, self._observer, seen)
        self._lives[run] = life
        await life.begin()

    async def order(self, run: Run, order: Order) -> None:
        life = self._lives.get(run)
        if life is not None:
            life.order(order)

    async def forget(self, run: Run) -> None:
        life = self._lives.get(run)
        if life is not None:
            self._forgetting.add(run)
            try:
                await life.forget()
            except Exception:
                # An error of this program must not leave the run's objects in the cluster.
                self._site.log("job %s: an internal error", run.job_id, exc_info=True)
            finally:
                self._forgetting.discard(run)
            self._lives.pop(run, None)
        self._sweeping.sweep(run)
        if run in self._told_lost:
            asyncio.get_running_loop().call_later(STARTS_END, self._told_lost.discard, run)

    def reach(self, run: Run) -> str:
        return TicketFolder(run).path

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        run = Run(cluster=job.cluster, job_id=job.job_id, restart=job.restarts)
        planned = self._chooses() and not job.request.node_list
        return tuple(share.replace(host=names.host(run, index), planned=planned) for index, share in enumerate(shares))

    def commands(self) -> str:
        return Places(ROOT, "").commands

    # What only shared clusters need

    async def listen(self) -> None:
        """See ``Listens``."""
        await self._hearing.listen()

    async def take_over(self) -> Taking:
        """See ``Adopts``."""
        return await self._adopting.take_over()

    async def orphans(self) -> list[Orphan]:
        """See ``Adopts``."""
        return await self._orphans.found(lambda run: run in self._lives or self._sweeping.sees_to(run))

    async def adopt(self, run: Run) -> None:
        """See ``Adopts``."""
        folder = TicketFolder(run)
        ticket = folder.load()
        if ticket is not None and run not in self._lives:
            began = self._orphans.began_at(run)
            if not folder.has_key and began:
                self._observer.happened(run, {"kind": "started", "at": began})
            await self._live(run, folder, 0)

    async def shaped(self) -> Cluster:
        """See ``ShapedLater``."""
        return await self._shape.known()

    async def reserve(self, first: int) -> range:
        """See ``NumbersJobs``."""
        return await ids.reserve(self._site.access, self._site.namespace, first)

    async def try_out(self, job: Job, spool: str) -> list[str]:
        """See ``TriesOut``: packs the working directory, and has the API server judge the Job and one pod (dry run)."""
        settings = settings_of(self._configured, job.partition)
        self._site.soon(self._estates.home.lease.hold())  # its start will ask for it
        if not self._shape.names_nodes:
            trying.check_described(job)
        notes = await trying.keep_files(job, spool, settings)

        async def ask() -> None:
            await self._dry_runs.ask_reach(job, spool)
            # It asks for the user's groups and folder: either may be on a server that does not answer.
            gang = await beside(lambda: probe(job, settings, self._site.owner, self._bundle))
            await self._dry_runs.ask(gang, settings)

        problem = await self._hearing.unless_silent(ask)
        if problem:
            notes.append(f"warning: {self._site.cluster}: {problem}; the job waits until it can be asked again")
        return notes
