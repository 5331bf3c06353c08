"""The only writer of the index: used by the controller, one open store at a time per file.

    store = open_store(index_path())  # of ``opening``
    with store.transaction():
        job = store.add_job(job.replace(job_id=store.next_job_id("local")), token=token)
        store.transition(job, "", now)

Outside ``transaction()`` every call commits by itself. Commit before acting: what a command was told is in the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from shim.control.index.errors import IdsUsedUp, IndexUnavailable, fault
from shim.control.index.query import JobQuery, storable
from shim.control.index.reader import AMENDED, PRUNED, TROUBLE, Reader
from shim.core import jsonlite
from shim.core.model import slurm_job_snapshots, states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, Step

_COLUMNS = (
    "cluster",
    "job_id",
    "array_job_id",
    "array_task_id",
    "user",
    "uid",
    "name",
    "partition",
    "state",
    "reason",
    "priority",
    "restarts",
    "submit_time",
    "eligible_time",
    "start_time",
    "end_time",
)
_INSERT = f"INSERT INTO jobs ({', '.join(_COLUMNS)}, record) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"
_UPDATE = f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in _COLUMNS)}, record = ? WHERE key = ?"

_JOB_IDS = (
    "job_id"  # the sequences of job ids: of a range its first id follows, one without is from before there were ranges
)
STOCK = "ids "  # in front of a cluster's name: the word with the ids that it was given from elsewhere
NO_END = 1 << 62  # of a range of ids that goes on for ever


class Store:
    """The open index. Errors of SQLite come out as IndexFault; the transaction they happened in is rolled back."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._reader = Reader(path, connection)
        self._depth = 0
        self._file = _file_of(path)

    def _check_place(self) -> None:
        """A file that was removed can be written as before, and nobody would ever read that: what is committed there must not be acted upon."""
        if _file_of(self.path) != self._file:
            raise IndexUnavailable(self.path, "it was removed, or replaced, while it was in use")

    def _execute(self, sql: str, values: Iterable[object] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, tuple(values))
        except sqlite3.Error as error:
            raise fault(self.path, error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside become durable together at its end, or none of them. Nested: the outermost counts.

        Raises IndexFault, also where the file is not at its path any more.
        """
        if self._depth:
            yield
            return
        self._check_place()
        self._execute("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            # A full disk makes SQLite roll back by itself.
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        finally:
            self._depth = 0

    def next_job_id(self, ranges: Sequence[int] = (1, NO_END), count: int = 1) -> int:
        """The first of ``count`` consecutive ids that were never given out and never will be.

        ``ranges``: where each range of ids begins and ends. Each has a sequence of its own, which all clusters share that count in
        it, so that an id alone names a job; a range that is used up goes on in the next one. Ids of rows that came from
        elsewhere, and those that another sequence has given out, are stepped over. Raises IdsUsedUp.
        """
        with self.transaction():
            for begin, end in zip(ranges[::2], ranges[1::2]):
                job_id = self._free_id(begin, end, count)
                if job_id + count <= end:
                    break
            else:
                raise IdsUsedUp("error: no job id is left")
            self._execute(
                "INSERT INTO sequence VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET last = excluded.last",
                (f"{_JOB_IDS}.{begin}", job_id + count - 1),
            )
        return job_id

    def last_job_id(self, cluster: str) -> int:
        """The highest id of the cluster's jobs; 0 for none."""
        return int(
            self._execute("SELECT coalesce(max(job_id), 0) FROM jobs WHERE cluster = ?", (cluster,)).fetchone()[0]
        )

    def _free_id(self, begin: int, end: int, count: int) -> int:
        """The next id of the range's sequence from which on ``count`` ids were never given out."""
        known: dict[int, int] = {}
        for name, last in self._execute(
            "SELECT name, last FROM sequence WHERE name = ? OR name LIKE ?", (_JOB_IDS, f"{_JOB_IDS}.%")
        ).fetchall():
            known[int(name.partition(".")[2] or 0)] = last  # 0: the sequence from before there were ranges
        found = known.pop(begin, begin - 1) + 1
        before = 0
        while found != before:
            before = found
            for first, last in sorted(known.items()):
                if first < found + count and found <= last:
                    found = last + 1
            limit = min((first for first in known if first > found), default=end)
            found = max(found, self._last_row(found, min(limit, end), count) + 1)
        return found

    def _last_row(self, found: int, limit: int, count: int) -> int:
        """The highest id of a row from ``found`` on and below ``limit``; 0 for none.

        Of clusters that have their ids from elsewhere only ``count`` ids are looked at: theirs lie far off, among others' that are free.
        """
        own, foreign = self._execute(
            "SELECT (SELECT max(job_id) FROM jobs WHERE job_id >= ? AND job_id < ? AND cluster NOT IN"
            " (SELECT substr(name, ?) FROM meta WHERE name LIKE ?)),"
            " (SELECT max(job_id) FROM jobs WHERE job_id >= ? AND job_id < ?)",
            (found, limit, len(STOCK) + 1, f"{STOCK}%", found, found + count),
        ).fetchone()
        return max(own or 0, foreign or 0)

    def add_job(self, job: Job, token: str = "") -> Job:
        """Adds the row; the job with its key. ``token``: of a submission that must happen once (see ``submitted``)."""
        with self.transaction():
            key = self._execute(_INSERT, (*_column_values(job), jsonlite.dumps(job.to_dict()))).lastrowid
            if token:
                self._execute(
                    "INSERT INTO tokens VALUES (?, ?, ?, ?)", (token, job.cluster, job.job_id, job.submit_time)
                )
        return job.replace(key=key)

    def save_passed(self, job: Job) -> None:
        """Records a job that a real Slurm runs, or what is known of it now. It has no key: it is none of ours to do."""
        self._execute(
            "INSERT OR REPLACE INTO passed_jobs (cluster, job_id, uid, submit_time, array_job_id, end_time, record)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                storable(job.cluster),
                job.job_id,
                job.uid,
                job.submit_time,
                job.array_job_id,
                job.end_time if slurm_job_snapshots.is_final(job) else 0,
                jsonlite.dumps(job.replace(key=0).to_dict()),
            ),
        )

    def passed_jobs(self, job_id: int) -> list[Job]:
        """The jobs with that id on real Slurms, the oldest first."""
        return self._reader.passed_jobs((job_id,))

    def passed_job(self, cluster: str, job_id: int) -> Job | None:
        """What is recorded of that job on a real Slurm."""
        return next((job for job in self._reader.passed_jobs((job_id,)) if job.cluster == cluster), None)

    def submitted(self, token: str) -> tuple[str, int] | None:
        """The cluster and job id of the submission that carried this token, if one did."""
        row = self._execute("SELECT cluster, job_id FROM tokens WHERE token = ?", (token,)).fetchone()
        return (row[0], row[1]) if row else None

    def save_job(self, job: Job) -> None:
        """Writes a job that has a key."""
        self._execute(_UPDATE, (*_column_values(job), jsonlite.dumps(job.replace(key=0).to_dict()), job.key))

    def jobs(self, query: JobQuery | None = None) -> list[Job]:
        """The jobs that fit ``query`` (default: all that have not ended), by key."""
        return self._reader.jobs(query or JobQuery())

    def job(self, cluster: str | None, job_id: int) -> Job | None:
        """The record that has exactly this id: of any cluster, the newest one, where none is named."""
        return self._reader.job(cluster, job_id)

    def array(self, cluster: str, array_job_id: int) -> list[Job]:
        """All records of an array."""
        return self._reader.array(cluster, array_job_id)

    def steps(self, jobs: Iterable[Job], *, running: bool = False) -> list[Step]:
        """The steps of the current run of these jobs."""
        return self._reader.steps(jobs, running=running)

    def step(self, job: Job, step_id: str) -> Step | None:
        """One step of the current run of the job."""
        return self._reader.step(job, step_id)

    def save_step(self, job_key: int, step: Step) -> None:
        """Adds the step, or writes what became of it. A step is known by job, restart count and step id."""
        self._execute(
            "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_key, restart, step_id) DO UPDATE SET"
            " state = excluded.state, start_time = excluded.start_time, end_time = excluded.end_time,"
            " record = excluded.record",
            (
                job_key,
                step.restart,
                step.step_id,
                step.state,
                step.start_time,
                step.end_time,
                jsonlite.dumps(step.to_dict()),
            ),
        )

    def transition(self, job: Job, from_state: str, time: float) -> None:
        """Records that ``job`` went from ``from_state`` (empty: was submitted) to its state: what accounting reads."""
        self._execute(
            "INSERT INTO transitions (job_key, restart, time, from_state, to_state, reason) VALUES (?, ?, ?, ?, ?, ?)",
            (job.key, job.restarts, time, from_state, job.state, job.reason),
        )

    def transitions(self, job_key: int) -> list[tuple[int, float, str, str, str]]:
        """(restart, time, from, to, reason) of a job, oldest first."""
        rows = self._execute(
            "SELECT restart, time, from_state, to_state, reason FROM transitions WHERE job_key = ? ORDER BY id",
            (job_key,),
        ).fetchall()
        return [tuple(row) for row in rows]

    def add_order(self, job: Job, record: dict[str, object]) -> int:
        """Keeps what is wanted of a run until it is done; its number, which is never given out again."""
        with self.transaction():
            number: int = self._execute(
                "INSERT INTO sequence VALUES ('order', 1) ON CONFLICT (name) DO UPDATE SET last = last + 1 RETURNING last"
            ).fetchone()[0]
            self._execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?)", (number, job.key, job.restarts, jsonlite.dumps(record))
            )
        return number

    def newest_key(self) -> int:
        """The key of the job that was added last; 0 for none."""
        return int(self._execute("SELECT coalesce(max(key), 0) FROM jobs").fetchone()[0])

    def orders(self) -> list[tuple[int, int, int, dict[str, object]]]:
        """(number, job key, restart, record) of what is still wanted, oldest first."""
        rows = self._execute("SELECT number, job_key, restart, record FROM orders ORDER BY number").fetchall()
        return [(number, key, restart, jsonlite.loads(record)) for number, key, restart, record in rows]

    def drop_orders(self, job_key: int) -> None:
        """The job's run is over: nothing is wanted of it any more."""
        self._execute("DELETE FROM orders WHERE job_key = ?", (job_key,))

    def old_jobs(self, before: float, after: tuple[float, int] = (0.0, 0), most: int = 500) -> list[tuple[int, float]]:
        """(key, end) of jobs that ended before that second, by end and key, from behind ``after`` on.

        Arrays count as a whole. The last job of each cluster and the newest record of all stay: ids and keys go on from there.
        """
        active = sorted(states.ACTIVE)
        rows = self._execute(
            "SELECT key, end_time FROM jobs AS job WHERE end_time > 0 AND end_time < ? AND (end_time, key) > (?, ?)"
            f" AND +state NOT IN ({','.join('?' * len(active))})"
            " AND job_id < (SELECT max(job_id) FROM jobs WHERE cluster = job.cluster)"
            " AND key < (SELECT max(key) FROM jobs) AND (array_job_id = 0 OR NOT EXISTS"
            " (SELECT 1 FROM jobs WHERE cluster = job.cluster AND array_job_id = job.array_job_id"
            " AND (end_time = 0 OR end_time >= ?))) ORDER BY end_time, key LIMIT ?",
            (before, *after, *active, before, most),
        ).fetchall()
        return [(key, end) for key, end in rows]

    def drop_jobs(self, old: Sequence[tuple[int, float]]) -> None:
        """Forgets these jobs, their steps and their changes of state; readers are told up to when."""
        keys = [key for key, _end in old]
        if not keys:
            return
        marks = ",".join("?" * len(keys))
        tables = (("steps", "job_key"), ("transitions", "job_key"), ("orders", "job_key"), ("jobs", "key"))
        with self.transaction():
            for table, column in tables:
                self._execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", keys)
            self._pruned(max(end for _key, end in old))

    def drop_passed(self, before: float, unheard: float, *, dry_run: bool = False) -> int:
        """Forgets jobs of real Slurms that ended before that second, or that nobody has heard of since ``unheard``, and old submissions'
        tokens; how many jobs. ``dry_run``: only counts.
        """
        old = "FROM passed_jobs WHERE (end_time > 0 AND end_time < ?) OR (end_time = 0 AND submit_time < ?)"
        with self.transaction():
            count, last = self._execute(
                f"SELECT count(*), max(max(end_time, submit_time)) {old}", (before, unheard)
            ).fetchone()
            if not dry_run:
                self._execute(f"DELETE {old}", (before, unheard))
                self._execute("DELETE FROM tokens WHERE time < ?", (before,))
                if count:
                    self._pruned(last)
        return int(count)

    def _pruned(self, end: float) -> None:
        self.set_meta(PRUNED, repr(max(end, self._reader.pruned())))

    def save_cluster(self, cluster: Cluster) -> None:
        """Records the cluster's shape for read commands; writes only when it changed."""
        record = jsonlite.dumps(cluster.to_dict())
        old = self._execute("SELECT record FROM clusters WHERE name = ?", (cluster.name,)).fetchone()
        if old is None or old[0] != record:
            self._execute("INSERT OR REPLACE INTO clusters VALUES (?, ?)", (cluster.name, record))

    def cluster(self, name: str) -> Cluster | None:
        """The shape that was recorded last."""
        return self._reader.cluster(name)

    def changes(self, cluster: str) -> dict[str, Any]:
        """What operators changed of the cluster (``core/model/cluster_changes.py``)."""
        return self._reader.changes(cluster)

    def save_changes(self, cluster: str, changes: dict[str, Any]) -> None:
        """Keeps what operators changed of the cluster."""
        self.set_meta(AMENDED + cluster, jsonlite.dumps(changes))

    def set_meta(self, name: str, value: str) -> None:
        """Leaves a word for readers under ``name``."""
        self._execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def meta(self, name: str) -> str | None:
        """The word under ``name``."""
        return self._reader.meta(name)

    def crontab(self) -> str | None:
        """As the reader has it."""
        return self._reader.crontab()

    def set_trouble(self, cluster: str, text: str) -> None:
        """Tells readers why the cluster cannot be asked; "" if it can."""
        if text != (self.meta(f"{TROUBLE}{cluster}") or ""):
            self.set_meta(f"{TROUBLE}{cluster}", text)

    def forget_troubles(self) -> None:
        """Nobody knows of any trouble: a controller begins or ends."""
        self._execute("DELETE FROM meta WHERE name LIKE ?", (f"{TROUBLE}%",))

    def caught_up(self) -> None:
        """Tells readers that this controller has seen everything that runs: ``Reader.generation`` grows."""
        with self.transaction():
            self.set_meta("generation", str(self._reader.generation() + 1))

    def close(self) -> None:
        """Gives the file back; the write-ahead log is folded in."""
        self._connection.close()


def _file_of(path: str) -> tuple[int, int] | None:
    """Which file is at the path; None: none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise fault(path, error) from error
    return found.st_dev, found.st_ino


def _column_values(job: Job) -> tuple[object, ...]:
    return tuple(storable(getattr(job, name)) for name in _COLUMNS)
