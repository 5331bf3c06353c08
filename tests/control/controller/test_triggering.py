"""Programs that are started when something happens: once, with what happened, whatever dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.control.controller import triggering
from shim.core.errors import ShimError
from shim.core.triggers import Trigger
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend, bench

OWNER = Client(admin=True)


STARTED: list[str] = []  # the programs that were started, with what they were told


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program runs."""
    STARTED.clear()
    monkeypatch.setattr(triggering.Triggers, "_start", lambda self, one, told: STARTED.append(f"{one.program} {told}"))


async def when(box: Bench, type_: str, program: str = "/bin/true", client: Client = OWNER, **fields: Any) -> None:
    """Sets a trigger."""
    record = Trigger(id=0, type=type_, program=program, **fields).to_dict()
    await box.ask("trigger", client, do="set", trigger=record)


async def ids(box: Bench) -> list[int]:
    return [one["id"] for one in (await box.ask("trigger", OWNER, do="get"))["triggers"]]


@bench
async def test_the_end_of_a_job(box: Bench) -> None:
    job, other = await box.submit(), await box.submit()
    await when(box, "fini", "/bin/true a", job_id=job)
    await when(box, "fini", "/bin/true late", job_id=job, offset=60)
    await when(box, "fini", job_id=other)
    await when(box, "down", "/bin/true mine", job_id=job)
    box.backend.tell(job, "started")
    await box.settle()
    assert STARTED == []
    box.backend.tell(job, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert [f"/bin/true a {job}"] == STARTED
    assert await ids(box) == [3]  # nothing else of that job can happen; what waits is not listed
    await box.pass_time(59)
    assert len(STARTED) == 1
    await box.pass_time(2)
    assert STARTED[1:] == [f"/bin/true late {job}"]


@bench
async def test_a_time_limit_that_comes_near(box: Bench) -> None:
    job = await box.submit(time_limit=10)
    await when(box, "time", job_id=job, offset=-120)
    await box.pass_time(300)
    box.backend.tell(job, "started", at=box.clock.now)
    await box.settle()
    await box.pass_time(479)
    assert STARTED == []
    await box.pass_time(2)
    assert [f"/bin/true {job}"] == STARTED


@bench
async def test_nodes_go_and_come(box: Bench) -> None:
    await when(box, "down", "/bin/true down")
    await when(box, "down", "/bin/true some", nodes="node[3-4]")
    await when(box, "up", "/bin/true up")
    await when(box, "drained", "/bin/true drained", permanent=True)
    change = {"State": "DOWN", "Reason": "x"}
    await box.ask("change_nodes", OWNER, name="node[1-2]", fields=change)
    assert STARTED == ["/bin/true down node[1-2]"]
    await box.ask("change_nodes", OWNER, name="node[2-3]", fields=change)
    assert STARTED[1:] == ["/bin/true some node3"]
    await box.ask("change_nodes", OWNER, name="node[1-3]", fields={"State": "RESUME"})
    assert STARTED[2:] == ["/bin/true up node[1-3]"]
    for _ in range(2):
        await box.ask("change_nodes", OWNER, name="node1", fields={"State": "DRAIN", "Reason": "x"})
        await box.ask("change_nodes", OWNER, name="node1", fields={"State": "RESUME"})
    assert STARTED[3:] == ["/bin/true drained node1"] * 2
    assert await ids(box) == [4]


@bench
async def test_a_node_is_drained_when_its_last_job_has_left(box: Bench) -> None:
    job = await box.submit(node_list="node2")
    box.backend.tell(job, "started")
    await when(box, "drained")
    await box.ask("change_nodes", OWNER, name="node2", fields={"State": "DRAIN", "Reason": "x"})
    assert STARTED == []
    box.backend.tell(job, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert STARTED == ["/bin/true node2"]


@bench
async def test_the_nodes_of_a_job(box: Bench) -> None:
    job = await box.submit(node_list="node2")
    box.backend.tell(job, "started")
    await box.settle()
    await when(box, "down", job_id=job)
    await box.ask("change_nodes", OWNER, name="node[1,3]", fields={"State": "DOWN", "Reason": "x"})
    assert STARTED == []
    await box.ask("change_nodes", OWNER, name="node2", fields={"State": "DOWN", "Reason": "x"})
    assert STARTED == ["/bin/true node2"]


@bench
async def test_another_configuration(box: Bench) -> None:
    await when(box, "reconfig")
    await box.ask("reconfigure", OWNER)
    assert STARTED == ["/bin/true reconfig"]


@pytest.mark.parametrize(
    ("fields", "client", "why"),
    [
        ({"job_id": 99}, OWNER, "Invalid job id specified"),
        ({"nodes": "nosuch"}, OWNER, "Invalid node name specified"),
        ({"nodes": "node[1"}, OWNER, "Invalid node name specified"),
        ({"program": "/etc/passwd"}, OWNER, "Access/permission denied"),
        ({}, Client(), "Access/permission denied"),  # no operator
        ({}, Client(0), "Access/permission denied"),  # an operator, whose program this controller cannot run as
    ],
)
def test_what_is_refused(state_dir: Path, fields: dict[str, Any], client: Client, why: str) -> None:
    async def inside() -> None:
        box = await Bench(FakeBackend(), Clock()).open()
        with pytest.raises(ShimError) as refused:
            await when(box, "down", client=client, **fields)
        assert str(refused.value) == f"slurm_set_trigger: {why}"
        await box.close()

    asyncio.run(inside())


@bench
async def test_there_is_one_of_a_kind_and_it_can_be_cleared(box: Bench) -> None:
    job = await box.submit()
    await when(box, "down")
    with pytest.raises(ShimError, match="slurm_set_trigger: Duplicate event trigger"):
        await when(box, "down")
    await when(box, "down", "/bin/true other")
    await when(box, "fini", job_id=job)
    with pytest.raises(ShimError, match="slurm_clear_trigger: No such process"):
        await box.ask("trigger", OWNER, do="clear", id=9)
    with pytest.raises(ShimError, match="slurm_clear_trigger: Access/permission denied"):
        await box.ask("trigger", Client(1002), do="clear", id=1)
    await box.ask("trigger", OWNER, do="clear", id=1)
    await box.ask("trigger", OWNER, do="clear", job_id=job)
    assert await ids(box) == [2]
    await box.ask("trigger", OWNER, do="clear", uid=OWNER.uid)
    assert await ids(box) == []
    box.backend.tell(job, "started")
    box.backend.tell(job, "ended", state="COMPLETED", status=0)
    await box.settle()
    with pytest.raises(ShimError, match="Job/step already completing or completed"):
        await when(box, "fini", job_id=job)


@bench
async def test_a_controller_stays_as_long_as_there_is_one(box: Bench) -> None:
    box.controller._look_idle()
    assert box.controller._idle_timer is not None
    await when(box, "down")
    assert box.controller._idle_timer is None
    await box.ask("trigger", OWNER, do="clear", id=1)
    assert box.controller._idle_timer is not None


def test_the_next_controller_goes_on(state_dir: Path) -> None:
    """One that ends in good order is no failure; one that was killed is. What fell due meanwhile is started."""

    async def inside() -> None:
        backend, clock = FakeBackend(), Clock()
        box = await Bench(backend, clock).open()
        job = await box.submit()
        backend.tell(job, "started")
        await box.settle()
        await when(box, "primary_slurmctld_failure", "/bin/true died")
        await when(box, "primary_slurmctld_resumed_operation", "/bin/true again")
        await when(box, "fini", job_id=job, offset=30)
        await box.close()
        box = await Bench(backend, clock).open()
        assert STARTED == []
        backend.tell(job, "ended", state="COMPLETED", status=0, at=NOW)
        await box.settle()
        box.controller.triggers.alarm.close()
        box.store.close()  # it is killed: nothing is said
        clock.now += 60
        box = await Bench(backend, clock).open()
        assert sorted(STARTED) == [f"/bin/true {job}", "/bin/true again *", "/bin/true died *"]
        await box.close()
        again = await Bench(backend, clock).open()
        assert len(STARTED) == 3
        await again.close()

    asyncio.run(inside())


def test_a_program_runs(tmp_path: Path, state_dir: Path) -> None:
    """With its words split at blanks, what happened behind them, and our commands on its PATH."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$# $*" "${{PATH%%:*}}" "$HOME" >{tmp_path}/said\n')
    program.chmod(0o755)
    one = Trigger(id=1, type="down", program=f"{program} a 'b c'")
    asyncio.run(triggering._run(one, "n[1-2]", "/opt/ours"))
    assert (tmp_path / "said").read_text().startswith("4 a 'b c' n[1-2] /opt/ours /")
