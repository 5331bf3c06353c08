"""A start that goes wrong halfway: what cannot have begun is removed and made anew, what may have begun is followed."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order
from shim.control.backends.kubernetes import estate, tickets
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.proxy import Proxy
from shim.core.model import states
from shim.core.model.cluster import Cluster
from tests.contract.support import spec_of
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster, Watcher
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.stage import RUN, Told
from tests.control.backends.kubernetes.test_backend import SHAPE

JOB = f"{JOBS}/slurm-7"
DOWN = ApiError(0, "Timeout", "the API server does not answer in time")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster that every backend of the test finds."""
    found = FakeCluster()

    async def load(*_where: str | None) -> Access:
        return found.access

    monkeypatch.setattr(estate, "Reflector", FakeReflector)
    monkeypatch.setattr(Access, "load", load)
    return found


async def opened(runs: Any = ()) -> tuple[KubernetesBackend, Told, Cluster]:
    backend, told = KubernetesBackend(SHAPE), Told()
    shape = await backend.open(told)
    await backend.recover(runs)
    return backend, told, shape


async def start(backend: KubernetesBackend, shape: Cluster, nodes: int = 2) -> None:
    spec, environment = spec_of(backend, shape, "", job_id=7, nodes=nodes)
    await backend.start(spec, environment, b"#!/bin/sh\n")


def lead(cluster: FakeCluster) -> FakeLeader:
    """The barrier opens."""
    cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
    cluster.leader.line("started")
    cluster.run("n1", "n2")
    return cluster.leader


def submission() -> str:
    ticket = tickets.load(RUN)
    assert ticket is not None
    return ticket.submission


def test_a_job_that_was_let_go_without_an_answer_is_followed(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        cluster.silent_after = 6
        await start(backend, shape)
        assert cluster.said[-1] == "PATCH jobs/slurm-7"
        leader = lead(cluster)
        await asyncio.sleep(2)
        assert told.kinds == ["started"]
        await backend.order(RUN, Order(number=1, kind="end", state=states.CANCELLED))
        await asyncio.sleep(2)
        assert [one["order"]["kind"] for one in leader.asked("order")] == ["end"]
        await backend.close()

    clock.run(inside())


def test_a_job_that_was_not_let_go_after_all_waits_again(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        cluster.refusals["PATCH jobs/slurm-7"] = DOWN
        await start(backend, shape)
        cluster.refusals.clear()
        await asyncio.sleep(120)
        assert [one["kind"] for one in told.ends] == ["withdrawn"]
        await backend.forget(RUN)
        await start(backend, shape)
        assert len(cluster.pods()) == 2
        await backend.close()

    clock.run(inside())


def test_a_controller_that_follows_while_nobody_answers_keeps_what_runs(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape)
        before = submission()
        await backend.close()
        lead(cluster)
        backend, told, shape = await opened([(RUN, 0)])
        get = cluster.get

        async def down(path: str, query: Any = None) -> Any:
            raise DOWN

        monkeypatch.setattr(cluster, "get", down)
        await start(backend, shape)
        monkeypatch.setattr(cluster, "get", get)
        await asyncio.sleep(5)
        assert (told.kinds, submission()) == (["started"], before)
        await backend.close()

    clock.run(inside())


def test_a_job_that_was_never_let_go_is_made_anew_as_it_is_then(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        cluster.refusals["POST secrets/slurm-7"] = ApiError(503, "ServiceUnavailable", "later")
        with pytest.raises(BackendError, match="later") as caught:
            await start(backend, shape, nodes=2)
        assert caught.value.transient
        await asyncio.sleep(1)
        assert JOB not in cluster.objects  # should its job be cancelled now, nothing is left
        cluster.refusals.clear()
        await start(backend, shape, nodes=1)
        ticket = cluster.ticket()
        assert ticket is not None
        told = json.loads(base64.b64decode(ticket["data"]["spec.json"]))
        assert (len(told["nodes"]), cluster.objects[JOB]["spec"]["completions"], len(cluster.pods())) == (1, 1, 1)
        await backend.close()

    clock.run(inside())


def test_what_cannot_be_removed_yet_is_said_of_the_next_try(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        cluster.refusals = {"POST secrets/slurm-7": DOWN, "DELETE jobs/slurm-7": DOWN}
        with pytest.raises(BackendError, match="in time"):
            await start(backend, shape)
        with pytest.raises(BackendError, match="try before is not removed yet: the API server") as caught:
            await start(backend, shape)
        assert caught.value.transient
        cluster.refusals.clear()
        await asyncio.sleep(20)
        await start(backend, shape)
        assert len(cluster.pods()) == 2
        await backend.close()

    clock.run(inside())


def test_a_full_disk_leaves_a_run_without_srun_and_not_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()

        async def full(self: Proxy) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Proxy, "open", full)
        await start(backend, shape)
        lead(cluster)
        await asyncio.sleep(2)
        assert told.kinds == ["started"]
        await backend.close()

    clock.run(inside())


def late(cluster: FakeCluster) -> tuple[list[tuple[str, Any]], list[Watcher]]:
    """The watch of Jobs lags: what it has to tell, and to whom."""
    held: list[tuple[str, Any]] = []
    jobs = [watcher for path, watcher in cluster.watchers if path == JOBS]
    others = [(path, watcher) for path, watcher in cluster.watchers if path != JOBS]
    cluster.watchers = [*others, (JOBS, lambda kind, found: held.append((kind, found)))]
    return held, jobs


@pytest.mark.parametrize("told_late", [True, False])
def test_a_watch_of_jobs_that_lags_says_nothing_of_the_next_try(cluster: FakeCluster, told_late: bool) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        for path in cluster.pods():
            cluster.objects.pop(path)  # none was ever made
        backend._site._pods.clear()
        held, jobs = late(cluster)
        await asyncio.sleep(100)
        assert [one["kind"] for one in told.ends] == ["withdrawn"]
        await backend.forget(RUN)
        await start(backend, shape)
        lead(cluster)
        if told_late:
            for kind, found in held:
                for watcher in jobs:
                    watcher(kind, found)
                await asyncio.sleep(1)
        await asyncio.sleep(90)
        assert (len(cluster.pods()), len(told.ends), told.last["kind"]) == (2, 1, "started")
        await backend.close()

    clock.run(inside())
