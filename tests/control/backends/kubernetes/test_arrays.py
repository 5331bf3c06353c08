"""Which of an array's tasks have ids of their own, as its record and an index have it."""

from __future__ import annotations

import pytest

from shim.control.backends.kubernetes.records.record import Given, JobRecord, current, told
from shim.core.model import states
from shim.core.model.job import Job

ARRAY = Job(job_id=5, cluster="k8s", array_job_id=5, array_tasks="0-3%2")
RECORD = JobRecord(name="slurm-5", uid="uid", job=ARRAY)


def parts(found: JobRecord | None) -> tuple[str | None, int | None, list[tuple[int, int]]] | None:
    """The rest, the last task, and what was given."""
    if found is None:
        return None
    return found.job.array_tasks, found.job.array_task_id, [(one.task, one.job_id) for one in found.given]


@pytest.mark.parametrize(
    "kept, own, expected",
    [
        (ARRAY, {}, ("0-3%2", None, [])),
        (ARRAY.replace(array_tasks="1-3%2"), {0: 7}, ("1-3%2", None, [(0, 7)])),
        (ARRAY.replace(array_tasks="2-3%1"), {0: 7}, ("2-3%1", None, [(0, 7)])),  # the other was cancelled
        (ARRAY.replace(array_tasks=None, array_task_id=3), {0: 7, 1: 8, 2: 9}, (None, 3, [(0, 7), (1, 8), (2, 9)])),
        (None, {1: 8}, ("0,2-3%2", None, [(1, 8)])),  # the index has forgotten the array
        (ARRAY.replace(array_tasks="0-4%2"), {}, None),  # what is in nobody's rest any more
    ],
)
def test_what_becomes_of_an_arrays_tasks(
    kept: Job | None, own: dict[int, int], expected: tuple[str | None, int | None, list[tuple[int, int]]] | None
) -> None:
    assert parts(told(RECORD, kept, own)) == expected


def test_an_index_that_lags_behind_gives_nothing_a_second_time() -> None:
    record = RECORD.replace(job=ARRAY.replace(array_tasks="3%2"), given=(Given(task=0, job_id=7),))
    assert told(record, ARRAY.replace(array_tasks="2-3%2"), {0: 20, 1: 21}) is None
    assert parts(told(record, None, {0: 20, 1: 21})) == ("3%2", None, [(0, 7)])
    last = record.replace(job=ARRAY.replace(array_tasks=None, array_task_id=3))
    assert told(last, ARRAY.replace(array_tasks=None, array_task_id=2), {}) is None
    assert told(last, ARRAY, {}) is None
    assert told(last, last.job, {}) == last


def test_no_other_write_changes_an_arrays_rest() -> None:
    stale = ARRAY.replace(array_tasks=None, array_task_id=2, state=states.CONFIGURING)
    assert current(RECORD, stale) == RECORD.job.replace(state=states.CONFIGURING)
