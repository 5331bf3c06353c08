"""A user's machine with a controller: the real backend and its drivers, and of the controller what the backend relies on.

The index survives the process, unless the disk is lost. What a controller does is in ``control/controller/observing.py``,
``launching.py`` and ``importing.py``; here is the least of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import BackendError, Order, Run
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.cluster.watches import Watching
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.records.record import JobRecord
from shim.control.backends.kubernetes.run.driver import Prepared
from shim.control.backends.kubernetes.settings import settings_of, texts
from shim.control.backends.kubernetes.submit.accepting import Accepting
from shim.control.backends.kubernetes.submit.arrays import Arrays
from shim.control.backends.kubernetes.submit.wishing import Wishes
from shim.control.lifecycle import tasks
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from tests.control.backends.kubernetes.run.driven.loop import PROCESS, Process
from tests.control.backends.kubernetes.run.driven.server import Access, node_object
from tests.control.backends.kubernetes.run.things import Violation

if TYPE_CHECKING:
    from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule

SHAPE = Cluster(
    name="k8s",
    backend="kubernetes",
    kill_wait=0,
    settings=texts({"image": "python", "bind_wait": 20, "boot_limit": 60, "node_wait": 15, "namespace": "default"}),
)
SETTINGS = settings_of(SHAPE)
TRIES = 10.0  # seconds, at most, until a start is tried again
Line = Mapping[str, Any]


class Lease:
    """Whether this process believes that it orders the jobs: the world says so, to several at a time if it likes."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.holder = ""

    async def close(self) -> None: ...


class Shape:
    """Of a cluster whose nodes are all alike, and with room for everything."""

    names_nodes = counts = True

    async def settled(self) -> None: ...

    def look(self) -> None: ...


class Home:
    """``jobs`` and ``orders`` are on the disk."""

    def __init__(self, world: DrivenSchedule, name: str) -> None:
        self.world, self.name = world, name
        self.jobs: dict[int, Job] = {}
        self.orders: dict[int, Order] = {}
        self.files: dict[str, bytes] = {}
        self.folders: set[Run] = set()
        self.stuck = 0.0  # until then its watches tell nothing
        self.process = Process()
        self.boot()

    # The process

    def boot(self) -> None:
        """A new process on the same disk."""
        self.process = Process()
        self.controller = self.process.context.run(Controller, self)
        self.process.context.run(self.controller.begin)

    def kill(self) -> None:
        """As kill -9. What goes on in it has no effect on anything."""
        self.world.cluster.say("controller killed", self.name)
        self.world.loop.go_on(self.process)
        self.process.dead = True
        for link in [one for agent in self.world.cluster.processes for one in list(agent.connections)]:
            if link.process is self.process:
                link.end()
        for task in list(self.process.tasks):
            task.cancel()
        self.world.cluster.api.watchers = [one for one in self.world.cluster.api.watchers if one.home is not self]

    def restart(self) -> None:
        self.kill()
        self.boot()

    def loses_disk(self) -> None:
        self.kill()
        self.jobs, self.orders, self.files, self.folders = {}, {}, {}, set()
        self.boot()

    def spool(self, job_id: int) -> str:
        return f"/{self.name}/{job_id}"

    def commit(self, controller: Controller, job: Job) -> None:
        """The index has the job like this."""
        if controller.process.dead:
            return
        before = self.jobs.get(job.job_id)
        if before is not None and before.state in states.TERMINAL and before.state != job.state:
            raise Violation(f"{self.name}: job {job.job_id} had ended: {before.state}, {job.state} {job.restarts}")
        self.jobs[job.job_id] = job
        if job.state in states.TERMINAL:
            self.world.cluster.say(self.name, "has the end of", job.job_id, job.state)
            self.world.told.setdefault(job.job_id, []).append((self.name, job.state))
            self.world.note_end(job)
        controller.backend.keep(job)


class Controller:
    """One process."""

    def __init__(self, home: Home) -> None:
        self.home, self.world, self.process = home, home.world, home.process
        self.under_way: set[int] = set()
        self.importing = asyncio.Lock()
        self.pauses: dict[int, tuple[float, float]] = {}  # when a job may be started again, and the last pause
        self.ready = self.anew = False
        self.open()

    def open(self) -> None:
        """As ``KubernetesBackend.open``, without a configuration and a cluster to be found."""
        world = self.world
        backend = self.backend = KubernetesBackend(SHAPE)
        site = Site(Access(world.server, self.home), "default", "k8s", self.home.name * 32)  # type: ignore[arg-type]
        offset, rate = world.rng.random() * 1000, 0.99 + world.rng.random() * 0.02
        site.clock = lambda: world.loop.now * rate + offset  # type: ignore[method-assign]
        site.now = lambda: world.loop.now  # type: ignore[method-assign]
        site.log = self.log  # type: ignore[method-assign]
        site.names_nodes = world.nodes_readable
        backend._observer, backend._site = self, site  # type: ignore[assignment]
        backend._shape, backend._lease = Shape(), Lease()  # type: ignore[assignment]
        backend._preparing = self  # type: ignore[assignment]
        backend._watching = Watching(site, backend._changed, backend._synced, lambda what, text: None)
        backend._wishes = Wishes(site)
        backend._arrays = Arrays(site, lambda: backend._index, backend._overtaken)
        backend._accepting = Accepting(site, backend._wishes, SHAPE, backend._arrays)
        site.host = "host" if world.one_host else self.home.name
        self.site = site

    def log(self, text: str, *words: Any, exc_info: bool = False) -> None:
        if exc_info and not self.process.dead:
            logging.getLogger("driven").exception("")
            self.world.loop.problems.append(Violation(f"{self.home.name}: {text % words}"))

    def begin(self) -> None:
        self.backend._watching.start()
        self.task(self.work())

    def task(self, work: Any) -> None:
        self.world.loop.create_task(work, context=self.process.context).add_done_callback(self.done)

    def done(self, task: asyncio.Task[Any]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not self.process.dead:
            self.world.loop.problems.append(problem)

    # In place of Preparing

    async def common(self) -> None: ...

    def of(self, spec: Any, *_: Any) -> Callable[[JobRecord, int], Any]:
        job: Job = spec.job

        async def prepare(record: JobRecord, number: int) -> Prepared:
            await self.site.records.payload(record)
            gang = Gang(
                job_id=job.job_id, restart=job.restarts, record=record.uid, number=number, nodes=job.nodes, cpus=1,
                image="python", command=("true",), digest="d" * 64,
                jobless=job.array_task_id is not None and job.nodes == 1,
            )  # fmt: skip
            return Prepared(gang=gang, settings=SETTINGS, contents={"key": b"k"})

        return prepare

    # What it does by itself

    async def work(self) -> None:
        backend, jobs = self.backend, self.home.jobs
        for job in list(jobs.values()):
            if job.state not in states.TERMINAL:
                backend.keep(job)
        await backend.ordering()
        await self.take_in()
        runs = [job for job in jobs.values() if job.state in states.ALLOCATED]
        await backend.recover([(run_of(job), job.journal) for job in runs])
        self.ready = True
        self.world.cluster.say(self.home.name, "orders the jobs")
        for before in runs:
            job = jobs[before.job_id]
            if job.restarts != before.restarts or job.state not in states.ALLOCATED:
                continue
            if job.journal:
                await self.pass_on(job)
            else:
                self.launch(job)
        await self.take_in()
        while True:
            self.look()
            await asyncio.sleep(1.0 + self.world.rng.random() * 2)

    def look(self) -> None:
        """The scheduler."""
        nodes = {name: machine.shown for name, machine in self.world.cluster.machines.items()}
        if not self.world.chaos or self.world.rng.random() < 0.3:
            self.site.nodes = {name: node_object(name, node) for name, node in nodes.items() if node is not None}
        now = self.world.loop.now
        for job in list(self.home.jobs.values()):
            due = self.pauses.get(job.job_id, (0.0, 0.0))[0]
            if job.state == states.PENDING and now >= due and (not self.world.chaos or self.world.rng.random() < 0.6):
                shares = tuple(NodeShare(name="n0") for _ in range(job.nodes))
                job = self.task_of(job)
                self.commit(job.replace(state=states.CONFIGURING, shares=self.backend.hosts(shares, job), journal=0))
                self.launch(self.home.jobs[job.job_id])

    def task_of(self, job: Job) -> Job:
        """Of an array its first task, as a job of its own."""
        waiting = tasks.pending_tasks(job)
        if waiting is None:
            return job
        own, rest = tasks.split(job, waiting.first, self.world.next_id())
        if rest is not None:
            self.commit(rest)
        return own

    def commit(self, job: Job) -> None:
        self.home.commit(self, job)

    def launch(self, job: Job) -> None:
        if job.job_id not in self.under_way:
            self.under_way.add(job.job_id)
            self.task(self._launch(job))

    async def _launch(self, job: Job) -> None:
        spec = SimpleNamespace(job=job, cluster=SHAPE, nodes=[SimpleNamespace(host=one.host) for one in job.shares])
        try:
            await self.backend.start(spec, {}, b"", self.home.spool(job.array_job_id or job.job_id))  # type: ignore[arg-type]
        except BackendError as error:
            current = self.home.jobs[job.job_id]
            if current.restarts == job.restarts and current.state in states.ALLOCATED:
                self.world.cluster.say(self.home.name, "did not start", job.job_id, error)
                order = self.home.orders.pop(job.job_id, None)
                if order is not None:
                    self.commit(current.replace(state=order.state))
                else:
                    self.waits_again(current) if error.transient else self.commit(current.replace(state=states.FAILED))
        finally:
            self.under_way.discard(job.job_id)
        await self.pass_on(job)

    async def pass_on(self, job: Job) -> None:
        order = self.home.orders.get(job.job_id)
        if order is not None and job.job_id not in self.under_way:
            await self.backend.order(run_of(job), order)

    async def take_in(self) -> None:
        """Importing."""
        async with self.importing:
            await self._take_in()

    async def _take_in(self) -> None:
        while True:
            try:
                found = await self.backend.kept()
                break
            except BackendError:
                await asyncio.sleep(5.0)
        await self.look_on()
        for kept in found:
            known = self.home.jobs.get(kept.job.job_id)
            if known is not None:
                self.backend.keep(known)
                continue
            self.keep_files(kept.job.job_id, kept.files)
            self.commit(kept.job)
            if kept.job.state not in states.TERMINAL and self.backend.orders:
                await self.backend.take_up(kept.run)

    async def look_on(self) -> None:
        if self.backend.orders and self.ready:
            return
        try:
            shown = await self.backend.shown(list(self.home.jobs.values()))
        except BackendError:
            return
        for job in shown:
            if not self.process.dead and self.home.jobs[job.job_id].state in states.TERMINAL:
                del self.home.jobs[job.job_id]  # an end that another machine, which ordered the job, knew nothing of
            self.commit(job)
            if job.state not in states.ALLOCATED:
                self.home.orders.pop(job.job_id, None)

    # Users

    async def submit(self, job: Job) -> None:
        try:
            spool = self.home.spool(job.job_id)
            number = await self.backend.accept(job, {"token": f"t{job.job_id}"}, b"#!/bin/sh\n", spool)
        except BackendError:
            return
        if not self.process.dead:
            self.world.cluster.say(self.home.name, "accepted", number)
            self.world.accepted.add(number)
            if number not in self.home.jobs:
                self.keep_files(number, {})
                self.commit(job.replace(place=self.backend.place))

    def keep_files(self, job_id: int, files: Mapping[str, bytes]) -> None:
        """The spool."""
        for name, content in {"submission.json": b"{}", **files}.items():
            self.home.files[f"{self.home.spool(job_id)}/{name}"] = content

    async def cancel(self, job_id: int) -> None:
        job = self.home.jobs.get(job_id)
        if job is None or not self.ready or job.state in states.TERMINAL:
            return
        self.world.cluster.say(self.home.name, "cancels", job_id)
        if job.state == states.PENDING:
            self.commit(job.replace(state=states.CANCELLED))
        else:
            self.home.orders[job_id] = Order(number=1, kind="end", state=states.CANCELLED, uid=1001)
            await self.pass_on(job)

    # The observer

    def happened(self, run: Run, event: Line) -> None:
        event = dict(event)
        self.world.loop.call_later(self.world.rng.random() * 0.2, self.take, run, event)

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        self.happened(run, {"kind": "lost", "reason": reason})

    def withdrawn(self, run: Run, reason: str) -> None:
        self.happened(run, {"kind": "withdrawn", "reason": reason})

    def unknown(self, cluster: str) -> None:
        self.task(self.take_in())

    def outdated(self, cluster: str) -> None:
        """Begins anew, soon: till then it goes on as before."""
        if not self.anew:
            self.anew = True
            self.world.later(self.world.rng.choice((0.0, 5.0)), self._anew, process=self.process)

    def _anew(self) -> None:
        if self.home.controller is self:
            self.home.restart()

    def wanted(self, cluster: str) -> None: ...

    def trouble(self, cluster: str, text: str) -> None: ...

    def cluster_changed(self, cluster: Cluster) -> None: ...

    def take(self, run: Run, event: dict[str, Any]) -> None:
        """Observing._take."""
        if self.process.dead:
            return
        job = self.home.jobs.get(run.job_id)
        kind = event["kind"]
        if job is None or job.restarts != run.restart or job.state not in states.ALLOCATED:
            if kind in ("ended", "lost", "withdrawn") and job is not None:
                self.task(self.backend.forget(run))
            return
        number = int(event.get("n", 0))
        if number and number <= job.journal:
            return
        if kind in ("waits", "placed", "ending", "step", "step-end"):
            return
        if number:
            job = job.replace(journal=number)
        self.world.cluster.say(self.home.name, "hears of", run.job_id, run.restart, kind, event.get("state", ""))
        order = self.home.orders.get(job.job_id)
        if kind == "started":
            self.commit(job.replace(state=states.RUNNING))
            return
        if kind == "withdrawn" and order is None:
            if job.state == states.CONFIGURING:
                self.waits_again(job)
            else:
                self.commit(job.replace(state=states.FAILED))
        else:
            state = event["state"] if kind == "ended" else order.state if order is not None else states.NODE_FAIL
            self.ended(job, state, bool(event.get("final")))
        self.home.orders.pop(job.job_id, None)
        self.task(self.backend.forget(run))

    def ended(self, job: Job, state: str, final: bool) -> None:
        if state == states.REQUEUED or (state == states.NODE_FAIL and job.request.requeue and not final):
            self.commit(job.replace(state=states.PENDING, restarts=job.restarts + 1, journal=0, shares=()))
        else:
            self.commit(job.replace(state=state))

    def waits_again(self, job: Job) -> None:
        pause = min(2 * self.pauses.get(job.job_id, (0.0, 0.5))[1], TRIES)
        self.pauses[job.job_id] = (self.world.loop.now + pause, pause)
        self.commit(job.replace(state=states.PENDING, journal=0, shares=()))


class Folders:
    """In place of ``run_folders``: of the home on whose behalf it is asked."""

    def __init__(self, world: DrivenSchedule) -> None:
        self.world = world

    @property
    def _here(self) -> set[Run]:
        process = PROCESS.get()
        home = next(home for home in self.world.homes if home.process is process)
        return home.folders

    def ensure(self, run: Run, key: Any = None) -> str:
        self._here.add(run)
        return ""

    def known(self, cluster: str) -> list[Run]:
        return list(self._here)

    def remove(self, cluster: str, job_id: int, before: int | None = None) -> None:
        here = self._here
        here -= {run for run in here if run.job_id == job_id and (before is None or run.restart < before)}


class Files:
    """In place of ``rawfile``: the disks of all homes."""

    def __init__(self, world: DrivenSchedule) -> None:
        self.world = world

    def _of(self, path: str) -> dict[str, bytes]:
        return next(home.files for home in self.world.homes if path.startswith(f"/{home.name}/"))

    def read(self, path: str) -> bytes:
        if path not in self._of(path):
            raise FileNotFoundError(path)
        return self._of(path)[path]

    def write(self, path: str, content: bytes) -> None:
        self._of(path)[path] = content


def run_of(job: Job) -> Run:
    return Run(cluster="k8s", job_id=job.job_id, restart=job.restarts)
