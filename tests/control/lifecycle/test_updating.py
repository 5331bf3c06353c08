"""scontrol update: what may be changed, and Slurm's texts for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.lifecycle import running
from shim.control.lifecycle.updating import UpdateRefused, updated
from shim.core.model.job import Job, NodeShare
from tests.control.lifecycle.samples import CLUSTER, NOW, SHARES, a_job


def change(job: Job, *, admin: bool = False, **fields: str) -> Job:
    return updated(job, fields, CLUSTER, admin=admin, now=NOW)


def a_running_job() -> Job:
    return running.started(running.starting(a_job(time_limit=10), SHARES, CLUSTER, "debug", NOW), NOW)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("5", 5), ("1:00:00", 60), ("+10", 20), ("-5", 5), ("UNLIMITED", -1), ("1-0", 1440), ("-10", 0)],
)
def test_time_limit(text: str, minutes: int) -> None:
    assert change(a_job(time_limit=10), TimeLimit=text).time_limit == minutes


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"TimeLimit": "abc"}, "Invalid TimeLimit value"),
        ({"TimeLimit": "-50"}, "Requested time limit is invalid (missing or exceeds some limit)"),
        ({"Nice": "-20"}, "Access/permission denied"),
        ({"Nice": "x"}, "Invalid Nice value"),
        ({"Deadline": "2030-01-01"}, "Access/permission denied"),
        ({"Shared": "1"}, "Access/permission denied"),
        ({"Partition": "nosuch"}, "Invalid partition name specified"),
        ({"ReqNodeList": "nosuch"}, "Invalid node name specified"),
        ({"Features": "nosuch"}, "Invalid feature specification"),
        ({"NumNodes": "4-2"}, "Node count specification invalid"),
        ({"Dependency": "foo:1"}, "Job dependency problem"),
        ({"EndTime": "now"}, "Job is not running"),
        ({"Reservation": "x"}, "Requested reservation is invalid"),
        ({"BadField": "1"}, "Update of this parameter is not supported: BadField=1"),
        ({"StartTime": "soonish"}, "Invalid StartTime value"),
        ({"MinMemoryNode": "much"}, "Memory specification can not be satisfied"),
        ({"Priority": "10"}, "Access/permission denied"),
        ({"Gres": "nosuch:1"}, "Invalid generic resource (gres) specification"),
        ({"Gres": "none"}, "Invalid generic resource (gres) specification"),
        ({"TresPerNode": "gres:nosuch:1"}, "Invalid generic resource (gres) specification"),
        ({"TresPerNode": "gpu:1"}, "Invalid Trackable RESource (TRES) specification"),
        ({"Licenses": "matlab:1"}, "Invalid license specification"),
        ({"NumTasks": "0"}, "Task count specification invalid"),
        ({"TimeLimit": "10", "TimeMin": "11"}, "Invalid time-min specification (exceeds job's time or other limits)"),
        (
            {"TimeLimit": "10", "TimeMin": "infinite"},
            "Invalid time-min specification (exceeds job's time or other limits)",
        ),
        ({"Prefer": "nosuch"}, "Invalid preferred feature specification"),
        ({"BurstBuffer": "x"}, "Requested operation not supported on this system"),
        ({"ClusterFeatures": "x"}, "Unspecified error"),
    ],
)
def test_refusals_while_pending(fields: dict[str, str], text: str) -> None:
    with pytest.raises(UpdateRefused) as caught:
        change(a_job(time_limit=10), **fields)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("2@3", "4", "4@3"),  # without a time the wait stays
        ("2", "4", "4"),
        (None, "4", "4@0"),
        ("2@3", "4@2", "4@2"),
        ("2@3", "4@x", "4"),
        ("2@3", "x", "0@3"),
        ("2@3", "1.5@2", "1@3"),
        ("2@3", "@2", "0@2"),
        (None, "-1@1", "4294967295@1"),
    ],
)
def test_switches(before: str | None, text: str, after: str) -> None:
    assert change(a_job(switches=before), Switches=text).request.switches == after


def test_a_held_job_says_so_when_a_priority_is_asked_for() -> None:
    with pytest.raises(UpdateRefused, match="Job is in held state, pending scheduler release"):
        change(a_job(hold=True), Priority="10")
    assert change(a_job(), Priority="0").reason == "JobHeldUser"


def test_what_an_owner_may_change() -> None:
    job = change(
        a_job(),
        jobname="x",
        TIMELIMIT="7",
        Comment="two words",
        NumNodes="2",
        NumTasks="3",
        Nice="20",
        Partition="gpu",
        Features="fast",
        MinMemoryCPU="300",
        StartTime="now+1hour",
        Requeue="0",
        StdOut="/tmp/x.out",
    )
    assert (job.name, job.time_limit, job.comment, job.nodes, job.tasks) == ("x", 7, "two words", 2, 3)
    assert (job.partition, job.reason, job.request.begin) == ("gpu", "BeginTime", int(NOW) + 3600)
    assert job.request.requeue is False
    assert job.priority == a_job().priority - 20


def test_a_dependency_can_be_lifted() -> None:
    job = change(a_job(), Dependency="afterok:1")
    assert (job.dependency, job.reason) == ("afterok:1", "Dependency")
    assert change(job, Dependency="").reason == "None"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"TimeLimit": "30"}, "Access/permission denied"),
        ({"TimeLimit": "UNLIMITED"}, "Access/permission denied"),
        ({"Partition": "gpu"}, "Job is no longer pending execution"),
        ({"Gres": "gpu:2"}, "Job is no longer pending execution"),
        ({"ReqNodeList": "node2"}, "Invalid node name specified"),
        ({"Priority": "10"}, "Changes to job priority are not persistent, change nice instead"),
        ({"NumNodes": "4"}, "Requested operation not supported on this system"),
        ({"NumNodes": "0"}, "Node count specification invalid"),
        ({"NumNodes": "1-2"}, "Job is no longer pending execution"),
        ({"NumNodes": ""}, "Job is no longer pending execution"),
        ({"NumCPUs": "1"}, "Job is no longer pending execution"),
        ({"NodeList": ""}, "Invalid node name specified"),
        ({"NodeList": "node[1"}, "Invalid node name specified"),
        ({"NodeList": "node[1,4]"}, "Invalid node name specified"),
        ({"Nice": "-5"}, "Access/permission denied"),
        ({"Account": "x"}, "Job is no longer pending execution"),
        ({"WCKey": "x"}, "Job is no longer pending execution"),
        ({"OverSubscribe": "yes"}, "Job is no longer pending execution"),
        ({"SiteFactor": "1"}, "Access/permission denied"),
        ({"Reboot": "1"}, "Access/permission denied"),
        ({"Licenses": "x"}, "Invalid license specification"),
        ({"BurstBuffer": "x"}, "Requested operation not supported on this system"),
        ({"EndTime": "now+10days"}, "Access/permission denied"),
    ],
)
def test_refusals_while_running(fields: dict[str, str], text: str) -> None:
    with pytest.raises(UpdateRefused) as caught:
        change(a_running_job(), **fields)
    assert str(caught.value) == text


def test_what_its_user_may_change_of_a_running_job() -> None:
    job = change(
        a_running_job(),
        Nice="5",
        TimeMin="2",
        Switches="1",
        Partition="debug",
        Licenses="",
        ArrayTaskThrottle="2",
        Priority="0",
    )
    assert (job.request.nice, job.request.time_min, job.request.switches) == (5, 2, "1@0")
    assert (job.held, job.state, job.partition) == ("", "RUNNING", "debug")
    assert change(job, EndTime="now+5minutes").time_limit == 5


def test_what_may_be_changed_while_running() -> None:
    job = change(a_running_job(), TimeLimit="5", JobName="runname", Comment="run")
    assert (job.time_limit, job.end_time, job.name, job.comment) == (5, NOW + 300, "runname", "run")
    assert change(a_running_job(), admin=True, TimeLimit="60").end_time == NOW + 3600


def a_wide_job(**request: Any) -> Job:
    shares = tuple(NodeShare(name=f"node{number}", cpus=number) for number in (1, 2, 3))
    return running.started(running.starting(a_job(min_nodes=3, **request), shares, CLUSTER, "debug", NOW), NOW)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"NumNodes": "2"}, (["node1", "node2"], 3)),
        ({"NodeList": "node[1,3]"}, (["node1", "node3"], 4)),
        ({"ReqNodeList": "node1"}, (["node1"], 1)),
        ({"NumNodes": "3"}, (["node1", "node2", "node3"], 6)),
    ],
)
def test_a_running_job_may_get_smaller(fields: dict[str, str], left: tuple[list[str], int]) -> None:
    job = change(a_wide_job(), **fields)
    assert ([share.name for share in job.shares], job.cpus) == left
    assert (job.nodes, job.resize_time) == (len(left[0]), NOW if job.nodes < 3 else 0)
    assert job.request.min_nodes == 3, "when it runs again it gets what it asked for"


def test_only_a_scripts_node_must_stay() -> None:
    with pytest.raises(UpdateRefused, match="Invalid node name specified"):
        change(a_wide_job(), NodeList="node2")
    assert change(a_wide_job(kind="alloc"), NodeList="node2").nodes == 1


def test_an_ended_job_cannot_be_changed() -> None:
    ended = running.ended(a_running_job(), {"at": NOW, "state": "COMPLETED"}, CLUSTER)
    with pytest.raises(UpdateRefused, match="Job has already finished"):
        change(ended, Comment="late")


def test_resources_of_a_node_as_scontrol_shows_them() -> None:
    job = change(a_job(), TresPerNode="gres:gpu:2")
    assert job.request.gres == "gpu:2"
    assert change(job, TresPerNode="gres/gpu:1").request.gres == "gpu:1"
    assert change(job, TresPerNode="").request.gres is None
    assert change(a_job(), TimeLimit="10", TimeMin="10").request.time_min == 10
