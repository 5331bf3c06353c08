"""A job on the cluster in memory, its driver, and what is told of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects.gang_spec import Gang, Placement
from shim.control.backends.kubernetes.records.payload import Payload
from shim.control.backends.kubernetes.records.record import JobRecord, Way
from shim.control.backends.kubernetes.run.driver import Driver, Prepared, next_number
from shim.control.backends.kubernetes.run.register import Register
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from tests.control.backends.kubernetes.fakecluster import JOBS, MAPS, PODS, FakeCluster
from tests.control.backends.kubernetes.fakeleader import FakeLeader

RUN = Run(cluster="k8s", job_id=7)
SETTINGS = Settings(namespace="default", image="python", bind_wait=60, boot_limit=600, node_wait=300)
SECRET = b"s" * 32
RECORD = f"{MAPS}/slurm-7"


class Told:
    """What a backend reports, in order: lines of journals, and ("lost" | "withdrawn", why) in their form."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.unknowns = 0
        self.wants = 0

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        self.lines.append(dict(event))

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        self.lines.append({"kind": "lost", "reason": reason, **({"detail": detail} if detail else {})})

    def withdrawn(self, run: Run, reason: str) -> None:
        self.lines.append({"kind": "withdrawn", "reason": reason})

    def unknown(self, cluster: str) -> None:
        self.unknowns += 1

    def wanted(self, cluster: str) -> None:
        self.wants += 1

    def outdated(self, cluster: str) -> None: ...

    def trouble(self, cluster: str, text: str) -> None: ...

    def cluster_changed(self, cluster: Cluster) -> None:
        """Not looked at."""

    @property
    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.lines]

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1]

    @property
    def ends(self) -> list[dict[str, Any]]:
        """Everything after which nothing may follow."""
        return [line for line in self.lines if line["kind"] in ("ended", "lost", "withdrawn")]


def gang(record: str, number: int = 0, nodes: int = 2) -> Gang:
    return Gang(
        job_id=7,
        restart=number,
        record=record,
        number=number,
        nodes=nodes,
        cpus=1,
        image="python",
        command=("true",),
        digest="d" * 64,
        place=Placement(on=("n1", "n2")),
    )


class Stage:
    """Job 7 of two nodes. ``driver`` drives it; ``index`` is the job as an index would have committed it."""

    def __init__(self, cluster: FakeCluster, settings: Settings = SETTINGS, outputs: tuple[Way, ...] = ()) -> None:
        self.cluster = cluster
        self.settings = settings
        self.outputs = outputs
        self.jobless = False
        self.copied = ""
        self.told = Told()
        self.driver: Driver
        self.site: Site
        self.job = Job(job_id=7, cluster="k8s", nodes=2, state=states.CONFIGURING)

    async def open(self, nodes: int = 2) -> Stage:
        """Makes the job's record, or finds it, and begins to watch, as a new controller does."""
        self.told = Told()
        self.job = self.job.replace(nodes=nodes)
        self.site = Site(self.cluster.access, "default", "k8s", "o" * 32)
        self.site.clock = asyncio.get_running_loop().time  # type: ignore[method-assign]
        self.site.nodes = {"n1": {}, "n2": {}}
        self.cluster.watchers.clear()
        self.cluster.watch(MAPS, self.site.records.event)
        self.cluster.watch(JOBS, lambda kind, found: self._take(self.site.seen.job_event, kind, found))
        self.cluster.watch(PODS, lambda kind, found: self._take(self.site.seen.pod_event, kind, found))
        self.site.records.changed = lambda job_id: self._poke()
        record = JobRecord(name="slurm-7", submission="token", payload="slurm-7-payload", job=self.job)
        await self.site.records.make(record, Payload(secret=SECRET, job=self.job))
        self.site.all_known.set()
        self.driver = Driver(
            self.site, 7, lambda partition: self.settings, 30, self.told, lambda record: record.outputs
        )
        self.driver.index = self.job
        return self

    async def begin(self, nodes: int = 2, restart: int = 0) -> Stage:
        """Starts the job, as the controller asks for it."""
        await self.open(nodes)
        await self.start(restart)
        return self

    async def start(self, restart: int = 0) -> None:
        self.job = self.job.replace(state=states.CONFIGURING, restarts=restart)
        self.driver.index = self.job
        number = next_number(self.register, restart)
        host = f"slurm-7-r{number}-0" if number else "slurm-7-0"
        await self.driver.begin(RUN.replace(restart=restart), host, self._prepare)

    async def resume(self, seen: int) -> Stage:
        """As a new controller that has committed the journal up to line ``seen``."""
        await self.open(self.job.nodes)
        self.driver.follow(RUN.replace(restart=self.job.restarts), seen)
        return self

    async def _prepare(self, record: JobRecord, number: int) -> Prepared:
        made = gang(record.uid, number, self.job.nodes).replace(jobless=self.jobless)
        return Prepared(
            gang=made,
            settings=self.settings,
            contents={"key": b"k"},
            outputs=self.outputs,
            pinned=True,
            copied=self.copied,
        )

    def _take(self, take: Any, kind: str, found: dict[str, Any]) -> None:
        if take(kind, found) >= 0:
            self._poke()

    def _poke(self) -> None:
        if hasattr(self, "driver"):
            self.driver.poke()

    # What is there

    @property
    def data(self) -> dict[str, str]:
        """What the record says."""
        found: dict[str, str] = self.cluster.objects[RECORD]["data"]
        return found

    @property
    def register(self) -> Register | None:
        if RECORD not in self.cluster.objects:
            return None
        text = self.data.get("register")
        return Register.from_dict(json.loads(text)) if text else None

    @property
    def state(self) -> str:
        """Of the register."""
        return self.register.state if self.register is not None else ""

    def lead(self, *kinds: str) -> FakeLeader:
        """A leader that can be reached, with these lines in its journal."""
        record = self.site.records.find(7)
        assert record is not None and record.register is not None
        key = Payload(secret=SECRET, job=self.job).key(record.uid, record.register.run)
        self.cluster.leader = FakeLeader(key)
        for kind in kinds:
            self.cluster.leader.line(kind)
        return self.cluster.leader

    def ask(self, leader: FakeLeader, nonce: str = "nonce", *pods: dict[str, Any]) -> None:
        """The leader's gang has met: these pods, else all."""
        register = self.register
        assert register is not None
        stem = f"slurm-7-r{register.run}" if register.run else "slurm-7"
        found = list(pods) or [self.cluster.pod(index, stem) for index in range(self.job.nodes)]
        leader.ask(nonce, self.cluster.objects[RECORD]["metadata"]["uid"], found, register.run)

    async def granted(self, *kinds: str) -> FakeLeader:
        """A run of pods on n1, n2 … that was granted to its leader, whose journal has these lines then."""
        register = self.register
        stem = f"slurm-7-r{register.run}" if register is not None and register.run else "slurm-7"
        self.cluster.run(*[f"n{index + 1}" for index in range(self.job.nodes)], stem=stem)
        leader = self.lead()
        self.ask(leader)
        await asyncio.sleep(1)
        for kind in kinds:
            leader.line(kind)
        await asyncio.sleep(1)
        return leader

    async def commit(self, state: str = states.COMPLETED) -> None:
        """The index has the end of the run."""
        self.job = self.job.replace(state=state)
        self.driver.index = self.job
        await self.driver.forget()

    async def end(self) -> None:
        """Lets everything go."""
        await self.driver.close()
        await self.site.close()
        await self.cluster.close()
