"""Runs that make way for others, and runs that others make way for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.priorities import with_priorities
from shim.control.backends.kubernetes.settings import texts
from shim.core.model.cluster import Cluster, Partition
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import FakeCluster
from tests.control.backends.kubernetes.stage import SETTINGS, Stage
from tests.control.backends.kubernetes.test_course import record, started

WHO = "default-scheduler: preempting to accommodate a higher priority pod"
TAKEN = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": WHO}
MADE_WAY = {"kind": "ended", "state": "PREEMPTED", "status": 0, "reason": "None", "detail": WHO}


def take(stage: Stage, reason: str = "PreemptionByScheduler") -> None:
    """The cluster says that the first pod is taken away, and why."""
    pod = stage.cluster.pod(0)
    pod["status"]["conditions"].append({**TAKEN, "reason": reason})
    stage.cluster.changed(pod)


def end(stage: Stage) -> dict[str, Any]:
    (found,) = stage.told.ends
    return {name: value for name, value in found.items() if name not in ("n", "at")}


def test_a_run_that_makes_way_says_so() -> None:
    async def inside() -> None:
        stage, leader = await started()
        take(stage)
        leader.line("ended", state="NODE_FAIL", status=0)
        await asyncio.sleep(1)
        assert end(stage) == MADE_WAY
        await stage.end()

    clock.run(inside())


@pytest.mark.parametrize("words", [True, False])
def test_a_run_that_makes_way_and_is_not_heard(words: bool) -> None:
    async def inside() -> None:
        stage, _leader = await started()
        take(stage)
        said = record({"n": 9, "at": 9.0, "kind": "ended", "state": "NODE_FAIL", "status": 0}, 5.0) if words else ""
        stage.cluster.state(0, "terminated", exitCode=143, message=said)
        await asyncio.sleep(30)
        assert end(stage) == MADE_WAY
        await stage.end()

    clock.run(inside())


def test_a_run_whose_pods_are_taken_away_for_another_reason_is_lost() -> None:
    async def inside() -> None:
        stage, leader = await started()
        take(stage, "DeletionByTaintManager")
        leader.line("ended", state="NODE_FAIL", status=0)
        await asyncio.sleep(1)
        assert end(stage)["state"] == "NODE_FAIL"
        await stage.end()

    clock.run(inside())


def test_a_run_that_its_queue_takes_back_makes_way() -> None:
    async def inside() -> None:
        stage = Stage(FakeCluster(), SETTINGS.replace(queue="team"))
        await stage.begin()
        await stage.granted("started")
        stage.cluster.suspend()
        await asyncio.sleep(10)
        assert (end(stage)["state"], end(stage)["detail"]) == ("PREEMPTED", "queue team took it back")
        await stage.end()

    clock.run(inside())


def test_others_are_given_the_time_that_they_need_to_make_way() -> None:
    async def inside() -> None:
        stage = await Stage(FakeCluster()).begin()
        for index in (0, 1):
            stage.cluster.unschedulable(index, "0/2 nodes are available")
            pod = stage.cluster.pod(index)
            pod["status"]["nominatedNodeName"] = f"n{index + 1}"
            stage.cluster.changed(pod)
        await asyncio.sleep(300)
        assert stage.told.lines[0] == {"kind": "placed", "nodes": ["n1", "n2"], "planned": True}
        assert stage.told.ends == []
        stage.cluster.run("n1", "n2")
        await asyncio.sleep(1)
        assert {"kind": "placed", "nodes": ["n1", "n2"]} in stage.told.lines
        await stage.end()

    clock.run(inside())


class Classes:
    """An API server with one PriorityClass. ``readable``: users may see it."""

    def __init__(self, policy: str, readable: bool = True, refuses: int = 0) -> None:
        self.policy, self.readable, self.refuses = policy, readable, refuses

    async def get(self, path: str) -> dict[str, Any]:
        if not self.readable:
            raise ApiError(403, "Forbidden", "no")
        if not path.endswith("/priorityclasses/urgent"):
            raise ApiError(404, "NotFound", "no")
        return {"value": 1000, "preemptionPolicy": self.policy}

    async def post(self, path: str, body: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        assert query == {"dryRun": "All"}
        if self.refuses:
            raise ApiError(self.refuses, "Forbidden", "no")
        assert body["spec"]["priorityClassName"] == "urgent"
        return {"spec": {"priority": 1000, "preemptionPolicy": self.policy}}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (Classes("PreemptLowerPriority"), (1000, True)),
        (Classes("Never"), (1000, False)),
        (Classes("PreemptLowerPriority", readable=False), (1000, True)),  # as admission tells it
        (Classes("Never", readable=False), (1000, False)),
        (Classes("Never", readable=False, refuses=403), (0, False)),
    ],
)
def test_what_a_priority_class_means(server: Any, expected: tuple[int, bool]) -> None:
    classes = ("", "urgent", "unknown") if server.readable else ("", "urgent")
    partitions = tuple(Partition(name=f"p{name}", settings=texts({"priority_class": name})) for name in classes)
    found = asyncio.run(with_priorities(Cluster(name="k8s", partitions=partitions), server, "default"))
    assert [(one.priority, one.preempts) for one in found.partitions] == [(0, False), expected, (0, False)][
        : len(classes)
    ]


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    partition = Partition(name="p", settings=texts({"priority_class": "urgent"}))
    server: Any = Classes("Never", readable=False, refuses=503)
    with pytest.raises(ApiError):
        asyncio.run(with_priorities(Cluster(name="k8s", partitions=(partition,)), server, "default"))
