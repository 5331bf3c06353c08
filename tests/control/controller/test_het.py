"""Heterogeneous jobs in the controller: several records, one run, one fate; and what may be done to one of them alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Run
from shim.core.errors import ShimError
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend, bench, submission

COMPONENTS = ({"ntasks": 1}, {"ntasks": 2, "min_nodes": 2})


def asked(*requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    first, *others = requests or COMPONENTS
    message = submission(**first, **fields)
    message["components"] = [JobRequest(**{"work_dir": "/tmp", "name": "job", **other}).to_dict() for other in others]
    return message


async def submit(box: Bench, *requests: dict[str, Any], **fields: Any) -> int:
    return int((await box.ask("submit", **asked(*requests, **fields)))["job_id"])


async def running(box: Bench, *requests: dict[str, Any]) -> int:
    job_id = await submit(box, *requests)
    box.backend.tell(job_id, "started", at=NOW + 1)
    await box.settle()
    return job_id


def both(box: Bench, job_id: int) -> list[Job]:
    return [box.job(job_id), box.job(job_id + 1)]


def states(box: Bench, job_id: int) -> list[str]:
    return [job.state for job in both(box, job_id)]


@bench
async def test_components_are_one_run(box: Bench) -> None:
    job_id = await submit(box)
    assert [job.array_label for job in both(box, job_id)] == [f"{job_id}+0", f"{job_id}+1"]
    assert [(job.het_job_id, job.het_offset, job.het_size) for job in both(box, job_id)] == [(1, 0, 2), (1, 1, 2)]
    run = Run(cluster="local", job_id=job_id)
    assert box.backend.starts == [run], "the first one's"
    spec = box.backend.specs[run]
    assert [node.name for node in spec.nodes] == ["node1", "node2", "node3"]
    assert [job.job_id for job in spec.components] == [job_id, job_id + 1]
    assert [spec.component_of(index) for index in range(3)] == [0, 1, 1]
    environment = box.backend.environments[run]
    assert (environment["SLURM_HET_SIZE"], environment["SLURM_JOB_NODELIST_HET_GROUP_1"]) == ("2", "node[2-3]")
    box.backend.tell(job_id, "started", at=NOW + 1)
    await box.settle()
    assert [(job.state, job.start_time) for job in both(box, job_id)] == [("RUNNING", NOW + 1)] * 2
    box.backend.tell(job_id, "step", step="0", component=1, name="b", nodes=["node2"], tasks=2, cpus=2, at=NOW + 2)
    box.backend.tell(job_id, "step", step="0", name="a", nodes=["node1"], tasks=1, cpus=1, at=NOW + 2)
    box.backend.tell(job_id, "step-end", step="0", component=1, status=256, state="FAILED", at=NOW + 3)
    box.backend.tell(job_id, "ending", state="FAILED")
    await box.settle()
    assert states(box, job_id) == ["COMPLETING", "COMPLETING"]
    box.backend.tell(job_id, "ended", at=NOW + 4, state="FAILED", status=768)
    await box.settle()
    assert [(job.state, job.exit_status, job.end_time) for job in both(box, job_id)] == [("FAILED", 768, NOW + 4)] * 2
    steps = [box.store.steps([job]) for job in both(box, job_id)]
    assert [[(step.name, step.state) for step in own] for own in steps] == [[("a", "RUNNING")], [("b", "FAILED")]]
    assert box.backend.forgotten == [run]
    assert box.controller.world.book.idle


@bench
async def test_a_token_is_one_submission(box: Bench) -> None:
    first = await submit(box, token="a")
    assert await submit(box, token="a") == first
    assert await box.submit() == first + 2


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        (({"ntasks": 1}, {"partition": "nosuch"}), "Invalid partition name specified"),
        (({"array": "0-3"}, {"ntasks": 1}), "Invalid job array specification"),
        (({"ntasks": 1}, {"array": "0-3"}), "Invalid job array specification"),
        (({"node_list": "node[1-2]"}, {"node_list": "node2"}), "Invalid node name specified"),
    ],
)
def test_one_that_is_refused_refuses_all(
    state_dir: Path, requests: tuple[dict[str, Any], dict[str, Any]], why: str
) -> None:
    @bench
    async def refused(box: Bench) -> None:
        with pytest.raises(ShimError, match=f"Batch job submission failed: {why}"):
            await submit(box, *requests)
        assert box.labels() == []

    refused(state_dir)


def test_a_backend_that_starts_single_jobs_says_so(state_dir: Path) -> None:
    async def inside() -> None:
        backend = FakeBackend()
        backend.cluster = backend.cluster.replace(backend="kubernetes")
        box = await Bench(backend, Clock()).open()
        try:
            with pytest.raises(ShimError, match="heterogeneous jobs are not supported on the kubernetes backend"):
                await submit(box)
        finally:
            await box.close()

    asyncio.run(inside())


@bench
async def test_all_or_none_start(box: Bench) -> None:
    busy = await box.submit(min_nodes=2, exclusive="node")
    job_id = await submit(box)
    assert box.labels()[1:] == [f"{job_id}+0 PENDING Resources", f"{job_id}+1 PENDING Resources"]
    box.backend.tell(busy, "started")
    box.backend.tell(busy, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert states(box, job_id) == ["CONFIGURING", "CONFIGURING"]


@bench
async def test_a_start_that_fails_for_now_is_tried_again_by_all(box: Bench) -> None:
    box.backend.problem = BackendError("no agent", transient=True)
    job_id = await submit(box)
    assert states(box, job_id) == ["PENDING", "PENDING"]
    box.backend.problem = None
    await box.pass_time(5)
    assert states(box, job_id) == ["CONFIGURING", "CONFIGURING"]


@bench
async def test_a_start_that_fails_for_good_ends_all(box: Bench) -> None:
    box.backend.problem = BackendError("no such user")
    job_id = await submit(box)
    assert [(job.state, job.reason) for job in both(box, job_id)] == [("FAILED", "JobLaunchFailure")] * 2


@bench
async def test_the_first_ones_id_cancels_all(box: Bench) -> None:
    waiting = await submit(box, {"ntasks": 1, "hold": True}, {"ntasks": 1, "hold": True})
    active = await running(box)
    assert await box.results("cancel", {"job_id": waiting}, {"job_id": active, "het": 0}) == [None, None]
    assert states(box, waiting) == ["CANCELLED", "CANCELLED"]
    assert states(box, active) == ["COMPLETING", "COMPLETING"]
    (order,) = box.backend.orders_of(active)
    assert (order.kind, order.component) == ("end", 0)
    box.backend.tell(active, "ended", state="CANCELLED", status=15, uid=1001)
    await box.settle()
    assert [(job.state, job.exit_status) for job in both(box, active)] == [("CANCELLED", 15)] * 2


@bench
async def test_one_that_waits_is_not_cancelled_alone(box: Bench) -> None:
    job_id = await submit(box, {"ntasks": 1, "hold": True}, {"ntasks": 1, "hold": True})
    refused = "Operation not permitted on individual component of heterogeneous job"
    targets = [{"job_id": job_id + 1}, {"job_id": job_id, "het": 1}, {"job_id": job_id, "het": 2}]
    assert await box.results("cancel", *targets) == [refused, refused, "Invalid job id specified"]
    assert states(box, job_id) == ["PENDING", "PENDING"]


@bench
async def test_one_that_runs_is_ended_alone(box: Bench) -> None:
    job_id = await running(box)
    assert await box.results("cancel", {"job_id": job_id + 1}) == [None]
    (order,) = box.backend.orders_of(job_id)
    assert (order.kind, order.component, order.state) == ("end", 1, "CANCELLED")
    assert states(box, job_id) == ["RUNNING", "COMPLETING"]
    box.backend.tell(job_id, "part-ending", component=1, state="CANCELLED")
    box.backend.tell(
        job_id, "part-ended", component=1, state="CANCELLED", status=0, reason="None", uid=1001, at=NOW + 5
    )
    await box.settle()
    first, second = both(box, job_id)
    assert (first.state, second.state, second.exit_status, second.end_time) == ("RUNNING", "CANCELLED", 0, NOW + 5)
    # Its nodes are free for others, the job is not over.
    assert not box.backend.forgotten
    other = await box.submit(node_list="node2", exclusive="node")
    assert box.job(other).state == "CONFIGURING"
    assert await box.results("cancel", {"job_id": job_id + 1}) == ["Job/step already completing or completed"]
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0, at=NOW + 9)
    await box.settle()
    assert states(box, job_id) == ["COMPLETED", "CANCELLED"]
    assert box.job(job_id + 1).end_time == NOW + 5


@bench
async def test_signals_reach_the_run_or_one_component(box: Bench) -> None:
    job_id = await running(box)
    await box.results("cancel", {"job_id": job_id}, signal=10)
    await box.results("cancel", {"job_id": job_id, "het": 1}, signal=12)
    await box.results("cancel", {"job_id": job_id + 1, "step": "0"})
    found = [(order.kind, order.signal, order.component, order.step) for order in box.backend.orders_of(job_id)]
    assert found == [("signal", 10, 0, None), ("signal", 12, 1, None), ("end", 0, 1, "0")]
    await box.results("cancel", {"job_id": job_id}, signal=19)
    assert states(box, job_id) == ["STOPPED", "STOPPED"]
    await box.results("cancel", {"job_id": job_id}, signal=18)
    assert states(box, job_id) == ["RUNNING", "RUNNING"]


@bench
async def test_suspend_and_resume(box: Bench) -> None:
    root = Client(0)
    job_id = await running(box)
    assert await box.results("suspend", {"job_id": job_id + 1}, client=root) == ["Job not heterogeneous job leader"]
    assert await box.results("suspend", {"job_id": job_id}, client=root) == [None]
    assert states(box, job_id) == ["SUSPENDED", "SUSPENDED"]
    assert await box.results("resume", {"job_id": job_id}, client=root) == [None]
    assert states(box, job_id) == ["RUNNING", "RUNNING"]
    assert [order.kind for order in box.backend.orders_of(job_id)] == ["suspend", "resume"]


@bench
async def test_hold_and_release(box: Bench) -> None:
    job_id = await submit(box, {"ntasks": 1, "hold": True}, {"ntasks": 1, "hold": True})
    assert await box.results("release_job", {"job_id": job_id, "het": 0}) == [None]
    assert [job.held for job in both(box, job_id)] == ["", "user"]
    assert states(box, job_id) == ["PENDING", "PENDING"]
    assert await box.results("hold", {"job_id": job_id}) == [None]
    assert [job.reason for job in both(box, job_id)] == ["JobHeldUser", "JobHeldUser"]
    assert await box.results("release_job", {"job_id": job_id}) == [None]
    assert states(box, job_id) == ["CONFIGURING", "CONFIGURING"]


@bench
async def test_requeue_takes_all_back(box: Bench) -> None:
    job_id = await running(box)
    assert await box.results("requeue", {"job_id": job_id + 1}, {"job_id": job_id, "het": 1}) == [
        "Job not heterogeneous job leader",
        "Invalid job id specified",
    ]
    box.backend.tell(job_id, "part-ended", component=1, state="TIMEOUT", status=0, reason="TimeLimit")
    await box.settle()
    assert states(box, job_id) == ["RUNNING", "TIMEOUT"]
    assert await box.results("requeue", {"job_id": job_id}) == [None]
    assert states(box, job_id) == ["COMPLETING", "TIMEOUT"]
    box.backend.tell(job_id, "ended", state="REQUEUED", status=0)
    await box.settle()
    assert [(job.state, job.restarts) for job in both(box, job_id)] == [("PENDING", 1)] * 2
    await box.pass_time(5)
    assert states(box, job_id) == ["CONFIGURING", "CONFIGURING"]
    assert box.backend.starts == [Run(cluster="local", job_id=job_id, restart=restart) for restart in (0, 1)]
    box.backend.tell(job_id, "started", restart=1)
    box.backend.tell(job_id, "ended", restart=1, state="COMPLETED", status=0)
    await box.settle()
    assert await box.results("requeue", {"job_id": job_id}) == [None]
    assert [(job.state, job.restarts) for job in both(box, job_id)] == [("PENDING", 2)] * 2


@bench
async def test_time_limits_are_each_ones_own(box: Bench) -> None:
    job_id = await running(box, {"ntasks": 1, "time_limit": 5}, {"ntasks": 1, "time_limit": 3})
    assert box.backend.specs[Run(cluster="local", job_id=job_id)].limits == (300, 180)
    assert await box.results("update", {"job_id": job_id + 1}, fields={"TimeLimit": "2"}) == [None]
    (order,) = box.backend.orders_of(job_id)
    assert (order.kind, order.component, order.seconds) == ("limit", 1, 120)
    assert [job.time_limit for job in both(box, job_id)] == [5, 2]
    box.backend.tell(job_id, "ended", state="TIMEOUT", status=0)
    await box.settle()
    # As Slurm has it: the leader's limit is its own, the others fell with the script.
    found = [(job.state, job.reason, job.exit_status) for job in both(box, job_id)]
    assert found == [("TIMEOUT", "TimeLimit", 15), ("FAILED", "JobLaunchFailure", 15)]


@bench
async def test_a_lost_run_is_lost_for_all(box: Bench) -> None:
    job_id = await running(box, {"ntasks": 1, "requeue": False}, {"ntasks": 1, "requeue": False})
    assert box.controller.world.book.components(box.job(job_id + 1)) == both(box, job_id)
    box.controller.observing.lost(Run(cluster="local", job_id=job_id), "gone")
    await box.settle()
    assert states(box, job_id) == ["NODE_FAIL", "NODE_FAIL"]


@bench
async def test_an_end_that_was_ordered_is_what_the_loss_means(box: Bench) -> None:
    job_id = await running(box)
    await box.results("cancel", {"job_id": job_id + 1})
    await box.results("cancel", {"job_id": job_id})
    box.controller.observing.lost(Run(cluster="local", job_id=job_id), "gone")
    await box.settle()
    assert states(box, job_id) == ["CANCELLED", "CANCELLED"]


@bench
async def test_a_deadline_ends_all(box: Bench) -> None:
    job_id = await submit(box, {"ntasks": 1, "hold": True}, {"ntasks": 1, "deadline": int(NOW) + 60})
    await box.pass_time(61)
    assert states(box, job_id) == ["DEADLINE", "DEADLINE"]


@bench
async def test_a_dependency_that_cannot_be_satisfied_ends_all(box: Bench) -> None:
    failed = await box.submit()
    job_id = await submit(
        box, {"ntasks": 1}, {"ntasks": 1, "dependency": f"afterok:{failed}", "kill_on_invalid_dep": True}
    )
    assert states(box, job_id) == ["PENDING", "PENDING"]
    box.backend.tell(failed, "started")
    box.backend.tell(failed, "ended", state="FAILED", status=256)
    await box.settle()
    assert states(box, job_id) == ["CANCELLED", "CANCELLED"]


@bench
async def test_components_are_no_namesakes_of_each_other(box: Bench) -> None:
    job_id = await submit(box, {"ntasks": 1, "dependency": "singleton"}, {"ntasks": 1, "dependency": "singleton"})
    assert states(box, job_id) == ["CONFIGURING", "CONFIGURING"]


@bench
async def test_the_trial_counts_all(box: Bench) -> None:
    reply = await box.ask("submit", **asked(), test_only=True)
    assert (reply["job_id"], reply["processors"], reply["nodes"]) == (1, 3, "node[1-3]")
    with pytest.raises(ShimError, match="Requested node configuration is not available"):
        await box.ask("submit", **asked({"min_nodes": 4}, {"ntasks": 1}), test_only=True)
    assert await box.submit() == 5, "each component used an id"


@bench
async def test_it_is_moved_nowhere(box: Bench) -> None:
    job_id = await submit(box, {"ntasks": 1, "hold": True}, {"ntasks": 1, "hold": True})
    for one in (job_id, job_id + 1):
        with pytest.raises(ShimError, match="a component of a heterogeneous job: these cannot be moved"):
            await box.ask("move", job_id=one, cluster="local")


@bench
async def test_waiting_for_the_end_waits_for_all(box: Bench) -> None:
    job_id = await running(box)
    reply = asyncio.ensure_future(box.ask("wait", job_id=job_id))
    await box.settle()
    box.backend.tell(job_id, "ended", state="FAILED", status=768)
    assert (await reply)["exit_status"] == 768


@bench
async def test_only_the_leader_can_be_reached(box: Bench) -> None:
    job_id = await running(box)
    assert (await box.ask("reach", job_id=job_id))["run_dir"] == f"/run/{job_id}.0"
    with pytest.raises(ShimError, match="Job not heterogeneous job leader"):
        await box.ask("reach", job_id=job_id + 1)


@bench
async def test_an_allocation_is_told_of_all_and_released_as_one(box: Bench) -> None:
    client = Client()
    kinds = [{**one, "kind": "alloc"} for one in COMPONENTS]
    asking = asyncio.ensure_future(box.ask("allocate", client, **asked(*kinds, script=None)))
    await box.settle()
    box.backend.tell(1, "started")
    await box.settle()
    granted = client.events[-1]
    assert granted["event"] == "granted"
    environment = granted["environment"]
    assert (environment["SLURM_JOB_ID"], environment["SLURM_NTASKS"]) == ("1", "3")
    assert environment["SLURM_NODELIST_HET_GROUP_1"] == "node[2-3]"
    await box.ask("release", job_id=1, status=0)
    assert states(box, 1) == ["COMPLETING", "COMPLETING"]
    box.backend.tell(1, "ended", state="COMPLETED", status=0)
    assert (await asking)["state"] == "COMPLETED"
    assert states(box, 1) == ["COMPLETED", "COMPLETED"]


@bench
async def test_an_allocation_whose_client_leaves_while_it_waits(box: Bench) -> None:
    await box.submit(min_nodes=4, exclusive="node")
    client = Client()
    kinds = [{**one, "kind": "alloc"} for one in COMPONENTS]
    asking = asyncio.ensure_future(box.ask("allocate", client, **asked(*kinds, script=None)))
    await box.settle()
    client.leave()
    await asking
    assert states(box, 2) == ["CANCELLED", "CANCELLED"]


def test_a_new_controller_takes_the_run_over(state_dir: Path) -> None:
    async def inside() -> None:
        backend, clock = FakeBackend(), Clock()
        old = await Bench(backend, clock).open()
        job_id = await running(old)
        await old.results("cancel", {"job_id": job_id + 1})
        await old.close()
        backend.tell(job_id, "part-ended", component=1, state="CANCELLED", status=0, reason="None", uid=1001)
        new = await Bench(backend, clock).open()
        try:
            assert states(new, job_id) == ["RUNNING", "CANCELLED"]
            assert backend.starts == [Run(cluster="local", job_id=job_id)]
            backend.tell(job_id, "ended", state="COMPLETED", status=0)
            await new.settle()
            assert states(new, job_id) == ["COMPLETED", "CANCELLED"]
        finally:
            await new.close()

    asyncio.run(inside())
