"""Ended jobs are kept for a time, and no longer; what is still needed stays, and no id is given out twice."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from shim.admin import app
from shim.control import client, paths
from shim.control.controller.pruning import BEGIN, DAY, EVERY
from shim.core.errors import ShimError
from shim.core.model.job import Job
from tests.control.controller import processes
from tests.control.controller.fakes import NOW, Bench, bench
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[3]


async def run(it: Bench, **request: object) -> int:
    """A job from its submission to its end, which is now."""
    job = await it.submit(**request)
    await it.pass_time(1)
    it.backend.tell(job, "started", at=it.clock.now)
    it.backend.tell(job, "step", at=it.clock.now, step="0", name="a", nodes=["node1"], tasks=1, cpus=1)
    it.backend.tell(job, "step-end", at=it.clock.now, step="0", status=0, state="COMPLETED")
    it.backend.tell(job, "ended", at=it.clock.now, state="COMPLETED", status=0)
    await it.settle()
    return job


def rows(table: str) -> int:
    connection = sqlite3.connect(paths.index_path())
    count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    connection.close()
    return int(count)


@bench
async def test_what_ended_long_ago_is_forgotten(it: Bench) -> None:
    await it.pass_time(BEGIN)
    old = [await run(it) for _ in range(3)]
    await it.pass_time(20 * DAY)
    young = [await run(it) for _ in range(2)]
    for _ in range(44):
        await it.pass_time(EVERY)
    assert [it.store.job(None, job) for job in old] == [None] * 3
    assert all(it.store.job(None, job) is not None for job in young)
    assert (rows("jobs"), rows("steps"), rows("tokens")) == (2, 2, 0)
    assert rows("transitions") == len(it.store.transitions(4)) + len(it.store.transitions(5))
    assert await it.submit() == max(young) + 1


@bench
async def test_however_long_it_was_off_and_whatever_is_asked_ids_go_on(it: Bench) -> None:
    jobs = [await run(it) for _ in range(3)]
    await it.pass_time(DAY)
    reply = await it.ask("prune", days=0)
    assert (reply["jobs"], it.store.job(None, jobs[0])) == (2, None)
    assert await it.submit() == jobs[-1] + 1
    last = it.store.job(None, jobs[-1])
    assert last is not None and last.key == 3, "no key is given out again, either"


@bench
async def test_what_goes_on_keeps_what_it_needs(it: Bench) -> None:
    array = await it.submit(array="0-1", hold=True)
    await it.ask("release_job", targets=[{"job_id": array, "task": 0}])
    await it.pass_time(1)
    task = next(job for job in it.store.jobs() if job.array_task_id == 0)
    it.backend.tell(task.job_id, "started")
    it.backend.tell(task.job_id, "ended", state="COMPLETED", status=0)
    await it.pass_time(400 * DAY)
    await run(it)
    await it.ask("prune", days=1)
    assert {job.array_task_id for job in it.store.array("local", array)} >= {0}


@bench
async def test_to_count_is_not_to_forget(it: Bench) -> None:
    for _ in range(3):
        await run(it)
    await it.pass_time(20 * DAY)
    reply = await it.ask("prune", days=10, dry_run=True)
    assert (reply["jobs"], rows("jobs")) == (2, 3)
    assert reply["before"] == it.clock.now - 10 * DAY


@bench
async def test_jobs_of_real_slurms_go_too(it: Bench) -> None:
    for number, end in enumerate((0.0, NOW)):
        record = Job(cluster="hpc", job_id=71 + number, state="COMPLETED", submit_time=NOW, end_time=end, uid=1)
        it.store.save_passed(record if end else record.replace(state="RUNNING"))
    await it.pass_time(40 * DAY)
    await it.ask("prune")
    assert (it.store.passed_jobs(72), len(it.store.passed_jobs(71))) == ([], 1)
    await it.pass_time(400 * DAY)
    await it.ask("prune")
    assert it.store.passed_jobs(71) == []


@bench
async def test_what_is_kept_for_ever_goes_only_by_order(it: Bench) -> None:
    it.controller.pruning._days = 0
    with pytest.raises(ShimError, match="retention is 0"):
        await it.ask("prune")
    assert (await it.ask("prune", days=3))["jobs"] == 0


@bench
async def test_a_question_for_old_jobs_reads_no_others(it: Bench) -> None:
    asked: list[str] = []
    it.store._connection.set_trace_callback(asked.append)
    it.store.old_jobs(NOW)
    it.store._connection.set_trace_callback(None)
    steps = [str(row[3]) for row in it.store._connection.execute(f"EXPLAIN QUERY PLAN {asked[-1]}").fetchall()]
    assert steps[0].startswith("SEARCH job USING INDEX idx_jobs_end_time")
    assert not [step for step in steps if step.startswith("SCAN")]


def test_shim_prune_and_sacct_say_what_is_kept_no_longer(state_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    with processes.ended_afterwards():
        jobs = [processes.submit("true\n") for _ in range(3)]
        for job in jobs:
            client.call("wait", {"job_id": job})
        connection = sqlite3.connect(paths.index_path())
        with connection:
            connection.execute("UPDATE jobs SET end_time = end_time - 864000 WHERE job_id < ?", (jobs[-1],))
        connection.close()
        client.call("shutdown", {"now": True})
        wait_until(lambda: not client.alive(), "the controller is gone")
        assert app.main(["prune", "--older-than", "5", "--dry-run"]) == 0
        assert app.main(["prune", "--older-than", "5"]) == 0
        before = time.strftime("%Y-%m-%d", time.localtime(time.time() - 5 * DAY))
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition("T")[0] for line in lines] == [
            f"would forget 2 jobs that ended before {before}",
            f"forgot 2 jobs that ended before {before}",
        ]
        for words, told in ((["-S", "now-30days"], True), (["-j", str(jobs[0])], True), ([], False)):
            done = subprocess.run(
                [f"{ROOT}/bin/sacct", "-nX", "-o", "jobid%10", *words], capture_output=True, text=True
            )
            assert ("are kept no longer (retention)" in done.stderr) == told
            assert done.stdout.split() == ([] if "-j" in words else [str(jobs[-1])])
