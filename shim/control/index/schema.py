"""The tables of the index and the steps from each format to the next (``PRAGMA user_version``).

Imported by the store only, and only for a file that does not have the newest format: importing sqlite-utils is slow.
Columns are what questions filter and sort by; everything else of a job is in ``record``, its JSON.
"""

from __future__ import annotations

import sqlite3

import sqlite_utils

from shim.control.index.reader import VERSION

_JOBS = {
    "key": int,
    "cluster": str,
    "job_id": int,
    "array_job_id": int,
    "array_task_id": int,
    "user": str,
    "uid": int,
    "name": str,
    "partition": str,
    "state": str,
    "reason": str,
    "priority": int,
    "restarts": int,
    "submit_time": float,
    "eligible_time": float,
    "start_time": float,
    "end_time": float,
    "record": str,
}
_STEPS = {
    "job_key": int,
    "restart": int,
    "step_id": str,
    "state": str,
    "start_time": float,
    "end_time": float,
    "record": str,
}
_TRANSITIONS = {
    "id": int,
    "job_key": int,
    "restart": int,
    "time": float,
    "from_state": str,
    "to_state": str,
    "reason": str,
}


def _first(database: sqlite_utils.Database) -> None:
    database.table("meta").create({"name": str, "value": str}, pk="name")
    database.table("sequence").create({"name": str, "last": int}, pk="name")
    jobs = database.table("jobs").create(_JOBS, pk="key", not_null={"cluster", "job_id", "state", "record"})
    jobs.create_index(["cluster", "job_id"], unique=True)
    jobs.create_index(["cluster", "array_job_id"])
    jobs.create_index(["job_id"])
    jobs.create_index(["array_job_id"])
    jobs.create_index(["state"])
    jobs.create_index(["end_time"])
    steps = database.table("steps").create(_STEPS, foreign_keys=[("job_key", "jobs", "key")])
    steps.create_index(["job_key", "restart", "step_id"], unique=True)
    transitions = database.table("transitions").create(_TRANSITIONS, pk="id", foreign_keys=[("job_key", "jobs", "key")])
    transitions.create_index(["job_key"])
    database.table("nodes").create({"cluster": str, "name": str, "record": str}, pk=("cluster", "name"))
    database.table("clusters").create({"name": str, "record": str}, pk="name")
    database.table("orders").create({"number": int, "job_key": int, "restart": int, "record": str}, pk="number")
    database.table("tokens").create({"token": str, "cluster": str, "job_id": int, "time": float}, pk="token")


def _second(database: sqlite_utils.Database) -> None:
    """Jobs that a real Slurm runs: known here, but nothing waits for them and nothing is done with them."""
    columns = {"cluster": str, "job_id": int, "uid": int, "submit_time": float, "record": str}
    passed = database.table("passed_jobs").create(columns, pk=("cluster", "job_id"))
    passed.create_index(["job_id"])
    passed.create_index(["submit_time"])


def _third(database: sqlite_utils.Database) -> None:
    """What becomes of those jobs is noted, as far as it is seen: accounting looks for it by time and by array."""
    passed = database.table("passed_jobs")
    passed.add_column("array_job_id", int, not_null_default=0)
    passed.add_column("end_time", float, not_null_default=0)
    passed.create_index(["array_job_id"])
    passed.create_index(["end_time"])


_STEPS_TO = {1: _first, 2: _second, 3: _third}


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the file to format VERSION, all or nothing. The caller has opened an immediate transaction."""
    database = sqlite_utils.Database(connection)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    for version in range(found + 1, VERSION + 1):
        _STEPS_TO[version](database)
        connection.execute(f"PRAGMA user_version = {version}")
