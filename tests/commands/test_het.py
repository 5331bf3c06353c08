"""Heterogeneous jobs in listings and as targets: ``7+1``, the job's id, a component's own id."""

from __future__ import annotations

import os

import pytest

from shim.core.model.job import Job, Step
from tests import reference
from tests.commands.conftest import World


def components(state: str = "RUNNING") -> list[Job]:
    made = [
        reference.running(7, "n1", request=reference.request(name="front")),
        reference.running(8, "n3,n4", partition="gpu", request=reference.request(name="back")),
    ]
    return [
        job.replace(het_job_id=7, het_offset=offset, het_size=2, state=state, priority=1000 - offset)
        for offset, job in enumerate(made)
    ]


@pytest.fixture
def het(world: World) -> World:
    """A job of two components with a step over both, and a plain job."""
    step = Step(job_id=7, step_id="0", name="mpi", nodes=("n1",), start_time=reference.START)
    other = step.replace(job_id=8, nodes=("n3", "n4"), tasks=2, cpus=2)
    world.index([*components(), reference.job(9)], {7: (step,), 8: (other,)})
    return world


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        ((), ["9", "7+0", "7+1"]),
        (("-j", "7"), ["7+0", "7+1"]),
        (("-j", "7+1"), ["7+0", "7+1"]),  # as Slurm has it: the number behind the + selects nothing
        (("-j", "8"), ["7+1"]),
        (("-j", "8,9"), ["9", "7+1"]),
        (("-n", "back"), ["7+1"]),
    ],
)
def test_squeue(het: World, argv: tuple[str, ...], ids: list[str]) -> None:
    assert [line.strip() for line in het.run("squeue", "-h", "-o", "%i", *argv).lines] == ids


def test_fields_of_squeue(het: World) -> None:
    shown = het.run(
        "squeue", "-h", "-j", "8,9", "-S", "i", "-O", "HetJobID:5,HetJobIDSet:6,HetJobOffset:5,ArrayJobID:5"
    )
    assert [line.split() for line in shown.lines] == [["7", "7-8", "1", "8"], ["N/A", "N/A", "N/A", "9"]]


def test_steps_are_each_components_own(het: World) -> None:
    assert [line.split()[0] for line in het.run("squeue", "-h", "-s").lines] == ["7.0", "7.batch", "8.0"]
    assert [line.split()[0] for line in het.run("squeue", "-h", "-s", "-j", "7").lines] == ["7.0", "7.batch"]
    assert [line.split()[0] for line in het.run("squeue", "-h", "-s", "-j", "8").lines] == ["8.0"]
    assert het.run("scontrol", "show", "step", "7").out.count("StepId=") == 2
    assert "StepId=8.0 " in het.run("scontrol", "show", "step", "8").out


def test_show_job(het: World) -> None:
    both = het.run("scontrol", "show", "job", "7").out
    assert both.startswith("JobId=7 HetJobId=7 HetJobOffset=0 JobName=front\n   HetJobIdSet=7-8\n")
    assert "\n\nJobId=8 HetJobId=7 HetJobOffset=1 JobName=back\n" in both
    for name in ("8", "7+1"):
        one = het.run("scontrol", "-o", "show", "job", name).out
        assert one.startswith("JobId=8 HetJobId=7 HetJobOffset=1 JobName=back HetJobIdSet=7-8 ")
        assert one.count(" UserId=") == 1
    missing = het.run("scontrol", "show", "job", "7+2")
    assert (missing.code, missing.out) == (1, "Job 7+2 not found\n")


@pytest.mark.parametrize("name", ["7+", "7+x", "+1", "7+1_2", "7_1+2"])
def test_what_is_no_component(het: World, name: str) -> None:
    assert het.run("scancel", name).err == f"scancel: error: Invalid job id {name}\n"


def test_targets(het: World) -> None:
    het.run("scancel", "7", "7+1", "8.0")
    het.run("scontrol", "hold", "7+1")
    het.run("scontrol", "update", "jobid=7+0", "name=x")
    het.run("scancel", "-n", "front,back")
    het.run("scancel", "-n", "back")
    targets = [
        [{name: value for name, value in one.items() if value is not None} for one in fields["targets"]]
        for _operation, fields in het.calls
    ]
    assert targets == [
        [{"job_id": 7}, {"job_id": 7, "het": 1}, {"job_id": 8, "step": "0"}],
        [{"job_id": 7, "het": 1}],
        [{"job_id": 7, "het": 0}],
        [{"job_id": 7}],  # the first one's id is enough for all
        [{"job_id": 8}],
    ]


def test_an_error_about_a_component(het: World) -> None:
    het.errors = ["Operation not permitted on individual component of heterogeneous job"]
    result = het.run("scancel", "7+1")
    assert result.code == 60
    assert result.err == (
        "scancel: error: Kill job error on job id 7+1: Operation not permitted on individual component of heterogeneous job\n"
    )


def test_a_name_stands_for_the_whole_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1001)
    world.index(components("PENDING"))
    world.run("scontrol", "hold", "jobname=front,back")
    ((_operation, fields),) = world.calls
    assert [one["job_id"] for one in fields["targets"]] == [7]


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        (("-j", "7"), ["7+0", "7+0.batch", "7+0.0", "7+1", "7+1.0"]),
        (("-j", "8"), ["7+1", "7+1.0"]),
        (("-j", "7+1"), ["7+1", "7+1.0"]),
        (("-j", "7.0"), ["7+0.0", "7+1.0"]),
        (("-j", "7", "--whole-hetjob=no"), ["7+0", "7+0.batch", "7+0.0"]),
        (("-X", "-j", "7"), ["7+0", "7+1"]),
    ],
)
def test_sacct(het: World, argv: tuple[str, ...], ids: list[str]) -> None:
    assert het.run("sacct", "-n", "-P", "-o", "JobID", *argv).lines == ids


def test_raw_ids_of_sacct(het: World) -> None:
    assert het.run("sacct", "-n", "-P", "-X", "-o", "JobIDRaw", "-j", "7").lines == ["7", "8"]
