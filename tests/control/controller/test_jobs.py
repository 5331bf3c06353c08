"""Jobs through their lives: submit, start, end, requeue, recover. No process, no waiting."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from shim.control import paths
from shim.control.backends.base import BackendError, Run
from shim.control.controller import launching, spool
from shim.control.index.errors import IndexUnavailable
from shim.core.errors import ShimError
from shim.core.model.cluster import Gres
from shim.core.render import job_facts as facts
from shim.job import libc
from tests.control.controller.fakes import CLUSTER, NOW, Bench, Client, Clock, FakeBackend, bench, submission


@bench
async def test_a_job_runs_and_ends(box: Bench) -> None:
    job_id = await box.submit(ntasks=2, min_nodes=2)
    run = Run(cluster="local", job_id=job_id)
    assert box.backend.starts == [run]
    assert box.job(job_id).state == "CONFIGURING"
    spec = box.backend.specs[run]
    assert [node.name for node in spec.nodes] == ["node1", "node2"]
    assert box.backend.scripts[run] == b"#!/bin/sh\ntrue\n"
    environment = box.backend.environments[run]
    assert (environment["SLURM_JOB_ID"], environment["MINE"]) == (str(job_id), "1")
    assert environment["PATH"].endswith("/bin:/usr/bin:/bin")

    box.backend.tell(job_id, "started", at=NOW + 1, hosts=["node1", "node2"])
    await box.settle()
    assert (box.job(job_id).state, box.job(job_id).start_time) == ("RUNNING", NOW + 1)

    box.backend.tell(job_id, "ended", at=NOW + 4, state="FAILED", status=768, derived=0)
    await box.settle()
    job = box.job(job_id)
    assert (job.state, job.exit_status, job.reason, job.end_time) == ("FAILED", 768, "NonZeroExitCode", NOW + 4)
    assert box.backend.forgotten == [run]


@bench
async def test_a_run_that_does_not_keep_its_limit_is_ended(box: Bench) -> None:
    job_id = await box.submit(time_limit=1)
    box.backend.tell(job_id, "started")
    box.backend.tell(await box.submit(), "started")
    await box.pass_time(60 + 30 + 5)
    assert box.backend.orders_of(job_id) == []  # its own agents end it
    await box.pass_time(10)
    assert [(order.kind, order.state) for order in box.backend.orders_of(job_id)] == [("end", "TIMEOUT")]
    await box.pass_time(100)
    assert len(box.backend.orders_of(job_id)) == 1
    assert box.backend.observer is not None
    box.backend.observer.lost(Run(cluster="local", job_id=job_id), "it was killed")
    await box.settle()
    assert (box.job(job_id).state, box.job(job_id + 1).state) == ("TIMEOUT", "RUNNING")


@bench
async def test_ids_are_unique_and_a_token_is_one_submission(box: Bench) -> None:
    first = await box.submit(token="a")
    assert await box.submit(token="a") == first
    assert await box.submit(token="b") == first + 1
    assert await box.submit() == first + 2


@bench
async def test_steps_are_recorded(box: Bench) -> None:
    job_id = await box.submit()
    box.backend.tell(job_id, "started")
    box.backend.tell(job_id, "step", step="0", name="hostname", nodes=["node1"], tasks=1, cpus=1, at=NOW + 1)
    box.backend.tell(job_id, "step-end", step="0", status=256, state="FAILED", at=NOW + 2)
    await box.settle()
    (step,) = box.store.steps([box.job(job_id)])
    assert (step.step_id, step.name, step.state, step.exit_status) == ("0", "hostname", "FAILED", 256)
    assert (step.start_time, step.end_time) == (NOW + 1, NOW + 2)


@bench
async def test_a_journal_may_be_read_again(box: Bench) -> None:
    job_id = await box.submit()
    box.backend.tell(job_id, "started")
    await box.settle()
    run = Run(cluster="local", job_id=job_id)
    before = box.store.transitions(box.job(job_id).key)
    box.controller.observing.happened(run, box.backend.journals[run][0])
    await box.settle()
    assert box.store.transitions(box.job(job_id).key) == before


@bench
async def test_transitions_are_recorded(box: Bench) -> None:
    job_id = await box.submit()
    box.backend.tell(job_id, "started")
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
    await box.settle()
    states = [(old, new) for _restart, _time, old, new, _reason in box.store.transitions(box.job(job_id).key)]
    assert states == [
        ("", "PENDING"),
        ("PENDING", "CONFIGURING"),
        ("CONFIGURING", "RUNNING"),
        ("RUNNING", "COMPLETED"),
    ]


@bench
async def test_a_full_cluster_makes_jobs_wait(box: Bench) -> None:
    first = await box.submit(min_nodes=4, max_nodes=4, exclusive="node")
    second = await box.submit(min_nodes=4, max_nodes=4, exclusive="node")
    third = await box.submit(min_nodes=4, max_nodes=4, exclusive="node")
    assert [box.job(job).reason for job in (second, third)] == ["Resources", "Priority"]
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert box.job(second).state == "CONFIGURING"
    assert box.job(third).reason == "Resources"


@bench
async def test_expected_starts_may_be_late_but_come(box: Bench) -> None:
    dispatcher = box.controller.dispatcher
    await box.submit(exclusive="node", min_nodes=4, time_limit=10)
    dispatcher.forecast_every = 3600.0
    dispatcher.run()
    waiting = await box.submit(exclusive="node")
    assert (box.job(waiting).reason, box.job(waiting).start_time) == ("Resources", 0.0)
    assert NOW < (dispatcher.alarm.due or 0) <= NOW + 3600
    dispatcher._forecast_due = 0.0
    await box.pass_time(0)
    assert box.job(waiting).start_time == NOW + 600


@bench
async def test_a_begin_time_is_waited_for(box: Bench) -> None:
    job_id = await box.submit(begin=int(NOW) + 50)
    assert (box.job(job_id).reason, box.backend.starts) == ("BeginTime", [])
    assert box.controller.dispatcher.alarm.due == NOW + 50
    await box.pass_time(50)
    assert box.job(job_id).state == "CONFIGURING"


@bench
async def test_a_begin_time_that_the_clock_jumped_over_is_due(box: Bench) -> None:
    told, news = os.pipe()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libc, "watch_clock", lambda: told, raising=False)
        job_id = await box.submit(begin=int(NOW) + 3000)
    box.clock.now += 86400  # no time has gone by for the loop, and nothing else happens
    await box.settle()
    assert box.job(job_id).state == "PENDING"
    os.write(news, b"x")
    os.close(news)
    await box.settle()
    assert box.job(job_id).state == "CONFIGURING"


def test_a_due_job_starts_when_the_kernel_says_that_the_clock_was_set(state_dir: Path) -> None:
    moved = set_clock(1)
    if moved:
        pytest.skip(f"this machine's clock cannot be set, be it by a nanosecond: {os.strerror(moved)}")

    @bench
    async def jump(box: Bench) -> None:
        job_id = await box.submit(begin=int(NOW) + 3000)
        box.clock.now += 86400
        await box.settle()
        assert box.job(job_id).state == "PENDING"
        set_clock(-1)
        for _ in range(100):  # of the loop's own waiting for what the kernel tells
            await asyncio.sleep(0.02)
            if box.job(job_id).state != "PENDING":
                break
        assert box.job(job_id).state == "CONFIGURING"

    jump(state_dir)


def set_clock(by: int) -> int:
    """Sets this machine's clock, forth or back by so many nanoseconds; the errno of a refusal, else 0."""
    offset_in_nanoseconds = 0x2100  # ADJ_SETOFFSET | ADJ_NANO
    seconds, nanoseconds = divmod(by, 1_000_000_000)
    timex = bytearray(256)  # struct timex of a 64-bit Linux: modes, then at 72 the time
    struct.pack_into("I", timex, 0, offset_in_nanoseconds)
    struct.pack_into("qq", timex, 72, seconds, nanoseconds)
    system = ctypes.CDLL(None, use_errno=True)
    if system.adjtimex((ctypes.c_char * len(timex)).from_buffer(timex)) < 0:
        return ctypes.get_errno()
    return 0


@bench
async def test_where_the_kernel_does_not_tell_it_is_looked_every_minute(box: Bench) -> None:
    def none() -> int:
        raise OSError(errno.ENOSYS, "timerfd_create")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libc, "watch_clock", none)
        await box.submit(begin=int(NOW) + 3000)
    handle = box.controller.dispatcher.alarm._handle
    assert handle is not None
    assert 0 < handle.when() - asyncio.get_running_loop().time() <= 60


@bench
async def test_a_job_that_would_end_behind_its_deadline_is_cancelled(box: Bench) -> None:
    too_late = await box.submit(deadline=int(NOW) + 60, time_limit=10)
    limited = await box.submit(deadline=int(NOW) + 60, time_limit=10, ntasks=1000)
    starts = await box.submit(deadline=int(NOW) + 90)
    assert [box.job(one).state for one in (too_late, limited, starts)] == ["DEADLINE", "PENDING", "CONFIGURING"]
    assert (box.job(too_late).reason, box.job(limited).reason) == ("DeadLine", "PartitionConfig")


@bench
async def test_a_deadline_that_is_missed(box: Bench) -> None:
    job_id = await box.submit(hold=True, deadline=int(NOW) + 50)
    await box.pass_time(50)
    assert box.job(job_id).state == "DEADLINE"


@bench
async def test_a_requeued_job_runs_again(box: Bench) -> None:
    job_id = await box.submit()
    box.backend.tell(job_id, "started")
    await box.settle()
    assert await box.results("requeue", {"job_id": job_id}) == [None]
    assert box.job(job_id).state == "COMPLETING"
    (order,) = box.backend.orders_of(job_id)
    assert (order.kind, order.state) == ("end", "REQUEUED")
    assert await box.results("requeue", {"job_id": job_id}) == ["Job is pending execution"]
    box.backend.tell(job_id, "ended", state="REQUEUED", status=15, at=NOW + 2)
    await box.settle()
    job = box.job(job_id)
    assert (job.state, job.restarts, job.reason) == ("PENDING", 1, "BeginTime")
    assert box.store.orders() == []
    await box.pass_time(4)
    again = Run(cluster="local", job_id=job_id, restart=1)
    assert box.backend.starts == [Run(cluster="local", job_id=job_id), again]
    assert box.backend.environments[again]["SLURM_RESTART_COUNT"] == "1"
    assert box.backend.forgotten == [Run(cluster="local", job_id=job_id)]


@bench
async def test_a_job_that_is_queued_again_after_its_end_has_no_place_until_its_cluster_holds_it_again(
    box: Bench,
) -> None:
    box.controller.world.place = lambda cluster: "here"  # type: ignore[method-assign]
    job_id, other = await box.submit(), await box.submit()
    for one, state in ((job_id, "FAILED"), (other, "REQUEUED")):
        box.backend.tell(one, "started")
        box.backend.tell(one, "ended", state=state, status=15, at=NOW + 2)
    await box.settle()
    assert await box.results("requeue", {"job_id": job_id}) == [None]
    assert [(box.job(one).state, box.job(one).place) for one in (job_id, other)] == [
        ("PENDING", ""),
        ("PENDING", "here"),  # its record is there, and none is to be made
    ]
    await box.pass_time(4)
    assert [box.job(one).place for one in (job_id, other)] == ["here", "here"]


@bench
async def test_a_controller_whose_state_folder_was_removed_makes_nothing_of_its_jobs(box: Bench) -> None:
    """Where a cluster holds them, others go on with them: what this one could not read of them is no end of theirs."""
    waits, ends = await box.submit(begin=int(NOW) + 5), await box.submit()
    box.backend.tell(ends, "started")
    await box.settle()
    path = Path(paths.index_path())
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    with pytest.raises(IndexUnavailable, match="it was removed, or replaced, while it was in use"):
        await box.submit()
    box.backend.tell(ends, "ended", state="COMPLETED", status=0)
    await box.pass_time(5)
    assert [box.job(one).state for one in (waits, ends)] == ["PENDING", "RUNNING"]
    assert (len(box.backend.starts), box.backend.forgotten) == (1, [])


@bench
async def test_a_lost_run(box: Bench) -> None:
    job_id, kept = await box.submit(), await box.submit(requeue=False)
    for job in (job_id, kept):
        box.backend.tell(job, "started")
        await box.settle()
        box.controller.observing.lost(Run(cluster="local", job_id=job), "gone")
    await box.settle()
    assert (box.job(job_id).state, box.job(job_id).restarts) == ("PENDING", 1)
    assert box.job(kept).state == "NODE_FAIL"


@bench
async def test_a_start_that_fails(box: Bench) -> None:
    box.backend.problem = BackendError("no such image")
    failed = box.job(await box.submit())
    assert (failed.state, failed.exit_status, failed.system_comment) == ("FAILED", 53, "no such image")
    box.backend.problem = BackendError("busy", transient=True)
    job_id = await box.submit()
    assert (box.job(job_id).state, box.job(job_id).reason) == ("PENDING", "BeginTime")
    box.backend.problem = None
    await box.pass_time(3)
    assert box.job(job_id).state == "CONFIGURING"


@bench
async def test_a_script_that_cannot_be_read_now_is_no_end_of_its_job(box: Bench) -> None:
    said: list[str] = []

    def read(path: str) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "RETRY", 0.0)
        patch.setattr(launching.log, "warning", lambda text, *words: said.append(text % words))
        with pytest.MonkeyPatch.context() as denied:
            denied.setattr(spool.rawfile, "read", read)
            job_id = await box.submit()
            await box.settle()
            assert (box.job(job_id).state, box.backend.starts) == ("CONFIGURING", [])
        await box.settle()
    assert [run.job_id for run in box.backend.starts] == [job_id]
    assert len(said) == 1 and "Permission denied" in said[0]


@bench
async def test_a_start_that_this_machine_could_not_make_is_made_when_it_can(box: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "RETRY", 0.0)
        box.backend.problem = OSError(errno.EMFILE, "Too many open files")
        job_id = await box.submit()
        assert (box.job(job_id).state, box.backend.starts) == ("CONFIGURING", [])  # it may have been started before
        box.backend.problem = None
        await box.settle()
    assert [run.job_id for run in box.backend.starts] == [job_id]


@bench
async def test_a_start_that_fails_for_long_is_tried_less_often_and_says_why(box: Bench) -> None:
    box.backend.problem = BackendError("a node is silent", transient=True)
    job_id = await box.submit()
    pauses = []
    for _ in range(7):
        job = box.job(job_id)
        assert (job.state, job.system_comment) == ("PENDING", "a node is silent")
        pauses.append(job.request.begin - box.clock())
        await box.pass_time(pauses[-1])
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 10, 10, 10]
    box.backend.problem = None
    await box.pass_time(10)
    assert (box.job(job_id).state, box.job(job_id).system_comment) == ("CONFIGURING", "")


@bench
async def test_arrays(box: Bench) -> None:
    array = await box.submit(array="1,3,5%2")
    assert box.labels() == [
        f"{array}_[5%2] PENDING JobArrayTaskLimit",
        f"{array}_1 CONFIGURING None",
        f"{array}_3 CONFIGURING None",
    ]
    first = Run(cluster="local", job_id=array + 1)
    assert box.backend.environments[first]["SLURM_ARRAY_TASK_ID"] == "1"
    assert box.backend.scripts[first] is not None
    box.backend.tell(array + 1, "started")
    box.backend.tell(array + 1, "ended", state="COMPLETED", status=0)
    await box.settle()
    last = box.job(array)
    assert (last.array_task_id, last.array_tasks, last.state) == (5, None, "CONFIGURING")


@bench
async def test_dependencies(box: Bench) -> None:
    first = await box.submit()
    after = await box.submit(dependency=f"afterok:{first}")
    never = await box.submit(dependency=f"afternotok:{first}")
    killed = await box.submit(dependency=f"afternotok:{first}", kill_on_invalid_dep=True)
    unknown = await box.submit(dependency="afterok:99999")
    started = await box.submit(dependency=f"after:{first}")
    assert box.job(after).dependency == f"afterok:{first}(unfulfilled)"
    assert box.job(after).reason == "Dependency"
    assert box.job(unknown).state == "CONFIGURING"
    assert box.job(started).state == "CONFIGURING"
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert box.job(after).state == "CONFIGURING"
    assert (box.job(never).reason, box.job(never).dependency) == (
        "DependencyNeverSatisfied",
        f"afternotok:{first}(failed)",
    )
    assert (box.job(killed).state, box.job(killed).reason) == ("CANCELLED", "DependencyNeverSatisfied")


@bench
async def test_a_job_that_ended_long_ago_is_unknown_to_new_dependencies(box: Bench) -> None:
    first = await box.submit()
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="FAILED", status=256)
    await box.settle()
    assert box.job(await box.submit(dependency=f"afterok:{first}")).reason == "DependencyNeverSatisfied"
    await box.pass_time(301)
    assert box.job(await box.submit(dependency=f"afterok:{first}")).state == "CONFIGURING"


@bench
async def test_aftercorr_frees_task_by_task(box: Bench) -> None:
    first = await box.submit(array="0-2")
    second = await box.submit(array="0-2", dependency=f"aftercorr:{first}")
    assert f"{second}_[0-2] PENDING Dependency" in box.labels()
    tasks = {job.array_task_id: job.job_id for job in box.store.array("local", first)}
    for task, state, status in ((1, "FAILED", 256), (0, "COMPLETED", 0)):
        box.backend.tell(tasks[task], "started")
        box.backend.tell(tasks[task], "ended", state=state, status=status)
    await box.settle()
    assert [label for label in box.labels() if label.startswith(f"{second}_")] == [
        f"{second}_2 PENDING Dependency",
        f"{second}_0 CONFIGURING None",
        f"{second}_1 PENDING DependencyNeverSatisfied",
    ]


@bench
async def test_singleton(box: Bench) -> None:
    first = await box.submit(name="one")
    second = await box.submit(name="one", dependency="singleton")
    assert box.job(second).reason == "Dependency"
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="FAILED", status=256)
    await box.settle()
    assert box.job(second).state == "CONFIGURING"


@bench
async def test_what_is_refused_leaves_nothing(box: Bench) -> None:
    with pytest.raises(ShimError, match="invalid partition specified: nosuch"):
        await box.submit(partition="nosuch")
    assert box.store.jobs() == []


@bench
async def test_jobs_of_its_own_user_alone_are_taken(box: Bench) -> None:
    """They would run as that user: neither another one's, nor root's, nor an operator's."""
    for client in (Client(1002), Client(0), Client(1002, admin=True)):
        for op, request in (("submit", {"kind": "batch"}), ("allocate", {"kind": "alloc"})):
            with pytest.raises(ShimError, match="this controller runs the jobs of uid 1001 alone") as refused:
                await box.ask(op, client, **submission(**request))
            assert refused.value.lines[-1].endswith("Access/permission denied")
    assert box.store.jobs() == []


@bench
async def test_test_only_answers_and_submits_nothing(box: Bench) -> None:
    reply = await box.ask("submit", **submission(min_nodes=2, ntasks=2), test_only=True)
    assert (reply["nodes"], reply["processors"], reply["partition"], reply["start"]) == (
        "node[1-2]",
        2,
        "debug",
        int(NOW),
    )
    assert box.store.jobs() == []
    assert await box.submit() == reply["job_id"] + 1


@bench
async def test_another_cluster_is_refused_by_name(box: Bench) -> None:
    with pytest.raises(ShimError, match="No cluster 'nosuch' known by database"):
        await box.ask("submit", **submission(), cluster="nosuch")


@bench
async def test_waiting_for_an_end(box: Bench) -> None:
    array = await box.submit(array="0-1")
    waiting = asyncio.ensure_future(box.ask("wait", job_id=array))
    tasks = {job.array_task_id: job.job_id for job in box.store.array("local", array)}
    for task in (0, 1):
        await box.settle()
        assert not waiting.done()
        box.backend.tell(tasks[task], "started")
        box.backend.tell(tasks[task], "ended", state="FAILED" if task == 0 else "COMPLETED", status=512 - 512 * task)
    assert (await waiting)["exit_status"] == 512
    with pytest.raises(ShimError, match="Invalid job id specified"):
        await box.ask("wait", job_id=12345)


@bench
async def test_the_script_can_be_had_back(box: Bench) -> None:
    job_id = await box.submit()
    assert await box.ask("script", job_id=job_id) == {"script": "#!/bin/sh\ntrue\n"}


def test_a_new_controller_goes_on_where_the_old_one_died(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(), Clock()
        old = await Bench(backend, clock).open()
        running, ended, lost = [await old.submit(requeue=False) for _ in range(3)]
        held = await old.submit(hold=True)
        for job in (running, ended, lost):
            backend.tell(job, "started")
        await old.settle()
        await old.results("cancel", {"job_id": running}, signal=10, client=Client())
        await old.close()
        backend.tell(ended, "ended", state="COMPLETED", status=0)
        backend.dead.add(Run(cluster="local", job_id=lost))
        backend.orders.clear()
        generation = old_generation = None
        new = Bench(backend, clock)
        old_generation = new.store.meta("generation")
        await new.open()
        generation = new.store.meta("generation")
        assert int(generation or 0) == int(old_generation or 0) + 1
        assert [new.job(job).state for job in (running, ended, lost, held)] == [
            "RUNNING",
            "COMPLETED",
            "NODE_FAIL",
            "PENDING",
        ]
        # What was wanted of the run is said again, under the same number.
        assert [order.kind for order in backend.orders_of(running)] == ["signal"]
        assert len(backend.starts) == 3
        await new.close()

    asyncio.run(inside())


def test_a_job_whose_start_was_not_asked_is_started_by_the_next_controller(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(), Clock()
        old = await Bench(backend, clock).open()
        job_id = await old.submit()
        # As if the controller had died between the commit and the backend.
        backend.journals.clear()
        backend.starts.clear()
        await old.close()
        new = await Bench(backend, clock).open()
        assert backend.starts == [Run(cluster="local", job_id=job_id)]
        await new.close()

    asyncio.run(inside())


@bench
async def test_nodes_that_the_cluster_has_yet_to_choose_are_not_shown(box: Bench) -> None:
    def hosts(shares: Any, job: Any) -> Any:
        return tuple(share.replace(planned=True) for share in shares)

    box.backend.hosts = hosts  # type: ignore[method-assign]
    job_id = await box.submit()
    await box.settle()
    assert (box.job(job_id).state, facts.nodelist(box.job(job_id))) == ("CONFIGURING", "")
    box.backend.tell(job_id, "placed", nodes=["node3"])
    box.controller.observing.flush()
    assert facts.nodelist(box.job(job_id)) == "node3"


@bench
async def test_gpus_of_jobs_that_the_cluster_puts_on_one_node_are_not_the_same(box: Bench) -> None:
    gpus = tuple(node.replace(gres=(Gres(name="gpu", count=4),), others_gpus=1) for node in CLUSTER.nodes)
    box.controller.world.take(CLUSTER.replace(nodes=gpus))
    ids = [await box.submit(gres="gpu:1", min_nodes=1, node_list=f"node{number}") for number in (1, 2, 3)]
    await box.settle()
    for job_id in ids:
        box.backend.tell(job_id, "placed", nodes=["node1"])
    box.controller.observing.flush()
    assert sorted(box.job(job_id).shares[0].gpus for job_id in ids) == [(0,), (1,), (2,)]


@bench
async def test_a_job_that_makes_way_is_preempted_or_waits_again(box: Bench) -> None:
    ids = [await box.submit(requeue=again) for again in (True, False)]
    for job_id in ids:
        box.backend.tell(job_id, "started")
        box.backend.tell(job_id, "ended", state="PREEMPTED", status=0, reason="None", detail="by pod x")
    box.controller.observing.flush()
    again, ended = map(box.job, ids)
    assert (again.state, again.restarts, again.system_comment) == ("PENDING", 1, "preempted: by pod x")
    assert (ended.state, ended.system_comment) == ("PREEMPTED", "by pod x")
    before = [to for restart, _at, _from, to, _why in box.store.transitions(again.key) if restart == 0]
    assert before == ["PENDING", "CONFIGURING", "RUNNING", "PREEMPTED"]


@bench
async def test_a_job_that_is_taken_back_again_and_again_is_tried_ever_more_seldom(box: Bench) -> None:
    job_id = await box.submit()
    run = Run(cluster="local", job_id=job_id)
    pauses = []
    for _ in range(9):
        assert box.backend.observer is not None
        box.backend.observer.withdrawn(run, "exceeded quota: q")
        box.controller.observing.flush()
        job = box.job(job_id)
        assert (job.state, job.system_comment) == ("PENDING", "exceeded quota: q")
        pauses.append(job.request.begin - NOW)
        box.clock.now = NOW + 1000
        await box.settle()
        box.clock.now = NOW
        box.backend.journals.pop(run, None)
        with box.controller.world.book.change() as change:
            change.put(change.get(box.job(job_id).key).replace(state="CONFIGURING"), NOW)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@bench
async def test_a_partition_without_nodes_says_why(box: Bench) -> None:
    empty = CLUSTER.partitions[0].replace(nodes=(), note="none of the nodes has the label")
    box.controller.world.take(CLUSTER.replace(partitions=(empty,)))
    job_id = await box.submit()
    assert box.job(job_id).system_comment == "none of the nodes has the label"
