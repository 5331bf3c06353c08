"""Jobs that a real Slurm runs: rows beside those of our own jobs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shim.control.index.opening import open_store
from shim.control.index.reader import open_reader
from shim.core.model.job import Job


def passed(job_id: int, submitted: float, cluster: str = "hpc") -> Job:
    return Job(cluster=cluster, job_id=job_id, submit_time=submitted, uid=7)


def test_they_are_kept_and_replaced_and_are_nobodys_work(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    store = open_store(path)
    for job in (passed(9, 30), passed(5, 10), passed(5, 20, "other"), passed(9, 30).replace(state="RUNNING")):
        store.save_passed(job)
    reader = open_reader(path)
    assert reader is not None
    assert [(job.cluster, job.job_id, job.state) for job in reader.passed_jobs()] == [
        ("hpc", 5, "PENDING"),
        ("other", 5, "PENDING"),
        ("hpc", 9, "RUNNING"),
    ]
    assert [job.cluster for job in reader.passed_jobs([5])] == ["hpc", "other"]
    assert [job.job_id for job in reader.passed_jobs(since=25)] == [9]
    assert not reader.active()
    assert store.jobs() == []
    store.close()


def test_an_index_of_before_has_none_and_gets_room_for_them(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE passed_jobs; PRAGMA user_version = 1;")
    connection.close()
    reader = open_reader(path)
    assert reader is not None
    assert reader.passed_jobs() == []
    store = open_store(path)
    store.save_passed(passed(5, 10))
    assert [job.job_id for job in reader.passed_jobs()] == [5]
    store.close()


def ids(jobs: list[Job]) -> list[int]:
    return [job.job_id for job in jobs]


def test_what_accounting_asks_for(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    store = open_store(path)
    array = passed(20, 10).replace(array_job_id=20, array_spec="0-3")
    for job in (
        passed(5, 1),
        passed(6, 2).replace(state="COMPLETED", end_time=50),
        passed(7, 3).replace(system_comment="forgotten", end_time=60),
        passed(8, 4).replace(state="RUNNING", end_time=55),  # when its limit ends it
        array,
        array.replace(job_id=21, array_task_id=0),
        passed(5, 1, "other"),
    ):
        store.save_passed(job)
    reader = open_reader(path)
    assert reader is not None
    assert ids(reader.passed_of("hpc")) == [5, 6, 7, 8, 20, 21]
    assert ids(reader.passed_of("hpc", since=55)) == [5, 7, 8, 20, 21]
    assert ids(reader.passed_of("hpc", since=70)) == [5, 8, 20, 21]
    assert ids(reader.passed_of("hpc", [20, 6])) == [6, 20, 21], "all tasks of the array"
    assert ids(reader.passed_of("hpc", [21, 99])) == [21]
    assert ids(reader.passed_of("other", since=70)) == [5]
    store.close()


def test_an_index_that_knew_of_no_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "DROP INDEX idx_passed_jobs_array_job_id; DROP INDEX idx_passed_jobs_end_time;"
            "ALTER TABLE passed_jobs DROP COLUMN array_job_id; ALTER TABLE passed_jobs DROP COLUMN end_time;"
            """INSERT INTO passed_jobs VALUES ('hpc', 5, 7, 10, '{"cluster": "hpc", "job_id": 5, "submit_time": 10}');"""
            "PRAGMA user_version = 2;"
        )
    connection.close()
    reader = open_reader(path)
    assert reader is not None
    assert (ids(reader.passed_of("hpc", since=99)), ids(reader.passed_of("hpc", [6]))) == ([5], [])
    store = open_store(path)
    store.save_passed(passed(6, 20).replace(state="FAILED", end_time=30))
    assert ids(reader.passed_of("hpc", since=99)) == [5]
    assert ids(reader.passed_of("hpc", since=25)) == [5, 6]
    store.close()
