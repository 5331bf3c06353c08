"""What a job asks for itself is judged by the state in which it could ask: its journal is read before, whoever has told of it or not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.controller.fakes import Bench, Client, bench

ROOT = Client(0)
# By operation: who asks, its fields beside the targets, and the state afterwards.
OF_RUNNING: dict[str, tuple[Client, dict[str, Any], str]] = {
    "suspend": (ROOT, {}, "SUSPENDED"),
    "requeue": (Client(), {}, "COMPLETING"),
    "cancel": (Client(), {"signal": 10, "scope": "batch"}, "RUNNING"),
    "update": (Client(), {"fields": {"NumNodes": "1"}}, "RUNNING"),
}


@pytest.mark.parametrize("op", OF_RUNNING)
def test_a_script_that_runs_is_a_running_job_s(op: str, state_dir: Any) -> None:
    @bench
    async def first_command(box: Bench) -> None:
        job_id = await box.submit(min_nodes=2, requeue=True)
        assert box.job(job_id).state == "CONFIGURING"
        box.backend.write(job_id, "started")  # the script is about to run; the news of it are on their way
        client, fields, state = OF_RUNNING[op]
        asked = box.controller.server._operations[op](client, {"targets": [{"job_id": job_id}], **fields})  # type: ignore[arg-type]
        if op == "update":
            import asyncio

            waiting = asyncio.ensure_future(asked)
            await box.settle()
            (order,) = box.backend.orders_of(job_id)
            assert order.kind == "resize" and len(order.nodes) == 1
            box.backend.tell(job_id, "resized", nodes=list(order.nodes))
            asked = waiting  # type: ignore[assignment]
        assert [one["error"] for one in (await asked)["results"]] == [None]
        assert box.job(job_id).state == state

    first_command(state_dir)


@bench
async def test_a_task_that_runs_is_a_running_step_s(box: Bench) -> None:
    job_id = await box.submit(time_limit=60)
    box.backend.write(job_id, "started")
    box.backend.write(job_id, "step", step="0", nodes=["node1"])
    await box.ask("update_step", target={"job_id": job_id, "step": "0"}, minutes=5)
    assert [(one.step_id, one.time_limit) for one in box.store.steps([box.job(job_id)])] == [("0", 5)]
    await box.ask("notify", target={"job_id": job_id}, text="hello")
    assert [order.kind for order in box.backend.orders_of(job_id)] == ["limit", "notify"]


@bench
async def test_nothing_is_taken_in_twice(box: Bench) -> None:
    job_id = await box.submit(kind="alloc")
    for _again in range(2):
        assert await box.results("suspend", {"job_id": job_id}, client=ROOT) == [
            "Job/step already completing or completed"
        ]
    box.backend.write(job_id, "started")
    box.backend.write(job_id, "ending", state="COMPLETED")
    box.backend.write(job_id, "ended", state="COMPLETED", status=0)
    for _again in range(2):
        assert await box.results("suspend", {"job_id": job_id}, client=ROOT) == [
            "Job/step already completing or completed"
        ]
    await box.settle()
    assert box.job(job_id).state == "COMPLETED" and len(box.backend.forgotten) == 1
