"""A question costs what its answer holds, however many jobs there ever were: SQLite never reads all rows for it."""

from __future__ import annotations

import sqlite3

import pytest

from shim.control import paths
from shim.control.index.opening import open_store
from shim.control.index.query import JobQuery, where


@pytest.mark.parametrize("cluster", ["", "local"])
@pytest.mark.parametrize(
    "query",
    [
        JobQuery(),
        JobQuery(job_ids=(5, 6)),
        JobQuery(job_ids=(5,), active=False),
        JobQuery(job_ids=(5,), active=False, ended_since=1e9),
        JobQuery(active=False, ended_since=1e9),
        JobQuery(users=(1001,), names=("a",), partitions=("p",)),
    ],
)
def test_indexes_answer(query: JobQuery, cluster: str) -> None:
    open_store(paths.index_path()).close()
    condition, values = where(query.replace(cluster=cluster))
    connection = sqlite3.connect(paths.index_path())
    rows = connection.execute(f"EXPLAIN QUERY PLAN SELECT record FROM jobs WHERE {condition} ORDER BY key", values)
    plan = [str(row[3]) for row in rows]
    connection.close()
    assert plan
    assert not [step for step in plan if step.startswith("SCAN") or "(cluster=?)" in step]
