"""A run that was made and has not begun: placed, asked for, granted, or taken back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.run.register import GRANTED, MADE, WITHDRAWN, made
from shim.core.model import states
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, PODS, FakeCluster, Killed
from tests.control.backends.kubernetes.stage import RECORD, SETTINGS, Stage

CANCEL = Order(number=1, kind="end", state="CANCELLED", uid=1001)


def half_placed(stage: Stage, first: int = 0) -> None:
    stage.cluster.bind(first, "n1")
    stage.cluster.unschedulable(1 - first, "0/3 nodes are available")


def test_where_it_is_and_why_it_waits_is_told_once() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.unschedulable(0, "0/3 nodes are available: 3 Insufficient cpu.")
        stage.cluster.unschedulable(1, "waits for its gang")
        await asyncio.sleep(1)
        stage.cluster.bind(0, "n2")
        stage.cluster.bind(1, "n1")
        await asyncio.sleep(1)
        stage.cluster.state(0, "waiting", reason="ErrImagePull", message="no such image")
        await asyncio.sleep(1)
        stage.cluster.state(0, "running")
        stage.cluster.state(1, "running")
        await asyncio.sleep(1)
        assert [{k: v for k, v in line.items() if k != "at"} for line in stage.told.lines] == [
            {"kind": "waits", "reason": "Resources", "detail": "0/3 nodes are available: 3 Insufficient cpu."},
            {"kind": "placed", "nodes": ["n2", "n1"]},
            {"kind": "waits", "reason": "None", "detail": ""},
            {"kind": "waits", "reason": "ErrImagePull", "detail": "no such image"},
            {"kind": "waits", "reason": "None", "detail": ""},
        ]
        await stage.end()

    clock.run(inside())


def test_how_far_a_start_has_come_can_be_seen() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.bind(0, "n2")
        await asyncio.sleep(1)

        def seen() -> tuple[str, int, int]:
            assert stage.driver.course is not None
            found = stage.driver.course.progress()
            assert found is not None
            return found.what, found.done, found.all

        assert seen() == ("its pods wait for nodes", 1, 2)
        stage.cluster.events.append(
            {"reason": "Pulling", "message": 'Pulling image "big"', "lastTimestamp": "2026-01-01T00:00:00Z"}
        )
        stage.cluster.bind(1, "n1")
        stage.cluster.state(0, "running")
        await asyncio.sleep(1)
        assert seen() == ("its pods start", 1, 2)
        await asyncio.sleep(10)
        assert seen() == ('its pods start, pulling image "big"', 1, 2)
        stage.cluster.state(1, "running")
        await asyncio.sleep(1)
        assert seen() == ("all pods run, and make ready", 0, 0)
        await stage.end()

    clock.run(inside())


def test_who_asks_and_is_whom_the_gang_is_is_granted_the_run() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = await stage.granted()
        assert leader.answers == [("nonce", True)]
        register = stage.register
        assert register is not None
        assert [(one.index, one.node, one.boot, one.checked) for one in register.members] == [
            (0, "n1", "boot-n1", True),
            (1, "n2", "boot-n2", True),
        ]
        stage.ask(leader, "another process of the same pod")
        await asyncio.sleep(1)
        assert leader.answers[1:] == [("another process of the same pod", False)]
        assert stage.register == register
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("what", ["a pod that ends", "a pod that is deleted", "a Node that is gone", "too few"])
def test_who_asks_for_a_gang_that_is_not_whole_hears_nothing(what: str) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        leader = stage.lead()
        pods = [stage.cluster.pod(0), stage.cluster.pod(1)]
        if what == "a pod that ends":
            stage.cluster.before["PUT configmaps/slurm-7"] = lambda: None
            stage.cluster.state(1, "terminated", exitCode=0)
        elif what == "a pod that is deleted":
            stage.cluster.deaf = True
            pods[1]["metadata"]["deletionTimestamp"] = "2026-11-22T05:00:00Z"
            stage.cluster.changed(pods[1])
        elif what == "a Node that is gone":
            del stage.cluster.nodes["n2"]
        else:
            del pods[1]
        stage.ask(leader, "nonce", *pods)
        await asyncio.sleep(1)
        assert ("nonce", True) not in leader.answers
        assert stage.state in (MADE, WITHDRAWN)
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("first", [0, 1])
def test_a_gang_that_is_placed_in_part_is_taken_back_and_tried_under_another_number(first: int) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        half_placed(stage, first)
        await asyncio.sleep(4)
        assert stage.state == MADE
        await asyncio.sleep(10)  # these very nodes had seemed free
        assert stage.state == WITHDRAWN
        assert not stage.cluster.pods()
        assert f"{JOBS}/slurm-7" not in stage.cluster.objects
        assert stage.told.ends == [{"kind": "withdrawn", "reason": "0/3 nodes are available"}]
        await stage.commit(states.PENDING)
        await asyncio.sleep(1)
        await stage.start()
        assert (stage.register.run, stage.register.restart) == (1, 0)
        assert f"{JOBS}/slurm-7-r1" in stage.cluster.objects
        await stage.end()

    clock.run(inside())


def made_elsewhere(stage: Stage) -> None:
    """Another controller has made the job's next run."""
    found, register = stage.cluster.objects[RECORD], stage.register
    assert register is not None
    found["data"]["register"] = json.dumps(made(register, register.restart).to_dict())
    stage.cluster._put("MODIFIED", RECORD, found)


def test_a_run_that_another_controller_has_made_is_followed_though_the_one_before_was_not_left_yet() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        half_placed(stage)
        await asyncio.sleep(14)
        assert stage.state == WITHDRAWN
        made_elsewhere(stage)
        with pytest.raises(BackendError, match="not over yet"):  # of the run before not even the end is committed
            await stage.start()
        await stage.commit(states.PENDING)
        await stage.start()
        await stage.granted("started")
        assert (stage.state, stage.register.run) == (GRANTED, 1)
        assert stage.told.kinds[-1] == "started"
        await stage.end()

    clock.run(inside())


def test_a_tasks_only_pod_that_went_while_the_watch_was_lost_does_not_keep_the_task_from_starting_again() -> None:
    async def inside() -> None:
        stage = Stage(FakeCluster())
        stage.jobless = True
        await stage.open(nodes=1)
        watchers, stage.cluster.watchers[:] = list(stage.cluster.watchers), []
        await stage.start()
        assert f"{PODS}/slurm-7-0" in stage.cluster.objects
        stage.cluster.vanish(f"{PODS}/slurm-7-0")
        stage.cluster.watchers[:] = watchers  # it lists anew: of what came and went it never tells
        await asyncio.sleep(70)
        assert stage.state == WITHDRAWN
        assert [end["kind"] for end in stage.told.ends] == ["withdrawn"]
        await stage.commit(states.PENDING)
        await asyncio.sleep(1)
        await stage.start()
        assert f"{PODS}/slurm-7-r1-0" in stage.cluster.objects
        await stage.end()

    clock.run(inside())


def test_a_run_that_is_granted_while_it_is_given_up_goes_on() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        half_placed(stage)

        def granted() -> None:  # by another controller
            found = stage.cluster.objects[RECORD]
            register = stage.register.replace(state=GRANTED, nonce="nonce").to_dict()
            register["members"] = [{"index": 0, "pod": stage.cluster.pod(0)["metadata"]["uid"], "node": "n1"}]
            found["data"]["register"] = json.dumps(register)
            stage.cluster._put("MODIFIED", RECORD, found)

        stage.cluster.before["PUT configmaps/slurm-7"] = granted
        await asyncio.sleep(30)
        assert stage.state == GRANTED
        assert not stage.told.ends
        assert f"{JOBS}/slurm-7" in stage.cluster.objects
        await stage.end()

    clock.run(inside())


def test_pods_that_are_never_made_are_waited_for_only_so_long() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        for path in stage.cluster.pods():
            stage.cluster.vanish(path)
        stage.cluster.events = [{"reason": "FailedCreate", "message": "pods is forbidden: exceeded quota: small"}]
        await asyncio.sleep(20)
        assert stage.told.last["reason"] == "AssocGrpResourceLimit"
        await asyncio.sleep(SETTINGS.bind_wait)
        assert stage.told.last["kind"] == "withdrawn"
        assert stage.state == WITHDRAWN
        await stage.end()

    clock.run(inside())


def test_a_job_that_is_deleted_before_the_start_is_made_again() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.vanish(f"{JOBS}/slurm-7")
        await asyncio.sleep(5)
        assert stage.cluster.said.count("POST jobs/slurm-7") == 2
        leader = await stage.granted("started")
        assert leader.answers == [("nonce", True)]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("met", [False, True])
def test_pods_that_cannot_start_or_meet_fail_the_job_in_time(met: bool) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        if not met:
            stage.cluster.state(1, "waiting", reason="ErrImagePull", message="no such image")
        await asyncio.sleep(SETTINGS.boot_limit - 10)
        assert not stage.told.ends
        await asyncio.sleep(30)
        assert (stage.state, stage.register.outcome) == (WITHDRAWN, "BOOT_FAIL")
        why = "the pods have not met in time" if met else "ErrImagePull: no such image"
        assert {"state": "BOOT_FAIL", "detail": why}.items() <= stage.told.last.items()
        await stage.end()

    clock.run(inside())


def test_a_pod_that_dies_before_the_start_ends_the_job_at_once() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(1, "terminated", exitCode=126, message="not the code")
        await asyncio.sleep(5)
        assert stage.state == WITHDRAWN
        assert stage.told.last["state"] == "BOOT_FAIL"
        assert stage.told.last["detail"] == f"pod {stage_pod(stage, 1)}: not the code"
        await stage.end()

    def stage_pod(stage: Stage, index: int) -> str:
        text = str(stage.told.last["detail"])
        assert f"slurm-7-{index}-" in text
        return text.split()[1].rstrip(":")

    clock.run(inside())


def test_a_leader_that_says_why_the_job_cannot_begin_ends_it() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        ended = {"kind": "ended", "at": 9.0, "state": "FAILED", "status": 256, "reason": "JobLaunchFailure"}
        message = json.dumps({"started": None, "ended": ended, "steps": [], "why": "the disk is full"})
        stage.cluster.state(0, "terminated", exitCode=1, message=message)
        await asyncio.sleep(5)
        assert stage.told.last["state"] == "FAILED"
        assert (stage.state, stage.register.outcome) == (WITHDRAWN, "FAILED")
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("index", [0, 1])
def test_a_pod_that_is_taken_away_before_the_start_fails_nothing(index: int) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.leave(index, exitCode=143)
        await asyncio.sleep(5)
        assert stage.told.last["kind"] == "withdrawn"
        assert stage.state == WITHDRAWN
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("reason", ["Unknown", "ContainerStatusUnknown"])
def test_a_pod_whose_machine_began_anew_before_the_start_fails_nothing(reason: str) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "terminated", exitCode=255, reason=reason)
        await asyncio.sleep(5)
        assert stage.told.last["kind"] == "withdrawn"
        assert stage.state == WITHDRAWN
        await stage.end()

    clock.run(inside())


def test_a_pod_on_a_node_that_does_not_answer_is_not_waited_for_long() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.silence(1)
        await asyncio.sleep(SETTINGS.bind_wait - 10)
        assert stage.told.last["reason"] == "NodeNotResponding"
        await asyncio.sleep(60)
        assert stage.told.ends[-1] == {"kind": "withdrawn", "reason": "node n2 does not answer"}
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("placed", [False, True])
def test_a_cancellation_before_the_start_takes_the_run_back(placed: bool) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        if placed:
            stage.cluster.run("n1", "n2")
        stage.driver.order(CANCEL)
        await asyncio.sleep(10)
        assert (stage.state, stage.register.outcome) == (WITHDRAWN, "CANCELLED")
        assert {"state": "CANCELLED", "uid": 1001}.items() <= stage.told.last.items()
        await stage.end()

    clock.run(inside())


def test_a_volume_that_is_not_there_is_told_from_the_events() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.bind(0, "n1")
        stage.cluster.bind(1, "n2")
        stage.cluster.events = [{"reason": "FailedMount", "message": 'secret "x" not found'}]
        await asyncio.sleep(10)
        assert stage.told.last == {**stage.told.last, "reason": "FailedMount", "detail": 'secret "x" not found'}
        await stage.end()

    clock.run(inside())


def test_a_job_in_a_queue_is_not_taken_back() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster(), SETTINGS.replace(queue="team")).begin()
        for path in stage.cluster.pods():
            stage.cluster.vanish(path)
        stage.cluster.objects[f"{JOBS}/slurm-7"]["spec"]["suspend"] = True
        stage.cluster.changed(stage.cluster.objects[f"{JOBS}/slurm-7"], JOBS)
        await asyncio.sleep(600)
        assert stage.told.last["detail"] == "waits in queue team"
        assert stage.state == MADE
        await stage.end()

    clock.run(inside())


def test_objects_that_are_refused_take_the_run_back() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).open()
        stage.cluster.refusals["POST jobs/slurm-7"] = ApiError(403, "Forbidden", "denied by the webhook")
        with pytest.raises(BackendError, match="denied by the webhook") as caught:
            await stage.start()
        assert not caught.value.transient
        assert stage.state == WITHDRAWN
        stage.cluster.refusals["POST jobs/slurm-7-r1"] = ApiError(403, "Forbidden", "exceeded quota: small")
        with pytest.raises(BackendError, match="exceeded quota") as caught:
            await stage.start()
        assert caught.value.transient
        await stage.end()

    clock.run(inside())


def test_a_job_whose_hosts_have_other_names_by_now_waits_for_another_turn() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).open()
        run = stage.driver.begin
        with pytest.raises(BackendError, match="this is number 0") as caught:
            await run(*(await arguments(stage, "slurm-7-r4-0")))
        assert caught.value.transient
        assert stage.register is None
        await stage.end()

    async def arguments(stage: Stage, host: str) -> Any:
        from tests.control.backends.kubernetes.stage import RUN

        return RUN, host, stage._prepare

    clock.run(inside())


@pytest.mark.parametrize("lost", ["killed", "silent"])
@pytest.mark.parametrize("write", range(1, 7))
def test_wherever_a_start_breaks_off_the_run_begins_once(write: int, lost: str) -> None:
    """The controller is killed after a write, or the write's answer is lost; the next one goes on."""

    async def inside() -> None:
        cluster = FakeCluster()
        stage = Stage(cluster)
        setattr(cluster, "kill_after" if lost == "killed" else "silent_after", write)
        for _ in range(3):
            try:
                await stage.begin()
                break
            except (Killed, BackendError, ApiError):
                cluster.kill_after = cluster.silent_after = 0
                if hasattr(stage, "driver"):
                    await stage.driver.close()
                    del stage.driver
        await asyncio.sleep(10)
        register = stage.register
        assert register is not None
        leader = await stage.granted("started")
        assert leader.answers == [("nonce", True)]
        assert stage.state == GRANTED
        assert len([path for path in cluster.objects if path.startswith(JOBS)]) == 1
        await stage.end()

    clock.run(inside())


def unmet(stage: Stage, text: str) -> None:
    """All pods run, and the second one prints this."""
    stage.cluster.printed = f"pulled\n{text}\n".encode()
    stage.cluster.run("n1", "n2")


APART = "slurm-7-1 cannot reach slurm-7-0 at 10.0.0.1 on TCP port 6818: no answer"


def test_pods_that_run_and_do_not_meet_are_told_within_a_minute_and_end_by_the_boot_limit() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.lead()
        unmet(stage, f"slurm-shim: {APART}")
        await asyncio.sleep(40)
        assert stage.told.last == {"kind": "waits", "reason": "NodesCannotMeet", "detail": APART}
        await asyncio.sleep(600)
        assert {"state": "BOOT_FAIL", "detail": f"NodesCannotMeet: {APART}"}.items() <= stage.told.last.items()
        assert stage.state == WITHDRAWN
        await stage.end()

    clock.run(inside())


def test_pods_that_meet_in_the_end_are_told_of_no_more() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        unmet(stage, f"slurm-shim: {APART}")
        await asyncio.sleep(40)
        stage.ask(leader)
        await asyncio.sleep(1)
        leader.line("started")
        await asyncio.sleep(1000)
        assert stage.told.last["kind"] == "started"
        assert stage.state == GRANTED
        await stage.end()

    clock.run(inside())


def test_a_gang_of_which_nobody_hears_is_taken_back_in_time() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()  # no pods/exec: nobody reaches the leader
        unmet(stage, "hello")
        await asyncio.sleep(700)
        assert stage.told.last["state"] == "BOOT_FAIL"
        assert stage.state == WITHDRAWN
        await stage.end()

    clock.run(inside())


def test_a_gang_that_holds_nothing_need_not_hurry() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        for index in (0, 1):
            stage.cluster.unschedulable(index, "0/3 nodes are available")
        await asyncio.sleep(30)
        assert stage.told.ends == []
        stage.cluster.bind(0, "n1")
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("may", [True, False])
def test_a_run_of_one_pod_of_an_array_has_no_job_unless_pods_may_not_be_made(may: bool) -> None:
    async def inside() -> None:
        stage = Stage(FakeCluster())
        stage.jobless = True
        if not may:
            text = (
                'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "default"'
            )
            stage.cluster.refusals["POST pods/slurm-7-0"] = ApiError(403, "Forbidden", text)
        await stage.begin(nodes=1)
        assert (f"{JOBS}/slurm-7" in stage.cluster.objects) is not may
        assert len(stage.cluster.pods()) == 1
        await asyncio.sleep(30)  # it is looked at again and again
        assert stage.cluster.said.count("POST pods/slurm-7-0") == may
        leader = await stage.granted()
        assert leader.answers == [("nonce", True)]
        await stage.end()

    clock.run(inside())


def test_a_run_without_a_job_that_is_taken_back_loses_its_pod_and_the_next_one_has_another_name() -> None:
    async def inside() -> None:
        stage = Stage(FakeCluster())
        stage.jobless = True
        await stage.begin(nodes=1)
        stage.cluster.run("n1")
        leader, pod = stage.lead(), stage.cluster.pod(0)
        stage.driver.order(Order(number=1, kind="end", state="REQUEUED"))
        await asyncio.sleep(3)
        assert stage.state == WITHDRAWN
        await stage.commit(states.PENDING)
        assert not stage.cluster.pods()
        stage.ask(leader, "late", pod)
        await asyncio.sleep(1)
        assert ("late", True) not in leader.answers
        await stage.start()
        assert [path.rpartition("/")[2] for path in stage.cluster.pods()] == ["slurm-7-r1-0"]
        await stage.end()

    clock.run(inside())
