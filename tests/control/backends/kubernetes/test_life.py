"""A run from its start to its end, as its pods and its leader show it."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from shim.control.backends.base import Order
from shim.control.backends.kubernetes.errors import ApiError
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import GRACE, JOBS, PODS, FakeCluster
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.stage import SETTINGS, Stage

CANCEL = Order(number=1, kind="end", state="CANCELLED", uid=1001)


async def started() -> tuple[Stage, FakeLeader]:
    """A run of two pods that has begun."""
    stage = await Stage(FakeCluster()).begin()
    leader = stage.lead("started")
    stage.cluster.run("n1", "n2")
    await asyncio.sleep(1)
    assert stage.told.kinds == ["placed", "started"]
    return stage, leader


def record(ended: dict[str, Any], began: float | None) -> str:
    return json.dumps({"started": began, "ended": ended, "steps": []})


def test_a_run_that_has_begun_has_no_ticket_any_more() -> None:
    async def inside() -> None:
        stage, leader = await started()
        assert stage.cluster.ticket() is None
        assert stage.ticket.torn
        leader.line("step", step="0")
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert [line.get("n") for line in stage.told.lines] == [None, 1, 2, 3]
        await stage.end()

    clock.run(inside())


def test_another_controller_goes_on_where_the_last_one_was() -> None:
    async def inside() -> None:
        stage, leader = await started()
        await stage.life.close()
        leader.line("step", step="0")
        await stage.begin(seen=1)
        await asyncio.sleep(1)
        assert leader.asked("watch")[-1]["after"] == 1
        assert stage.told.lines == [{"n": 2, "at": 1.0, "kind": "step", "step": "0"}]
        await stage.end()

    clock.run(inside())


def test_an_end_that_nobody_heard_is_in_the_record() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        ended = {"n": 4, "at": 9.0, "kind": "ended", "state": "FAILED", "status": 768}
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "terminated", exitCode=3, message=record(ended, 5.0))
        await asyncio.sleep(1)
        assert stage.told.lines[-2:] == [{"kind": "started", "at": 5.0}, ended]
        assert stage.ticket.torn
        await stage.end()

    clock.run(inside())


def test_what_was_heard_already_is_not_told_again_from_the_record() -> None:
    async def inside() -> None:
        stage, leader = await started()
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        stage.cluster.state(0, "terminated", exitCode=0, message=record(leader.lines[-1], 5.0))
        await asyncio.sleep(10)
        assert stage.told.kinds == ["placed", "started", "ended"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_died_without_a_word_is_lost() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.state(0, "terminated", exitCode=137)
        await asyncio.sleep(10)
        assert stage.told.ends == [{"kind": "lost", "reason": "the job's first pod has ended without a record"}]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_a_record_of_a_node_lost_before_the_start_lets_the_job_wait_again() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        ended = {"n": 2, "at": 9.0, "kind": "ended", "state": "NODE_FAIL", "status": 0}
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "terminated", exitCode=1, message=record(ended, None))
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("path", [f"{JOBS}/slurm-7", "pod 0"])
def test_a_run_whose_objects_somebody_deletes_is_lost(path: str) -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.vanish(path if path != "pod 0" else f"{PODS}/{stage.cluster.pod(0)['metadata']['name']}")
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        assert "deleted" in stage.told.last["reason"]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_a_job_that_is_deleted_before_its_pods_run_has_failed() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.vanish(f"{JOBS}/slurm-7")
        await asyncio.sleep(5)
        assert {"kind": "waits", "reason": "JobLaunchFailure", "detail": "its Job was deleted"} in stage.told.lines
        assert [line["state"] for line in stage.told.ends] == ["FAILED"]
        await stage.end()

    clock.run(inside())


def test_a_job_that_is_suspended_by_hand_is_lost_and_never_begins_anew() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        job = stage.cluster.objects[f"{JOBS}/slurm-7"]
        job["spec"]["suspend"] = True
        stage.cluster.changed(job, JOBS)
        await asyncio.sleep(10)
        assert stage.told.ends == [{"kind": "lost", "reason": "its Job was suspended"}]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


NODE_FAIL = {"n": 2, "at": 6.0, "kind": "ended", "state": "NODE_FAIL", "status": 0}


async def interrupted(stage: Stage, *ended: tuple[dict[str, Any], float | None]) -> None:
    """Somebody suspends the Job and resumes it: pods go, the first leaving this record, and others take their place; nobody looks meanwhile."""
    cluster = stage.cluster
    job = cluster.objects[f"{JOBS}/slurm-7"]
    for suspend in (True, False):
        job["spec"]["suspend"] = suspend
        cluster.changed(job, JOBS)
    for path in cluster.pods():
        pod = copy.deepcopy(cluster.objects[path])
        for index, (last, began) in enumerate(ended):
            if f"-{index}-" in path:
                cluster.leave(index, exitCode=143, message=record(last, began))
        cluster.vanish(path)
        metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-b", "uid": f"{pod['metadata']['uid']}-b"}
        cluster.changed({**pod, "metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})


def test_a_job_that_had_begun_unheard_when_it_was_suspended_does_not_begin_anew() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        await interrupted(stage, (NODE_FAIL, 5.0))
        stage.cluster.run("n1", "n2")
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_pods_of_a_suspended_job_that_are_made_anew_have_no_ticket() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        await interrupted(stage)
        await asyncio.sleep(1)
        assert stage.cluster.ticket() is None
        stage.cluster.bind(0, "n1")
        stage.cluster.bind(1, "n2")
        stage.cluster.last = {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_vanishes_with_its_record_has_told_its_end() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        ended = {"n": 2, "at": 6.0, "kind": "ended", "state": "COMPLETED", "status": 0}
        stage.cluster.leave(0, exitCode=0, message=record(ended, 5.0))
        stage.cluster.vanish(stage.cluster.pods()[0])
        await asyncio.sleep(1)
        assert stage.told.kinds[-2:] == ["started", "ended"]
        assert stage.told.ends == [ended]
        await stage.end()

    clock.run(inside())


def test_a_silent_node_is_waited_for_and_then_lost() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.deaf = True
        stage.cluster.silence(0)
        await asyncio.sleep(299)
        assert stage.told.last == {"kind": "waits", "reason": "NodeNotResponding", "detail": "n1 does not answer"}
        assert stage.told.ends == []
        stage.cluster.vanish(next(path for path in stage.cluster.pods() if "-1-" in path))  # its kubelet answers
        await asyncio.sleep(5)
        assert f"{JOBS}/slurm-7" not in stage.cluster.objects
        assert stage.told.ends == [{"kind": "lost", "reason": "node n1 does not answer"}]
        assert len(stage.cluster.pods()) == 1  # its processes may still write: another run waits for that
        text = stage.site.still_there(stage.site.seen.pods_of(stage.life.run))
        assert text.endswith("on n1: until it answers, is removed or tainted out-of-service")
        await stage.end()

    clock.run(inside())


def test_who_may_not_see_nodes_knows_a_silent_one_by_a_pod_that_does_not_go() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.site.names_nodes, stage.site.nodes = False, None
        stage.cluster.deaf = True
        stage.cluster.vanish(f"{JOBS}/slurm-7")
        await asyncio.sleep(GRACE + 25)
        assert stage.told.ends == []  # its processes may still write
        await asyncio.sleep(15)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("seems_open", [True, False])
def test_a_run_on_a_node_that_does_not_answer_can_be_cancelled(seems_open: bool) -> None:
    async def inside() -> None:
        stage, leader = await started()
        stage.cluster.deaf = True
        stage.cluster.silence(0)
        stage.cluster.silence(1)
        if not seems_open:  # as it does when a node has lost its power
            stage.cluster.leader = None
            await leader.close()
        stage.life.order(CANCEL)
        await asyncio.sleep(25)
        assert [one["state"] for one in stage.told.ends] == ["CANCELLED"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_should_have_gone_is_lost_though_nothing_is_said_of_its_node() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.site.names_nodes, stage.site.nodes = False, None
        stage.cluster.deaf = True
        await stage.cluster.delete(next(path for path in stage.cluster.pods() if "-0-" in path))
        await asyncio.sleep(GRACE + 25)
        assert stage.told.kinds == ["placed", "started"]
        await asyncio.sleep(SETTINGS.node_wait + 90)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_while_the_nodes_are_not_known_none_counts_as_gone() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.deaf = True
        stage.site.nodes = None  # a controller that has just begun
        stage.cluster.vanish(f"{JOBS}/slurm-7")
        await asyncio.sleep(GRACE)
        assert stage.told.ends == []  # its processes may still write
        stage.site.nodes = {}
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_a_node_that_comes_back_in_time_costs_nothing() -> None:
    async def inside() -> None:
        stage, leader = await started()
        for _ in range(2):
            stage.cluster.silence(0)
            await asyncio.sleep(250)
            stage.cluster.bind(0, "n1")
            await asyncio.sleep(250)
        assert stage.told.ends == []
        assert stage.told.last == {"kind": "waits", "reason": "None", "detail": ""}
        leader.line("suspect", host="slurm-7-1")
        await asyncio.sleep(1)
        assert stage.told.last["detail"] == "slurm-7-1 is silent"
        leader.line("recovered", host="slurm-7-1")
        await asyncio.sleep(1)
        assert stage.told.last == {"kind": "waits", "reason": "None", "detail": ""}
        await stage.end()

    clock.run(inside())


def test_a_leader_that_runs_ends_the_run_itself() -> None:
    async def inside() -> None:
        stage, leader = await started()
        for _ in range(2):
            stage.life.order(CANCEL)  # obeyed once
        await asyncio.sleep(60)
        assert [one["order"]["state"] for one in leader.asked("order")] == ["CANCELLED"]
        assert len(stage.cluster.pods()) == 2
        leader.line("ended", state="CANCELLED", status=15)
        await asyncio.sleep(1)
        assert stage.told.ends == [leader.lines[-1]]
        await stage.end()

    clock.run(inside())


def test_an_order_reaches_a_leader_that_is_there_later() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.life.order(Order(number=1, kind="limit", seconds=90))
        leader = stage.lead()
        stage.cluster.run("n1", "n2")
        await asyncio.sleep(1)
        assert [one["order"]["seconds"] for one in leader.asked("order")] == [90]
        await stage.end()

    clock.run(inside())


def test_a_leader_is_left_alone_until_all_pods_run() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        stage.cluster.bind(0, "n1")
        stage.cluster.bind(1, "n2")
        stage.cluster.state(0, "running")
        await asyncio.sleep(1)
        assert leader.asked("watch") == []
        stage.cluster.state(1, "running")
        await asyncio.sleep(1)
        assert len(leader.asked("watch")) == 1
        await stage.end()

    clock.run(inside())


def test_a_leader_whose_other_pods_take_long_is_reached_all_the_same() -> None:
    """One of them may have gone after the start, which the leader knows."""

    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        stage.cluster.bind(0, "n1")
        stage.cluster.state(0, "running")
        await asyncio.sleep(10)
        assert len(leader.asked("watch")) == 1
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("runs", [False, True], ids=["no pod runs", "the leader cannot be reached"])
def test_without_a_leader_the_run_is_ended_from_here(runs: bool) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        if runs:
            stage.cluster.run("n1", "n2")
        stage.life.order(CANCEL)
        await asyncio.sleep(9)
        assert bool(stage.cluster.pods()) is runs
        assert len(stage.told.ends) == (0 if runs else 1)
        await asyncio.sleep(11)
        assert stage.cluster.objects == {}
        assert [(one["state"], one["uid"]) for one in stage.told.ends] == [("CANCELLED", 1001)]
        await stage.end()

    clock.run(inside())


def test_pods_that_do_not_hear_the_term_so_early_are_pressed() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.deaf = True
        stage.cluster.run("n1", "n2")
        stage.life.order(CANCEL)
        await asyncio.sleep(30)
        assert [one["state"] for one in stage.told.ends] == ["CANCELLED"]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_what_was_decided_is_carried_out_by_the_next_controller() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.refusals = {"DELETE jobs/slurm-7": ApiError(503, "ServiceUnavailable", "later")}
        stage.life.order(CANCEL)
        await asyncio.sleep(5)
        assert stage.told.ends == []
        verdict = stage.ticket.verdict
        assert verdict is not None
        assert verdict["state"] == "CANCELLED"
        await stage.life.close()
        stage.cluster.refusals = {}
        await stage.begin()  # it knows of no order
        await asyncio.sleep(5)
        assert stage.told.lines == [verdict]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_an_api_server_that_fails_for_a_while_only_delays() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.refusals = {"DELETE jobs/slurm-7": ApiError(500, "InternalError", "etcd")}
        stage.cluster.state(0, "terminated", exitCode=137)
        await asyncio.sleep(60)
        assert stage.told.ends == []
        stage.cluster.refusals = {}
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_output_that_nobody_fetched_comes_from_the_log(tmp_path: Any) -> None:
    async def inside() -> None:
        out = tmp_path / "out"
        out.write_text("before\nfirst ")
        stage = await Stage(FakeCluster()).begin(outputs=(("stdout", str(out), len("before\n")),))
        stage.cluster.printed = b"first line\nsecond line\n"
        ended = {"n": 4, "at": 9.0, "kind": "ended", "state": "COMPLETED", "status": 0}
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "terminated", exitCode=0, message=record(ended, 5.0))
        await asyncio.sleep(1)
        assert out.read_text() == "before\nfirst line\nsecond line\n"
        assert stage.told.last == ended
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize(
    ("log", "out", "err"),
    [
        (b"o1\ne1\no2\ne2\nslurm-shim: log o0 e0: o3 e3 o3 e3\n", "o1\no2\n", "e1\ne2\n"),
        (b"o1\ne1\no2\ne2\n", "o1\no2\ne2\n", "e1\n"),  # the agent was killed
    ],
)
def test_a_log_of_both_streams_is_cut_for_each(tmp_path: Any, log: bytes, out: str, err: str) -> None:
    async def inside() -> None:
        (tmp_path / "out").write_text("o1\n")
        (tmp_path / "err").write_text("e1\n")
        outputs = (("stdout", str(tmp_path / "out"), 0), ("stderr", str(tmp_path / "err"), 0))
        stage = await Stage(FakeCluster()).begin(outputs=outputs)
        stage.cluster.printed = log
        ended = {"n": 4, "at": 9.0, "kind": "ended", "state": "COMPLETED", "status": 0}
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "terminated", exitCode=0, message=record(ended, 5.0))
        await asyncio.sleep(1)
        assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == (out, err)
        await stage.end()

    clock.run(inside())


def test_the_leader_goes_when_its_end_is_committed() -> None:
    async def inside() -> None:
        stage, leader = await started()
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        loop.call_later(2, lambda: stage.cluster.state(0, "terminated", exitCode=0))
        began = loop.time()
        await stage.life.forget()
        assert loop.time() - began == pytest.approx(2)
        assert "ended" in stage.told.kinds
        await stage.end()

    clock.run(inside())
