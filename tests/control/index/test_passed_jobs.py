"""Jobs that a real Slurm runs: rows beside those of our own jobs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shim.control.index.reader import open_reader
from shim.control.index.store import open_store
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
