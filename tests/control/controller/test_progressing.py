"""What a client on a terminal is told while it waits, and that nobody else is told, or held up by it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from shim.control.backends.base import Progress, Run
from shim.control.controller.connection import Connection
from shim.control.controller.operations import progressing
from shim.control.controller.operations.progressing import Teller
from shim.core.model.job import Job
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend, bench, submission

ALL_NODES = {"kind": "alloc", "min_nodes": 4, "max_nodes": 4, "exclusive": "node"}


class Slow(FakeBackend):
    """Knows how far its runs' start has come, and that of whatever is packed."""

    def __init__(self) -> None:
        super().__init__()
        self.far = 0
        self.packed = asyncio.Event()

    def progress(self, run: Run) -> Progress | None:
        return Progress("its pods start", "run", 4, self.far)

    async def try_out(self, job: Job, spool: str, progress: Progress) -> list[str]:
        progress.begin("packing", "bytes", 100, 50)
        await self.packed.wait()
        return []

    async def fetch(self, run: Run) -> tuple[int, int, str]:
        await self.packed.wait()
        return 1, 2, ""


def told(client: Client) -> list[tuple[Any, ...]]:
    return [
        (event["what"], event["done"], event["all"], event["unit"])
        for event in client.events
        if event["event"] == "progress"
    ]


def asked(box: Bench, op: str, client: Client, **fields: Any) -> asyncio.Future[dict[str, Any]]:
    return asyncio.ensure_future(box.ask(op, client, **fields))


@bench
async def test_an_allocation_that_waits_is_told_why_if_it_asked(box: Bench) -> None:
    first, second, third = Client(), Client(), Client()
    asked(box, "allocate", first, **submission(script=None, **ALL_NODES), progress=True)
    await box.settle()
    asked(box, "allocate", second, **submission(script=None, time_limit=10, **ALL_NODES), progress=True)
    asked(box, "allocate", third, **submission(script=None, **ALL_NODES))
    await box.settle()
    assert told(first) == [("job 1: its nodes are made ready", 0, 0, "")]
    assert told(second)[-1] == ("job 2 waits (Resources)", 0, 0, "")
    assert told(third) == []
    box.backend.tell(1, "started")
    box.backend.tell(1, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert [event["event"] for event in second.events] == ["submitted", "queued", "progress", "progress"]


def test_a_start_that_nobody_tells_of_is_looked_at(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressing, "OFTEN", 0.01)

    async def inside() -> None:
        slow = Slow()
        slow.packed.set()
        box = await Bench(slow, Clock()).open()
        try:
            client, waiter, other = Client(), Client(), Client()
            asked(box, "allocate", client, **submission(script=None, kind="alloc", ntasks=1), progress=True)
            await box.settle()
            asked(box, "wait", waiter, job_id=1, progress=True)
            asked(box, "wait", other, job_id=1)
            for slow.far in (1, 3):
                async with asyncio.timeout(20):
                    while told(client)[-1][1] != slow.far or told(waiter)[-1][1] != slow.far:
                        await asyncio.sleep(0.01)
            assert told(client) == [("job 1: its pods start", far, 4, "run") for far in (0, 1, 3)]
            slow.tell(1, "started")
            await box.settle()
            assert told(waiter)[-1][0] == "job 1 runs on node1"
            assert other.events == []
        finally:
            await box.close()

    asyncio.run(inside())


@pytest.mark.parametrize("op", ["submit", "fetch"])
def test_what_takes_long_is_told_and_a_client_that_goes_holds_up_nothing(
    op: str, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progressing, "OFTEN", 0.01)

    async def inside() -> None:
        slow = Slow()
        box = await Bench(slow, Clock()).open()
        try:
            fields = submission() if op == "submit" else {"job_id": 1}
            if op == "fetch":
                slow.packed.set()
                await box.submit()
                slow.tell(1, "started")
                await box.settle()
                slow.packed.clear()
            client = Client()
            reply = asked(box, op, client, **fields, progress=True)
            async with asyncio.timeout(20):
                while not told(client):
                    await asyncio.sleep(0.01)
            assert told(client) == [
                ("packing", 50, 100, "bytes") if op == "submit" else ("its pods start", 0, 4, "run")
            ]
            client.leave()
            slow.far = 1
            await asyncio.sleep(0.05)
            slow.packed.set()
            assert (await reply).get("job_id" if op == "submit" else "files") == 1
        finally:
            await box.close()

    asyncio.run(inside())


@bench
async def test_of_an_array_it_is_told_how_many_have_ended(box: Bench) -> None:
    client = Client()
    job = await box.submit(array="0-9%2")
    asked(box, "wait", client, job_id=job, progress=True)
    await box.settle()
    assert told(client)[-1] == ("job 1: 2 run, 8 wait", 0, 10, "tasks ended")
    first = box.backend.starts[0].job_id
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert told(client)[-1][1:] == (1, 10, "tasks ended")


def test_what_is_given_up_ends_what_it_waits_for() -> None:
    async def inside() -> None:
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(600)
            finally:
                ended.set()

        teller = Teller(cast(Connection, Client()), {"progress": True})
        task = asyncio.ensure_future(teller.meanwhile(work(), lambda: None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(inside())


@bench
async def test_the_expected_start_and_the_clusters_words_are_told(box: Bench) -> None:
    job = await box.submit(hold=True)
    found = box.job(job).replace(reason="Resources", start_time=NOW + 3600, system_comment="0/3 nodes")
    assert progressing.of_job(box.controller.world, found).what.startswith(
        "job 1 waits (Resources, 0/3 nodes, expected to start 20"
    )
