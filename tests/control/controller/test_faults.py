"""A full disk, a forgotten past, strange requests: nothing is lost, and nobody sees a traceback."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from shim.control import paths
from shim.control.backends.base import Run
from shim.control.controller import main, spool
from shim.control.controller.server import Server
from shim.control.index.errors import IndexUnavailable
from shim.control.lifecycle import running
from shim.control.protocol import PROTOCOL
from shim.core.errors import ShimError
from shim.job import rawfile
from tests.control.controller.fakes import CLUSTER, NOW, Bench, Client, bench, submission


def test_a_full_disk_does_not_keep_a_controller_from_listening(state_dir: Path) -> None:
    def no_room(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    paths.ensure(paths.state_dir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", no_room)
        lock = main._lock(paths.state_dir() + "/controller.lock")
    assert lock is not None
    os.close(lock)


def full(*_arguments: object, **_fields: object) -> None:
    raise IndexUnavailable("index.db", "database or disk is full")


async def ended(box: Bench, state: str = "COMPLETED", status: int = 0) -> int:
    job_id = await box.submit()
    box.backend.tell(job_id, "started")
    box.backend.tell(job_id, "ended", state=state, status=status)
    await box.settle()
    return job_id


@bench
async def test_a_submission_to_a_full_disk_leaves_nothing(box: Bench) -> None:
    def no_space(_file: int, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rawfile, "write_all", no_space)
        with pytest.raises(ShimError, match="cannot use the job index"):
            await box.submit(token="a")
    assert box.store.jobs() == []
    assert await box.submit(token="a") == 1


@bench
async def test_lines_that_cannot_be_written_are_kept(box: Bench) -> None:
    job_id = await box.submit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box.store, "save_job", full)
        box.backend.tell(job_id, "started")
        await box.settle()
    assert box.job(job_id).state == "CONFIGURING"
    box.controller.observing.flush()
    assert box.job(job_id).state == "RUNNING"


@bench
async def test_a_pass_that_cannot_be_written_starts_nothing(box: Bench) -> None:
    job_id = await box.submit(hold=True)
    await box.results("release_job", {"job_id": await box.submit(hold=True)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box.store, "transition", full)
        with pytest.raises(ShimError, match="disk is full"):
            await box.submit()
    assert len(box.backend.starts) == 1
    assert box.job(job_id).reason == "JobHeldUser"
    await box.results("release_job", {"job_id": job_id})
    assert len(box.backend.starts) == 2


@bench
async def test_what_memory_forgot_is_found_in_the_index(box: Bench) -> None:
    job_id = await ended(box, "FAILED", 256)
    array = await box.submit(array="0-1")
    for job in box.store.array("local", array):
        box.backend.tell(job.job_id, "started")
        box.backend.tell(job.job_id, "ended", state="FAILED", status=512)
    await box.settle()
    box.controller.world.book.forget_before(NOW + 1000)
    assert box.controller.world.book.jobs == {}
    assert (await box.ask("wait", job_id=job_id))["exit_status"] == 256
    assert (await box.ask("wait", job_id=array))["exit_status"] == 512
    never = await box.submit(dependency=f"afterok:{array}")
    assert box.job(never).reason == "DependencyNeverSatisfied"
    assert await box.results("requeue", {"job_id": job_id}) == [None]
    await box.pass_time(3)
    assert box.backend.starts[-1] == Run(cluster="local", job_id=job_id, restart=1)


@bench
async def test_an_array_is_not_forgotten_in_parts(box: Bench) -> None:
    array = await box.submit(array="0-3%1")
    first = next(job for job in box.store.array("local", array) if job.array_task_id == 0)
    box.backend.tell(first.job_id, "started")
    box.backend.tell(first.job_id, "ended", state="FAILED", status=256)
    await box.settle()
    box.controller.world.book.forget_before(NOW + 1000)
    assert len(box.controller.world.book.known("local", array, None)) == 3


@bench
async def test_lines_of_a_run_whose_end_is_committed_let_it_go_again(box: Bench) -> None:
    job_id = await ended(box)
    run = Run(cluster="local", job_id=job_id)
    box.controller.observing.happened(run, {"n": 3, "at": NOW, "kind": "ended", "state": "FAILED", "status": 1})
    await box.settle()
    assert box.job(job_id).state == "COMPLETED"
    assert box.backend.forgotten == [run, run]


@bench
async def test_an_unknown_line_changes_nothing(box: Bench) -> None:
    job_id = await box.submit()
    box.backend.tell(job_id, "what is this")
    box.backend.tell(job_id, "started")
    await box.settle()
    assert box.job(job_id).state == "RUNNING"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"protocol": PROTOCOL, "op": "nosuch"}, "error: the controller does not know 'nosuch'"),
        ({"protocol": 0, "op": "ping"}, "error: the controller speaks protocol 1, this command 0"),
        ({"op": "ping"}, "error: the controller speaks protocol 1, this command None"),
        ({"protocol": PROTOCOL, "op": "submit"}, "error: malformed message for submit: request: it is missing"),
        (
            {"protocol": PROTOCOL, "op": "wait", "job_id": "x"},
            "error: malformed message for wait: job_id: a whole number",
        ),
        ({"protocol": PROTOCOL, "op": "wait", "job_id": 9}, "error: Invalid job id specified"),
    ],
)
def test_strange_requests_are_answered(message: dict[str, object], text: str, state_dir: Path) -> None:
    @bench
    async def ask(box: Bench) -> None:
        server: Server = box.controller.server
        reply = await server._answer(Client(), message)  # type: ignore[arg-type]
        assert reply["ok"] is False
        assert reply["lines"][0].startswith(text)

    ask(state_dir)


@bench
async def test_many_jobs_make_few_passes(box: Bench) -> None:
    passes = 0
    run = box.controller.dispatcher._pass

    def counted() -> None:
        nonlocal passes
        passes += 1
        run()

    box.controller.dispatcher._pass = counted  # type: ignore[method-assign]
    await asyncio.gather(*(box.controller.server._operations["submit"](Client(), submission()) for _ in range(20)))  # type: ignore[arg-type]
    await box.settle()
    assert 1 <= passes <= 3
    assert os.path.isdir(paths.spool_dir())


@bench
async def test_a_line_that_breaks_the_program_does_not_stop_the_others(box: Bench) -> None:
    first, broken, last = [await box.submit() for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "ending", lambda *_arguments: 1 / 0)
        for job_id in (first, broken, last):
            box.backend.tell(job_id, "started")
        box.backend.tell(broken, "ending")
        box.backend.tell(last, "ended", state="COMPLETED", status=0)
        await box.settle()
    assert [box.job(job_id).state for job_id in (first, broken, last)] == ["RUNNING", "RUNNING", "COMPLETED"]
    box.backend.tell(broken, "ended", state="FAILED", status=256)
    await box.settle()
    assert box.job(broken).state == "FAILED"


@bench
async def test_scripts_of_jobs_that_are_forgotten_are_removed(box: Bench) -> None:
    old, array = await ended(box), await box.submit(array="0-1")
    box.backend.tell(array + 1, "started")
    box.clock.now += CLUSTER.min_job_age + 1
    held, keys = await box.submit(hold=True), {}
    box.backend.tell(array + 1, "ended", state="COMPLETED", status=0, at=box.clock.now)
    await box.settle()
    for job_id in (old, array, held):
        keys[job_id] = box.job(job_id).key
    assert await box.results("requeue", {"job_id": old}) == ["Invalid job id specified"]
    assert spool.outlived(*box.controller.world.book.spooled()) == []
    box.controller.world.book.forget_before(box.clock() - CLUSTER.min_job_age)
    found = spool.outlived(*box.controller.world.book.spooled())
    assert found == [paths.job_spool(keys[old])]
    spool.remove(found)
    assert spool.script(keys[old]) is None
    assert spool.script(keys[array])
    assert spool.script(keys[held])


@bench
async def test_scripts_are_removed_also_when_no_job_is_remembered(box: Bench) -> None:
    key = box.job(await ended(box)).key
    box.controller.world.book.forget_before(box.clock() + 1)
    assert box.controller.world.book.jobs == {}
    assert spool.outlived(*box.controller.world.book.spooled()) == [paths.job_spool(key)]


@bench
async def test_a_script_without_end(box: Bench) -> None:
    with pytest.raises(ShimError, match="parameter too long"):
        await box.ask("submit", **submission(script="#!/bin/sh\n" + "#" * (4 << 20)))


@bench
async def test_a_start_that_breaks_down_is_tried_again(box: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "REQUEUE_DELAY", 0.0)
        box.backend.problem = RuntimeError("can't start new thread")
        job_id = await box.submit()
        assert (box.job(job_id).state, box.backend.starts) == ("CONFIGURING", [])
        box.backend.problem = None
        await box.settle()
    assert box.backend.starts == [Run(cluster="local", job_id=job_id)]
