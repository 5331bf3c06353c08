"""A page of `shim top` for the documentation: always the same, made by what makes every page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shim.admin.top.gather import columns, node_lines
from shim.admin.top.page import page
from shim.admin.top.snapshot import Cells, Entry, Snapshot, Span
from shim.admin.top.state import State, Told
from shim.core import explanation
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.core.render.view import View

NOW = 1_795_196_163.0  # 2026-11-20 17:36:03 UTC
SIZE = (80, 24)


class _Example(Entry):
    """A job of the example."""

    __slots__ = ("_job", "_view")

    def __init__(self, job: Job, view: View) -> None:
        super().__init__(
            job.cluster,
            job.job_id,
            job.array_label,
            job.name,
            job.user,
            job.partition,
            job.state,
            job.priority,
            job.submit_time,
            job.start_time,
        )
        self._job = job
        self._view = view

    def job(self) -> Job:
        """Its record."""
        return self._job

    def cells(self, now: float) -> Cells:
        """Its columns."""
        return columns(self._job, self._view)


def lines() -> Sequence[list[tuple[str, str]]]:
    """The page, with a job selected that waits."""
    with _greenwich():
        cluster, jobs = _cluster(), _jobs()
        view = View(NOW, lambda: cluster)
        whole, nodes = node_lines(cluster, jobs)
        known = Snapshot(
            now=NOW, clusters=[whole], nodes=nodes, entries=[_Example(job, view) for job in jobs], spans=_past(jobs)
        )
        state = State(selected="41")
        listed = state.listed(known.entries)
        chosen = next(entry for entry in listed if entry.key == state.selected)
        job = chosen.job()
        assert job is not None
        told = Told(reasons=explanation.waiting(job, cluster, jobs, lambda number: [], NOW))
        return page(known, listed, chosen, state, told, SIZE)


@contextmanager
def _greenwich() -> Iterator[None]:
    """The time of the example, wherever it is made."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def _cluster() -> Cluster:
    gpus = (Gres(name="gpu", type="a100", count=4),)
    nodes = tuple(
        Node(
            name=f"gpu{number}",
            cpus=32,
            memory=262144,
            gres=gpus,
            state="DRAIN" if number == 4 else "",
            reason="a fan",
        )
        for number in range(1, 5)
    )
    more = tuple(Node(name=f"cpu{number}", cpus=64, memory=131072) for number in range(1, 3))
    names = tuple(node.name for node in nodes)
    return Cluster(
        name="local",
        nodes=nodes + more,
        partitions=(
            Partition(name="gpu", nodes=names, max_time=2880),
            Partition(name="batch", nodes=("cpu1", "cpu2"), default=True),
        ),
    )


def _jobs() -> list[Job]:
    whole = NodeShare(name="gpu1", cpus=32, memory=131072, gpus=(0, 1, 2, 3))
    return [
        _running(31, "pretrain", "ada", "gpu", 5400, [whole, whole.replace(name="gpu2")]),
        _running(36, "eval", "ben", "gpu", 960, [NodeShare(name="gpu3", cpus=8, memory=65536, gpus=(0,))]),
        _running(38, "clean-corpus", "ada", "batch", 300, [NodeShare(name="cpu1", cpus=48, memory=98304)], limit=120),
        _waiting(41, "finetune-7b", "cleo", "gpu", "Resources", nodes=2, cpus=64, start_time=NOW + 5400),
        _waiting(42, "sweep", "ben", "gpu", "Priority", array_job_id=42, array_tasks="0-23%4", nodes=1, cpus=8),
        _waiting(44, "report", "ada", "batch", "Dependency", dependency="afterok:38(unfulfilled)"),
        _waiting(45, "nightly", "cleo", "batch", "JobHeldUser", held="user", priority=0),
    ]


def _running(
    job_id: int, name: str, user: str, partition: str, seconds: int, shares: list[NodeShare], limit: int = 180
) -> Job:
    return Job(
        job_id=job_id,
        request=JobRequest(name=name),
        user=user,
        partition=partition,
        state="RUNNING",
        time_limit=limit,
        submit_time=NOW - seconds - 20,
        start_time=NOW - seconds,
        end_time=NOW - seconds + 60 * limit,
        shares=tuple(shares),
        nodes=len(shares),
        cpus=sum(share.cpus for share in shares),
    )


def _waiting(
    job_id: int, name: str, user: str, partition: str, reason: str, priority: int = 0, **fields: object
) -> Job:
    gpus = {"gpus_per_node": "4"} if name == "finetune-7b" else {}
    nodes = {"min_nodes": 2} if name == "finetune-7b" else {}
    values = {"priority": 1000 - job_id if not fields.get("held") else priority, "time_limit": 600, **fields}
    return Job(
        job_id=job_id,
        request=JobRequest(name=name, **gpus, **nodes),  # type: ignore[arg-type]
        user=user,
        partition=partition,
        reason=reason,
        submit_time=NOW - 600,
        **values,  # type: ignore[arg-type]
    )


def _past(jobs: Sequence[Job]) -> list[Span]:
    """What has run in the last hour: these jobs, and some that have ended."""
    ended = [
        Span(start=NOW - 3600, end=NOW - 2400, cpus=96, gpus=3),
        Span(start=NOW - 2700, end=NOW - 1500, cpus=40),
        Span(start=NOW - 1400, end=NOW - 700, cpus=120, gpus=2),
    ]
    running = [job for job in jobs if job.shares]
    return ended + [
        Span(start=job.start_time, cpus=job.cpus, gpus=sum(len(share.gpus) for share in job.shares)) for job in running
    ]
