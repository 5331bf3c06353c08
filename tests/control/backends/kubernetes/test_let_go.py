"""A start that goes wrong halfway: what cannot have begun is removed and made anew, what may have begun is followed."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order
from shim.control.backends.kubernetes import names, tickets
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.proxy import Proxy
from shim.control.backends.kubernetes.settings import texts
from shim.core.model import states
from shim.core.model.cluster import Cluster
from tests.contract.support import spec_of
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster, Watcher
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.stage import RUN, Told
from tests.control.backends.kubernetes.test_backend import SHAPE

JOB = f"{JOBS}/slurm-7"
DOWN = ApiError(0, "Timeout", "the API server does not answer in time")


def configured(**words: Any) -> Cluster:
    return SHAPE.replace(settings={**SHAPE.settings, **texts(words)})


async def opened(configured: Cluster = SHAPE, runs: Any = ()) -> tuple[KubernetesBackend, Told, Cluster]:
    backend, told = KubernetesBackend(configured), Told()
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


@pytest.mark.parametrize("autoscale", [False, True])
def test_a_job_that_was_not_let_go_after_all_waits_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, autoscale: bool
) -> None:
    async def inside() -> None:
        backend, told, shape = await opened(configured(autoscale=autoscale))
        get, patch = cluster.get, cluster.patch

        async def down(*_request: Any) -> Any:
            monkeypatch.setattr(cluster, "get", down)
            raise DOWN

        monkeypatch.setattr(cluster, "patch", down)
        await start(backend, shape)
        monkeypatch.setattr(cluster, "get", get)
        monkeypatch.setattr(cluster, "patch", patch)
        await asyncio.sleep(10)
        assert [one["kind"] for one in told.ends] == ["withdrawn"]
        await backend.forget(RUN)
        await start(backend, shape)
        assert len(cluster.pods()) == 2
        await backend.close()

    clock.run(inside())


@pytest.mark.parametrize(
    ("write", "words"),
    [("PATCH jobs/slurm-7", {}), ("POST secrets/slurm-7", {}), ("POST secrets/slurm-7", {"queue": "team"})],
)
def test_a_start_that_is_refused_for_the_moment_is_tried_again_soon(
    cluster: FakeCluster, write: str, words: dict[str, str]
) -> None:
    async def inside() -> None:
        backend, told, shape = await opened(configured(**words))
        cluster.refusals[write] = ApiError(429, "TooManyRequests", "later")
        with pytest.raises(BackendError, match="later") as caught:
            await start(backend, shape)
        assert caught.value.transient
        cluster.refusals.clear()
        await asyncio.sleep(1)
        assert (cluster.ticket(), JOB in cluster.objects, told.lines) == (None, False, [])
        await start(backend, shape)
        assert cluster.ticket() is not None
        await backend.close()

    clock.run(inside())


def test_anothers_job_of_that_name_is_left_alone(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        labels = {names.SUBMISSION: "f" * 32, names.OWNER: "somebody"}
        spec = {"suspend": False, "completions": 1, "template": {"metadata": {"labels": labels}}}
        await cluster.post(JOBS, {"metadata": {"name": "slurm-7", "labels": labels}, "spec": spec})
        with pytest.raises(BackendError, match="there is another job"):
            await start(backend, shape)
        await asyncio.sleep(3)
        assert JOB in cluster.objects and len(cluster.pods()) == 1
        await backend.close()

    clock.run(inside())


def test_what_is_told_late_of_a_job_whose_answer_was_lost_is_not_of_the_next_one(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        held, jobs = late(cluster)
        cluster.silent_after = 4
        with pytest.raises(BackendError, match="in time"):
            await start(backend, shape)
        assert cluster.said[-1] == "POST jobs/slurm-7"
        await asyncio.sleep(2)
        await start(backend, shape)
        lead(cluster)
        for kind, found in held:
            for watcher in jobs:
                watcher(kind, found)
            await asyncio.sleep(0.01)
        await asyncio.sleep(30)
        assert (told.ends, len(cluster.pods())) == ([], 2)
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
        backend, told, shape = await opened(runs=[(RUN, 0)])
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
        backend._site.seen._pods.clear()
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


def test_a_job_that_was_removed_before_the_watch_told_of_it_is_gone(cluster: FakeCluster) -> None:
    """Else its home's Lease would be renewed for ever, and stay."""

    async def inside() -> None:
        backend, _told, shape = await opened()
        late(cluster)  # and it breaks off: the next list has no such Job
        await start(backend, shape)
        await backend.forget(RUN)
        await asyncio.sleep(5)
        assert (cluster.pods(), backend._site.seen.runs()) == ([], set())
        await backend.close()
        assert not [path for path in cluster.objects if "/leases/" in path]

    clock.run(inside())
