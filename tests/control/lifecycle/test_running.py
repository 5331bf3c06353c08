"""From start to end and back."""

from __future__ import annotations

import pytest

from shim.control.lifecycle import running
from shim.control.lifecycle.transitions import TABLE, IllegalTransition, move
from shim.core.model import states
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import INFINITE
from tests.control.lifecycle.samples import CLUSTER, NOW, SHARES, a_job


def configuring(**request: object) -> Job:
    return running.starting(a_job(**request), SHARES, CLUSTER, "debug", NOW + 1)


def run(**request: object) -> Job:
    return running.started(configuring(**request), NOW + 2)


def test_a_start_counts_from_the_barrier() -> None:
    job = run(time_limit=10)
    assert (job.state, job.start_time, job.end_time) == ("RUNNING", NOW + 2, NOW + 2 + 600)
    assert (job.nodes, job.cpus, job.tasks, job.shares) == (1, 1, 1, SHARES)


def test_room_for_tasks_is_no_wish_for_them() -> None:
    room = (NodeShare(name="node1", cpus=8, tasks=8), NodeShare(name="node2", cpus=8, tasks=8))
    for asked, tasks in (({"exclusive": "node"}, 2), ({"ntasks": 16}, 16), ({"ntasks_per_node": 8}, 16)):
        assert running.starting(a_job(**asked), room, CLUSTER, "debug", NOW).tasks == tasks


def test_a_job_without_a_limit_has_no_end() -> None:
    job = run()
    assert (job.time_limit, job.end_time) == (INFINITE, 0)
    assert running.limit_seconds(job, CLUSTER) is None
    assert running.limit_seconds(run(time_limit=2), CLUSTER.replace(over_time=1)) == 180


@pytest.mark.parametrize(
    ("asked", "limit"),
    [({}, 3), ({"time_limit": 2}, 2), ({"time_limit": 10, "time_min": 1}, 3), ({"time_limit": INFINITE}, 3)],
)
def test_a_job_with_a_deadline_ends_before_it(asked: dict[str, int], limit: int) -> None:
    assert run(deadline=int(NOW) + 200, **asked).time_limit == limit


@pytest.mark.parametrize(
    ("event", "state", "reason", "status"),
    [
        ({"state": "COMPLETED", "status": 0}, "COMPLETED", "None", 0),
        ({"state": "FAILED", "status": 3 << 8}, "FAILED", "NonZeroExitCode", 768),
        ({"state": "FAILED", "status": 9}, "FAILED", "JobLaunchFailure", 9),
        ({"state": "FAILED", "status": 53, "reason": "JobLaunchFailure"}, "FAILED", "JobLaunchFailure", 53),
        ({"state": "TIMEOUT", "status": 0}, "TIMEOUT", "TimeLimit", 0),
        ({"state": "CANCELLED", "status": 15, "uid": 1001}, "CANCELLED", "None", 15),
        ({"state": "OUT_OF_MEMORY", "status": 9}, "OUT_OF_MEMORY", "OutOfMemory", 9),
        ({"state": "what is this", "status": 256}, "FAILED", "NonZeroExitCode", 256),
    ],
)
def test_ends(event: dict[str, object], state: str, reason: str, status: int) -> None:
    job = running.ended(run(), {"at": NOW + 9, **event}, CLUSTER)
    assert (job.state, job.reason, job.exit_status, job.end_time) == (state, reason, status, NOW + 9)
    assert job.cancelled_by == event.get("uid")


def test_an_end_that_is_final_requeues_nothing() -> None:
    event = {"at": NOW + 5, "state": "NODE_FAIL", "status": 0}
    assert running.ended(run(), event, CLUSTER).state == "PENDING"
    assert running.ended(run(), {**event, "final": True}, CLUSTER).state == "NODE_FAIL"


def test_a_lost_node_requeues_a_batch_job_that_may() -> None:
    job = running.lost(run(), "", CLUSTER, NOW + 5)
    assert (job.state, job.restarts, job.reason, job.shares) == ("PENDING", 1, "BeginTime", ())
    assert job.request.begin == NOW + 6
    assert running.lost(run(requeue=False), "", CLUSTER, NOW + 5).state == "NODE_FAIL"
    assert running.lost(run(kind="alloc"), "", CLUSTER, NOW + 5).state == "NODE_FAIL"
    assert running.lost(run(), "CANCELLED", CLUSTER, NOW + 5).state == "CANCELLED"


def test_a_requeued_job_starts_anew() -> None:
    job = running.requeued(run(time_limit=5, partition="gpu"), CLUSTER, NOW + 5.5)
    assert (job.restarts, job.submit_time, job.end_time, job.journal) == (1, NOW + 5, 0, 0)
    assert (job.start_time, job.request.begin) == (NOW + 7, NOW + 7)  # when it is expected: whole seconds
    held = running.requeued(run().replace(held="user"), CLUSTER, NOW)
    assert (held.reason, held.priority) == ("job requeued in held state", 0)


def test_a_start_that_failed_is_tried_again_or_is_the_end() -> None:
    again = running.waits_again(configuring(), CLUSTER, NOW, why="no room")
    assert (again.state, again.shares, again.reason, again.restarts) == ("PENDING", (), "BeginTime", 0)
    assert (again.request.begin, again.system_comment) == (NOW + 1, "no room")
    assert running.waits_again(configuring(), CLUSTER, NOW, 10).request.begin == NOW + 10
    end = running.not_started(configuring(), "JobLaunchFailure", NOW)
    assert (end.state, end.reason, end.exit_status) == ("FAILED", "JobLaunchFailure", 53)


def test_suspended_time_does_not_count() -> None:
    job = running.suspended(run(time_limit=1), NOW + 10)
    assert running.suspended(job, NOW + 12) == job
    assert running.resumed(job, NOW + 30).end_time == NOW + 2 + 60 + 20


def test_every_state_that_can_be_reached_is_in_the_table() -> None:
    for after in TABLE.values():
        assert after <= TABLE.keys()
    for state in states.TERMINAL:
        assert TABLE[state] == {states.PENDING}


def test_illegal_transitions_are_errors() -> None:
    with pytest.raises(IllegalTransition):
        move(a_job(), states.COMPLETED)
    with pytest.raises(IllegalTransition):
        running.starting(run(), SHARES, CLUSTER, "debug", NOW)


@pytest.mark.parametrize(
    ("asked", "tasks"), [({"min_nodes": 2}, 1), ({"min_nodes": 2, "ntasks": 2}, 2), ({"ntasks_per_node": 1}, 2)]
)
def test_a_job_that_gives_up_a_node_has_the_tasks_that_it_asked_for_or_one_a_node(
    asked: dict[str, int], tasks: int
) -> None:
    two = (NodeShare(name="node1"), NodeShare(name="node2"))
    job = running.started(running.starting(a_job(**asked), two, CLUSTER, "debug", NOW + 1), NOW + 2)
    assert job.tasks == 2
    assert running.resized(job, ["node1"], NOW + 3).tasks == tasks
