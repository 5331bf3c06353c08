"""The backend as controllers use it that follow each other: starting, finding again, requeueing, forgetting."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order, Run
from shim.control.backends.kubernetes import names, shape, tickets
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.settings import texts
from shim.core.model.cluster import Cluster, Node, Partition
from tests.contract.support import spec_of
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster, Killed
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.stage import RUN, Told

SHAPE = Cluster(
    name="k8s",
    backend="kubernetes",
    nodes=(Node(name="n1", cpus=4, memory=4096), Node(name="n2", cpus=4, memory=4096)),
    partitions=(Partition(name="all", nodes=("n1", "n2"), default=True),),
    settings=texts({"image": "python", "mounts": [{"path": "/", "host_path": "/"}]}),
)
WRITES = [
    "POST configmaps/slurm-agent",
    "POST services/slurm-nodes",
    "POST jobs/slurm-7",
    "POST secrets/slurm-7",
    "PATCH jobs/slurm-7",
]


async def opened(runs: Any = ()) -> tuple[KubernetesBackend, Told, Cluster]:
    """A backend as a controller has it that was just started."""
    backend, told = KubernetesBackend(SHAPE), Told()
    shape = await backend.open(told)
    await backend.recover(runs)
    return backend, told, shape


async def start(backend: KubernetesBackend, shape: Cluster, restart: int = 0) -> None:
    spec, environment = spec_of(backend, shape, "", job_id=7, nodes=2)
    job = spec.job.replace(restarts=restart)
    await backend.start(spec.replace(job=job), environment, b"#!/bin/sh\n")


def said(cluster: FakeCluster) -> list[str]:
    """The writes, without what changes with the agent's code; signs of life are not counted."""
    runs = [one for one in cluster.said if " leases/" not in one]
    return ["POST configmaps/slurm-agent" if "slurm-agent" in one else one for one in runs]


def test_starting_twice_is_starting_once(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape)
        await start(backend, shape)
        await backend.close()
        backend, _told, shape = await opened([(RUN, 0)])
        await start(backend, shape)
        assert said(cluster) == WRITES
        assert len(cluster.pods()) == 2
        await backend.close()

    clock.run(inside())


@pytest.mark.parametrize("write", range(1, len(WRITES) + 2))  # the Lease is one more
def test_a_controller_that_is_killed_while_it_starts_a_run_is_followed_by_one_that_goes_on(
    cluster: FakeCluster, write: int
) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        cluster.kill_after = write
        with pytest.raises(Killed):
            await start(backend, shape)
        await backend.close()
        backend, told, shape = await opened([(RUN, 0)])
        await start(backend, shape)
        assert said(cluster) == WRITES
        assert len(cluster.pods()) == 2
        cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
        cluster.leader.line("started")
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        assert told.kinds == ["started"]
        assert cluster.ticket() is None
        await backend.close()

    clock.run(inside())


def test_where_a_mount_shows_it_a_mark_says_that_the_run_has_begun(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape)
        ticket = cluster.ticket()
        assert ticket is not None
        spec = json.loads(base64.b64decode(ticket["data"]["spec.json"]))
        owner = cluster.objects[f"{JOBS}/slurm-7"]["metadata"]["labels"][names.OWNER]
        work_dir = spec["job"]["request"]["work_dir"]
        assert spec["once"] == [f"{tickets.TicketFolder(RUN).path}/begun", f"{work_dir}/.slurm-7.0-{owner[:8]}"]
        await backend.close()

    clock.run(inside())


def test_a_run_that_began_is_never_given_its_ticket_again(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
        cluster.leader.line("started")
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        await backend.close()
        # The controller was killed before the index had the line: it starts the run once more.
        backend, told, shape = await opened([(RUN, 0)])
        await start(backend, shape)
        await asyncio.sleep(1)
        assert said(cluster) == [*WRITES, "POST secrets/slurm-7-kept", "DELETE secrets/slurm-7"]
        assert told.kinds == ["started"]
        await backend.close()

    clock.run(inside())


def test_a_run_without_a_key_here_is_lost_and_one_that_nobody_knows_is_removed(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape)
        await backend.close()
        other = Run(cluster="k8s", job_id=8)
        backend, told, shape = await opened([(other, 3)])
        await asyncio.sleep(5)
        assert told.lines == [{"kind": "lost", "reason": "this host has no key of it any more"}]
        assert cluster.pods() == []
        assert tickets.known("k8s") == []
        await backend.close()

    clock.run(inside())


def test_a_requeued_job_waits_for_the_pods_of_the_run_before(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        cluster.run("n1", "n2")
        cluster.deaf = True
        forgetting = asyncio.ensure_future(backend.forget(RUN))
        await asyncio.sleep(10)
        with pytest.raises(BackendError, match=r"run before are still there$") as caught:
            await start(backend, shape, restart=1)
        assert caught.value.transient
        cluster.blackout()
        with pytest.raises(BackendError, match="on n1, n2: until it answers"):
            await start(backend, shape, restart=1)
        for path in cluster.pods():
            cluster.vanish(path)
        await forgetting
        await start(backend, shape, restart=1)
        assert cluster.said[-3:] == ["POST jobs/slurm-7-r1", "POST secrets/slurm-7-r1", "PATCH jobs/slurm-7-r1"]
        await backend.close()

    clock.run(inside())


async def lost(backend: KubernetesBackend, told: Told, cluster: FakeCluster, shape: Cluster) -> None:
    """A run whose nodes went dark under it: it is lost, and was forgotten."""
    await start(backend, shape)
    leader = cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
    leader.line("started")
    cluster.run("n1", "n2")
    await asyncio.sleep(1)
    cluster.blackout()
    await leader.close()
    await asyncio.sleep(500)
    assert [line["kind"] for line in told.ends] == ["lost"]
    await backend.forget(RUN)
    await asyncio.sleep(5)
    assert len(cluster.pods()) == 2


def test_a_home_that_was_another_owner_waits_for_its_pods_as_well(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await lost(backend, told, cluster, shape)
        owner = backend._site.owner
        backend._estates.home.lease.lost = True  # another machine holds the estate
        backend._sweeping.look()
        await asyncio.sleep(10)
        assert backend._site.owner != owner
        with pytest.raises(BackendError, match="run before"):
            await start(backend, shape, restart=1)
        await backend.close()

    clock.run(inside())


def test_pods_that_are_not_watched_yet_are_asked_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await lost(backend, told, cluster, shape)
        await backend.close()
        monkeypatch.setattr(FakeReflector, "start", lambda self: None)
        backend, told, shape = await opened()
        with pytest.raises(BackendError, match="run before"):
            await start(backend, shape, restart=1)
        await backend.close()

    clock.run(inside())


def test_a_run_that_was_made_does_not_wait_for_its_own_pods(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape, restart=1)
        cluster.run("n1", "n2", stem="slurm-7-r1")
        await backend.close()
        backend, _told, shape = await opened([(RUN.replace(restart=1), 0)])
        backend._site.seen.job_event(
            "DELETED", cluster.objects[f"{JOBS}/slurm-7-r1"]
        )  # its watch has not told of it yet
        await start(backend, shape, restart=1)
        assert [run.restart for run in backend._lives] == [1]
        await backend.close()

    clock.run(inside())


def test_a_run_that_is_let_go_is_not_taken_for_the_next_try(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        await start(backend, shape)
        cluster.run("n1", "n2")
        cluster.dark = True
        forgetting = asyncio.ensure_future(backend.forget(RUN))
        await asyncio.sleep(1)
        with pytest.raises(BackendError, match="try before") as caught:
            await start(backend, shape)
        assert caught.value.transient
        await forgetting
        await backend.close()

    clock.run(inside())


def test_a_pod_that_an_attempt_before_has_left_counts_for_nothing_and_goes(cluster: FakeCluster) -> None:
    """After an API server was killed the garbage collector lags, and the Job controller makes pods of Jobs that are gone."""

    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        stray = copy.deepcopy(cluster.pod(0))
        stray["metadata"] |= {"name": "slurm-7-0-stray", "uid": "stray"}
        stray["metadata"]["labels"][names.SUBMISSION] = "before"
        stray["status"]["phase"] = "Failed"
        cluster.changed(stray)
        cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
        cluster.leader.line("started")
        cluster.bind(1, "n2")
        cluster.state(1, "running")
        (own,) = (cluster.objects[path] for path in cluster.pods() if "-0-" in path and "stray" not in path)
        own["spec"]["nodeName"] = "n1"
        own["status"]["containerStatuses"] = [{"name": names.CONTAINER, "ready": True, "state": {"running": {}}}]
        cluster.changed(own)
        await asyncio.sleep(5)
        assert told.kinds == ["started"]
        cluster.leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert [one["state"] for one in told.ends] == ["COMPLETED"]
        owners = stray["metadata"].pop("ownerReferences")
        assert owners
        await backend.forget(RUN)
        await asyncio.sleep(5)
        assert [path.rpartition("/")[2] for path in cluster.pods()] == ["slurm-7-0-stray"]
        await asyncio.sleep(30)
        assert cluster.pods() == []
        await backend.close()

    clock.run(inside())


def test_the_secret_of_a_run_that_never_began_is_not_left_to_the_garbage_collector(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        secret = cluster.ticket()
        assert secret is not None
        secret["metadata"]["ownerReferences"] = []  # it does not come
        await backend.order(RUN, Order(number=1, kind="end", state="CANCELLED"))
        await asyncio.sleep(5)
        await backend.forget(RUN)
        await asyncio.sleep(5)
        assert [one["state"] for one in told.ends] == ["CANCELLED"]
        assert cluster.ticket() is None
        await backend.close()

    clock.run(inside())


def test_nothing_is_left_of_a_run_that_is_forgotten(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        await backend.order(RUN, Order(number=1, kind="end", state="CANCELLED"))
        await asyncio.sleep(5)
        assert [one["state"] for one in told.ends] == ["CANCELLED"]
        await backend.forget(RUN)
        await asyncio.sleep(5)
        assert all("slurm-7" not in path for path in cluster.objects)
        assert tickets.known("k8s") == []
        await backend.order(RUN, Order(number=2, kind="end"))  # of a run that is gone: dropped
        await backend.close()

    clock.run(inside())


def test_a_start_that_is_refused_for_good_leaves_nothing(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, shape = await opened()
        cluster.refusals = {"POST secrets/slurm-7": ApiError(403, "Forbidden", "violates a policy")}
        with pytest.raises(BackendError, match="violates a policy") as caught:
            await start(backend, shape)
        assert not caught.value.transient
        await asyncio.sleep(1)
        assert all("slurm-7" not in path for path in cluster.objects)
        assert tickets.known("k8s") == []
        await backend.close()

    clock.run(inside())


def test_what_was_decided_is_carried_out_before_the_run_is_started_again(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, told, shape = await opened()
        await start(backend, shape)
        cluster.refusals = {"DELETE jobs/slurm-7": ApiError(503, "ServiceUnavailable", "later")}
        await backend.order(RUN, Order(number=1, kind="end", state="CANCELLED"))
        await asyncio.sleep(5)
        assert told.ends == []
        await backend.close()
        cluster.refusals = {}
        backend, told, shape = await opened([(RUN, 0)])
        await start(backend, shape)
        await asyncio.sleep(5)
        assert [one["state"] for one in told.ends] == ["CANCELLED"]
        assert said(cluster) == [*WRITES, "DELETE jobs/slurm-7"]
        await backend.close()

    clock.run(inside())


def test_blocks_of_ids_follow_each_other(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend, _told, _shape = await opened()
        first, second = await backend.reserve(5), await backend.reserve(5)
        assert (first.start, second.start) == (5, first.stop)
        await backend.close()

    clock.run(inside())


def test_nodes_that_are_not_told_at_once_are_waited_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[FakeReflector] = []

    class Slow(FakeReflector):
        objects: dict[str, Any] = {}

        def start(self) -> None:
            nodes.append(self)

    monkeypatch.setattr(shape, "Reflector", Slow)

    async def inside() -> None:
        backend = KubernetesBackend(SHAPE.replace(nodes=(), partitions=()))
        assert (await backend.open(Told())).nodes == ()
        with pytest.raises(BackendError, match="not told its nodes"):
            await backend.shaped()
        assert not backend._site.node_is_gone("n1")
        nodes[0]._hooks["on_synced"]()
        await asyncio.sleep(60)
        with pytest.raises(
            BackendError, match="not told its nodes"
        ):  # all of them seem free: nobody knows the pods yet
            await backend.shaped()
        nodes[1]._hooks["on_synced"]()
        await asyncio.sleep(1)
        assert (await backend.shaped()).name == "k8s"
        assert backend._site.node_is_gone("n1")
        await backend.close()

    clock.run(inside())
