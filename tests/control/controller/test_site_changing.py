"""What operators change of nodes and partitions: the scheduler honours it, and it outlives the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from shim.commands import site_view
from shim.control.backends.base import Run
from shim.core.errors import ShimError
from shim.core.render.node_state import uses
from tests.control.controller.fakes import Bench, Client, Clock, FakeBackend
from tests.control.lifecycle.samples import CLUSTER

OWNER = Client(1001, admin=True)


def on_four_nodes(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Runs the test with a controller of four nodes and two partitions."""

    def run(state_dir: Path) -> None:
        async def inside() -> None:
            box = await Bench(FakeBackend(CLUSTER), Clock()).open()
            await test(box)
            await box.close()

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


async def nodes(box: Bench, name: str, **fields: Any) -> str:
    """The refusal; "" for none."""
    return await changed(box, "change_nodes", name, fields)


async def partition(box: Bench, name: str, **fields: Any) -> str:
    return await changed(box, "change_partition", name, fields)


async def changed(box: Bench, op: str, name: str, fields: dict[str, Any], client: Client = OWNER) -> str:
    try:
        await box.ask(op, client, name=name, fields=fields)
    except ShimError as error:
        return str(error)
    return ""


def state_of(box: Bench, name: str) -> tuple[str, str]:
    """As readers see it, with no job in sight."""
    (cluster,) = {one.name: one for one in box.controller.world.clusters.values()}.values()
    shown = site_view.recorded(box.backend.cluster)
    assert shown == cluster, "what is shown is what the scheduler acts on"
    use = uses(shown, [])[name]
    return use.complete, use.node.reason


@on_four_nodes
async def test_a_drained_node_gets_no_jobs_until_it_is_resumed(box: Bench) -> None:
    assert await nodes(box, "node1", State="DRAIN", Reason="bad disk\nsecond line") == ""
    assert state_of(box, "node1") == ("IDLE+DRAIN", "bad disk")
    job_id = await box.submit(node_list="node1")
    assert box.job(job_id).reason == "ReqNodeNotAvail, UnavailableNodes:node1"
    assert await nodes(box, "node1", State="RESUME") == ""
    assert state_of(box, "node1") == ("IDLE", "")
    assert box.job(job_id).state == "CONFIGURING"
    assert await nodes(box, "node1", State="RESUME") == "slurm_update error: Invalid node state specified"


@on_four_nodes
async def test_states_follow_each_other_as_in_slurm(box: Bench) -> None:
    steps = [
        ({"State": "DOWN", "Reason": "a"}, "DOWN", "a"),
        ({"State": "DRAIN", "Reason": "b"}, "DOWN+DRAIN", "b"),
        ({"State": "UNDRAIN"}, "DOWN", "b"),
        ({"Reason": "c"}, "DOWN", "c"),
        ({"State": "IDLE"}, "IDLE", ""),
        ({"Reason": "d"}, "IDLE", ""),
        ({"State": "DRAIN", "Reason": "e"}, "IDLE+DRAIN", "e"),
        ({"State": "RESUME", "Reason": "back"}, "IDLE", ""),
    ]
    for fields, state, reason in steps:
        assert await nodes(box, "node2", **fields) == ""
        assert state_of(box, "node2") == (state, reason), fields


@on_four_nodes
async def test_jobs_on_a_node_that_is_down_are_lost_or_queued_again(box: Bench) -> None:
    again, once = await box.submit(node_list="node1"), await box.submit(node_list="node1", requeue=False)
    elsewhere = await box.submit(node_list="node2")
    for job_id in (again, once, elsewhere):
        box.backend.tell(job_id, "started")
    await box.settle()
    assert await nodes(box, "node1", State="DOWN", Reason="dead") == ""
    assert [[order.state for order in box.backend.orders_of(job_id)] for job_id in (again, once, elsewhere)] == [
        ["NODE_FAIL"],
        ["NODE_FAIL"],
        [],
    ]
    for job_id in (again, once):
        box.backend.tell(job_id, "ended", state="NODE_FAIL", status=0)
    await box.settle()
    assert [box.job(job_id).state for job_id in (again, once, elsewhere)] == ["PENDING", "NODE_FAIL", "RUNNING"]


@on_four_nodes
async def test_names(box: Bench) -> None:
    bad = "slurm_update error: Invalid node name specified"
    assert await nodes(box, "nosuch", State="DRAIN", Reason="x") == bad
    assert await nodes(box, "node1,nosuch,node2", State="DRAIN", Reason="x") == bad
    assert [state_of(box, name)[0] for name in ("node1", "node2")] == ["IDLE+DRAIN", "IDLE"]
    assert await nodes(box, "ALL", State="DRAIN", Reason="x") == ""
    assert state_of(box, "node4")[0] == "IDLE+DRAIN"
    assert await partition(box, "nosuch", state="DOWN") == "slurm_update error: Invalid partition name specified"
    assert await partition(box, "gpu", nodes="node1,nosuch") == bad


@on_four_nodes
async def test_a_partition_that_is_down_starts_nothing(box: Bench) -> None:
    assert await partition(box, "gpu", state="DOWN") == ""
    job_id = await box.submit(partition="gpu")
    assert box.job(job_id).reason == "PartitionDown"
    assert await partition(box, "gpu", state="INACTIVE") == ""
    assert box.job(job_id).reason == "PartitionInactive"
    with pytest.raises(ShimError, match="Required partition not available"):
        await box.submit(partition="gpu")
    assert await partition(box, "gpu", state="UP") == ""
    assert box.job(job_id).state == "CONFIGURING"


@on_four_nodes
async def test_one_partition_is_the_default(box: Bench) -> None:
    assert await partition(box, "gpu", default=True, max_time=30) == ""
    assert [one.name for one in site_view.recorded(box.backend.cluster).partitions if one.default] == ["gpu"]
    assert box.job(await box.submit(hold=True)).partition == "gpu"


@on_four_nodes
async def test_ordinary_users_change_nothing(box: Bench) -> None:
    denied = "slurm_update error: Invalid user id"
    user = Client(1001)
    assert await changed(box, "change_nodes", "node1", {"State": "DRAIN", "Reason": "x"}, user) == denied
    assert await changed(box, "change_partition", "gpu", {"state": "DOWN"}, user) == denied


@on_four_nodes
async def test_changes_outlive_the_controller(box: Bench) -> None:
    await nodes(box, "node1", State="DRAIN", Reason="bad disk")
    await partition(box, "gpu", state="DOWN")
    other = await Bench(box.backend, box.clock).open()
    assert state_of(other, "node1") == ("IDLE+DRAIN", "bad disk")
    job_id = await other.submit(partition="gpu")
    assert other.job(job_id).reason == "PartitionDown"
    await other.close()


@on_four_nodes
async def test_a_backend_whose_cluster_chooses_nodes_is_told_which_operators_keep_it_from(box: Bench) -> None:
    job_id = await box.submit()
    assert box.backend.specs[Run(cluster=CLUSTER.name, job_id=job_id)].barred == ()
    names = [node.name for node in CLUSTER.nodes]
    assert await nodes(box, names[1], State="DRAIN", Reason="disk") == ""
    first = next(one for one in CLUSTER.partitions if one.default)
    assert await partition(box, first.name, nodes=",".join(names[:3])) == ""
    job_id = await box.submit()
    assert box.backend.specs[Run(cluster=CLUSTER.name, job_id=job_id)].barred == (names[1], names[3])
