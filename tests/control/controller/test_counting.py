"""What the controller counts for sdiag."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shim.control.controller.counting import Busy, Counts
from shim.control.controller.world import World
from shim.core.errors import ShimError
from shim.core.model.job import Job
from tests import reference

JOB = reference.queue()[0].replace(key=1, array_task_id=None, array_tasks=None, submit_time=1000.0, state="PENDING")


def counts(jobs: tuple[Job, ...] = ()) -> Any:
    book = SimpleNamespace(followers=[], orders={}, active=lambda: list(jobs))
    return Counts(cast(World, SimpleNamespace(clock=lambda: 1000.5, book=book)), lambda: 1)


def follow(*states: str, job: Job = JOB) -> dict[str, int]:
    found = counts()
    old = None
    for state in states:
        new = job.replace(state=state)
        found._changed(old, new)
        old = new
    return {name: count for name, count in found.jobs.items() if count}


@pytest.mark.parametrize(
    ("states", "counted"),
    [
        ("PENDING", {"submitted": 1}),
        ("PENDING CONFIGURING RUNNING COMPLETED", {"submitted": 1, "started": 1, "completed": 1}),
        ("PENDING CONFIGURING RUNNING FAILED", {"submitted": 1, "started": 1, "completed": 1}),
        ("PENDING CONFIGURING RUNNING NODE_FAIL", {"submitted": 1, "started": 1, "failed": 1}),
        ("PENDING CANCELLED", {"submitted": 1, "canceled": 1}),
    ],
)
def test_a_job_is_counted_as_slurmctld_counts_it(states: str, counted: dict[str, int]) -> None:
    assert follow(*states.split()) == counted


def test_every_task_of_an_array_is_a_job() -> None:
    assert follow("PENDING", job=JOB.replace(array_tasks="0-4")) == {"submitted": 5}


def test_a_task_that_starts_was_submitted_before() -> None:
    assert follow("CONFIGURING", job=JOB.replace(array_task_id=3)) == {"started": 1}


def test_a_job_that_was_taken_in_from_elsewhere_was_not_submitted_here() -> None:
    assert follow("PENDING", job=JOB.replace(submit_time=900.0)) == {}
    assert follow("RUNNING", job=JOB.replace(submit_time=900.0)) == {}
    assert follow("COMPLETED", job=JOB.replace(submit_time=900.0)) == {}
    assert follow("RUNNING", "COMPLETED", job=JOB.replace(submit_time=900.0)) == {"completed": 1}


def test_a_start_past_a_higher_job_that_waits_is_backfill() -> None:
    found = counts()
    low, high = JOB.replace(key=2, priority=5), JOB.replace(key=3, priority=9)
    found.overtook([low, high], {3: "Resources"}, [low])
    found.overtook([low, high], {3: "JobHeldUser"}, [low])
    assert (found.backfilled, found.components) == (1, 0)


def test_waiting_is_no_work() -> None:
    now = 0.0

    def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def operation() -> int:
        passes(2)
        await asyncio.sleep(0)
        passes(3)
        return 7

    async def timed() -> tuple[int, float]:
        busy = Busy(operation(), lambda: now)
        asyncio.get_running_loop().call_soon(passes, 100.0)
        return await busy, busy.seconds

    assert asyncio.run(timed()) == (7, 5.0)


def test_what_is_thrown_at_an_operation_reaches_it() -> None:
    async def operation() -> str:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            return "ended"
        return "slept"

    async def cancelled() -> str:
        async def wait() -> str:
            return cast(str, await Busy(operation()))

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(cancelled()) == "ended"


def test_reset_is_for_operators_and_begins_at_nothing() -> None:
    found = counts((JOB,))
    found.asked("submit", 0, 0.001)
    found.passed(0.002, 3)
    shown = asyncio.run(found.stats(SimpleNamespace(admin=True), {}))
    assert (shown["operations"], shown["users"], shown["pending"]) == ({"submit": [1, 1000]}, {"0": [1, 1000]}, 1)
    assert (shown["cycles"]["count"], shown["cycles"]["most"], shown["cycles"]["queue"]) == (1, 2000, 3)
    with pytest.raises(ShimError, match="slurm_reset_statistics: Access/permission denied") as refused:
        asyncio.run(found.stats(SimpleNamespace(admin=False), {"reset": True}))
    assert refused.value.code == 255
    asyncio.run(found.stats(SimpleNamespace(admin=True), {"reset": True}))
    assert found.cycles["count"] == 0
