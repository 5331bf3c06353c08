"""Pending jobs: hold, begin, dependencies, priority."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.lifecycle import waiting
from shim.core.model.request import INFINITE
from tests.control.lifecycle.samples import NOW, a_job


def test_a_new_job_is_eligible_at_once() -> None:
    job = a_job()
    assert (job.state, job.reason, job.eligible_time) == ("PENDING", "None", NOW)
    assert waiting.eligible(job, NOW)


def test_earlier_jobs_have_the_higher_priority() -> None:
    assert a_job(7).priority > a_job(8).priority > a_job(8, nice=100).priority > 0


def test_a_job_that_is_held_anyway_keeps_its_reason() -> None:
    job = a_job().replace(held="user", priority=0, reason=waiting.REQUEUED_HELD)
    assert waiting.hold(job, NOW).reason == waiting.REQUEUED_HELD
    assert waiting.hold(a_job(hold=True), NOW).reason == "JobHeldUser"


def test_hold_and_release() -> None:
    job = a_job(hold=True)
    assert (job.reason, job.priority, job.eligible_time) == ("JobHeldUser", 0, 0)
    assert not waiting.eligible(job, NOW)
    free = waiting.release(job, NOW + 5)
    assert (free.reason, free.priority, free.eligible_time) == ("None", a_job().priority, NOW + 5)
    assert waiting.hold(free, NOW).reason == "JobHeldUser"
    assert waiting.release(free, NOW) == free


def test_begin_time() -> None:
    job = a_job(begin=int(NOW) + 60)
    assert (job.reason, job.start_time, job.eligible_time) == ("BeginTime", NOW + 60, NOW + 60)
    assert not waiting.eligible(job, NOW)
    assert waiting.wakes_at(job, NOW) == NOW + 60
    begun = waiting.looked_at(job, NOW + 60)
    assert (begun.reason, begun.start_time, begun.eligible_time) == ("None", 0, NOW + 60)
    assert waiting.eligible(begun, NOW + 60)


def test_a_reason_of_the_scheduler_stays() -> None:
    job = a_job().replace(reason="Resources")
    assert waiting.looked_at(job, NOW + 1) == job


def test_a_dependency_that_is_satisfied_frees_the_job() -> None:
    job = a_job(dependency="afterok:3(unfulfilled)")
    assert (job.reason, job.eligible_time) == ("Dependency", 0)
    free = waiting.judged(job, "satisfied", "", NOW + 3)
    assert (free.reason, free.dependency, free.eligible_time) == ("None", "", NOW + 3)
    assert waiting.judged(job, "waiting", "afterok:3(unfulfilled)", NOW) == job


def test_a_dependency_that_never_comes_true() -> None:
    job = a_job(dependency="afterok:3(unfulfilled)")
    stays = waiting.judged(job, "never", "afterok:3(failed)", NOW)
    assert (stays.state, stays.reason, stays.dependency) == ("PENDING", "DependencyNeverSatisfied", "afterok:3(failed)")
    killed = waiting.judged(a_job(dependency="afterok:3", kill_on_invalid_dep=True), "never", "x", NOW)
    assert (killed.state, killed.reason) == ("CANCELLED", "DependencyNeverSatisfied")


def test_a_missed_deadline_is_an_end() -> None:
    job = waiting.missed(a_job(deadline=int(NOW) + 5), NOW + 5)
    assert (job.state, job.end_time, job.exit_status) == ("DEADLINE", NOW + 5, 1)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ({"time_limit": 2}, 120),
        ({"time_limit": 10, "time_min": 1}, 60),
        ({}, 60),
        ({"partition": "gpu"}, 1800),
        ({"time_limit": INFINITE}, 0),
    ],
)
def test_a_deadline_wants_the_time_before_it(asked: dict[str, Any], seconds: int) -> None:
    in_time = a_job(deadline=int(NOW) + seconds, **asked)
    assert not waiting.starts_too_late(in_time, NOW + 0.9)
    assert waiting.starts_too_late(in_time, NOW + 1)
    assert waiting.wakes_at(in_time, NOW) == NOW + 1
    assert not waiting.starts_too_late(a_job(**asked), NOW)


def test_the_files_are_named_as_scontrol_shows_them() -> None:
    assert a_job().stdout == "/home/alice/slurm-7.out"
    assert a_job(stdout="out.%j").stderr == "/home/alice/out.7"
    assert a_job(array="0-3").stdout == "/home/alice/slurm-7_4294967294.out"
    assert a_job(stdout="none").stdout == "/dev/null"
    assert a_job(stdout="/tmp/%x.%u").stdout == "/tmp/job.sh.alice"
    assert a_job(kind="alloc").stdout == ""


def test_the_limit_is_the_partitions_where_none_was_asked() -> None:
    assert a_job(partition="gpu").time_limit == 30
    assert a_job().time_limit == -1
    assert a_job(partition="gpu,debug").time_limit is None
    assert a_job(partition="gpu", time_limit=5).time_limit == 5
