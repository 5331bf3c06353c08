"""scancel and scontrol: what they change, and Slurm's texts."""

from __future__ import annotations

import asyncio
import os

import pytest

from shim.core.errors import ShimError
from tests.control.controller.fakes import NOW, Bench, Client, bench

STRANGER = 4711


async def running(box: Bench, **request: object) -> int:
    job_id = await box.submit(**request)  # type: ignore[arg-type]
    box.backend.tell(job_id, "started")
    await box.settle()
    return job_id


@bench
async def test_cancelling(box: Bench) -> None:
    pending, active = await box.submit(hold=True), await running(box)
    assert await box.results("cancel", {"job_id": pending}, {"job_id": active}, {"job_id": 999}) == [
        None,
        None,
        "Invalid job id specified",
    ]
    assert (box.job(pending).state, box.job(pending).cancelled_by) == ("CANCELLED", 1001)
    assert box.job(active).state == "COMPLETING"
    (order,) = box.backend.orders_of(active)
    assert (order.kind, order.state, order.uid, order.signal) == ("end", "CANCELLED", 1001, 0)
    box.backend.tell(active, "ending", state="CANCELLED")
    box.backend.tell(active, "ended", state="CANCELLED", status=15, uid=1001)
    await box.settle()
    assert (box.job(active).state, box.job(active).exit_status) == ("CANCELLED", 15)
    assert await box.results("cancel", {"job_id": active}) == ["Job/step already completing or completed"]


@bench
async def test_other_peoples_jobs(box: Bench) -> None:
    job_id = await running(box)
    stranger = Client(STRANGER)
    assert await box.results("cancel", {"job_id": job_id}, client=stranger) == ["Access/permission denied"]
    assert await box.results("hold", {"job_id": job_id}, client=stranger) == ["Access/permission denied"]
    assert await box.results("update", {"job_id": job_id}, client=stranger, fields={"Name": "q"}) == ["Invalid user id"]
    assert await box.results("cancel", {"job_id": job_id}, client=Client(0)) == [None]


@bench
async def test_signals(box: Bench) -> None:
    job_id = await running(box)
    for number, scope in ((10, "default"), (12, "batch"), (15, "full"), (19, "default"), (18, "default")):
        before = box.job(job_id).state
        assert await box.results("cancel", {"job_id": job_id}, signal=number, scope=scope) == [None]
        assert box.job(job_id).state == ("STOPPED" if number == 19 else "RUNNING"), before
    orders = box.backend.orders_of(job_id)
    assert [(order.kind, order.signal, order.scope) for order in orders] == [
        ("signal", 10, "steps"),
        ("signal", 12, "batch"),
        ("signal", 15, "all"),
        ("signal", 19, "steps"),
        ("signal", 18, "steps"),
    ]
    assert await box.results("cancel", {"job_id": job_id}, signal=9) == [None]
    assert box.backend.orders_of(job_id)[-1].state == "CANCELLED"
    assert len({order.number for order in box.backend.orders_of(job_id)}) == 6


@bench
async def test_steps_are_cancelled_alone(box: Bench) -> None:
    job_id = await running(box)
    assert await box.results("cancel", {"job_id": job_id, "step": "0"}) == [None]
    (order,) = box.backend.orders_of(job_id)
    assert (order.kind, order.step) == ("end", "0")
    assert box.job(job_id).state == "RUNNING"
    waits = await box.submit(hold=True)
    assert await box.results("cancel", {"job_id": waits, "step": "0"}) == [None]
    assert box.job(waits).state == "PENDING"


@bench
async def test_the_batch_shell_is_killed_alone(box: Bench) -> None:
    job_id = await running(box)
    for signal in (None, 9):
        assert await box.results("cancel", {"job_id": job_id}, signal=signal, scope="batch") == [None]
        order = box.backend.orders_of(job_id)[-1]
        assert (order.kind, order.signal, order.scope) == ("signal", 9, "batch")
        assert box.job(job_id).state == "RUNNING"
    assert await box.results("cancel", {"job_id": job_id}, signal=9, scope="full") == [None]
    assert (box.backend.orders_of(job_id)[-1].kind, box.job(job_id).state) == ("end", "COMPLETING")


@bench
async def test_a_signal_does_not_reach_a_pending_job(box: Bench) -> None:
    job_id = await box.submit(hold=True)
    assert await box.results("cancel", {"job_id": job_id}, signal=10) == ["Job can not be altered now, try again later"]
    assert await box.results("cancel", {"job_id": job_id}, signal=9) == [None]
    assert box.job(job_id).state == "CANCELLED"


@bench
async def test_parts_of_an_array(box: Bench) -> None:
    array = await box.submit(array="0-9", hold=True)
    await box.results("cancel", *({"job_id": array, "task": task} for task in (2, 3, 4, 99)))
    assert box.labels() == [f"{array}_[0-1,5-9] PENDING JobHeldUser"]
    assert await box.results("release_job", {"job_id": array, "task": 8}) == [None]
    assert box.labels() == [f"{array}_[0-1,5-7,9] PENDING JobHeldUser", f"{array}_8 CONFIGURING None"]
    await box.results("cancel", {"job_id": array})
    assert box.labels() == [f"{array}_8 COMPLETING None"]
    assert box.job(array).state == "CANCELLED"


@bench
async def test_a_single_task_left_is_shown_as_a_task(box: Bench) -> None:
    array = await box.submit(array="8-9", hold=True)
    await box.results("update", {"job_id": array, "task": 8}, fields={"JobName": "onetask"})
    assert box.labels() == [f"{array}_9 PENDING JobHeldUser", f"{array}_8 PENDING JobHeldUser"]
    assert [job.name for job in box.store.jobs()] == ["job", "onetask"]


@bench
async def test_hold_and_release(box: Bench) -> None:
    job_id = await box.submit(begin=int(NOW) + 60)
    assert await box.results("hold", {"job_id": job_id}) == [None]
    assert (box.job(job_id).reason, box.job(job_id).priority) == ("JobHeldUser", 0)
    assert await box.results("release_job", {"job_id": job_id}) == [None]
    assert box.job(job_id).reason == "BeginTime"
    assert await box.results("hold", {"job_id": 999}) == ["Invalid job id specified"]
    active = await running(box)
    assert await box.results("hold", {"job_id": active}) == [None]
    assert box.job(active).state == "RUNNING"


@bench
async def test_requeueing(box: Bench) -> None:
    pending, active, fixed = await box.submit(hold=True), await running(box), await running(box, requeue=False)
    assert await box.results("requeue", {"job_id": pending}, {"job_id": fixed}, {"job_id": 999}) == [
        "Job is pending execution",
        "Requested operation is presently disabled",
        "Invalid job id specified",
    ]
    assert await box.results("requeuehold", {"job_id": active}) == [None]
    box.backend.tell(active, "ended", state="REQUEUED", status=15)
    await box.settle()
    assert (box.job(active).state, box.job(active).reason) == ("PENDING", "job requeued in held state")
    await box.results("cancel", {"job_id": active})
    assert await box.results("requeue", {"job_id": active}) == [None]
    assert (box.job(active).state, box.job(active).restarts) == ("PENDING", 2)


@bench
async def test_suspending_is_for_operators(box: Bench) -> None:
    job_id = await running(box)
    for op in ("suspend", "resume", "top"):
        assert await box.results(op, {"job_id": job_id}) == ["Access/permission denied"]
    root = Client(0)
    assert await box.results("suspend", {"job_id": job_id}, client=root) == [None]
    assert box.job(job_id).state == "SUSPENDED"
    assert await box.results("suspend", {"job_id": job_id}, client=root) == [None]
    assert await box.results("resume", {"job_id": job_id}, client=root) == [None]
    assert box.job(job_id).state == "RUNNING"
    assert await box.results("resume", {"job_id": job_id}, client=root) == ["Job is not suspended"]
    assert [order.kind for order in box.backend.orders_of(job_id)] == ["suspend", "resume"]
    assert await box.results("suspend", {"job_id": 999}) == ["Unexpected message received"]


@bench
async def test_updating(box: Bench) -> None:
    job_id = await box.submit(begin=int(NOW) + 60)
    assert await box.results("update", {"job_id": job_id}, fields={"StdOut": "x.%j", "Comment": "c"}) == [None]
    assert (box.job(job_id).stdout, box.job(job_id).comment) == (f"/tmp/x.{job_id}", "c")
    assert await box.results("update", {"job_id": job_id}, fields={"StartTime": "now"}) == [None]
    assert box.job(job_id).state == "CONFIGURING"
    active = await running(box, time_limit=10)
    assert await box.results("update", {"job_id": active}, fields={"TimeLimit": "5"}) == [None]
    (order,) = box.backend.orders_of(active)
    assert (order.kind, order.seconds) == ("limit", 300)
    assert await box.results("update", {"job_id": active}, fields={"TimeLimit": "50"}) == ["Access/permission denied"]


@bench
async def test_an_array_can_be_throttled_later(box: Bench) -> None:
    array = await box.submit(array="0-5%1")
    assert len(box.backend.starts) == 1
    assert await box.results("update", {"job_id": array}, fields={"ArrayTaskThrottle": "3"}) == [None]
    assert len(box.backend.starts) == 3


@bench
async def test_where_a_running_job_is(box: Bench) -> None:
    job_id = await running(box)
    reply = await box.ask("reach", job_id=job_id)
    assert (reply["run_dir"], reply["cluster"], reply["job"]["job_id"]) == (f"/run/{job_id}.0", "local", job_id)


@bench
async def test_updates_that_no_scheduler_could_read(box: Bench) -> None:
    job_id = await box.submit(hold=True)
    for field, text, error in (
        ("Licenses", "foo:bar", "Invalid license specification"),
        ("Nice", "99999999999", "Invalid Nice value"),
        ("WorkDir", "", None),
    ):
        assert await box.results("update", {"job_id": job_id}, fields={field: text}) == [error]
    await box.results("release_job", {"job_id": job_id})
    assert box.job(job_id).state == "CONFIGURING"


@bench
async def test_naming_each_task_of_an_array_does_not_read_the_array_each_time(box: Bench) -> None:
    array = await box.submit(array="0-3", hold=True)
    for task in range(3):
        await box.results("release_job", {"job_id": array, "task": task})
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box.store, "array", lambda _cluster, job_id: read.append(job_id) or [])
        assert await box.results("cancel", *({"job_id": array, "task": task} for task in range(4))) == [None] * 4
    assert read == []


@bench
async def test_an_operator_raises_limits(box: Bench) -> None:
    job_id = await running(box, time_limit=10)
    asked = {"fields": {"TimeLimit": "+30"}}
    assert await box.results("update", {"job_id": job_id}, **asked) == ["Access/permission denied"]
    owner = Client(1001, admin=True)
    assert await box.results("update", {"job_id": job_id}, client=owner, **asked) == [None]
    assert box.job(job_id).time_limit == 40
    assert await box.results("update", {"job_id": job_id}, client=owner, fields={"TimeLimit": "-15"}) == [None]
    assert [(order.kind, order.seconds) for order in box.backend.orders_of(job_id)] == [
        ("limit", 2400),
        ("limit", 1500),
    ]


@bench
async def test_what_has_no_limit_keeps_none(box: Bench) -> None:
    job_id = await running(box)
    owner = Client(1001, admin=True)
    assert await box.results("update", {"job_id": job_id}, client=owner, fields={"TimeLimit": "+30"}) == [None]
    assert box.job(job_id).time_limit == -1


@bench
async def test_priorities_are_an_operators(box: Bench) -> None:
    first, second = await box.submit(begin=NOW + 3600), await box.submit(begin=NOW + 3600, nice=5)
    owner = Client(1001, admin=True)
    assert await box.results("update", {"job_id": first}, fields={"Priority": "3"}) == ["Access/permission denied"]
    assert await box.results("update", {"job_id": second}, client=owner, fields={"Priority": "3"}) == [None]
    assert (box.job(second).priority, box.job(second).request.nice) == (3, 0)
    assert await box.results("update", {"job_id": second}, client=owner, fields={"Name": "x", "Nice": "9"}) == [None]
    assert (box.job(second).priority, box.job(second).request.nice) == (3, 0)
    assert await box.results("top", {"job_id": second}, client=owner) == [None]
    assert box.job(second).priority > box.job(first).priority
    assert await box.results("hold", {"job_id": second}) == [None]
    assert await box.results("top", {"job_id": second}, client=owner) == [
        "Job is in held state, pending scheduler release"
    ]
    assert await box.results("release_job", {"job_id": second}) == [None]
    assert box.job(second).priority < box.job(first).priority  # its own again


@bench
async def test_priority_at_submission(box: Bench) -> None:
    assert box.job(await box.submit(begin=NOW + 3600, priority=7)).priority > 7
    owner = Client(1001, admin=True)
    assert box.job(await box.submit(owner, begin=NOW + 3600, priority=7)).priority == 7
    assert box.job(await box.submit(owner, begin=NOW + 3600, priority=0)).held == "user"
    assert box.job(await box.submit(owner, begin=NOW + 3600, nice=-100)).request.nice == -100


@bench
async def test_a_hold_of_an_operator_is_theirs_to_release(box: Bench) -> None:
    job_id = await box.submit(begin=NOW + 3600)
    assert await box.results("hold", {"job_id": job_id}, client=Client(0)) == [None]
    assert box.job(job_id).reason == "JobHeldAdmin"
    assert await box.results("hold", {"job_id": job_id}) == [None]
    assert await box.results("release_job", {"job_id": job_id}) == ["Access/permission denied"]
    assert await box.results("hold", {"job_id": job_id}, client=Client(0), user_hold=True) == [None]
    assert box.job(job_id).reason == "JobHeldUser"
    assert await box.results("release_job", {"job_id": job_id}) == [None]


@bench
async def test_who_is_an_operator(box: Bench) -> None:
    operates = box.controller.world.operates
    clusters = box.controller.world.clusters
    assert operates(0)
    assert operates(os.getuid())
    assert not operates(STRANGER)
    for name, cluster in clusters.items():
        clusters[name] = cluster.replace(operators=(str(STRANGER),))
    assert operates(STRANGER)
    assert operates(os.getuid())
    for name, cluster in clusters.items():
        clusters[name] = cluster.replace(operators=())
    assert operates(0)
    assert operates(os.getuid()) == (os.getuid() == 0)


@bench
async def test_the_time_limit_of_a_step(box: Bench) -> None:
    job_id = await running(box)
    for step in ("0", "1"):
        box.backend.tell(
            job_id, "step", step=step, nodes=["node1"], limit=5, distribution="block", memory=10, srun="h:1"
        )
    await box.settle()

    async def change(step: str | None, minutes: int, client: Client | None = None) -> str:
        try:
            await box.ask("update_step", client, target={"job_id": job_id, "step": step}, minutes=minutes)
        except ShimError as error:
            return str(error)
        return ""

    def limits() -> list[int | None]:
        return [step.time_limit for step in box.store.steps([box.job(job_id)])]

    assert limits() == [5, 5]
    assert await change("1", 50) == ""
    assert limits() == [5, 50]
    assert await change(None, -1) == ""
    assert limits() == [-1, -1]
    orders = [(order.kind, order.step, order.seconds) for order in box.backend.orders_of(job_id)]
    assert orders == [("limit", "1", 3000), ("limit", "0", None), ("limit", "1", None)]
    assert await change("7", 5) == "slurm_update error: Invalid job id specified"
    assert await change("0", 5, Client(STRANGER)) == "slurm_update error: Invalid user id"


@bench
async def test_requeue_of_what_is_incomplete_and_special_exits(box: Bench) -> None:
    waiting, active, done = await box.submit(hold=True), await running(box), await running(box)
    box.backend.tell(done, "ended", state="FAILED", status=256)
    await box.settle()
    targets = [{"job_id": job_id} for job_id in (waiting, active, done)]
    assert await box.results("requeue", *targets, incomplete=True) == [None, None, None]
    assert [box.job(job_id).state for job_id in (waiting, active, done)] == ["PENDING", "COMPLETING", "FAILED"]
    assert await box.results("requeuehold", {"job_id": done}, special=True) == [None]
    assert (box.job(done).shown_state, box.job(done).state) == ("SPECIAL_EXIT", "PENDING")
    assert await box.results("release_job", {"job_id": done}) == [None]
    assert box.job(done).shown_state == "PENDING"
    assert await box.results("hold", {"job_id": done}) == [None]
    assert box.job(done).shown_state == "PENDING"


@bench
async def test_notify(box: Bench) -> None:
    active, waiting = await running(box), await box.submit(hold=True)

    async def told(job_id: int, client: Client | None = None) -> str:
        try:
            await box.ask("notify", client, target={"job_id": job_id}, text="hello")
        except ShimError as error:
            return str(error)
        return ""

    assert await told(active) == ""
    assert [(order.kind, order.why) for order in box.backend.orders_of(active)] == [("notify", "hello")]
    await box.ask("notify", target={"job_id": active, "step": "9"}, text="whatever step")
    assert box.backend.orders_of(active)[-1].why == "whatever step"
    assert await told(waiting) == "job notify failure: Requested operation is presently disabled"
    assert await box.results("cancel", {"job_id": waiting}) == [None]
    assert await told(waiting) == "job notify failure: Job/step already completing or completed"
    assert await told(999) == "job notify failure: Invalid job id specified"
    assert await told(active, Client(STRANGER)) == "job notify failure: Access/permission denied"


@bench
async def test_giving_up_nodes(box: Bench) -> None:
    job_id = await running(box, min_nodes=2)
    assert box.job(job_id).nodes == 2
    asked = asyncio.ensure_future(box.results("update", {"job_id": job_id}, fields={"NumNodes": "1"}))
    await box.settle()
    kept = box.job(job_id).shares[0].name
    (order,) = box.backend.orders_of(job_id)
    assert (order.kind, order.nodes) == ("resize", (kept,))
    assert (box.job(job_id).nodes, asked.done()) == (2, False), (
        "its nodes are its own until nothing of it is left there"
    )
    box.backend.tell(job_id, "resized", nodes=[kept])
    assert await asked == [None]
    job = box.job(job_id)
    assert (job.nodes, job.cpus, [share.name for share in job.shares]) == (1, job.shares[0].cpus, [kept])
    assert job.resize_time


@bench
async def test_on_a_cluster_that_cannot_a_job_keeps_its_nodes(box: Bench) -> None:
    job_id = await running(box, min_nodes=2)
    box.controller.world.clusters["local"] = box.controller.world.clusters["local"].replace(backend="kubernetes")
    reply = await box.ask("update", targets=[{"job_id": job_id}], fields={"NumNodes": "1"})
    assert reply["results"][0]["error"] == "Requested operation not supported on this system"
    assert reply["results"][0]["why"] == "error: a running job on Kubernetes keeps its nodes until its end here"
    assert box.backend.orders_of(job_id) == []


@bench
async def test_a_step_that_is_not_there_is_told_to_end_and_told_of(box: Bench) -> None:
    job_id = await running(box)
    box.backend.tell(job_id, "step", step="0", name="a", nodes=["n1"], tasks=1, cpus=1)
    await box.settle()

    async def gone(step: str, **how: object) -> list[bool]:
        reply = await box.ask("cancel", targets=[{"job_id": job_id, "step": step}], **how)
        return [bool(result.get("gone")) for result in reply["results"]]

    assert [await gone("0"), await gone("7"), await gone("7", signal=9)] == [[False], [True], [False]]
    assert [order.step for order in box.backend.orders_of(job_id)] == ["0", "7", "7"]


@bench
async def test_a_finished_job_can_neither_be_held_nor_released(box: Bench) -> None:
    job_id = await running(box)
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
    await box.settle()
    for op in ("hold", "release_job"):
        assert await box.results(op, {"job_id": job_id}) == ["Job has already finished"]
