"""The clusters whose jobs run from here, out of the index: by the readers of squeue and sinfo, and their fields."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from shim.admin import why
from shim.admin.top.snapshot import TARGET, Cells, ClusterLine, Entry, NodeLine, Snapshot, Span, total
from shim.commands import site_view
from shim.commands.site_view import Views
from shim.control.index.query import JobQuery
from shim.control.index.reader import Reader
from shim.core import memo
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.render.job_fields import LETTERS
from shim.core.render.node_state import NodeUse, uses
from shim.core.render.view import View

SHOWN = "iPjutMDRlLCSNE"  # squeue's letters
HISTORY = 3600.0  # seconds that the curve goes back


class Gatherer:
    """Looks at the index again and again; a record that is the same as before is not decoded again."""

    def __init__(self) -> None:
        self.reader: Reader | None = None
        self._known: dict[int, _Own] = {}  # by key
        self._views = Views()

    def look(self, *, ended: bool = False, history: bool = True) -> Snapshot:
        """What the index says now; ``ended``: with the jobs that ended a short while ago. IndexFault, ShimError."""
        memo.renew()
        self.reader = reader = site_view.index()
        self._views = Views()
        clusters = site_view.site_clusters()
        if reader is None:
            own = [_nodes(cluster, []) for cluster in clusters]
            return Snapshot(
                now=time.time(), clusters=[one for one, _ in own], nodes=[node for _, all_ in own for node in all_]
            )
        entries = self._entries(reader, ended)
        holding = [job for entry in entries if entry.state in states.ALLOCATED and (job := entry.job()) is not None]
        own = [_nodes(cluster, [job for job in holding if job.cluster == cluster.name]) for cluster in clusters]
        gpus = any(line.gpus for line, _ in own)
        spans = reader.spans(time.time() - HISTORY, gpus=gpus) if history else []
        return Snapshot(
            now=time.time(),
            clusters=[line for line, _ in own],
            nodes=[node for _, nodes in own for node in nodes],
            entries=entries,
            spans=[Span(start=start, end=end, cpus=cpus, gpus=number) for _, start, end, cpus, number in spans],
            troubles=[f"{name}: {why}" for name, why in reader.troubles()],
        )

    def reasons(self, job: Job) -> list[str]:
        """Why the job waits, or how it ended: as `shim why` says it."""
        return why.reasons(job, self.reader) if self.reader is not None else []

    def newest_step(self, job: Job) -> str:
        """The step of the job that began last and runs, but for its script; "" for none."""
        steps = self.reader.steps([job], running=True) if self.reader is not None else []
        return next((step.step_id for step in reversed(steps) if step.step_id.isdigit()), "")

    def _entries(self, reader: Reader, ended: bool) -> list[Entry]:
        query = JobQuery(active=not ended, ended_since=site_view.shown_since("") if ended else None)
        known, self._known = self._known, {}
        hidden = _Hidden()
        found: list[Entry] = []
        for line in reader.outlines(query):
            entry = known.get(line[0])
            if entry is None or entry.record != line[-1]:
                entry = _Own(self, line)
            self._known[line[0]] = entry
            if not hidden.hides(entry.cluster, entry.partition):
                found.append(entry)
        return found

    def decoded(self, key: int, record: str) -> Job:
        """The job of a line of the index."""
        assert self.reader is not None  # the line came from it, or from one before
        return self.reader.decoded(key, record)

    def cells(self, job: Job, now: float) -> Cells:
        """The columns of a job, as squeue shows them."""
        view = self._views.of(job.cluster)
        view.now = now
        return columns(job, view)


def columns(job: Job, view: View) -> Cells:
    """The columns of a job, as squeue shows them."""
    cells = {letter: LETTERS[letter][1](job, view) for letter in SHOWN}
    cells[TARGET] = job.array_label.partition("%")[0]
    if job.array_tasks is not None:
        cells[TARGET] = cells[TARGET].rstrip("]") + "]"
    return cells


class _Own(Entry):
    """A job of the index. Its record is decoded when somebody wants it."""

    __slots__ = ("_gatherer", "_job", "_line")

    def __init__(self, gatherer: Gatherer, line: Sequence[Any]) -> None:
        key, cluster, job_id, _array, _task, user, uid, name, partition, state, priority, submit, start, _ = line
        super().__init__(
            cluster,
            job_id,
            f"{cluster} {key}",
            name or "",
            user or str(uid),
            partition or "",
            state,
            priority or 0,
            submit or 0.0,
            start or 0.0,
        )
        self._gatherer = gatherer
        self._line = line
        self._job: Job | None = None

    @property
    def record(self) -> str:
        """As the index has it."""
        return str(self._line[-1])

    def job(self) -> Job:
        """Its record."""
        if self._job is None:
            self._job = self._gatherer.decoded(self._line[0], self._line[-1])
        return self._job

    def cells(self, now: float) -> Cells:
        """Its columns at that time."""
        return self._gatherer.cells(self.job(), now)


class _Hidden:
    """The partitions that the caller does not see, as in squeue."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def hides(self, cluster: str, partitions: str) -> bool:
        """Whether the caller sees none of these partitions."""
        unseen = self._of.get(cluster)
        if unseen is None:
            unseen = self._of[cluster] = site_view.hidden_partitions(cluster)
        return bool(unseen) and unseen.issuperset(partitions.split(","))


def _nodes(cluster: Cluster, jobs: Sequence[Job]) -> tuple[ClusterLine, list[NodeLine]]:
    return node_lines(cluster, jobs, site_view.hidden_partitions(cluster.name))


def node_lines(
    cluster: Cluster, jobs: Sequence[Job], unseen: Collection[str] = ()
) -> tuple[ClusterLine, list[NodeLine]]:
    """The sums of a cluster, and the nodes that sinfo shows; ``unseen``: partitions that the caller does not see."""
    names = {name for partition in cluster.partitions if partition.name not in unseen for name in partition.nodes}
    lines = [_node(cluster.name, use) for use in uses(cluster, jobs).values() if use.node.name in names]
    whole = total(
        cluster.name,
        cluster.backend,
        lines,
        one_machine=cluster.one_machine,
        one_set_of_gpus=cluster.one_set_of_gpus,
    )
    return whole, lines


def _node(cluster: str, use: NodeUse) -> NodeLine:
    return NodeLine(
        cluster=cluster,
        name=use.node.name,
        state=use.short,
        cpus=use.node.cpus,
        cpus_used=use.cpus,
        memory=use.node.memory,
        memory_used=use.memory,
        gpus=use.node.gpus,
        gpus_used=sum(len(found) for found in use.gpus.values()),
    )
