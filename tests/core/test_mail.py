"""The mails of --mail-type: when they are due, and their subjects."""

from __future__ import annotations

import pytest

from shim.core.mail import mails, recipients, server
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest

ALL = "INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"

SHARES = (NodeShare(name="n1"),)


def job(types: str = ALL, **fields: object) -> Job:
    made = Job(
        job_id=7, request=JobRequest(name="sim", mail_type=types), submit_time=100, start_time=103, state="RUNNING"
    )
    return made.replace(**fields)


@pytest.mark.parametrize(
    ("types", "fields", "expected"),
    [
        ("BEGIN", {"state": "CONFIGURING"}, []),
        (
            ALL,
            {"was": "CONFIGURING", "state": "RUNNING"},
            ["BEGIN: Slurm Job_id=7 Name=sim Began, Queued time 00:00:03"],
        ),
        ("END", {"was": "CONFIGURING", "state": "RUNNING"}, []),
        (
            ALL,
            {"state": "COMPLETED", "end_time": 164},
            ["END: Slurm Job_id=7 Name=sim Ended, Run time 00:01:01, COMPLETED, ExitCode 0"],
        ),
        ("BEGIN", {"state": "COMPLETED"}, []),
        (
            ALL,
            {"state": "FAILED", "end_time": 104, "exit_status": 3 << 8},
            ["FAIL: Slurm Job_id=7 Name=sim Failed, Run time 00:00:01, FAILED, ExitCode 3"],
        ),
        (
            "END",
            {"state": "FAILED", "end_time": 104, "exit_status": 9},
            ["END: Slurm Job_id=7 Name=sim Ended, Run time 00:00:01, FAILED"],
        ),
        ("FAIL", {"state": "CANCELLED", "end_time": 104}, []),
        (
            "TIME_LIMIT,END",
            {"state": "TIMEOUT", "end_time": 163},
            [
                "TIME_LIMIT: Slurm Job_id=7 Name=sim Reached time limit, Run time 00:01:00",
                "END: Slurm Job_id=7 Name=sim Ended, Run time 00:01:00, TIMEOUT, ExitCode 0",
            ],
        ),
        (ALL, {"reason": "DependencyNeverSatisfied"}, ["INVALID_DEPEND: Slurm Job_id=7 Name=sim Invalid dependency"]),
        (ALL, {"reason": "Resources"}, []),
    ],
)
def test_what_a_change_sends(types: str, fields: dict[str, object], expected: list[str]) -> None:
    fields = dict(fields)
    before = job(types, state=fields.pop("was", "RUNNING"), shares=SHARES)
    assert [f"{kind}: {subject}" for kind, subject in mails(before, before.replace(**fields))] == expected
    assert mails(None, before.replace(**fields)) == []
    after = before.replace(**fields)
    assert mails(after, after) == []


def test_an_array_is_told_of_as_a_whole() -> None:
    first, second = (job(key=key, array_job_id=7, array_task_id=key, state="PENDING", shares=SHARES) for key in (1, 2))
    begun = first.replace(state="RUNNING")
    head = "Slurm Array Summary Job_id=7_* (7) Name=sim "
    assert mails(first, begun, [begun, second]) == [("BEGIN", head + "Began")]
    assert mails(second, second.replace(state="RUNNING"), [begun, second]) == []
    ended = begun.replace(state="COMPLETED")
    assert mails(begun, ended, [ended, second]) == []
    failed = second.replace(state="FAILED", exit_status=2 << 8)
    assert mails(second, failed, [ended, failed]) == [("FAIL", head + "Failed, Mixed, ExitCode [0-2]")]


def test_tasks_of_an_array_that_are_told_of_alone() -> None:
    task = job("BEGIN,ARRAY_TASKS", key=1, array_job_id=5, array_task_id=3, state="PENDING", shares=SHARES)
    (mail,) = mails(task, task.replace(state="RUNNING"), [])
    assert mail == ("BEGIN", "Slurm Array Task Job_id=5_3 (7) Name=sim Began, Queued time 00:00:03")


def test_a_job_that_is_requeued() -> None:
    ran = job(state="COMPLETING")
    again = ran.replace(state="PENDING", restarts=1, submit_time=133)
    assert mails(ran, again) == [("REQUEUE", "Slurm Job_id=7 Name=sim Requeued, Run time 00:00:30")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mx", ("mx", 25)),
        ("mx.example.org:587", ("mx.example.org", 587)),
        ("[::1]", ("::1", 25)),
        ("[::1]:26", ("::1", 26)),
    ],
)
def test_a_mail_server(text: str, expected: tuple[str, int]) -> None:
    assert server(text) == expected


@pytest.mark.parametrize(
    ("user", "domain", "expected"),
    [("ann", "", "ann"), ("ann", "x.org", "ann@x.org"), ("a@b,ann,", "x.org", "a@b,ann@x.org,")],
)
def test_mail_domain_completes_names_without_one(user: str, domain: str, expected: str) -> None:
    assert recipients(user, domain) == expected
