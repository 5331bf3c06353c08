"""One run on the cluster in memory, with what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes.gangs import Gang, Placement
from shim.control.backends.kubernetes.life import Life
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.site import Site
from shim.control.backends.kubernetes.tickets import Ticket, TicketFolder
from shim.core.model.cluster import Cluster
from tests.control.backends.kubernetes.fakecluster import JOBS, PODS, FakeCluster
from tests.control.backends.kubernetes.fakeleader import FakeLeader

RUN = Run(cluster="k8s", job_id=7)
SETTINGS = Settings(namespace="default", image="python", bind_wait=60, boot_limit=600, node_wait=300)


class Told:
    """What a backend reports, in order: lines of journals, and ("lost" | "withdrawn", why) in their form."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        self.lines.append(dict(event))

    def lost(self, run: Run, reason: str) -> None:
        self.lines.append({"kind": "lost", "reason": reason})

    def withdrawn(self, run: Run, reason: str) -> None:
        self.lines.append({"kind": "withdrawn", "reason": reason})

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


def gang(submission: str, nodes: int = 2) -> Gang:
    return Gang(
        run=RUN,
        owner="o" * 32,
        submission=submission,
        nodes=nodes,
        cpus=1,
        image="python",
        command=("true",),
        digest="d" * 64,
        place=Placement(on=("n1", "n2")),
    )


class Stage:
    """A run of two nodes whose pods were just made. ``life`` watches it."""

    def __init__(self, cluster: FakeCluster, settings: Settings = SETTINGS) -> None:
        self.cluster = cluster
        self.settings = settings
        self.told = Told()
        self.folder = TicketFolder(RUN)
        self.life: Life
        self.site: Site

    async def begin(self, nodes: int = 2, seen: int = 0, **ticket: Any) -> Stage:
        """Makes the run's objects, or what is missing of them, and begins to watch, as a new controller does."""
        self.told = Told()
        self.folder = TicketFolder(RUN)
        found = self.folder.make()
        if not found.made:
            self.folder.save(found.replace(nodes=nodes, **ticket))
        self.site = Site(self.cluster.access, "default", "k8s", "o" * 32)
        self.site.synced = True
        self.site.nodes = {"n1": {}, "n2": {}}
        self.cluster.watchers.clear()
        self.cluster.watch(JOBS, lambda kind, found: self._take(self.site.seen.job_event, kind, found))
        self.cluster.watch(PODS, lambda kind, found: self._take(self.site.seen.pod_event, kind, found))
        if not self.ticket.made:
            made = gang(found.submission, nodes)
            await self.site.objects.make(made, self.settings, {"key": b"k"}, self.folder)
        self.life = Life(self.site, RUN, self.settings, self.folder, self.told, seen)
        await self.life.begin()
        return self

    @property
    def ticket(self) -> Ticket:
        found = self.folder.load()
        assert found is not None
        return found

    def _take(self, take: Any, kind: str, found: dict[str, Any]) -> None:
        if take(kind, found) is not None and hasattr(self, "life"):
            self.life.poke()

    def lead(self, *kinds: str) -> FakeLeader:
        """A leader that can be reached, with these lines in its journal."""
        self.cluster.leader = FakeLeader(self.folder.key())
        for kind in kinds:
            self.cluster.leader.line(kind)
        return self.cluster.leader

    async def end(self) -> None:
        """Lets everything go."""
        await self.life.close()
        await self.site.close()
        await self.cluster.close()
