"""The local backend: run folders, agents from the fork server, one watcher per run."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence

from shim.control import launchers, paths
from shim.control.backends.base import BackendError, Observer, Order, Run
from shim.control.backends.local import runs
from shim.control.backends.local.idle import IdleLeaders
from shim.control.backends.local.line import Line
from shim.control.backends.local.spawner import Spawner
from shim.control.backends.local.watch import Watch
from shim.control.threads import aside
from shim.core.admission import elastic
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.job import simulated_time
from shim.job.agent import isolation
from shim.job.spec import RunSpec

TIDY = 1.0  # seconds after which what runs have left on disk is removed while others go on


class LocalBackend:
    """This machine as virtual nodes. See ``backends.base.Backend`` for what each method promises."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._spawner = Spawner()
        self._watches: dict[Run, Watch] = {}
        self._idle = IdleLeaders(self._dispose)
        self._observer: Observer
        self._orphans: dict[Run, asyncio.Event] = {}  # runs that the index does not know; set when they are gone
        self._burials: dict[Run, asyncio.Task[None]] = {}
        self._gone: list[str] = []  # folders that are to be removed
        self._tidying: asyncio.TimerHandle | None = None
        self._removal: asyncio.Future[None] | None = None  # the last one
        self._private = ""  # the folder with the files that nodes mount
        self._commands = ""  # the folder with our commands, once it is known

    async def open(self, observer: Observer) -> Cluster:
        self._observer = observer
        if self._cluster.settings.get("isolation") == isolation.NAMESPACES:
            addresses = {node.name: node.address for node in elastic.all_nodes(self._cluster)}
            self._private = os.path.join(paths.ensure(paths.state_dir()), f"private.{self._cluster.name}")
            isolation.prepare(self._private, addresses, launchers.folder(), paths.hosts_head())
        return self._cluster

    async def warm(self) -> None:
        """Starts the fork server before the first job needs it."""
        await self._spawner.warm()

    async def recover(self, runs_: Sequence[tuple[Run, int]]) -> None:
        wanted = dict(runs_)
        for run in runs.existing():
            # Runs of a cluster that is called otherwise now are not ours to end.
            if run.cluster == self._cluster.name and run not in wanted and run not in self._watches:
                self._end_orphan(run)
        for run, seen in wanted.items():
            if runs.journal(run) or (seen and runs.alive(run)):
                self._watch(run, seen)
                self._watches[run].catch_up()
            elif seen:
                # Its folder is gone though it had begun: somebody removed it, agents and all.
                self._observer.lost(run, "the run's folder is gone")
            # Else not all of its agents may have been asked for, though the first waits for the others: ``start`` asks for all of them.

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        run = Run(cluster=spec.cluster.name, job_id=spec.job.job_id, restart=spec.job.restarts)
        if run in self._orphans:
            # A new index counts from 1 again: its job waits until the one of that id from before is gone.
            await self._orphans[run].wait()
        if run in self._watches:
            return
        places = [f"{spec.isolate} {node.name}" for node in spec.nodes]
        idle = self._idle.take(places[0])
        try:
            new = self._create(run, spec, environment, script, idle)
        except OSError as problem:
            if idle is not None:
                self._idle.add(places[0], idle)
            raise BackendError(f"{problem.strerror}: {problem.filename}", transient=True) from problem
        if not new and runs.journal(run):
            if idle is not None:
                self._idle.add(places[0], idle)
            self._watch(run, 0)
            return
        try:
            line = await self._start_agents(run, places, idle)
        except BackendError:
            if not await self._begun_anyway(run, new, len(places)):
                raise
            self._watch(run, 0)
            return
        again = (lambda: self._another(run, places[0])) if idle is not None else None
        self._watches[run] = Watch(run, 0, self._observer, line, again, places[0], self._cluster.kill_wait)

    async def _start_agents(self, run: Run, places: Sequence[str], idle: Line | None) -> Line:
        """Starts an agent at each place; the connection to the leader, which is ``idle``'s if there is one. BackendError, with ``idle`` put back."""
        line = idle
        try:
            line = line or await self._leader(run, places[0])
            for index, place in enumerate(places[1:], 1):
                await self._spawner.spawn(runs.folder(run), index, place)
        except BackendError:
            if idle is not None:
                self._idle.add(places[0], idle)
            elif line is not None:
                line.close()
            raise
        return line

    async def _begun_anyway(self, run: Run, new: bool, agents: int) -> bool:
        """Whether a run whose agents could not all be asked for runs all the same: only the answer was lost. Else it may be tried again."""
        if not new:
            return False
        if agents > 1:
            # Agents that did start wait for the others in vain: without its folder their run is none, and the
            # next start of this job, perhaps on other nodes, gets a folder, a key and agents of its own.
            await aside(runs.remove, run)
            return False
        return not await aside(runs.withdraw, run)

    def _create(
        self, run: Run, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, idle: Line | None
    ) -> bool:
        """``runs.create``, of what an idle leader's last run has left if there is one. OSError."""
        used = ""
        if idle is not None:
            used, idle.folder = idle.folder, ""
        # The state folder goes to every task: the host's name, which else leads to it, differs there.
        state = paths.state_dir()
        own = {paths.HOST_VARIABLE: state}
        if os.path.exists(simulated_time.path(state)):
            own[simulated_time.VARIABLE] = state
        spec = spec.replace(private=self._private, own=own)
        return runs.create(run, spec, environment, script, used)

    async def _leader(self, run: Run, place: str) -> Line:
        """Asks the fork server for the run's first agent; the connection that it is given. BackendError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                await self._spawner.spawn(runs.folder(run), 0, place, theirs)
            except BaseException:
                ours.close()
                raise
        return Line(ours)

    async def _another(self, run: Run, place: str) -> Line | None:
        try:
            return await self._leader(run, place)
        except BackendError:
            return None

    def catch_up(self, run: Run) -> None:
        watch = self._watches.get(run)
        if watch is not None:
            watch.catch_up()
            return
        for line in runs.journal(
            run
        ):  # it has begun while its start was still under way; who watches it then tells this again
            if line["kind"] in ("ending", "ended"):
                return  # and its end
            self._observer.happened(run, line)

    async def order(self, run: Run, order: Order) -> None:
        watch = self._watches.get(run)
        if watch is not None:
            watch.order(order)

    async def forget(self, run: Run) -> None:
        watch = self._watches.pop(run, None)
        line = await watch.forget() if watch is not None else None
        gone = ""
        try:
            gone = runs.put_away(run)
        finally:  # whatever the disk says: a leader that nobody has would wait for ever
            if watch is not None and line is not None and not line.closed:
                line.folder = gone
                self._idle.add(watch.place, line)
            elif gone:
                self._dispose(gone)

    def _dispose(self, folder: str) -> None:
        """Removes what was put away."""
        self._gone.append(folder)
        self._tidy_soon()

    def reach(self, run: Run) -> str:
        return runs.folder(run)

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        # The names of virtual nodes are the names that resolve: a mount namespace, or addresses.
        return tuple(share.replace(host=share.name) for share in shares)

    def commands(self) -> str:
        if not os.path.isdir(self._commands):
            self._commands = launchers.folder()
        return self._commands

    async def close(self) -> None:
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            await watch.close()
        self._idle.close()
        if self._tidying is not None:
            self._tidying.cancel()
            if self._removal is not None:
                await self._removal
            self._tidy()
        if self._removal is not None:
            await self._removal
        await self._spawner.close()

    def _tidy_soon(self) -> None:
        """At once when nothing runs any more; else together with what others leave in a while."""
        if self._tidying is not None:
            if self._watches:
                return
            self._tidying.cancel()
        self._tidying = asyncio.get_running_loop().call_later(TIDY if self._watches else 0, self._tidy)

    def _tidy(self) -> None:
        """A dozen unlinks for each run: other runs' events need not wait for the disk, and those of many go together."""
        self._tidying = None
        gone, self._gone = self._gone, []
        self._removal = asyncio.ensure_future(aside(runs.clear, gone))

    def _watch(self, run: Run, seen: int) -> None:
        if run not in self._watches:
            self._watches[run] = Watch(run, seen, self._observer, kill_wait=self._cluster.kill_wait)

    def _end_orphan(self, run: Run) -> None:
        """Ends a run that the index does not know: nobody would ever see its result."""
        if not runs.alive(run):
            runs.remove(run)
            return
        watch = Watch(run, 0, _Nobody(self), kill_wait=self._cluster.kill_wait)
        self._watches[run] = watch
        self._orphans[run] = asyncio.Event()
        watch.order(Order(number=1, kind="end", state="CANCELLED", why="the index does not know this job"))

    def _orphan_ended(self, run: Run) -> None:
        if run in self._orphans:
            self._burials[run] = asyncio.ensure_future(self._bury(run))

    async def _bury(self, run: Run) -> None:
        try:
            await self.forget(run)
        finally:
            self._orphans.pop(run).set()
            self._burials.pop(run)


class _Nobody:
    """Observes an orphan: only its end matters."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def happened(self, run: Run, event: Mapping[str, object]) -> None:
        if event["kind"] == "ended":
            self._backend._orphan_ended(run)

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        self._backend._orphan_ended(run)

    def withdrawn(self, run: Run, reason: str) -> None:
        self._backend._orphan_ended(run)

    def trouble(self, cluster: str, text: str) -> None:
        """Nothing to do."""

    def unknown(self, cluster: str) -> None:
        """Nothing to do."""

    def wanted(self, cluster: str) -> None: ...

    def outdated(self, cluster: str) -> None:
        """Nothing to do."""

    def cluster_changed(self, cluster: Cluster) -> None:
        """Nothing to do: an orphan has no cluster."""
