"""The index as commands read it: read-only, on the C module, without waiting for anyone.

Records are decoded from JSON one by one, so a question costs what its answer holds.
"""

from __future__ import annotations

import os
import time

from shim.control.index import csqlite
from shim.control.index.errors import IndexCorrupt, IndexNewer, IndexUnavailable, fault
from shim.control.index.query import JobQuery, where
from shim.core import jsonlite
from shim.core.model import states
from shim.core.model.job import Job, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from sqlite3 import Connection
    from typing import Any

    from shim.core.model.cluster import Cluster

AMENDED = "amended."  # in front of a cluster's name: what operators changed of it
TROUBLE = "trouble."  # in front of a cluster's name: the word that says why it cannot be asked
LOOKED = "looked."  # and a cluster: its jobs were taken in, whoever had submitted them
FILES = "files"  # the word with stamps of what the controller has read its configuration from
PRUNED = "pruned"  # the word for the latest end of a job that is kept no longer
CRONTAB = "crontab"  # the word for the user's table of recurring jobs and which job each entry of it is
KEPT = "kept"  # the word for what stays in force of an earlier configuration
OUTLINE = (
    *("key", "cluster", "job_id", "array_job_id", "array_task_id", "user", "uid", "name", "partition", "state"),
    *("priority", "submit_time", "start_time"),
)
VERSION = 3  # the newest format this program knows; schema.py holds the steps that lead to it


class Reader:
    """One open index. Every method raises IndexFault when the file turns out to be unusable.

    ``live``: the controller itself answers, so that nothing can be out of date.
    """

    live = False

    def __init__(self, path: str, connection: Connection) -> None:
        self.path = path
        self._connection = connection

    def __del__(self) -> None:
        # Commands end without closing; newer interpreters warn of connections that were forgotten.
        self._connection.close()

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except csqlite.SqliteError as error:
            raise fault(self.path, error) from None

    def _decoded(self, text: str) -> dict[str, Any]:
        try:
            record = jsonlite.loads(text)
        except ValueError as error:
            raise IndexCorrupt(self.path, f"unreadable record: {error}") from None
        if not isinstance(record, dict):
            raise IndexCorrupt(self.path, "unreadable record")
        return record

    def jobs(self, query: JobQuery) -> list[Job]:
        """The jobs that fit, by key (the order of their submission). A heterogeneous job's id means all its components."""
        found = self._fitting(query)
        if not query.job_ids:
            return found
        named = [job for job in found if job.het_size and job.het_offset == 0]
        others = {job.job_id + offset for job in named for offset in range(job.het_size)}.difference(query.job_ids)
        if others:
            found = sorted([*found, *self._fitting(query.replace(job_ids=tuple(others)))], key=lambda job: job.key)
        return found

    def _fitting(self, query: JobQuery) -> list[Job]:
        condition, values = where(query)
        rows = self._rows(f"SELECT key, record FROM jobs WHERE {condition} ORDER BY key", values)
        return [self._job(key, record) for key, record in rows]

    def _job(self, key: int, record: str) -> Job:
        data = self._decoded(record)
        data["key"] = key
        try:
            return Job.from_dict(data)
        except (TypeError, AttributeError) as error:
            raise IndexCorrupt(self.path, f"unreadable record of job key {key}: {error}") from None

    def outlines(self, query: JobQuery) -> list[tuple[Any, ...]]:
        """Of the jobs that fit, by key: what columns hold of them (OUTLINE), then the record as text, for ``decoded``.

        Decoding takes nearly all the time of a long list: who shows a part of it decodes that.
        """
        condition, values = where(query)
        return self._rows(f"SELECT {', '.join(OUTLINE)}, record FROM jobs WHERE {condition} ORDER BY key", values)

    def decoded(self, key: int, record: str) -> Job:
        """The job of such a line."""
        return self._job(key, record)

    def spans(self, since: float, *, gpus: bool = False) -> list[tuple[str, float, float, int, int]]:
        """Of the jobs that have run at any time since that second: cluster, start, end (0: it runs), CPUs, and if asked for GPUs."""
        ends = sorted(states.ALLOCATED)
        held = "(SELECT sum(json_array_length(value, '$.gpus')) FROM json_each(record, '$.shares'))" if gpus else "0"
        found = self._rows(
            f"SELECT cluster, start_time, CASE WHEN state IN ({','.join('?' * len(ends))}) THEN 0 ELSE end_time END,"
            f" coalesce(json_extract(record, '$.cpus'), 1), coalesce({held}, 0) FROM jobs WHERE start_time > 0"
            f" AND key IN (SELECT key FROM jobs WHERE state IN ({','.join('?' * len(ends))})"
            " UNION SELECT key FROM jobs WHERE end_time >= ? AND state != 'PENDING')",
            [*ends, *ends, since],
        )
        return [(str(cluster), start, end, int(cpus), int(number)) for cluster, start, end, cpus, number in found]

    def version(self) -> int:
        """Changes when anybody else has written to the file since it was asked last: costs no question of what is in it."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def job(self, cluster: str | None, job_id: int) -> Job | None:
        """The record that has exactly this id: of any cluster, the newest one, where none is named."""
        own, values = ("", ()) if cluster is None else (" AND cluster = ?", (cluster,))
        rows = self._rows(
            f"SELECT key, record FROM jobs WHERE job_id = ?{own} ORDER BY key DESC LIMIT 1", (job_id, *values)
        )
        return self._job(*rows[0]) if rows else None

    def array(self, cluster: str, array_job_id: int) -> list[Job]:
        """All records of an array: started tasks and the rest, by key."""
        rows = self._rows(
            "SELECT key, record FROM jobs WHERE cluster = ? AND array_job_id = ? ORDER BY key", (cluster, array_job_id)
        )
        return [self._job(key, record) for key, record in rows]

    def labels(self) -> list[tuple[str, str, str, str, str]]:
        """(cluster, user, account, QOS, workload key) that jobs name, each combination once; empty for what a job does not name."""
        # As hex: names that are no text are none of SQLite's either.
        words = [f"hex(json_extract(record, '$.request.{one}'))" for one in ("account", "qos", "wckey")]
        rows = self._rows(f"SELECT DISTINCT cluster, user, {', '.join(words)} FROM jobs")
        return [
            (cluster, user, *[bytes.fromhex(word).decode("utf-8", "surrogatepass") for word in named])
            for cluster, user, *named in rows
        ]

    def first_submission(self, cluster: str) -> float:
        """When the first of the cluster's jobs that are kept was submitted; now for none."""
        rows = self._rows("SELECT min(submit_time) FROM jobs WHERE cluster = ?", (cluster,))
        return float(rows[0][0] or time.time())

    def passed_jobs(self, job_ids: Sequence[int] = (), since: float = 0) -> list[Job]:
        """Jobs that were submitted through us to a real Slurm, the oldest first: those ids, or all since that second.

        Their state is the one that was seen last, often the first: what became of them is the real Slurm's to say.
        """
        if int(self._rows("PRAGMA user_version")[0][0]) < 2:
            return []  # a controller of before has written it
        condition, values = "submit_time >= ?", [since, *job_ids]
        if job_ids:
            condition += f" AND job_id IN ({','.join('?' * len(job_ids))})"
        rows = self._rows(f"SELECT 0, record FROM passed_jobs WHERE {condition} ORDER BY submit_time, job_id", values)
        return [self._job(*row) for row in rows]

    def passed_of(self, cluster: str, job_ids: Sequence[int] = (), since: float | None = None) -> list[Job]:
        """The same of one cluster: by id (an array's means all its tasks), and those that had not ended before ``since``."""
        version = int(self._rows("PRAGMA user_version")[0][0])
        if version < 3:  # a controller of before has written it: it knew of no end and of no task
            return [job for job in self.passed_jobs(job_ids) if job.cluster == cluster]
        terms: list[str] = ["cluster = ?"]
        values: list[object] = [cluster]
        if job_ids:
            marks = ",".join("?" * len(job_ids))
            terms.append(f"(job_id IN ({marks}) OR (array_job_id > 0 AND array_job_id IN ({marks})))")
            values += [*job_ids, *job_ids]
        if since is not None:
            terms.append("(end_time = 0 OR end_time >= ?)")
            values.append(since)
        rows = self._rows(
            f"SELECT 0, record FROM passed_jobs WHERE {' AND '.join(terms)} ORDER BY submit_time, job_id", values
        )
        return [self._job(*row) for row in rows]

    def steps(self, jobs: Iterable[Job], *, running: bool = False) -> list[Step]:
        """The steps of the current run of these jobs, in the order of their start."""
        return [step for _job, step in self.steps_of(jobs, running=running)]

    def steps_of(
        self, jobs: Iterable[Job], *, running: bool = False, every_run: bool = False
    ) -> list[tuple[Job, Step]]:
        """The same with the job that each is a step of; ``every_run``: those of runs before a requeue too."""
        runs = {job.key: job for job in jobs}
        found: list[tuple[int, Job, Step]] = []
        keys = list(runs)
        for start in range(0, len(keys), 500):  # SQLite limits the parameters of a statement
            part = keys[start : start + 500]
            rows = self._rows(
                f"SELECT rowid, job_key, restart, record FROM steps WHERE job_key IN ({','.join('?' * len(part))})",
                part,
            )
            for rowid, key, restart, record in rows:
                step = Step.from_dict(self._decoded(record))
                current = every_run or restart == runs[key].restarts
                if current and not (running and step.state in states.TERMINAL):
                    found.append((rowid, runs[key], step))
        return [(job, step) for _, job, step in sorted(found, key=lambda item: item[0])]

    def transitions(self, keys: Iterable[int]) -> dict[int, list[tuple[int, float, str]]]:
        """What became of these jobs: (restart count, time, state) by key, oldest first."""
        found: dict[int, list[tuple[int, float, str]]] = {}
        for key in keys:
            found[key] = [
                (restart, moment, state)
                for restart, moment, state in self._rows(
                    "SELECT restart, time, to_state FROM transitions WHERE job_key = ? ORDER BY id", (key,)
                )
            ]
        return found

    def step(self, job: Job, step_id: str) -> Step | None:
        """One step of the current run of the job."""
        rows = self._rows(
            "SELECT record FROM steps WHERE job_key = ? AND restart = ? AND step_id = ?",
            (job.key, job.restarts, step_id),
        )
        return Step.from_dict(self._decoded(rows[0][0])) if rows else None

    def cluster(self, name: str) -> Cluster | None:
        """The cluster's shape as the controller last recorded it."""
        from shim.core.model.cluster import Cluster

        rows = self._rows("SELECT record FROM clusters WHERE name = ?", (name,))
        return Cluster.from_dict(self._decoded(rows[0][0])) if rows else None

    def changes(self, cluster: str) -> dict[str, Any]:
        """What operators changed of the cluster (``core/model/cluster_changes.py``); empty for nothing."""
        text = self.meta(AMENDED + cluster)
        return self._decoded(text) if text else {}

    def active(self) -> bool:
        """Whether any job has not ended."""
        wanted = sorted(states.ACTIVE)
        return bool(self._rows(f"SELECT 1 FROM jobs WHERE state IN ({','.join('?' * len(wanted))}) LIMIT 1", wanted))

    def generation(self) -> int:
        """How often a controller has caught up with what runs: grows when a new controller has seen everything."""
        return int(self.meta("generation") or "0")

    def last_job_id(self, first: int = 1, end: int = 1 << 62) -> int:
        """The id that was given out last in the range from ``first`` up to but not including ``end``; 0 for none."""
        rows = self._rows(
            "SELECT max(last) FROM sequence WHERE name IN ('job_id', ?) AND last >= ? AND last < ?",
            (f"job_id.{first}", first, end),
        )
        return int(rows[0][0] or 0)

    def meta(self, name: str) -> str | None:
        """A word that the controller left under ``name``."""
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def pruned(self) -> float:
        """Jobs that ended up to that second may be kept no longer; 0 if all are."""
        return float(self.meta(PRUNED) or 0)

    def files(self) -> list[list[Any]]:
        """Stamps of the files that the controller has read its configuration from."""
        found: list[list[Any]] = jsonlite.loads(self.meta(FILES) or "[]")
        return found

    def crontab(self) -> str | None:
        """The user's table of recurring jobs as scrontab shows it: entries whose job recurs no more are out of service. None: there is none."""
        from shim.core.crontab import DISABLED, marked

        text = self.meta(CRONTAB)
        if not text:
            return None
        found = self._decoded(text)
        shown = str(found["text"])
        for cluster, job_id, first, last in found["entries"]:
            job = self.job(cluster, job_id)
            if job is None or job.state in states.TERMINAL:
                shown = marked(shown, first, last, DISABLED)
        return shown

    def kept(self) -> list[str]:
        """What the controller keeps of an earlier configuration for active jobs."""
        found: list[str] = jsonlite.loads(self.meta(KEPT) or "[]")
        return found

    def troubles(self) -> list[tuple[str, str]]:
        """The clusters that cannot be asked just now, and why: what is shown of them may be old."""
        rows = self._rows("SELECT name, value FROM meta WHERE name LIKE 'trouble.%' AND value != '' ORDER BY name")
        return [(name[len(TROUBLE) :], value) for name, value in rows]

    def close(self) -> None:
        """Gives the file back."""
        self._connection.close()


def open_reader(path: str) -> Reader | None:
    """The index at ``path``; None if there is none yet (no job was ever submitted here).

    Only a file that is not there is none yet: one that cannot be looked at may hold jobs, and is a fault.
    """
    try:
        os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IndexUnavailable(path, error.strerror or str(error)) from None
    try:
        connection = _connect(path)
        found = connection.execute("PRAGMA user_version").fetchone()[0]
    except csqlite.SqliteError as error:
        raise fault(path, error) from None
    if found > VERSION:
        connection.close()
        raise IndexNewer(path, found, VERSION)
    if found == 0:  # a controller that starts now has created the file and nothing in it yet
        connection.close()
        return None
    return Reader(path, connection)


def _connect(path: str) -> Connection:
    """Read-only. Where not even lock files can be made (read-only home): as an immutable file, if the log is empty."""
    connection = csqlite.connect_read_only(path)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except csqlite.SqliteError:
        connection.close()
        log = path + "-wal"
        if os.access(os.path.dirname(path), os.W_OK) or (os.path.exists(log) and os.path.getsize(log)):
            raise
        connection = csqlite.connect_read_only(path, immutable=True)
    return connection
