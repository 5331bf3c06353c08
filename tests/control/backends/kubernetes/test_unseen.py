"""What happened while nobody was told: a run is taken back, to be started again, only if it is certain that it has not begun."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from shim.control.backends.kubernetes.observed import look
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, PODS, FakeCluster
from tests.control.backends.kubernetes.stage import Stage, gang

JOB = f"{JOBS}/slurm-7"
FULL = "0/2 nodes are available"
UNSEEN = {"kind": "lost", "reason": "the job's first pod is gone, and nobody has seen how"}


def deaf(cluster: FakeCluster) -> list[Any]:
    """The watch stands, and tells nothing: its machine sleeps, or a proxy holds a dead connection. What to put back."""
    watchers, cluster.watchers = cluster.watchers, []
    return watchers


def gone(cluster: FakeCluster, index: int) -> None:
    """The pod's node is reclaimed, and the pod is removed."""
    cluster.vanish(next(path for path in cluster.pods() if f"-{index}-" in path))


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_pod_that_was_last_seen_without_a_node_may_have_run_since(nodes: int) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin(nodes=nodes)
        cluster = stage.cluster
        cluster.unschedulable(0, FULL)
        await asyncio.sleep(10)
        watchers = deaf(cluster)
        seen = [copy.deepcopy(cluster.objects[path]) for path in cluster.pods()]
        cluster.run(*["n1", "n2"][:nodes])
        for index in range(nodes):
            gone(cluster, index)
        cluster.objects[JOB]["status"] = {"startTime": "x", "completedIndexes": "0-1"}
        cluster.watchers = watchers
        for pod in seen:  # what a list does not have any more is told as it was
            stage._take(stage.site.seen.pod_event, "DELETED", stage.site.seen.trim(pod))
        cluster.changed(cluster.objects[JOB], JOBS)
        await asyncio.sleep(70)
        assert stage.told.ends == [UNSEEN]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("lists", [{"completedIndexes": "0", "failedIndexes": "1"}, {"failedIndexes": "0,1"}])
def test_a_first_pod_that_is_over_is_found_in_either_list_of_its_job(lists: dict[str, str]) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        await stage.life.close()
        deaf(cluster)
        cluster.run("n1", "n2")
        gone(cluster, 0)
        gone(cluster, 1)
        cluster.objects[JOB]["status"] = {"startTime": "x", **lists}
        stage = await Stage(cluster).begin()  # the next controller
        await asyncio.sleep(70)
        assert stage.told.ends == [UNSEEN]
        await stage.end()

    clock.run(inside())


def test_a_pod_that_is_gone_was_not_removed_by_who_wanted_to() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        cluster.bind(0, "n1")
        cluster.unschedulable(1, FULL)
        await asyncio.sleep(30)
        watchers = deaf(cluster)
        cluster.run("n1", "n2")
        leader = stage.lead("started")
        gone(cluster, 1)
        await asyncio.sleep(60)  # its patience is over, and it has asked for the pod to be removed
        assert (stage.told.ends, stage.ticket.verdict) == ([], None)
        cluster.watchers = watchers
        cluster.changed(cluster.pod(0))
        await asyncio.sleep(5)
        assert "started" in stage.told.kinds
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(5)
        assert [line["kind"] for line in stage.told.ends] == ["ended"]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("code", [0, 1])
def test_a_worker_that_outlives_its_leader_does_not_decide(code: int) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        await stage.life.close()
        deaf(cluster)
        cluster.run("n1", "n2")
        cluster.state(1, "terminated", exitCode=code, reason="Error" if code else "Completed")
        gone(cluster, 0)
        stage = await Stage(cluster).begin()  # the next controller
        await asyncio.sleep(5)
        assert stage.told.ends == [UNSEEN]
        await stage.end()

    clock.run(inside())


def test_a_worker_whose_leader_was_never_made_is_taken_back() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        path = next(path for path in cluster.pods() if "-0-" in path)
        leader = cluster.objects.pop(path)
        stage._take(
            stage.site.seen.pod_event,
            "DELETED",
            {**leader, "metadata": {**leader["metadata"], "deletionTimestamp": "x"}},
        )
        cluster.bind(1, "n2")
        cluster.state(1, "terminated", exitCode=0, reason="Completed")
        await asyncio.sleep(10)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_limit_of_the_start_that_passes_unseen_ends_nothing_that_runs() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        cluster.run("n1", "n2")
        cluster.state(0, "waiting", reason="ErrImagePull", message="not found")
        await asyncio.sleep(500)
        watchers = deaf(cluster)
        cluster.run("n1", "n2")
        await asyncio.sleep(200)
        assert (stage.told.ends, stage.ticket.verdict) == ([], None)
        cluster.watchers = watchers
        stage.lead("started")
        cluster.changed(cluster.pod(0))
        await asyncio.sleep(5)
        assert "started" in stage.told.kinds
        await stage.end()

    clock.run(inside())


def test_a_mark_of_the_start_is_believed_whatever_else_is_known(tmp_path: Any) -> None:
    async def inside() -> None:
        mark = tmp_path / "begun"
        stage = await Stage(FakeCluster()).begin(once=(str(tmp_path / "other"), str(mark)))
        cluster = stage.cluster
        cluster.bind(0, "n1")
        cluster.unschedulable(1, FULL)
        mark.touch()
        await asyncio.sleep(70)
        assert stage.told.ends == [{"kind": "lost", "reason": "it has begun, and nobody has seen its end"}]
        await stage.end()

    clock.run(inside())


def test_that_a_first_pod_has_not_begun_says_nothing_of_the_next_one() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster, site = stage.cluster, stage.site
        job = {"metadata": {}, "status": {"failedIndexes": "0"}}
        first = copy.deepcopy(cluster.pod(0))
        gone(cluster, 0)
        assert not site.seen.leaders.unknown(stage.life.run, job)
        other = {**first, "metadata": {**first["metadata"], "name": "slurm-7-0-other", "uid": "other"}}
        assert look(other).index == 0
        site.seen.pod_event("ADDED", other)
        site.seen.pod_event("DELETED", other)  # as it was seen before a break in the watch
        assert site.seen.leaders.unknown(stage.life.run, job)
        await stage.end()

    clock.run(inside())


def test_a_job_that_was_suspended_by_hand_while_nobody_looked_may_have_begun() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        await stage.life.close()
        deaf(cluster)
        cluster.run("n1", "n2")
        cluster.suspend()
        writes = list(cluster.said)
        stage = await Stage(cluster).begin()  # the next controller
        await stage.site.objects.make(gang(stage.ticket.submission), stage.settings, {"key": b"k"}, stage.folder)
        assert cluster.said == writes  # nor is it let go again
        await asyncio.sleep(70)
        assert stage.told.ends == [UNSEEN]
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("watched", [True, False])
def test_a_run_that_began_unheard_and_was_made_anew_by_hand_is_not_taken_back(watched: bool) -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        if not watched:
            await stage.life.close()
            deaf(cluster)
        cluster.run("n1", "n2")
        cluster.suspend()
        await asyncio.sleep(1)
        await cluster.patch(JOB, {"spec": {"suspend": False}})
        cluster.unschedulable(0, FULL)
        cluster.unschedulable(1, FULL)
        if not watched:
            stage = await Stage(cluster).begin()  # the next controller
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["lost"]
        await stage.end()

    clock.run(inside())


def test_a_gang_whose_first_pods_were_seen_not_to_begin_may_be_made_anew_by_hand_and_taken_back() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        cluster.unschedulable(0, FULL)
        cluster.suspend()
        await asyncio.sleep(1)
        await cluster.patch(JOB, {"spec": {"suspend": False}})
        cluster.unschedulable(0, FULL)
        await asyncio.sleep(90)
        assert [line["kind"] for line in stage.told.ends] == ["withdrawn"]
        await stage.end()

    clock.run(inside())


def test_a_first_pod_whose_record_says_that_nothing_ran_is_known_though_it_is_gone() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        record = json.dumps({"ended": {"n": 1, "at": 6.0, "kind": "ended", "state": "NODE_FAIL", "status": 0}})
        cluster.run("n1", "n2")
        pod = cluster.pod(0)
        watchers = deaf(cluster)
        cluster.leave(0, exitCode=1, reason="Error", message=record)
        cluster.watchers = watchers
        cluster.vanish(f"{PODS}/{pod['metadata']['name']}")
        assert not stage.site.seen.leaders.in_doubt(stage.life.run)
        assert not stage.site.seen.leaders.unknown(stage.life.run, {"metadata": {}, "status": {"failedIndexes": "0"}})
        await stage.end()

    clock.run(inside())


def test_a_job_that_was_deleted_before_the_watch_told_of_it_has_ended() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        cluster = stage.cluster
        watchers = deaf(cluster)
        cluster.vanish(JOB)
        cluster.objects = {path: one for path, one in cluster.objects.items() if path not in cluster.pods()}
        stage.site.seen._pods.clear()  # a list after a break has none, and none was told
        cluster.watchers = watchers
        await asyncio.sleep(90)
        assert [line["state"] for line in stage.told.ends] == ["FAILED"]
        await stage.end()

    clock.run(inside())
