"""The controller put together: recover, serve, and leave when there is nothing to do."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import shim
from shim.control import paths
from shim.control.backends.base import Backend, CanWarm, KeepsJobs, Listens, NumbersJobs
from shim.control.backends.unopened import Unopened
from shim.control.channel import ChannelClosed
from shim.control.controller import crash, spool
from shim.control.controller.book import Book
from shim.control.controller.configured import Configured
from shim.control.controller.connection import Connection
from shim.control.controller.counting import Counts
from shim.control.controller.dispatching import Dispatcher
from shim.control.controller.ids import IdStock
from shim.control.controller.keeping import Keeping
from shim.control.controller.listening import listen_to_operators
from shim.control.controller.mailing import Mailer
from shim.control.controller.observing import Observing, recover
from shim.control.controller.operations import (
    admitting,
    cancelling,
    ends,
    looking,
    moving,
    moving_out,
    queueing,
    recording,
    recurring,
    site_changing,
    stepping,
    wishing,
)
from shim.control.controller.operations.allocating import Allocations
from shim.control.controller.operations.importing import Importing
from shim.control.controller.operations.submitting import learn_names
from shim.control.controller.operations.targets import Target, records, targets_of
from shim.control.controller.operations.wishing import Fulfilling
from shim.control.controller.pruning import Pruning
from shim.control.controller.server import Operation, Server
from shim.control.controller.triggering import Triggers
from shim.control.controller.world import World, log
from shim.control.index.errors import IndexFault
from shim.control.index.reader import FILES, LOOKED
from shim.control.index.store import Store
from shim.control.protocol import OF_CONFIGURATION
from shim.control.threads import aside
from shim.core.admission import elastic
from shim.core.errors import INVALID_USER_ID, ShimError, plain
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

PATIENCE = 3.0  # seconds that a controller takes to end what it does beside, and each backend to close
FORGET_EVERY = 500  # ends of jobs between looks at what memory may forget


class Controller:
    """One controller's life. ``make`` gives the backend of a cluster. ``configured`` tells when ``clusters`` are no more what is configured."""

    def __init__(
        self,
        store: Store,
        clusters: tuple[Cluster, ...],
        make: Callable[[Cluster], Backend],
        clock: Callable[[], float],
        idle_after: float,
        configured: Configured | None = None,
    ) -> None:
        self._store = store
        self._clusters = clusters
        self._make = make
        self._clock = clock
        self._idle_after = idle_after
        self._configured = configured
        self._again = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stop = asyncio.Event()
        self._started = clock()
        self.world = World(Book(store, clock), clock)
        self.counts = Counts(self.world, lambda: self.server.serving)
        self.dispatcher = Dispatcher(self.world, self.counts)
        self.allocations = Allocations(self.world, self.dispatcher)
        self.importing = Importing(self.world)
        self.observing = Observing(self.world, self._cluster_changed)
        self.observing.on_unknown = lambda cluster: self.world.task(self._take_in(cluster))
        self.observing.on_outdated = lambda cluster: self._begin_anew()
        self.dispatcher.launcher.complete = self.importing.complete
        self.mailer = Mailer(self.world)
        self.triggers = Triggers(self.world, self._look_idle)
        days = configured.retention if configured is not None else max((one.retention for one in clusters), default=0)
        self.pruning = Pruning(self.world, days, lambda: self._memory)
        operations = self._operations()
        self.fulfilling = Fulfilling(self.world, operations)
        self.observing.on_wanted = lambda cluster: self.world.task(self.fulfilling.look(cluster))
        self.server = Server(self._asked(operations), self._look_idle, self.world.operates, self.counts.asked)
        self.keeping = Keeping(
            store, self.world, configured.sources if configured is not None else {}, self._begin_anew
        )
        self.world.usable = self._usable
        self.world.outdated = self._outdated
        self._ends = 0
        self.world.book.followers.append(self._changed)

    async def run(self, sock: socket.socket, unasked: bool = False) -> bool:
        """Serves until it is told to stop, or idle for long enough; whether it must restart. ``unasked``: stops at once if there is nothing to do."""
        await self.open()
        await self.server.open(sock)
        if self.world.operators:
            await self._open_to_operators()
        if unasked and self.world.book.idle and not self.triggers.waiting and not self.world.unseen:
            self.stop()
        self._look_idle()
        await self._stop.wait()
        await self.close()
        return self._again

    async def _open_to_operators(self) -> None:
        try:
            await self.server.open(listen_to_operators(paths.state_dir()))
        except OSError as error:
            log.error("operators cannot reach this controller: %s", error.strerror)

    async def open(self) -> None:
        """Reads the index and asks the backends about their runs; then marks the index as up to date for readers."""
        self._store.forget_troubles()
        self.world.book.load(self._memory)
        wanted = tuple(self._grown(cluster) if cluster.elastic else cluster for cluster in self._clusters)
        for cluster in self.keeping.settle(wanted):
            backend, opened = await self._opened(cluster)
            self.world.backends[cluster.name] = backend
            self.world.book.clusters[cluster.name] = None
            self.world.take(cluster if cluster.elastic else opened)
            if isinstance(backend, NumbersJobs):
                self.world.book.stocks[cluster.name] = IdStock(self._store, cluster, backend)
            if isinstance(backend, CanWarm):
                self.world.task(backend.warm())
        read_before = self._store.meta(FILES)
        if self._configured is not None:
            self.keeping.read(self._configured.files)
        self.mailer.remind()
        self.world.seen = self.dispatcher.kick
        self.world.reshape = self._cluster_changed
        launcher = self.dispatcher.launcher
        await recover(self.world, launcher.launch, launcher.order, self._take_in)
        self.observing.flush()
        self._store.caught_up()
        crash.point("recovered")
        recurring.drop_strays(self.world)
        self.triggers.open(reconfigured=read_before not in (None, self._store.meta(FILES)))
        self.world.taken = self.triggers.cluster_changed
        self.allocations.expect()
        self.dispatcher.kick()
        self.world.task(self._tidy())
        self.world.task(self.pruning.keep_on())

    def _grown(self, cluster: Cluster) -> Cluster:
        """The cluster that nobody configured as its active jobs have made it."""
        jobs = self.world.book.active(cluster.name)
        before = self._store.cluster(cluster.name)
        if jobs and before is not None and before.elastic:
            cluster = cluster.replace(nodes=before.nodes, partitions=before.partitions)
        together: dict[int, list[JobRequest]] = {}
        for job in jobs:
            together.setdefault(job.het_job_id or -job.key, []).append(job.request)
        for requests in together.values():
            cluster = elastic.grown(cluster, requests)
        return cluster

    def _shrink(self, name: str) -> None:
        """What jobs made of a cluster that nobody configured goes with the last of them."""
        cluster = self.world.clusters.get(name)
        if cluster is not None and cluster.elastic and not self.world.book.active(name):
            found = next((one for one in self._clusters if one.name == name), None)
            if found is not None and found.nodes != cluster.nodes:
                self._cluster_changed(found)

    async def _opened(self, cluster: Cluster) -> tuple[Backend, Cluster]:
        """The cluster's backend and its shape. One that cannot be used keeps nobody from using the others."""
        backend = self._make(cluster)
        try:
            return backend, await backend.open(self.observing)
        except ShimError as error:
            why = error.lines[0].removeprefix(f"error: cluster {cluster.name}: ")
            log.error("cluster %s: %s", cluster.name, why)
            self._store.set_trouble(cluster.name, why)
            self.world.blocked[cluster.name] = why
            seen = self._store.cluster(cluster.name)
            return Unopened(cluster, why), seen if seen is not None and seen.backend == cluster.backend else cluster

    async def _usable(self, cluster: Cluster) -> None:
        """Raises ShimError for a cluster that takes no jobs. One that could not be opened before is tried again."""
        backend = self.world.backends[cluster.name]
        if isinstance(backend, Unopened):
            again = self._make(backend.cluster)
            await again.open(self.observing)
            await again.close()
            self._begin_anew()
            raise ChannelClosed("the cluster can be opened by now")
        if cluster.name in self.world.blocked:
            raise ShimError(f"error: cluster {cluster.name}: {self.world.blocked[cluster.name]}")

    async def _tidy(self) -> None:
        """Lets memory and the spool go of jobs that ended MinJobAge ago: as in Slurm nobody can requeue them any more."""
        self.world.book.forget_before(self._clock() - self._memory)
        folders = spool.outlived(*self.world.book.spooled())
        if folders:
            await aside(spool.remove, folders)

    async def close(self) -> None:
        """Ends everything but the runs."""
        self._store.forget_troubles()
        self.dispatcher.alarm.close()
        self.mailer.alarm.close()
        self.triggers.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._again:
            with suppress(IndexFault):  # a full disk: a client that is stopped has its allocation ended
                self.allocations.hand_on()
        await self.server.close()
        await self.world.finish(PATIENCE)
        closing = [asyncio.ensure_future(backend.close()) for backend in self.world.backends.values()]
        if closing:
            await asyncio.wait(closing, timeout=PATIENCE)

    def stop(self) -> None:
        """Ends the controller soon; running jobs go on."""
        self._stop.set()

    def _begin_anew(self) -> None:
        """As ``stop``, and another one takes this one's place: what is configured, or what must be kept of it, has changed."""
        self._again = True
        self.stop()

    def _look_idle(self) -> None:
        """Starts the time after which an idle controller leaves; stops it while there is something to do."""
        idle = self.world.book.idle and not self.triggers.waiting and not self.server.busy
        if not idle and self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        elif idle and self._idle_timer is None:
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle_after, self._leave)

    def _leave(self) -> None:
        self._idle_timer = None
        if self.world.book.idle and not self.triggers.waiting and not self.server.busy:
            log.info("idle for %s s: leaving", self._idle_after)
            self.stop()

    @property
    def _memory(self) -> float:
        """How long ended jobs are kept in memory, in seconds: as long as dependencies look at them."""
        return max((cluster.min_job_age for cluster in self._clusters), default=0)

    def _changed(self, old: Job | None, job: Job) -> None:
        self._look_idle()
        self._keep(old, job)
        if job.state in states.TERMINAL:
            self._shrink(job.cluster)
            self._ends += 1
            if self._ends % FORGET_EVERY == 0:
                self.world.task(self._tidy())

    def _keep(self, old: Job | None, job: Job) -> None:
        """Tells the cluster that holds the job what has become of it."""
        backend = self.world.backends.get(job.cluster)
        if isinstance(backend, KeepsJobs):
            backend.keep(job)
        if old is not None and old.cluster != job.cluster:
            before = self.world.backends.get(old.cluster)
            if isinstance(before, KeepsJobs):
                before.keep(old.replace(state=states.CANCELLED))  # it has moved away

    def _cluster_changed(self, cluster: Cluster) -> None:
        self.world.take(cluster)
        self.dispatcher.kick()

    def _operations(self) -> dict[str, Operation]:
        world = self.world

        order = self.dispatcher.launcher.order
        operations: dict[str, Operation] = {
            "ping": self._ping,
            "stats": self.counts.stats,
            "shutdown": self._shutdown,
            "submit": partial(admitting.submit, world),
            "cancel": partial(cancelling.cancel, world, order),
            "wait": partial(ends.wait, world),
            "reach": partial(ends.reach, world),
            "script": partial(ends.script, world),
            "fetch": partial(ends.fetch, world),
            "record": partial(recording.record, world),
            "seen": partial(recording.seen, world),
            "move": partial(moving.move, world),
            "move_out": partial(moving_out.move_out, world),
            "moved_out": partial(moving_out.moved_out, world),
            "stay": partial(moving_out.stay, world),
            "listen": self._listen,
            "look": partial(looking.look, self._store.path),
            "site": self._site,
            "notify": partial(stepping.notify, world, order, self.allocations.tell),
            "update_step": partial(stepping.update_step, world, order),
            "change_nodes": partial(site_changing.change_nodes, world, order),
            "change_partition": partial(site_changing.change_partition, world),
            "allocate": self.allocations.allocate,
            "attach": self.allocations.attach,
            "release": self.allocations.release,
            **{op: partial(queueing.ask, op, world, order) for op in queueing.OPERATIONS},
            "reconfigure": self._reconfigure,
            "prune": self.pruning.asked,
            "trigger": self.triggers.asked,
            "crontab": partial(recurring.crontab, world),
            "set_crontab": partial(recurring.set_crontab, world),
        }
        return operations

    def _asked(self, operations: dict[str, Operation]) -> dict[str, Operation]:
        """The operations as clients ask for them."""
        held: dict[str, Operation] = {
            op: partial(wishing.ask_of_jobs, self.world, op, operations[op]) for op in wishing.OF_JOBS
        }
        held.update({op: partial(wishing.ask_of_one, self.world, op, operations[op]) for op in wishing.OF_ONE})
        held = {op: partial(self._informed, operation) for op, operation in held.items()}
        asked: dict[str, Operation] = {**operations, **held}
        return {**asked, **{op: partial(self._agreed, asked[op]) for op in OF_CONFIGURATION}}

    async def _informed(self, operation: Operation, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The operation on jobs, once what has become of them is known as far as it is written."""
        named = [*targets_of(message), *([Target.from_dict(message["target"])] if "target" in message else [])]
        self.observing.catch_up(job for target in named for job in records(self.world.book, target))
        return await operation(connection, message)

    async def _agreed(self, operation: Operation, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The operation, once the configuration is the one that the client goes by. Else the client asks the next controller."""
        if self._again:
            raise ChannelClosed("this one goes")
        own = connection.uid == self.world.uid  # nobody else says where this user's configuration is
        stated = message.get("configuration") if own else None
        if self._configured is not None and self._configured.changed(stated):
            self._begin_anew()
            raise ChannelClosed("the configuration has changed")
        if self._configured is not None:
            self.keeping.read(self._configured.files)
        if own:
            self._look_there(str(message.get("kubeconfig") or ""))
        await learn_names(connection.uid, connection.gid)
        return await operation(connection, message)

    def _look_there(self, kubeconfig: str) -> None:
        """A cluster that could not be opened is looked for where the one who asks would: this process may be older than the variable in a shell.

        Not while another one is open, which would follow.
        """
        names = [name for name, cluster in self.world.clusters.items() if cluster.backend == "kubernetes"]
        if kubeconfig and names and all(isinstance(self.world.backends[name], Unopened) for name in names):
            os.environ["KUBECONFIG"] = kubeconfig

    def _outdated(self) -> bool:
        if not self._again and self._configured is not None and self._configured.outdated():
            self._begin_anew()
        return self._again

    async def _reconfigure(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        if not connection.admin:
            raise ShimError(plain(f"slurm_reconfigure error: {INVALID_USER_ID}"))
        self.triggers.reconfigured()
        return {"kept": list(self.keeping.kept)}

    async def _take_in(self, cluster: str) -> None:
        if not isinstance(self.world.backends.get(cluster), KeepsJobs):
            return  # one that is being opened, too: its jobs are taken in then
        found = await self.importing.take_in(cluster)
        if self._store.meta(LOOKED + cluster) is None:
            self._store.set_meta(LOOKED + cluster, "yes")
        if found:
            self.allocations.expect()  # nobody is attached to those of another machine

    async def _listen(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """Whether clusters elsewhere answer is known afterwards, and in the index."""
        names = message.get("clusters")
        backends = [one for name, one in self.world.backends.items() if not names or name in names]
        for one in backends:
            if isinstance(one, Unopened):
                with suppress(ShimError):
                    await self._usable(one.cluster)
        await asyncio.gather(*[backend.listen() for backend in backends if isinstance(backend, Listens)])
        return {}

    async def _site(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The clusters as they are configured here. A real Slurm is none of them: its programs and files are this user's, and are run by nobody else."""
        own = connection.uid == self.world.uid
        return {
            "clusters": [(one if own else looking.shown_cluster(one)).to_dict() for one in self._clusters],
            "grammar": self._configured.grammar if self._configured is not None else {},
            "real": self._configured is not None and self._configured.real,
        }

    async def _ping(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        return {"pid": os.getpid(), "started": self._started, "version": shim.__version__}

    async def _shutdown(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_soon(self.stop)
        return {}
