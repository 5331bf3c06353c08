"""The cluster that nobody configured grows with the jobs it gets, as read commands see it, and shrinks when they are over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shim.commands import site_view
from shim.core.model.cluster import Cluster
from tests.control.controller.fakes import CLUSTER, Bench, Client, Clock, FakeBackend, submission

ELASTIC = CLUSTER.replace(elastic=True)


def shape(found: Cluster) -> list[tuple[str, int]]:
    return [(node.name, node.cpus) for node in found.nodes]


def test_it_grows_outlives_a_controller_and_shrinks(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(ELASTIC), Clock()
        box = await Bench(backend, clock).open()
        reply = await box.ask(
            "submit", **submission(partition="a100", min_nodes=6, max_nodes=6, ntasks_per_node=2, cpus_per_task=8)
        )
        assert reply["notes"][0].startswith(
            'note: nobody has configured this cluster: partition "debug" stands for "a100"'
        )
        large = [(f"node{number}", 16) for number in range(1, 7)]
        job = box.job(reply["job_id"])
        assert (job.state, job.partition, len(job.shares)) == ("CONFIGURING", "debug", 6)
        assert shape(site_view.recorded(ELASTIC)) == large
        waiting = await box.submit(min_nodes=9, max_nodes=9)
        assert len(site_view.recorded(ELASTIC).nodes) == 9
        await box.close()

        box = await Bench(backend, clock).open()
        assert shape(box.controller.world.clusters["local"])[:6] == large
        box.backend.tell(job.job_id, "started")
        box.backend.tell(job.job_id, "ended", state="COMPLETED", status=0)
        await box.settle()
        assert len(box.job(waiting).shares) == 9
        assert len(site_view.recorded(ELASTIC).nodes) == 9
        box.backend.tell(waiting, "started")
        box.backend.tell(waiting, "ended", state="COMPLETED", status=0)
        await box.settle()
        assert box.controller.world.clusters["local"] == ELASTIC
        assert site_view.recorded(ELASTIC) == ELASTIC
        await box.close()

    asyncio.run(inside())


def test_tasks_of_an_array_run_beside_each_other(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(ELASTIC), Clock()
        box = await Bench(backend, clock).open()
        await box.ask("submit", **submission(array="0-5%4", cpus_per_task=2 * ELASTIC.nodes[0].cpus))
        await box.settle()
        assert len([job for job in box.store.jobs() if job.shares]) == min(4, len(ELASTIC.nodes))
        await box.close()

    asyncio.run(inside())


def test_a_crash_between_the_job_and_the_shape_loses_neither(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(ELASTIC), Clock()
        box = await Bench(backend, clock).open()
        job_id = await box.submit(min_nodes=6, max_nodes=6, hold=True)
        box.store.save_cluster(ELASTIC)  # as if it had not been written
        await box.close()
        box = await Bench(backend, clock).open()
        assert len(box.controller.world.clusters["local"].nodes) == 6
        assert await box.results("release_job", {"job_id": job_id}) == [None]
        await box.settle()
        assert len(box.job(job_id).shares) == 6
        await box.close()

    asyncio.run(inside())


def test_a_drained_node_stays_drained_while_the_cluster_grows_and_shrinks(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(ELASTIC), Clock()
        box = await Bench(backend, clock).open()
        asked = {"name": "node1", "fields": {"State": "DRAIN", "Reason": "disk"}}
        await box.ask("change_nodes", Client(1001, admin=True), **asked)
        job_id = await box.submit(min_nodes=6, max_nodes=6, hold=True)
        assert [node.state for node in site_view.recorded(ELASTIC).nodes] == ["DRAIN"] + [""] * 6
        assert await box.results("cancel", {"job_id": job_id}) == [None]
        await box.settle()
        await box.ask("change_partition", Client(1001, admin=True), name="debug", fields={"max_time": 30})
        assert [node.state for node in site_view.recorded(ELASTIC).nodes] == ["DRAIN", *[""] * (len(ELASTIC.nodes) - 1)]
        await box.close()
        box = await Bench(backend, clock).open()
        assert box.controller.world.clusters["local"].nodes[0].state == "DRAIN"
        assert box.controller.world.clusters["local"].partitions[0].max_time == 30
        await box.close()

    asyncio.run(inside())
