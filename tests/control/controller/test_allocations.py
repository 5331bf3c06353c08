"""salloc and srun: a job whose life is its client's connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from shim.control.controller.operations import allocating
from shim.core.errors import ShimError
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend, bench, submission

ALL_NODES = {"kind": "alloc", "min_nodes": 4, "max_nodes": 4, "exclusive": "node"}


def allocate(box: Bench, client: Client, *, keep: bool = False, **request: object) -> asyncio.Future[dict[str, object]]:
    request.setdefault("kind", "alloc")
    fields = submission(script=None, **request)  # type: ignore[arg-type]
    return asyncio.ensure_future(box.ask("allocate", client, **fields, keep=keep))


async def kept(box: Bench) -> tuple[Client, int]:
    """An allocation of salloc --no-shell that has started: its client and its id."""
    client = Client()
    allocate(box, client, keep=True)
    await box.settle()
    job_id = client.events[0]["job_id"]
    box.backend.tell(job_id, "started")
    await box.settle()
    return client, job_id


def kinds(client: Client) -> list[str]:
    return [event["event"] for event in client.events]


@bench
async def test_nobody_else_attaches_to_an_allocation_or_releases_it(box: Bench) -> None:
    allocate(box, Client(), ntasks=2)
    await box.settle()
    (job,) = box.store.jobs()
    for op in ("attach", "release"):
        with pytest.raises(ShimError, match="Access/permission denied"):
            await box.ask(op, Client(1002), job_id=job.job_id)
    with pytest.raises(ShimError, match="Access/permission denied"):
        await box.ask("attach", Client(0), job_id=job.job_id)  # its environment is its user's
    assert box.backend.orders_of(job.job_id) == []
    await box.ask("release", Client(0), job_id=job.job_id, status=0)
    assert [order.kind for order in box.backend.orders_of(job.job_id)] == ["release"]


@bench
async def test_an_allocation_from_grant_to_release(box: Bench) -> None:
    client = Client()
    reply = allocate(box, client, ntasks=2)
    await box.settle()
    job_id = client.events[0]["job_id"]
    box.backend.tell(job_id, "started")
    await box.settle()
    assert kinds(client) == ["submitted", "granted"]
    granted = client.events[1]
    assert (granted["run_dir"], granted["environment"]["SLURM_JOB_ID"]) == (f"/run/{job_id}.0", str(job_id))
    assert granted["job"]["shares"][0]["name"] == "node1"
    await box.ask("release", job_id=job_id, status=0)
    assert [order.kind for order in box.backend.orders_of(job_id)] == ["release"]
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
    assert await reply == {"state": "COMPLETED", "exit_status": 0}
    assert kinds(client) == ["submitted", "granted"], "who releases is not told that it was revoked"


@bench
async def test_a_job_that_must_wait_says_so(box: Bench) -> None:
    first, second = Client(), Client()
    allocate(box, first, **ALL_NODES)
    await box.settle()
    waiting = allocate(box, second, **ALL_NODES)
    await box.settle()
    assert kinds(second) == ["submitted", "queued"]
    job_id = second.events[0]["job_id"]
    await box.results("cancel", {"job_id": job_id})
    assert (await waiting)["state"] == "CANCELLED"
    assert kinds(second) == ["submitted", "queued", "revoked"]


@bench
async def test_several_components_are_queued_first(box: Bench) -> None:
    """Slurm starts them in its next round; whoever reads salloc's messages finds them said in any case."""
    client = Client()
    fields = submission(script=None, kind="alloc", ntasks=1)
    asyncio.ensure_future(box.ask("allocate", client, **fields, components=[fields["request"]]))  # noqa: RUF006
    await box.settle()
    box.backend.tell(client.events[0]["job_id"], "started")
    await box.settle()
    assert kinds(client) == ["submitted", "queued", "granted"]
    with pytest.raises(ShimError, match="Job submit/allocate failed: Job can not start immediately"):
        request = {**fields["request"], "immediate": 0}
        await box.ask("allocate", Client(), **{**fields, "request": request}, components=[request])


@bench
async def test_the_job_ends_with_its_client(box: Bench) -> None:
    client, queued = Client(), Client()
    allocate(box, client, **ALL_NODES)
    await box.settle()
    allocate(box, queued, **ALL_NODES)
    await box.settle()
    running, pending = client.events[0]["job_id"], queued.events[0]["job_id"]
    box.backend.tell(running, "started")
    await box.settle()
    queued.leave()
    client.leave()
    await box.settle()
    assert box.job(pending).state == "CANCELLED"
    assert [(order.kind, order.state) for order in box.backend.orders_of(running)] == [("end", "CANCELLED")]


@bench
async def test_nothing_is_left_of_a_client_that_was_gone_before_its_answer(box: Bench) -> None:
    client = Client()
    client.leave()
    assert await allocate(box, client) == {}
    assert [job.state for job in box.controller.world.book.active()] == []


@bench
async def test_a_notice_reaches_the_client_of_an_allocation(box: Bench) -> None:
    client, job_id = await kept(box)
    for step in (None, "0"):
        await box.ask("notify", target={"job_id": job_id, "step": step}, text="hello")
    assert client.events[-2:] == [{"event": "notice", "text": "hello"}] * 2
    assert box.backend.orders_of(job_id) == []
    client.leave()
    await box.settle()
    with pytest.raises(ShimError, match="job notify failure: Requested operation is presently disabled"):
        await box.ask("notify", target={"job_id": job_id}, text="hello")


@bench
async def test_an_allocation_that_is_kept(box: Bench) -> None:
    client, job_id = await kept(box)
    client.leave()
    await box.settle()
    assert box.job(job_id).state == "RUNNING"


@bench
async def test_attaching_again(box: Bench) -> None:
    client, job_id = await kept(box)
    again = Client()
    reply = asyncio.ensure_future(box.ask("attach", again, job_id=job_id, token=""))
    await box.settle()
    assert kinds(again) == ["granted"]
    with pytest.raises(ShimError, match="Access/permission denied"):
        await box.ask("attach", Client(7), job_id=job_id)
    box.backend.tell(job_id, "ending", state="TIMEOUT")
    await box.settle()
    assert again.events[-1] == {"event": "revoked", "state": "TIMEOUT", "reason": "TimeLimit"}
    box.backend.tell(job_id, "ended", state="TIMEOUT", status=0)
    assert await reply == {"state": "TIMEOUT", "exit_status": 0}


def test_a_client_that_is_stopped_while_the_controller_begins_anew_keeps_its_job(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocating, "GRACE", 0.0)

    async def inside() -> None:
        backend = FakeBackend()
        box = await Bench(backend, Clock()).open()
        with subprocess.Popen(["sleep", "300"]) as process:
            ids = []
            for client in (Client(pid=os.getpid()), Client(pid=process.pid), Client()):
                allocate(box, client)
                await box.settle()
                ids.append(client.events[0]["job_id"])
                backend.tell(ids[-1], "started")
            await box.settle()
            box.controller._begin_anew()
            await box.close()
            process.kill()
        box = await Bench(backend, Clock()).open()
        assert [[order.kind for order in backend.orders_of(one)] for one in ids] == [[], ["end"], ["end"]]
        await box.close()
        box = await Bench(backend, Clock()).open()  # it was killed: nobody left word
        assert [order.kind for order in backend.orders_of(ids[0])] == ["end"]
        await box.close()

    asyncio.run(inside())


@bench
async def test_immediate_waits_for_as_many_seconds_as_it_was_given(box: Bench) -> None:
    allocate(box, Client(), **ALL_NODES)
    await box.pass_time(0.9)  # a job's own time of submission is of whole seconds
    reply = allocate(box, Client(), immediate=1, **ALL_NODES)
    await box.settle()
    await box.pass_time(0.9)
    assert not reply.done()
    await box.pass_time(0.2)
    with pytest.raises(ShimError, match="Connection timed out"):
        await asyncio.wait_for(reply, 5)


@bench
async def test_immediate_or_not_at_all(box: Bench) -> None:
    allocate(box, Client(), **ALL_NODES)
    await box.settle()
    client = Client()
    with pytest.raises(ShimError, match="Unable to allocate resources: Requested nodes are busy"):
        await allocate(box, client, immediate=0, **ALL_NODES)
    assert box.job(client.events[0]["job_id"]).state == "CANCELLED"
    await box.submit(**ALL_NODES)
    for fields, text in (
        (ALL_NODES, "Unable to allocate resources: Immediate execution impossible, insufficient priority"),
        ({"ntasks": 1000}, "Job submit/allocate failed: Requested partition configuration not available now"),
        ({"begin": int(NOW) + 60}, "Job submit/allocate failed: Job dependency problem"),
        ({"hold": True}, "Job submit/allocate failed: Job dependency problem"),
    ):
        with pytest.raises(ShimError, match=text):
            await allocate(box, Client(), immediate=0, **fields)
