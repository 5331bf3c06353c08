"""A controller without processes: a backend that only remembers, clients without sockets, a clock that is set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shim.control import paths
from shim.control.backends.base import Observer, Order, Run
from shim.control.channel import ChannelClosed
from shim.control.controller.controller import Controller
from shim.control.controller.operations.submitting import learn_names
from shim.control.index.opening import open_store
from shim.control.index.store import Store
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.job.spec import RunSpec

NOW = 1_700_000_000.0
CLUSTER = Cluster(
    name="local",
    nodes=tuple(Node(name=f"node{number}", cpus=4, memory=8000) for number in range(1, 5)),
    partitions=(Partition(name="debug", nodes=("node1", "node2", "node3", "node4"), default=True),),
    settings={"requeue_delay": "1"},
)


class Clock:
    """Seconds since the epoch; goes on when told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class FakeBackend:
    """Remembers what it was asked; ``tell`` makes a run's leader write a line. Outlives controllers, as runs do."""

    def __init__(self, cluster: Cluster = CLUSTER) -> None:
        self.cluster = cluster
        self.observer: Observer | None = None
        self.journals: dict[Run, list[dict[str, Any]]] = {}
        self.specs: dict[Run, RunSpec] = {}
        self.environments: dict[Run, Mapping[str, str]] = {}
        self.scripts: dict[Run, bytes | None] = {}
        self.orders: dict[Run, dict[int, Order]] = {}
        self.forgotten: list[Run] = []
        self.dead: set[Run] = set()
        self.starts: list[Run] = []
        self.problem: Exception | None = None

    async def open(self, observer: Observer) -> Cluster:
        self.observer = observer
        return self.cluster

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        assert self.observer is not None
        for run, seen in runs:
            for line in self.journals.get(run, [])[seen:]:
                self.observer.happened(run, line)
            if run in self.dead:
                self.observer.lost(run, "dead")

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        if self.problem is not None:
            raise self.problem
        run = Run(cluster=spec.cluster.name, job_id=spec.job.job_id, restart=spec.job.restarts)
        if run in self.journals:
            return
        self.starts.append(run)
        self.journals[run] = []
        self.specs[run] = spec
        self.environments[run] = environment
        self.scripts[run] = script

    async def order(self, run: Run, order: Order) -> None:
        self.orders.setdefault(run, {})[order.number] = order

    async def forget(self, run: Run) -> None:
        self.forgotten.append(run)

    def reach(self, run: Run) -> str:
        return f"/run/{run.job_id}.{run.restart}"

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        return tuple(share.replace(host=share.name) for share in shares)

    def commands(self) -> str:
        return "/opt/bin"

    async def close(self) -> None:
        self.observer = None

    def tell(self, job: int, kind: str, *, restart: int = 0, at: float = NOW, **fields: Any) -> None:
        """The leader of the job's run writes a line; a controller that is there hears of it."""
        run = Run(cluster=self.cluster.name, job_id=job, restart=restart)
        journal = self.journals[run]
        line = {"n": len(journal) + 1, "at": at, "kind": kind, **fields}
        journal.append(line)
        if self.observer is not None:
            self.observer.happened(run, line)

    def write(self, job: int, kind: str, *, at: float = NOW, **fields: Any) -> None:
        """The leader writes a line of which nobody tells the controller: it is there to be read."""
        journal = self.journals[Run(cluster=self.cluster.name, job_id=job, restart=0)]
        journal.append({"n": len(journal) + 1, "at": at, "kind": kind, **fields})

    def catch_up(self, run: Run) -> None:
        assert self.observer is not None
        for line in self.journals.get(run, ()):
            self.observer.happened(run, line)

    def orders_of(self, job: int, restart: int = 0) -> list[Order]:
        """What the job's run was told, in order."""
        orders = self.orders.get(Run(cluster=self.cluster.name, job_id=job, restart=restart), {})
        return [orders[number] for number in sorted(orders)]


class Client:
    """A connection as operations see it."""

    def __init__(self, uid: int = 1001, *, admin: bool = False, pid: int = 0) -> None:
        self.uid = uid
        self.pid = pid
        self.admin = admin or uid == 0
        self.gid = uid
        self.events: list[dict[str, Any]] = []
        self._gone = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        if self._gone.is_set():
            raise ChannelClosed("gone")
        self.events.append(message)

    def tell(self, message: dict[str, Any]) -> None:
        self.events.append(message)

    @contextmanager
    def watched(self) -> Iterator[asyncio.Future[Any]]:
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            yield gone
        finally:
            gone.cancel()

    def leave(self) -> None:
        """The client dies."""
        self._gone.set()


class Bench:
    """A controller in this process. ``settle`` runs the loop until nothing is left to do at this moment."""

    def __init__(self, backend: FakeBackend, clock: Clock, *others: FakeBackend) -> None:
        self.backend = backend
        self.clock = clock
        self.store: Store = open_store(paths.index_path())
        by_name = {one.cluster.name: one for one in (backend, *others)}
        shapes = tuple(one.cluster for one in by_name.values())
        self.controller = Controller(self.store, shapes, lambda cluster: by_name[cluster.name], clock, 60.0)
        self.controller.world.uid = Client().uid  # whoever runs the tests
        self.controller.observing.rest = 0.0
        self.controller.dispatcher.forecast_every = 0.0
        self.controller.dispatcher.rest = 0.0  # a pass follows at once, however long the last one took
        self._passed = 0.0  # seconds that have gone by for the loop besides the real ones
        loop = asyncio.get_running_loop()
        real = loop.time
        loop.time = lambda: real() + self._passed  # type: ignore[method-assign]

    async def open(self) -> Bench:
        for uid in (0, Client().uid, 1002):
            await learn_names(uid, uid)  # in a thread, for which ``settle`` does not wait
        await self.controller.open()
        await self.settle()
        return self

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        """Time goes by, and what was due happens."""
        self.clock.now += seconds
        self._passed += seconds
        self.controller.dispatcher.kick()
        await self.settle()

    async def ask(self, op: str, client: Client | None = None, **fields: Any) -> dict[str, Any]:
        operation = self.controller.server._operations[op]
        reply = await operation(client or Client(), fields)  # type: ignore[arg-type]
        await self.settle()
        return reply

    async def submit(self, client: Client | None = None, token: str = "", **request: Any) -> int:
        reply = await self.ask("submit", client, **submission(token=token, **request))
        return int(reply["job_id"])

    async def results(
        self, op: str, *targets: dict[str, Any], client: Client | None = None, **fields: Any
    ) -> list[Any]:
        reply = await self.ask(op, client, targets=list(targets), **fields)
        return [result["error"] for result in reply["results"]]

    def job(self, job_id: int) -> Job:
        job = self.store.job(None, job_id)
        assert job is not None
        memory = self.controller.world.book.jobs.get(job.key)
        assert memory is None or memory == job, "what is in memory is what is committed"
        return job

    def labels(self) -> list[str]:
        """The active jobs as ``label state reason``."""
        return [f"{job.array_label} {job.state} {job.reason}" for job in self.store.jobs()]

    async def close(self) -> None:
        await self.controller.close()
        self.store.close()


def submission(*, token: str = "", script: str | None = "#!/bin/sh\ntrue\n", **request: Any) -> dict[str, Any]:
    """The fields of a submit."""
    request.setdefault("work_dir", "/tmp")
    request.setdefault("name", "job")
    return {
        "request": JobRequest(**request).to_dict(),
        "environment": {"PATH": "/usr/bin:/bin", "MINE": "1"},
        "script": script,
        "token": token,
        "submit_line": "sbatch job",
    }


def bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Runs an asynchronous test with a bench of its own."""

    def run(state_dir: Path) -> None:
        async def inside() -> None:
            made = await Bench(FakeBackend(), Clock()).open()
            try:
                await test(made)
            finally:
                await made.close()

        asyncio.run(inside())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run
