"""Two things at once: the same target twice, clients that leave in the middle, a controller that is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.control.controller.fakes import Bench, Client, bench, submission
from tests.control.controller.test_faults import full

ALLOCATION = {**submission(script=None, kind="alloc"), "keep": False}


@bench
async def test_a_task_that_is_named_twice_is_not_the_whole_array(box: Bench) -> None:
    array = await box.submit(array="1-5", hold=True)
    twice = [{"job_id": array, "task": 2}] * 2
    assert await box.results("cancel", *twice) == [None, "Job/step already completing or completed"]
    assert box.labels() == [f"{array}_[1,3-5] PENDING JobHeldUser"]
    three = [{"job_id": array, "task": 3}] * 2
    assert await box.results("release_job", *three) == [None, None]
    assert box.labels() == [f"{array}_[1,4-5] PENDING JobHeldUser", f"{array}_3 CONFIGURING None"]


@bench
async def test_an_allocation_outlives_a_controller_that_is_told_to_stop(box: Bench) -> None:
    client = Client()
    reply = asyncio.ensure_future(box.ask("allocate", client, **ALLOCATION))
    await box.settle()
    job_id = client.events[0]["job_id"]
    box.backend.tell(job_id, "started")
    await box.settle()
    reply.cancel()  # as Server.close does
    await box.settle()
    assert box.job(job_id).state == "RUNNING"
    assert box.backend.orders_of(job_id) == []


@bench
async def test_a_client_that_died_before_it_heard_of_its_job(box: Bench) -> None:
    client = Client()
    client.leave()
    await asyncio.gather(box.ask("allocate", client, **ALLOCATION), return_exceptions=True)
    assert [job.state for job in box.store.jobs()] in ([], ["COMPLETING"])


@bench
async def test_a_change_at_the_moment_of_asking_is_heard(box: Bench) -> None:
    for turns in range(8):  # of the loop, between a change that wakes the client's task and the one it waits for
        client = Client()
        reply = asyncio.ensure_future(box.ask("allocate", client, **ALLOCATION))
        await box.settle()
        job_id = client.events[0]["job_id"]
        box.backend.tell(job_id, "step", step="0")
        for _ in range(turns):
            await asyncio.sleep(0)
        box.backend.tell(job_id, "started")
        box.controller.observing.flush()
        await box.settle()
        assert client.events[-1]["event"] == "granted", turns
        box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
        assert (await reply)["state"] == "COMPLETED"


@bench
async def test_who_waits_no_longer_is_forgotten(box: Bench) -> None:
    job_id = await box.submit(hold=True)
    for op in ("wait", "reach"):
        client = Client()
        if op == "reach":
            await box.results("release_job", {"job_id": job_id})
        reply = asyncio.ensure_future(box.ask(op, client, job_id=job_id))
        await box.settle()
        assert not reply.done()
        client.leave()
        await box.settle()
        assert reply.done()
        await asyncio.gather(reply, return_exceptions=True)
    assert not any(box.controller.world._waiting.values())


@bench
async def test_attaching_to_a_job_of_long_ago(box: Bench) -> None:
    job_id = await box.submit(kind="alloc")
    box.backend.tell(job_id, "started")
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
    await box.settle()
    box.controller.world.book.forget_before(box.clock() + 1000)
    reply = await box.ask("attach", Client(), job_id=job_id, token="")
    assert reply == {"state": "COMPLETED", "exit_status": 0}


@bench
async def test_an_allocation_whose_client_died_while_the_disk_was_full(box: Bench) -> None:
    client = Client()
    reply = asyncio.ensure_future(box.ask("allocate", client, **ALLOCATION))
    await box.settle()
    job_id = client.events[0]["job_id"]
    box.backend.tell(job_id, "started")
    await box.settle()
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box.store, "save_job", full)
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "call_later", lambda _delay, call, *arguments: calls.append((call, arguments)))
        client.leave()
        await box.settle()
        await asyncio.gather(reply, return_exceptions=True)
    assert box.job(job_id).state == "RUNNING"
    for call, arguments in calls:
        call(*arguments)
    assert box.job(job_id).state == "COMPLETING"
