"""Runs that the index does not know (it was moved away): they are ended, and their ids can be used again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from shim.control.backends.base import Run
from shim.control.backends.local import backend as local
from shim.control.backends.local import runs
from shim.control.backends.local.backend import LocalBackend
from shim.control.backends.local.line import Line
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.spec import RunNode, RunSpec

RUN = Run(cluster="local", job_id=1)
OTHER = Run(cluster="renamed", job_id=2)


def spec(run: Run) -> RunSpec:
    cluster = Cluster(name=run.cluster)
    return RunSpec(job=Job(job_id=run.job_id), cluster=cluster, nodes=(RunNode(name="node1", host="node1"),))


class Nobody:
    def happened(self, run: Run, event: Mapping[str, object]) -> None: ...

    def lost(self, run: Run, reason: str, detail: str = "") -> None: ...

    def withdrawn(self, run: Run, reason: str) -> None: ...

    def trouble(self, cluster: str, text: str) -> None: ...

    def cluster_changed(self, cluster: Cluster) -> None: ...


class Watch:
    """Watches nothing: its run lives until the test says otherwise."""

    def __init__(
        self, _run: Run, _seen: int, _observer: object, line: Line | None = None, *_more: object, **_named: object
    ) -> None:
        self._line = line

    def order(self, order: object) -> None: ...

    async def forget(self) -> None: ...

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()


def test_a_job_with_the_id_of_an_orphan_starts_when_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "Watch", Watch)
    monkeypatch.setattr(runs, "alive", lambda _run, _index=0: True)
    for run in (RUN, OTHER):
        runs.create(run, spec(run), {}, None)
    spawned: list[str] = []

    async def spawn(run_dir: str, *_arguments: object) -> int:
        spawned.append(run_dir)
        return 1

    async def inside() -> None:
        backend = LocalBackend(Cluster(name="local"))
        monkeypatch.setattr(backend._spawner, "spawn", spawn)
        await backend.open(Nobody())
        await backend.recover([])
        starting = asyncio.ensure_future(backend.start(spec(RUN), {"NEW": "1"}, None))
        await asyncio.sleep(0)
        assert not starting.done()
        backend._orphan_ended(RUN)
        await asyncio.wait_for(starting, 30)
        assert spawned == [runs.folder(RUN)]
        assert '"NEW"' in Path(runs.folder(RUN), "spec.json").read_text()
        await backend.close()

    asyncio.run(inside())
    assert OTHER in runs.existing(), "runs of a cluster with another name are left alone"
