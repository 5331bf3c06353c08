"""What squeue of a real Slurm says, and what becomes of the rows."""

from __future__ import annotations

import pytest

from shim.core.model import slurm_job_snapshots
from shim.core.model.job import Job, NodeShare

NOW = 10_000.0


def line(**fields: str) -> str:
    """A line as squeue prints it for FORMAT."""
    given = {"JobID": "7", "ArrayJobID": "7", "State": "RUNNING", "NumNodes": "1", "NumCPUs": "1", **fields}
    columns = [word.split(":") for word in slurm_job_snapshots.FORMAT.split(",")]
    assert set(given) <= {name for name, _ in columns}
    return "".join(given.get(name, "N/A" if name.endswith("Time") else "").ljust(int(width)) for name, width in columns)


def row(**fields: object) -> Job:
    return Job(cluster="hpc", job_id=7, submit_time=5.0).replace(**fields)


def after(jobs: list[Job], *lines: str) -> list[Job]:
    return slurm_job_snapshots.apply(
        jobs, slurm_job_snapshots.parse_squeue("\n".join([*lines, "a note of the site"])), NOW
    )


def test_a_job_that_runs() -> None:
    text = line(
        StartTime="100",
        EndTime="400",
        EligibleTime="60",
        NodeList="n[1-2]",
        NumNodes="2",
        NumCPUs="5",
        TimeLimit="5:00",
    )
    (job,) = after([row()], text)
    assert (job.state, job.start_time, job.end_time, job.eligible_time) == ("RUNNING", 100, 400, 60)
    assert job.shares == (NodeShare(name="n1", cpus=3), NodeShare(name="n2", cpus=2))
    assert (job.nodes, job.cpus, job.time_limit, job.submit_time) == (2, 5, 5, 5.0)
    assert after([job], text) == [], "nothing is new"
    (ended,) = after([job], line(State="FAILED", StartTime="100", EndTime="200", exit_code="768", NodeList="n1"))
    assert (ended.state, ended.exit_status, ended.end_time) == ("FAILED", 768, 200)


def test_a_job_that_waits() -> None:
    (job,) = after([row()], line(State="PENDING", Reason="Resources", Partition="gpu", TimeLimit="UNLIMITED"))
    assert (job.state, job.reason, job.partition, job.shares, job.start_time) == ("PENDING", "Resources", "gpu", (), 0)
    assert job.eligible_time == 5.0, "since it was submitted, as far as is known"


def test_tasks_of_an_array_get_rows() -> None:
    array = row(array_job_id=7, array_spec="0-9%2")
    found = after(
        [array],
        line(State="PENDING", ArrayTaskID="1-9%2"),
        line(JobID="8", ArrayTaskID="0", NodeList="n1"),
        line(JobID="99", ArrayJobID="99"),
    )
    assert [(job.job_id, job.array_label, job.state) for job in found] == [
        (7, "7_[1-9%2]", "PENDING"),
        (8, "7_0", "RUNNING"),
    ]
    assert slurm_job_snapshots.as_recorded(array).array_label == "7_[0-9%2]"


def test_what_is_not_known_any_more_stays_as_it_was_seen() -> None:
    (job,) = after([row(state="RUNNING")])
    assert (job.state, job.end_time) == ("RUNNING", NOW)
    assert job.system_comment.startswith("not known to hpc any more")
    assert slurm_job_snapshots.is_final(job)
    assert after([row(state="COMPLETED", end_time=NOW)]) == [], "it had ended"


def test_only_a_requeue_brings_back_what_has_ended() -> None:
    done = row(state="FAILED", end_time=NOW - 5)
    assert after([done], line(State="PENDING")) == []
    (again,) = after([done], line(State="PENDING", RestartCnt="1"))
    assert (again.state, again.restarts) == ("PENDING", 1)


@pytest.mark.parametrize(
    ("job", "worth"),
    [
        (row(), True),
        (row(state="RUNNING", end_time=1), True),
        (row(state="FAILED", end_time=NOW - 5), True),
        (row(state="FAILED", end_time=NOW - 5000), False),
        (row(system_comment="forgotten", end_time=NOW), False),
    ],
)
def test_who_is_asked_about(job: Job, worth: bool) -> None:
    assert slurm_job_snapshots.worth_asking(job, NOW) is worth


@pytest.mark.parametrize(("nodes", "names"), [("n[1", ["n[1"]), ("", []), ("n[1-5000]", ["n[1-5000]"])])
def test_node_lists(nodes: str, names: list[str]) -> None:
    (job,) = after([row()], line(NodeList=nodes))
    assert [share.name for share in job.shares] == names
