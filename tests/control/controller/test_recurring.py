"""Jobs of scrontab: they come again, with their table, whatever dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.control.controller import crash
from shim.control.controller.operations import recurring
from shim.core.errors import ShimError
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend, bench, submission

HOURLY = "0 * * * *"


def entry(first: int, cron: str = HOURLY, **request: Any) -> dict[str, Any]:
    return {**submission(cron=cron, **request), "first": first, "last": first}


async def put(box: Bench, text: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return await box.ask("set_crontab", text=text, entries=list(entries))


@bench
async def test_a_job_comes_again_with_its_id(box: Bench) -> None:
    await put(box, "0 * * * * true\n", entry(1))
    (job,) = box.store.jobs()
    due = job.request.begin
    assert (job.state, job.reason, due % 3600) == ("PENDING", "BeginTime", 0)
    assert 0 < due - NOW <= 3600
    for run, (state, status) in enumerate((("FAILED", 768), ("COMPLETED", 0), ("TIMEOUT", 0))):
        await box.pass_time(due - box.clock.now)
        assert box.job(job.job_id).state == "CONFIGURING"
        box.backend.tell(job.job_id, "started", restart=run, at=due)
        box.backend.tell(job.job_id, "ended", restart=run, at=due + 10, state=state, status=status)
        await box.settle()
        again = box.job(job.job_id)
        assert (again.state, again.restarts, again.exit_status) == ("PENDING", run + 1, status)
        assert (again.request.begin, again.shares) == (due + 3600, ())
        due += 3600


@bench
async def test_a_run_that_lasts_leaves_times_out(box: Bench) -> None:
    await put(box, "", entry(1))
    (job,) = box.store.jobs()
    due = job.request.begin
    await box.pass_time(due - box.clock.now)
    box.backend.tell(job.job_id, "started", at=due)
    box.backend.tell(job.job_id, "ended", at=due + 7300, state="COMPLETED", status=0)
    await box.settle()
    assert box.job(job.job_id).request.begin == due + 3 * 3600


@bench
async def test_a_cancelled_job_comes_no_more(box: Bench) -> None:
    await put(box, "0 * * * * a\n0 * * * * b\n", entry(1), entry(2))
    waiting, running = box.store.jobs()
    await box.pass_time(running.request.begin - box.clock.now)
    box.backend.tell(running.job_id, "started")
    await box.settle()
    assert await box.results("cancel", {"job_id": running.job_id}, {"job_id": waiting.job_id}) == [None, None]
    box.backend.tell(running.job_id, "ended", state="CANCELLED", status=15)
    box.backend.tell(waiting.job_id, "ended", state="CANCELLED", status=15)
    await box.settle()
    assert box.job(running.job_id).state == box.job(waiting.job_id).state == "CANCELLED"
    assert box.store.crontab() == "#DISABLED: 0 * * * * a\n#DISABLED: 0 * * * * b\n"


@bench
async def test_another_table_takes_the_place(box: Bench) -> None:
    await put(box, "0 * * * * a\n1 * * * * b\n", entry(1), entry(2, "1 0 1 1 *"))
    first, second = box.store.jobs()
    await box.pass_time(first.request.begin - box.clock.now)
    box.backend.tell(first.job_id, "started")
    await box.settle()
    reply = await put(box, "2 * * * * c\n", entry(1, "2 * * * *"))
    assert reply == {"text": "2 * * * * c\n"}
    assert box.job(second.job_id).state == "CANCELLED"
    assert box.job(first.job_id).state == "RUNNING"  # to its end, and no more
    box.backend.tell(first.job_id, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert box.job(first.job_id).state == "COMPLETED"
    assert len(box.labels()) == 1
    assert (await box.ask("crontab", do="remove"))["text"] is None
    assert box.labels() == []


@bench
async def test_a_table_is_taken_whole_or_not_at_all(box: Bench) -> None:
    await put(box, "0 * * * * a\n", entry(1))
    before = box.labels()
    reply = await put(box, "new", entry(1), entry(4, partition="nope"))
    assert (reply["text"], reply["refused"]["first"], reply["refused"]["last"]) == (None, 4, 4)
    assert reply["refused"]["lines"][-1].endswith("Invalid partition name specified")
    assert (box.labels(), box.store.crontab()) == (before, "0 * * * * a\n")


@bench
async def test_scontrol_does_not_change_them(box: Bench) -> None:
    await put(box, "", entry(1))
    (job,) = box.store.jobs()
    target = {"job_id": job.job_id}
    for op in ("hold", "release_job", "update"):
        assert await box.results(op, target, fields={"Nice": "3"}) == ["Cannot modify scrontab jobs through scontrol"]
    assert await box.results("requeue", target) == ["Job is pending execution"]
    with pytest.raises(ShimError, match="is an entry of scrontab"):
        await box.ask("move", job_id=job.job_id, cluster="local")


@bench
async def test_others_may_list_and_remove_but_not_hand_in(box: Bench) -> None:
    await put(box, "0 * * * * a\n", entry(1))
    root = Client(0)
    assert (await box.ask("crontab", root, do="get"))["text"] == "0 * * * * a\n"
    with pytest.raises(ShimError, match="Access/permission denied"):
        await box.ask("set_crontab", root, text="", entries=[])
    assert (await box.ask("crontab", root, do="remove"))["text"] is None


@bench
async def test_another_machine_orders_the_jobs(box: Bench) -> None:
    """Then the table stays, with its jobs; a controller that begins leaves them alone."""
    await put(box, "0 * * * * a\n", entry(1))
    before = box.labels()
    box.controller.world.looks_on = lambda cluster: True  # type: ignore[method-assign]
    with pytest.raises(ShimError, match="another machine orders the jobs of local"):
        await put(box, "new", entry(1))
    with pytest.raises(ShimError, match="another machine orders the jobs of local"):
        await box.ask("crontab", do="remove")
    box.store.set_meta("crontab", "")
    recurring.drop_strays(box.controller.world)
    assert box.labels() == before
    box.controller.world.looks_on = lambda cluster: False  # type: ignore[method-assign]
    reply = await put(box, "0 * * * * b\n", entry(1))
    assert reply["text"] == "0 * * * * b\n"


class Killed(BaseException):
    """The controller dies here."""


def test_what_a_dead_controller_left_behind_recurs_no_more(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the new jobs were accepted, before the table was: the table of before holds, with its jobs."""

    def dies(point: str) -> None:
        if point == "crontab":
            raise Killed

    async def inside() -> None:
        backend, clock = FakeBackend(), Clock()
        box = await Bench(backend, clock).open()
        await put(box, "0 * * * * a\n", entry(1))
        (before,) = box.store.jobs()
        with monkeypatch.context() as patch:
            patch.setattr(crash, "point", dies)
            with pytest.raises(Killed):
                await put(box, "new\n", entry(1), entry(2))
        assert len(box.labels()) == 3
        await box.close()
        again = await Bench(backend, clock).open()
        assert [job.job_id for job in again.store.jobs()] == [before.job_id]
        assert again.store.crontab() == "0 * * * * a\n"
        await again.close()

    asyncio.run(inside())
