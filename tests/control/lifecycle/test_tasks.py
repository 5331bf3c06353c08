"""Splitting tasks off an array."""

from __future__ import annotations

import pytest

from shim.control.lifecycle import tasks
from tests.control.lifecycle.samples import NOW, a_job


def test_the_last_task_to_leave_keeps_the_arrays_record() -> None:
    rest = a_job(59, array="1,3,5%2")
    first, left = tasks.split(rest, 1, 60)
    assert left is not None
    assert (first.job_id, first.array_job_id, first.array_task_id, first.key) == (60, 59, 1, 0)
    assert (left.job_id, left.array_tasks, left.array_label) == (59, "3,5%2", "59_[3,5%2]")
    _, left = tasks.split(left, 3, 61)
    assert left is not None
    last, nothing = tasks.split(left, 5, 62)
    assert nothing is None
    assert (last.job_id, last.key, last.array_task_id, last.array_label) == (59, 59, 5, "59_5")


def test_a_task_that_is_not_pending_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="no pending task 9"):
        tasks.split(a_job(59, array="1-3"), 9, 60)
    with pytest.raises(ValueError, match="no pending task 0"):
        tasks.split(a_job(59), 0, 60)


def test_a_last_task_left_by_a_command_is_shown_as_a_task() -> None:
    assert tasks.settled(a_job(62, array="9")).array_label == "62_9"
    assert tasks.settled(a_job(62, array="8-9")).array_label == "62_[8-9]"
    assert tasks.settled(a_job(62)).array_label == "62"


def test_cancelled_tasks_leave_no_record_until_the_last() -> None:
    rest = a_job(62, array="0-9")
    fewer = tasks.cancelled_tasks(rest, [2, 3, 4, 99], 1001, NOW)
    assert (fewer.state, fewer.array_tasks) == ("PENDING", "0-1,5-9")
    gone = tasks.cancelled_tasks(fewer, range(10), 1001, NOW)
    assert (gone.state, gone.cancelled_by, gone.end_time) == ("CANCELLED", 1001, NOW)


def test_a_throttle_can_be_changed() -> None:
    assert tasks.throttled(a_job(5, array="0-9%2"), 4).array_tasks == "0-9%4"
    assert tasks.throttled(a_job(5, array="0-9%2"), 0).array_tasks == "0-9"
    assert tasks.throttled(a_job(5), 4) == a_job(5)


def test_a_large_array_costs_nothing() -> None:
    rest = a_job(5, array="0-999999")
    _, left = tasks.split(rest, 0, 6)
    assert left is not None
    assert left.array_tasks == "1-999999"
