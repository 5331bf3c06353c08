"""A run from its grant to its end, as its record, its pods and its leader show it."""

from __future__ import annotations

import asyncio
import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.records.record import Way
from shim.control.backends.kubernetes.run.course import LOST
from shim.control.backends.kubernetes.run.register import GRANTED, NODE_FAIL, NOT_BEGUN, OVER
from shim.control.lifecycle import running
from shim.core.model import states
from shim.core.model.cluster import Cluster
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, SECRETS, FakeCluster, node
from tests.control.backends.kubernetes.stage import RECORD, SETTINGS, Stage

CANCEL = Order(number=1, kind="end", state="CANCELLED", uid=1001)


def record(ended: dict[str, Any], began: float | None, nonce: str = "nonce") -> str:
    return json.dumps({"started": began, "ended": ended, "steps": [], "nonces": [nonce]})


async def started() -> tuple[Stage, Any]:
    """A run of two pods that has begun."""
    stage = await Stage(FakeCluster()).begin()
    leader = await stage.granted("started")
    assert stage.told.kinds == ["placed", "started"]
    assert stage.state == GRANTED
    return stage, leader


def test_a_run_begins_when_it_is_granted_and_its_record_goes_with_its_end() -> None:
    async def inside() -> None:
        stage, leader = await started()
        assert leader.answers == [("nonce", True)]
        leader.line("step", step="0")
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert [line.get("n") for line in stage.told.lines] == [None, 1, 2, 3]
        assert stage.state == GRANTED  # what has ended is committed first
        writes = len(stage.cluster.said)
        stage.cluster.state(1, "terminated", exitCode=0)
        stage.cluster.state(0, "terminated", exitCode=0)
        await stage.commit()
        await asyncio.sleep(6)
        assert stage.cluster.said[writes:] == ["PUT configmaps/slurm-7", "DELETE configmaps/slurm-7"]
        assert not [path for path in stage.cluster.objects if "slurm-7" in path]
        assert stage.driver.done.is_set()
        await stage.end()

    clock.run(inside())


def test_another_controller_goes_on_where_the_last_one_was() -> None:
    async def inside() -> None:
        stage, leader = await started()
        await stage.driver.close()
        leader.line("step", step="0")
        await stage.resume(seen=1)
        await asyncio.sleep(1)
        assert leader.asked("watch")[-1]["after"] == 1
        assert stage.told.lines[-1] == {"n": 2, "at": 1.0, "kind": "step", "step": "0"}
        assert stage.state == GRANTED
        await stage.end()

    clock.run(inside())


def test_an_end_that_nobody_heard_is_in_the_termination_record() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        ended = {"n": 4, "at": 9.0, "kind": "ended", "state": "FAILED", "status": 768}
        await stage.granted()
        stage.cluster.state(0, "terminated", exitCode=3, message=record(ended, 5.0))
        stage.cluster.leader = None
        await asyncio.sleep(5)
        assert stage.told.lines[-2:] == [{"kind": "started", "at": 5.0}, ended]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_died_without_a_word_is_lost() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.state(0, "terminated", exitCode=137, reason="Error")
        await asyncio.sleep(10)
        assert (stage.state, stage.register.outcome) == (OVER, NODE_FAIL)
        stage.cluster.state(1, "terminated", exitCode=143)
        await asyncio.sleep(10)
        assert stage.told.last["kind"] == "lost"
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("way", ["killed", "gone", "out of memory"])
def test_a_job_that_is_gone_with_its_pod_says_that_its_files_may_be_lost(way: str, tmp_path: Path) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).open()
        stage.copied = str(tmp_path)
        await stage.start()
        await stage.granted("started")
        if way == "gone":
            stage.cluster.leader = None
            for path in list(stage.cluster.pods()):
                stage.cluster.vanish(path)
        else:
            reason = "OOMKilled" if way == "out of memory" else "Error"
            stage.cluster.state(0, "terminated", exitCode=137, reason=reason)
            await asyncio.sleep(10)
            stage.cluster.state(1, "terminated", exitCode=143)
        await asyncio.sleep(400)
        assert stage.told.last["kind"] == ("ended" if way == "out of memory" else "lost")
        assert stage.told.last["detail"] == LOST
        await stage.end()

    clock.run(inside())


def test_what_a_later_container_of_the_pod_says_is_no_word_of_the_leader() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        ended = {"kind": "ended", "at": 9.0, "state": "NODE_FAIL", "status": 0}
        stage.cluster.state(0, "terminated", exitCode=1, message=record(ended, None, nonce="another"))
        await asyncio.sleep(10)
        assert (stage.state, stage.register.outcome) == (OVER, NODE_FAIL)
        await stage.end()

    clock.run(inside())


def test_a_leader_that_was_granted_and_never_began_lets_the_job_wait_again() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        await stage.granted()
        ended = {"kind": "ended", "at": 9.0, "state": "NODE_FAIL", "status": 0}
        for index in range(2):
            stage.cluster.state(index, "terminated", exitCode=1, message=record(ended, None))
        await asyncio.sleep(10)
        assert (stage.state, stage.register.outcome) == (OVER, NOT_BEGUN)
        assert stage.told.last == {"kind": "withdrawn", "reason": "it did not begin"}
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_that_somebody_deletes_or_suspends_changes_no_register(suspended: bool) -> None:
    async def inside() -> None:
        stage, _leader = await started()
        if suspended:
            stage.cluster.objects[f"{JOBS}/slurm-7"]["spec"]["suspend"] = True
            stage.cluster.changed(stage.cluster.objects[f"{JOBS}/slurm-7"], JOBS)
        else:  # with --cascade=orphan
            for path in stage.cluster.pods():
                del stage.cluster.objects[path]["metadata"]["ownerReferences"]
            stage.cluster.vanish(f"{JOBS}/slurm-7")
        await asyncio.sleep(60)
        assert stage.state == GRANTED
        assert not stage.told.ends
        assert "POST jobs/slurm-7" in stage.cluster.said
        assert stage.cluster.said.count("POST jobs/slurm-7") == 1  # a granted run makes no pods
        await stage.end()

    clock.run(inside())


def test_a_leader_whose_pod_is_not_there_any_more_is_lost_by_a_live_read() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.leader = None
        stage.cluster.vanish(next(path for path in stage.cluster.pods() if "slurm-7-0-" in path))
        await asyncio.sleep(10)
        assert (stage.state, stage.register.outcome) == (OVER, NODE_FAIL)
        await stage.end()

    clock.run(inside())


def test_a_second_pod_that_the_job_controller_makes_for_the_leaders_index_ends_nothing() -> None:
    async def inside() -> None:
        stage, leader = await started()
        path = next(path for path in stage.cluster.pods() if stage.cluster.objects[path] == stage.cluster.pod(0))
        second = copy.deepcopy(stage.cluster.objects[path])
        second["metadata"].update(name="slurm-7-0-second", uid="second")
        stage.cluster._put("ADDED", f"{path}-second", second)
        await asyncio.sleep(2 * SETTINGS.node_wait)
        assert stage.state == GRANTED
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert stage.told.last["state"] == "COMPLETED"
        await stage.end()

    clock.run(inside())


def test_a_watch_that_has_lost_sight_of_a_pod_ends_nothing() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        pod = stage.cluster.pod(0)
        stage.site.seen.pod_event("DELETED", pod)  # the watch says so; the pod is there
        stage.driver.poke()
        await asyncio.sleep(60)
        assert stage.state == GRANTED
        assert not stage.told.ends
        await stage.end()

    clock.run(inside())


def test_a_silent_node_is_waited_for_and_then_lost() -> None:
    async def inside() -> None:
        stage, leader = await started()
        stage.cluster.silence(0)
        await asyncio.sleep(10)
        assert stage.told.last == {"kind": "waits", "reason": "NodeNotResponding", "detail": "n1 does not answer"}
        await asyncio.sleep(SETTINGS.node_wait - 20)
        assert stage.state == GRANTED
        await asyncio.sleep(30)
        assert (stage.state, stage.register.outcome) == (OVER, NODE_FAIL)
        await asyncio.sleep(60)
        assert stage.told.ends[-1]["kind"] == "lost"
        await stage.end()

    clock.run(inside())


def test_a_run_on_a_node_that_does_not_answer_can_be_cancelled() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.blackout()
        stage.driver.order(CANCEL)
        await asyncio.sleep(60)
        assert stage.told.ends[-1]["state"] == "CANCELLED"
        assert stage.told.ends[-1]["uid"] == 1001
        assert stage.state == OVER
        await stage.end()

    clock.run(inside())


def test_a_leader_that_runs_ends_the_run_itself() -> None:
    async def inside() -> None:
        stage, leader = await started()
        stage.driver.order(CANCEL)
        await asyncio.sleep(60)
        assert leader.asked("order")[-1]["order"]["kind"] == "end"
        assert not stage.told.ends
        assert stage.state == GRANTED
        leader.line("ended", state="CANCELLED", status=15)
        await asyncio.sleep(1)
        assert stage.told.last["state"] == "CANCELLED"
        await stage.end()

    clock.run(inside())


async def over(stage: Stage, *, evidence: bool) -> None:
    """The run was lost and is committed as such; ``evidence``: all of its pods were seen to end."""
    stage.cluster.dark = True  # what is deleted stays where it is
    stage.cluster.state(0, "terminated", exitCode=137, reason="Error")
    if evidence:
        stage.cluster.state(1, "terminated", exitCode=137, reason="Error")
    else:
        stage.cluster.silence(1)
    stage.cluster.leader = None
    await asyncio.sleep(60)
    assert stage.told.last["kind"] == "lost"
    stage.job = stage.job.replace(restarts=1)
    await stage.commit(states.PENDING)
    await asyncio.sleep(5)


def test_another_run_begins_behind_the_fence_with_another_number() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        await over(stage, evidence=True)
        await stage.start(restart=1)
        assert (stage.register.run, stage.register.restart, stage.state) == (1, 1, "made")
        assert f"{JOBS}/slurm-7-r1" in stage.cluster.objects
        leader = await stage.granted("started")
        assert leader.answers == [("nonce", True)]
        assert stage.state == GRANTED
        await asyncio.sleep(10)
        assert f"{JOBS}/slurm-7" not in stage.cluster.objects  # what is left of the run before goes
        assert f"{SECRETS}/slurm-7-run" not in stage.cluster.objects
        assert f"{SECRETS}/slurm-7-r1-run" in stage.cluster.objects
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("how", ["force", "gone", "reboot", "taint"])
def test_where_a_pod_was_not_seen_to_end_only_its_node_proves_that_it_has(how: str) -> None:
    async def inside() -> None:
        stage, _leader = await started()
        await over(stage, evidence=False)
        with pytest.raises(BackendError, match="still there, or nobody has seen them end, on n2") as caught:
            await stage.start(restart=1)
        assert caught.value.transient
        if how == "force":  # its object is gone; the process may be there
            stage.cluster.vanish(next(path for path in stage.cluster.pods() if "slurm-7-1-" in path))
            with pytest.raises(BackendError, match="on n2"):
                await stage.start(restart=1)
        elif how == "gone":
            del stage.cluster.nodes["n2"]
        elif how == "reboot":
            stage.cluster.nodes["n2"] = node("n2", boot="another")
        else:
            stage.cluster.nodes["n2"]["spec"]["taints"] = [{"key": "node.kubernetes.io/out-of-service"}]
        if how != "force":
            await stage.start(restart=1)
            assert stage.register.run == 1
        await stage.end()

    clock.run(inside())


def test_a_kubelet_that_stays_in_touch_after_the_pod_is_gone_proves_it_as_well() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        await over(stage, evidence=False)
        stage.cluster.vanish(next(path for path in stage.cluster.pods() if "slurm-7-1-" in path))
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2"
        renewed = 0
        while stage.register.run == 0:
            renewed += 10
            stage.cluster.objects[lease] = {"metadata": {"name": "n2"}, "spec": {"renewTime": str(renewed)}}
            await asyncio.sleep(10)
            with suppress(BackendError):
                await stage.start(restart=1)
        assert 100 <= renewed <= 150  # the grace period, and as long as a kubelet may take to hear of it
        await stage.end()

    clock.run(inside())


async def orphaned(stage: Stage, *, labelled: bool) -> None:
    """The record is deleted, its Job with orphans; ``labelled``: the pods say of which record they were, as a version before did not."""
    for path in stage.cluster.pods():
        metadata = stage.cluster.objects[path]["metadata"]
        del metadata["ownerReferences"]
        if not labelled:
            del metadata["labels"][names.RECORD]
        stage.cluster.changed(stage.cluster.objects[path])
    stage.cluster.vanish(f"{JOBS}/slurm-7")
    stage.cluster.vanish(RECORD)
    await asyncio.sleep(10)


def test_pods_that_nothing_owns_go_when_their_record_has_gone() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        await orphaned(stage, labelled=True)
        end = {name: value for name, value in stage.told.last.items() if name != "at"}
        assert (end["state"], end["final"], end["detail"]) == ("NODE_FAIL", True, "its record was deleted")
        assert stage.driver.done.is_set()
        assert not stage.cluster.pods()
        await stage.end()

    clock.run(inside())


def test_pods_of_the_version_before_keep_the_job_from_beginning_again() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        await orphaned(stage, labelled=False)
        await stage.open()
        stage.site.seen.pod_event("DELETED", stage.cluster.pod(0))  # whatever the watch says
        with pytest.raises(BackendError, match="pods of a run before are still there: slurm-7-0"):
            await stage.start(restart=1)
        for index in range(2):
            stage.cluster.state(index, "terminated", exitCode=143)
        await stage.start(restart=1)
        assert stage.state == "made"
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("kind", ["made", "granted"])
def test_a_run_that_the_index_has_taken_back_or_ended_meanwhile_is_closed(kind: str) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        if kind == "granted":
            await stage.granted("started")
        await stage.driver.close()
        stage.job = stage.job.replace(state=states.CANCELLED)
        await stage.open()
        await asyncio.sleep(5)
        if kind == "made":
            assert stage.driver.done.is_set()  # taken back, ended, forgotten
        else:
            assert stage.state == OVER
            assert stage.data["ended"] == "CANCELLED"
        await stage.end()

    clock.run(inside())


def test_an_index_that_lags_behind_the_end_of_its_job_does_not_run_the_job_again() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        await stage.driver.close()
        await stage.open()
        stage.driver.index = None
        written = stage.site.records.find(7)
        assert written is not None
        await stage.site.records.write(written, ended=states.NODE_FAIL)  # by another controller
        await stage.start(restart=1)
        end = stage.told.last
        assert (end["kind"], end["state"]) == ("ended", states.NODE_FAIL)
        shape = Cluster(name="k8s", backend="kubernetes")
        assert running.ended(running.started(stage.job, 1.0), end, shape).state == states.NODE_FAIL
        await stage.end()

    clock.run(inside())


def test_output_that_nobody_fetched_comes_from_the_log(tmp_path: Any) -> None:
    async def inside() -> None:
        out = tmp_path / "slurm-7.out"
        out.write_text("before\n")
        stage = Stage(FakeCluster(), outputs=(Way(stream="stdout", path=str(out), base=7),))
        await stage.begin()
        await stage.granted("started")
        await stage.driver.close()
        stage.cluster.leader = None
        stage.cluster.printed = b"all of it\n"
        ended = {"n": 2, "at": 9.0, "kind": "ended", "state": "COMPLETED", "status": 0}
        stage.cluster.state(0, "terminated", exitCode=0, message=record(ended, 5.0))
        await stage.resume(seen=1)
        await asyncio.sleep(5)
        assert out.read_text() == "before\nall of it\n"
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
        ways = tuple(Way(stream=f"std{name}", path=str(tmp_path / name)) for name in ("out", "err"))
        stage = await Stage(FakeCluster(), outputs=ways).begin()
        await stage.granted()
        stage.cluster.leader = None
        stage.cluster.printed = log
        ended = {"n": 4, "at": 9.0, "kind": "ended", "state": "COMPLETED", "status": 0}
        stage.cluster.state(0, "terminated", exitCode=0, message=record(ended, 5.0))
        await asyncio.sleep(5)
        assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == (out, err)
        await stage.end()

    clock.run(inside())


def test_an_api_server_that_fails_for_a_while_only_delays() -> None:
    async def inside() -> None:
        stage, _leader = await started()
        stage.cluster.refusals["PUT configmaps/slurm-7"] = ApiError(500, "InternalError", "etcd")
        stage.cluster.state(0, "terminated", exitCode=137, reason="Error")
        stage.cluster.state(1, "terminated", exitCode=137, reason="Error")
        await asyncio.sleep(30)
        assert not stage.told.ends
        stage.cluster.refusals.clear()
        await asyncio.sleep(10)
        assert stage.told.last["kind"] == "lost"
        await stage.end()

    clock.run(inside())


def test_an_order_reaches_a_leader_that_is_there_later() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.driver.order(Order(number=3, kind="signal", signal=10))
        stage.cluster.run("n1", "n2")
        leader = stage.lead()
        await asyncio.sleep(1)
        assert [message["order"]["number"] for message in leader.asked("order")] == [3]
        await stage.end()

    clock.run(inside())


def test_an_end_that_is_said_to_be_committed_once_more_is_not_that_of_the_next_run() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.leave(1)
        await asyncio.sleep(5)
        assert (stage.state, stage.told.last["kind"]) == ("withdrawn", "withdrawn")
        await stage.commit(states.PENDING)
        await asyncio.sleep(5)
        await stage.start()
        assert stage.register is not None and stage.register.run == 1
        await stage.driver.forget()
        await asyncio.sleep(5)
        leader = await stage.granted("started")
        assert (stage.state, leader.answers) == ("granted", [("nonce", True)])
        await stage.end()

    clock.run(inside())
