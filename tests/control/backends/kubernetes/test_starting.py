"""A run before its start: what is told of its waiting, and when it is taken back."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from shim.control.backends.base import Order
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.settings import Settings
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import FakeCluster
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.stage import RUN, SETTINGS, Stage

FULL = "0/2 nodes are available: 2 Insufficient cpu."


def half_placed(stage: Stage, first: int = 0) -> None:
    stage.cluster.bind(first, "n1")
    stage.cluster.unschedulable(1 - first, FULL)


def orders(leader: FakeLeader) -> list[tuple[str, str]]:
    return [(one["order"]["kind"], one["order"].get("state", "")) for one in leader.asked("order")]


def silent_node() -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def test_where_it_is_and_why_it_waits_is_told_once() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        half_placed(stage)
        await asyncio.sleep(1)
        stage.cluster.unschedulable(1, FULL)
        await asyncio.sleep(1)
        stage.cluster.bind(1, "n2")
        await asyncio.sleep(1)
        stage.cluster.state(1, "waiting", reason="ImagePullBackOff", message="no such image")
        await asyncio.sleep(1)
        stage.cluster.run("n1", "n2")
        await asyncio.sleep(1)
        assert stage.told.lines == [
            {"kind": "waits", "reason": "Resources", "detail": FULL},
            {"kind": "placed", "nodes": ["n1", "n2"]},
            {"kind": "waits", "reason": "None", "detail": ""},
            {"kind": "waits", "reason": "ImagePullBackOff", "detail": "no such image"},
            {"kind": "waits", "reason": "None", "detail": ""},
        ]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize(
    ("settings", "pinned", "seconds"),
    [
        (SETTINGS, False, 60),
        (SETTINGS, True, 5),
        (SETTINGS.replace(bind_wait=3), True, 3),
        (SETTINGS.replace(autoscale=True), True, 1200),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_gang_that_is_placed_in_part_is_taken_back(
    settings: Settings, pinned: bool, seconds: int, first: int
) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster(), settings).begin(pinned=pinned)
        half_placed(stage, first)
        await asyncio.sleep(seconds - 0.5)
        assert stage.told.ends == []
        unplaced = stage.cluster.pod(1 - first)["metadata"]["name"]
        await asyncio.sleep(0.6)
        # The one without a node goes first: the barrier cannot open any more.
        assert stage.cluster.said[-2:] == [f"DELETE pods/{unplaced}", "DELETE jobs/slurm-7"]
        assert stage.told.ends == []
        await asyncio.sleep(3)
        assert stage.told.ends == [{"kind": "withdrawn", "reason": FULL}]
        assert stage.cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_a_pod_that_is_placed_at_the_last_moment_saves_its_gang() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        half_placed(stage)
        await asyncio.sleep(30)
        delete = stage.cluster.delete

        async def late(path: str, **conditions: Any) -> dict[str, Any]:
            stage.cluster.bind(1, "n2")  # since it was looked at
            return await delete(path, **conditions)

        stage.cluster.delete = late  # type: ignore[method-assign]
        await asyncio.sleep(40)
        assert stage.told.ends == []
        assert stage.told.last == {"kind": "waits", "reason": "None", "detail": ""}
        assert len(stage.cluster.pods()) == 2
        await stage.end()

    clock.run(inside())


def test_pods_that_are_never_made_are_waited_for_only_so_long() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        for path in cluster.pods():
            cluster.vanish(path)
        cluster.events = [
            {"reason": "FailedCreate", "message": "forbidden: exceeded quota: q", "lastTimestamp": "2"},
            {"reason": "FailedCreate", "message": "older", "lastTimestamp": "1"},
            {"reason": "Other", "message": "not ours", "lastTimestamp": "3"},
        ]
        await asyncio.sleep(10)
        assert stage.told.last["reason"] == "AssocGrpResourceLimit"
        await asyncio.sleep(60)
        assert stage.told.ends == [{"kind": "withdrawn", "reason": "forbidden: exceeded quota: q"}]
        # Without its Secret a pod that comes after all cannot begin.
        assert cluster.said[-2:] == ["DELETE secrets/slurm-7", "DELETE jobs/slurm-7"]
        await stage.end()

    clock.run(inside())


NEVER_MADE = {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
RECORD = json.dumps({"started": 5.0, "ended": {"n": 2, "at": 6.0, "kind": "ended", "state": "FAILED", "status": 256}})
RAN = {"containerID": "c", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": RECORD}}}


def pods_come_late(stage: Stage, places: Sequence[str]) -> None:
    """The Job controller makes the pods in the moment in which the Secret is removed because there are none."""
    cluster = stage.cluster
    pods = [copy.deepcopy(cluster.objects[path]) for path in cluster.pods()]
    for path in cluster.pods():
        cluster.vanish(path)
    delete = cluster.delete

    async def racing(path: str, **conditions: Any) -> dict[str, Any]:
        if "/secrets/" in path:
            for pod in pods:
                cluster.changed(pod)
            for index, node in enumerate(places):
                cluster.bind(index, node)
        return await delete(path, **conditions)

    cluster.delete = racing  # type: ignore[method-assign]


@pytest.mark.parametrize(("last", "end"), [(NEVER_MADE, "withdrawn"), (RAN, "ended")])
def test_pods_that_come_when_their_secret_goes_are_taken_away(last: dict[str, Any], end: str) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        cluster.last = last  # what the leader says at its end counts
        pods_come_late(stage, ["n1", "n2"])
        await asyncio.sleep(61)
        assert cluster.said[-1] == "DELETE secrets/slurm-7"
        leader = cluster.pod(0)["metadata"]["name"]
        await asyncio.sleep(9)
        assert cluster.said[4] == f"DELETE pods/{leader}"
        assert [line["kind"] for line in stage.told.ends] == [end]
        await stage.end()

    clock.run(inside())


def test_pods_that_have_the_secret_which_goes_may_begin() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        pods_come_late(stage, ["n1", "n2"])
        await asyncio.sleep(61)
        leader = stage.lead()
        stage.cluster.run("n1", "n2")
        leader.line("started")
        await asyncio.sleep(60)
        assert (orders(leader), stage.told.ends) == ([], [])
        assert len(stage.cluster.pods()) == 2
        await stage.end()

    clock.run(inside())


def test_a_worker_without_the_secret_has_its_leader_end() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(1, "waiting", reason="ContainerCreating")
        name = names.attempt(RUN, stage.ticket.submission)
        missing = f'MountVolume.SetUp failed for volume "shim-ticket" : secret "{name}" not found'
        stage.cluster.events = [{"reason": "FailedMount", "message": missing, "lastTimestamp": "1"}]
        await asyncio.sleep(10)
        assert orders(leader) == []  # the kubelet was told so by a server that lags: the Secret is there
        stage.cluster.vanish(f"{stage.site.objects.secrets}/{name}")
        await asyncio.sleep(4)
        assert orders(leader) == [("end", "NODE_FAIL")]
        leader.line("ended", state="NODE_FAIL", status=0)
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_where_a_pod_is_missing_the_leader_decides() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        leader = stage.lead()
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        cluster.vanish(f"{stage.site.objects.pods}/{cluster.pod(1)['metadata']['name']}")
        await asyncio.sleep(62)
        assert orders(leader) == [("end", "NODE_FAIL")]
        assert stage.told.ends == []
        # It had started meanwhile: what it says counts.
        leader.line("started")
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert [line["state"] for line in stage.told.ends] == ["COMPLETED"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_was_ended_before_the_start_leaves_a_job_that_waits_again() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        leader = stage.lead()
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        leader.line("ending", state="NODE_FAIL")
        leader.line("ended", state="NODE_FAIL", status=0)
        await asyncio.sleep(5)
        assert "ending" not in stage.told.kinds
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        assert cluster.objects == {}
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("reachable", [True, False], ids=["leader runs", "leader waits"])
def test_pods_that_cannot_start_fail_the_job_in_time(reachable: bool) -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster, SETTINGS.replace(boot_limit=120)).begin()
        leader = stage.lead()
        cluster.run("n1", "n2")
        cluster.state(1 if reachable else 0, "waiting", reason="ErrImagePull", message="no such image")
        await asyncio.sleep(119)
        assert (orders(leader), stage.told.ends) == ([], [])
        await asyncio.sleep(6)
        why = {"kind": "waits", "reason": "JobLaunchFailure", "detail": "ErrImagePull: no such image"}
        assert why in stage.told.lines
        if reachable:
            assert orders(leader) == [("end", "BOOT_FAIL")]
            assert len(cluster.pods()) == 2
        else:
            assert [line["state"] for line in stage.told.ends] == ["BOOT_FAIL"]
            assert cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_a_pod_that_dies_before_the_start_ends_the_attempt_at_once() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        leader = stage.lead()
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        cluster.state(1, "terminated", exitCode=127, message="no\npython3")
        await asyncio.sleep(1)
        assert orders(leader) == [("end", "BOOT_FAIL")]
        assert stage.told.last["detail"].endswith(": no python3")
        await stage.end()

    clock.run(inside())


def test_a_worker_that_is_deleted_before_the_start_fails_nothing() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        leader = stage.lead()
        cluster.run("n1", "n2")
        await asyncio.sleep(1)
        cluster.leave(1, exitCode=143, reason="Error")
        await asyncio.sleep(1)
        assert orders(leader) == [("end", "NODE_FAIL")]
        leader.line("ended", state="NODE_FAIL", status=0)
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_is_deleted_while_it_is_made_fails_nothing() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        cluster.run("n1", "n2")
        cluster.leave(0, exitCode=128, reason="StartError", message="the container is gone")
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        assert cluster.objects == {}
        await stage.end()

    clock.run(inside())


def test_a_worker_on_a_node_that_does_not_answer_has_its_leader_end() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(1, "waiting", reason="ContainerCreating")
        stage.cluster.deaf = True
        stage.site.nodes = {"n1": {}, "n2": silent_node()}
        stage.life.poke()
        await asyncio.sleep(59)
        assert stage.told.last == {"kind": "waits", "reason": "NodeNotResponding", "detail": "node n2 does not answer"}
        assert orders(leader) == []
        await asyncio.sleep(2)
        assert orders(leader) == [("end", "NODE_FAIL")]
        leader.line("ended", state="NODE_FAIL", status=0)
        stage.cluster.state(0, "terminated", exitCode=1)
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_is_being_made_goes_when_a_worker_is_lost() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "waiting", reason="ContainerCreating")
        stage.cluster.last = NEVER_MADE
        stage.site.nodes = {"n1": {}, "n2": silent_node()}
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_gang_of_which_a_placed_pod_is_lost_is_taken_back() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.bind(1, "n2")
        stage.cluster.state(1, "running")
        stage.cluster.unschedulable(0, FULL)
        stage.cluster.dark = True
        stage.site.nodes = {"n1": {}, "n2": silent_node()}
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        assert stage.cluster.pods() == []  # the next try has its names for itself
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("seen", [True, False], ids=["nodes are seen", "nodes are not seen"])
def test_a_leader_that_nobody_hears_may_have_begun_though_its_gang_is_taken_back(seen: bool) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(0, "waiting", reason="ContainerCreating")  # the last that its kubelet has said
        if not seen:
            stage.site.names_nodes, stage.site.nodes = False, None
        await asyncio.sleep(1)
        stage.cluster.vanish(next(path for path in stage.cluster.pods() if "-1-" in path))
        stage.cluster.dark = True
        await asyncio.sleep(61)
        if seen:
            stage.site.nodes = {"n1": silent_node(), "n2": {}}
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_a_leader_that_is_gone_unseen_may_have_begun() -> None:
    """As when this machine was off while its node was reclaimed."""

    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        await asyncio.sleep(1)
        stage.cluster.vanish(next(path for path in stage.cluster.pods() if "-0-" in path))
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_pods_that_the_watch_has_not_told_of_may_have_begun() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        for path in cluster.pods():
            stage.site.seen.pod_event(
                "DELETED", cluster.objects[path]
            )  # the API server has come back, the watch has not
        watchers, cluster.watchers = cluster.watchers, []
        stage.lead("started")
        cluster.run("n1", "n2")
        await asyncio.sleep(300)
        assert (stage.told.ends, len(cluster.pods())) == ([], 2)
        cluster.watchers = watchers
        for path in cluster.pods():
            cluster.changed(cluster.objects[path])
        await asyncio.sleep(5)
        assert stage.told.kinds[-1] == "started"
        await stage.end()

    clock.run(inside())


def test_a_cancellation_counts_more_than_what_was_given_up() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")  # and nobody reaches the leader
        stage.site.nodes = {"n1": {}, "n2": silent_node()}
        await asyncio.sleep(62)
        stage.life.order(Order(number=1, kind="end", state="CANCELLED", uid=1001))
        await asyncio.sleep(60)
        assert [line["state"] for line in stage.told.ends] == ["CANCELLED"]
        await stage.end()

    clock.run(inside())


def test_a_leader_on_a_node_that_does_not_answer_may_have_begun() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        stage.cluster.run("n1", "n2")
        stage.cluster.state(1, "terminated", exitCode=1)  # it has lost its leader
        stage.cluster.silence(0)
        await asyncio.sleep(59)
        assert stage.told.ends == []
        await asyncio.sleep(5)
        assert stage.told.ends == [{"kind": "lost", "reason": "node n1 does not answer"}]
        await stage.end()

    clock.run(inside())


def test_a_volume_that_is_not_there_is_told_from_the_events() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster).begin()
        cluster.bind(0, "n1")
        cluster.bind(1, "n2")
        cluster.events = [{"reason": "FailedMount", "message": 'volume "data":\n not found', "lastTimestamp": "1"}]
        await asyncio.sleep(2)
        assert all(line.get("reason") != "FailedMount" for line in stage.told.lines)
        await asyncio.sleep(2)
        assert stage.told.last == {"kind": "waits", "reason": "FailedMount", "detail": 'volume "data": not found'}
        await stage.end()

    clock.run(inside())


def test_a_job_in_a_queue_is_not_taken_back() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        stage = await Stage(cluster, SETTINGS.replace(queue="team")).begin()
        job = next(found for path, found in cluster.objects.items() if path.endswith("jobs/slurm-7"))
        assert job["metadata"]["labels"][names.QUEUE] == "team"
        assert cluster.said == ["POST jobs/slurm-7", "POST secrets/slurm-7"]  # whoever admits it lets it go
        await asyncio.sleep(3600)
        assert stage.told.lines == [{"kind": "waits", "reason": "Resources", "detail": "waits in queue team"}]
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
        leader = stage.lead()
        unmet(stage, f"slurm-shim: {APART}")
        await asyncio.sleep(40)
        assert stage.told.last == {"kind": "waits", "reason": "NodesCannotMeet", "detail": APART}
        await asyncio.sleep(600)
        (order,) = leader.asked("order")
        assert (order["order"]["kind"], order["order"]["state"]) == ("end", "BOOT_FAIL")
        assert stage.told.last == {"kind": "waits", "reason": "JobLaunchFailure", "detail": f"NodesCannotMeet: {APART}"}
        await stage.end()

    clock.run(inside())


def test_pods_that_meet_in_the_end_are_told_of_no_more() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        leader = stage.lead()
        unmet(stage, f"slurm-shim: {APART}")
        await asyncio.sleep(40)
        leader.line("started")
        await asyncio.sleep(1000)
        assert stage.told.last["kind"] == "started"
        assert leader.asked("order") == []
        await stage.end()

    clock.run(inside())


def test_a_gang_of_which_nobody_hears_whether_it_has_begun_is_left_alone() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()  # no pods/exec: nobody reaches the leader
        unmet(stage, "hello")
        await asyncio.sleep(5000)
        assert stage.told.ends == []
        await stage.end()

    clock.run(inside())


def test_a_gang_that_holds_nothing_need_not_hurry() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin(pinned=True)
        for index in (0, 1):
            stage.cluster.unschedulable(index, "0/3 nodes are available")
        await asyncio.sleep(30)
        assert stage.told.ends == []
        stage.cluster.bind(0, "n1")
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())
