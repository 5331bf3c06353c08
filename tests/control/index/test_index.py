"""The index: what is written is read back, together or not at all; unusable files are named and left alone."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.control.index.errors import IdsUsedUp, IndexCorrupt, IndexFault, IndexNewer, IndexUnavailable
from shim.control.index.opening import open_store
from shim.control.index.query import JobQuery, where
from shim.control.index.reader import OUTLINE, VERSION, Reader, open_reader
from shim.control.index.store import Store
from shim.core.model import states
from shim.core.model.job import Job, Step
from tests import reference

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "deep" / "state" / "index.db")


@pytest.fixture
def store(path: str) -> Store:
    return open_store(path)


def reader_of(path: str) -> Reader:
    reader = open_reader(path)
    assert reader is not None
    return reader


def test_no_file_and_an_empty_file_are_no_index(path: str) -> None:
    assert open_reader(path) is None
    os.makedirs(os.path.dirname(path))
    Path(path).touch()
    assert open_reader(path) is None


def test_files_are_the_users_alone(store: Store, path: str) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_jobs_come_back_as_they_were(store: Store, path: str) -> None:
    written = [store.add_job(job) for job in reference.queue()]
    assert [job.key for job in written] == [1, 2, 3, 4, 5, 6]
    reader = reader_of(path)
    assert reader.jobs(JobQuery()) == written
    assert store.jobs() == written
    assert reader.job("ref", 3) == written[2]
    assert reader.job("other", 3) is None
    assert reader.array("ref", 4) == [written[3]]
    assert reader.active()


def test_a_saved_job_replaces_the_old(store: Store, path: str) -> None:
    job = store.add_job(reference.job(1))
    store.save_job(job.replace(state="COMPLETED", end_time=5.5, reason="None"))
    reader = reader_of(path)
    assert reader.job("ref", 1) == job.replace(state="COMPLETED", end_time=5.5)
    assert not reader.active()
    assert reader.jobs(JobQuery()) == []


def test_readers_see_each_commit_and_nothing_before_it(store: Store, path: str) -> None:
    store.add_job(reference.job(1))
    reader = reader_of(path)
    with store.transaction():
        store.add_job(reference.job(2))
        assert [job.job_id for job in reader.jobs(JobQuery())] == [1]
    assert [job.job_id for job in reader.jobs(JobQuery())] == [1, 2]


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        job_id = store.next_job_id()
        with store.transaction():  # part of the outer one
            store.add_job(reference.job(job_id), token="t")
        raise RuntimeError
    assert store.jobs() == []
    assert store.submitted("t") is None
    assert store.next_job_id() == 1


def test_ids_are_unique_in_a_cluster_and_tokens_are_used_once(store: Store) -> None:
    store.add_job(reference.job(1), token="t")
    assert store.submitted("t") == ("ref", 1)
    with pytest.raises(IndexFault):
        store.add_job(reference.job(1))
    with pytest.raises(IndexFault):
        store.add_job(reference.job(2), token="t")
    assert [job.job_id for job in store.jobs()] == [1]
    store.add_job(reference.job(1, cluster="other"))


def test_ids_are_never_given_out_again(path: str) -> None:
    store = open_store(path)
    assert store.next_job_id((100, 1 << 62)) == 100
    assert store.next_job_id(count=99) == 1
    assert store.next_job_id() == 101
    assert store.next_job_id((90, 1 << 62)) == 102
    store.add_job(reference.job(500, cluster="a"))
    store.close()
    store = open_store(path)
    assert store.next_job_id() == 501
    assert reader_of(path).last_job_id() == 501
    assert reader_of(path).last_job_id(1000) == 0


def test_ranges_of_ids_are_counted_apart_and_never_overlap(store: Store) -> None:
    low, high = (1, 1000, 2000, 2006), (2000, 2006)
    assert [store.next_job_id(low), store.next_job_id(high), store.next_job_id(low)] == [1, 2000, 2]
    store.add_job(reference.job(997, cluster="elsewhere"))
    store.add_job(reference.job(1500, cluster="elsewhere"))
    assert [store.next_job_id(low), store.next_job_id(low)] == [998, 999]
    # The low range is used up: its clusters go on in the next one.
    assert [store.next_job_id(low), store.next_job_id(high), store.next_job_id(low, count=3)] == [2001, 2002, 2003]
    with pytest.raises(IdsUsedUp):
        store.next_job_id(low)


def test_a_trial_of_other_ranges_leaves_no_trace(store: Store) -> None:
    assert store.next_job_id() == 1
    beside_slurm = (100_000_000, 1 << 62)
    for job_id in (100_000_000, 100_000_001):
        assert store.next_job_id(beside_slurm) == job_id
        store.add_job(reference.job(job_id))
    store.set_meta("ids pods", "")
    store.add_job(reference.job(10_000_007, cluster="pods"))
    assert store.next_job_id() == 2
    assert store.next_job_id((10_000_006, 1 << 62), count=2) == 10_000_008, "no id names two jobs"
    store._execute("UPDATE sequence SET last = 99999998 WHERE name = 'job_id.1'")
    assert store.next_job_id(count=2) == 100_000_002
    assert store.next_job_id(beside_slurm) == 100_000_004


def test_a_sequence_from_before_there_were_ranges_is_continued(store: Store) -> None:
    with store.transaction():
        store._execute("INSERT INTO sequence VALUES ('job_id', 41)")
    assert [store.next_job_id(), store.next_job_id((1, 50)), store.next_job_id((50, 60))] == [42, 43, 50]


def test_steps_belong_to_a_run(store: Store, path: str) -> None:
    job = store.add_job(reference.running(1))
    store.save_step(job.key, Step(job_id=1, step_id="0", state="RUNNING"))
    store.save_step(job.key, Step(job_id=1, step_id="batch", state="RUNNING"))
    store.save_step(job.key, Step(job_id=1, step_id="0", state="COMPLETED", end_time=3))
    reader = reader_of(path)
    assert [(step.step_id, step.state) for step in reader.steps([job])] == [("0", "COMPLETED"), ("batch", "RUNNING")]
    assert [step.step_id for step in reader.steps([job], running=True)] == ["batch"]
    again = job.replace(restarts=1)
    store.save_step(job.key, Step(job_id=1, step_id="0", restart=1))
    assert [step.restart for step in store.steps([again])] == [1]


def test_transitions_are_kept_in_order(store: Store) -> None:
    job = store.add_job(reference.job(1))
    store.transition(job, "", 1.5)
    store.transition(job.replace(state="RUNNING"), "PENDING", 2.5)
    assert store.transitions(job.key) == [(0, 1.5, "", "PENDING", "None"), (0, 2.5, "PENDING", "RUNNING", "None")]


def test_the_clusters_shape_and_the_controllers_words(store: Store, path: str) -> None:
    store.save_cluster(reference.cluster())
    store.save_cluster(reference.cluster())
    store.set_meta("protocol", "1")
    store.caught_up()
    store.caught_up()
    reader = reader_of(path)
    assert reader.cluster("ref") == reference.cluster() == store.cluster("ref")
    assert reader.cluster("other") is None
    assert reader.meta("protocol") == store.meta("protocol") == "1"
    assert reader.generation() == 2


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (JobQuery(), [1, 2, 3, 5, 6, 7]),
        (JobQuery(active=False), [1, 2, 3, 4, 5, 6, 7]),
        (JobQuery(active=False, ended_since=100), [1, 2, 3, 4, 5, 6, 7]),
        (JobQuery(active=False, ended_since=101), [1, 2, 3, 5, 6, 7]),
        (JobQuery(cluster="other"), [7]),
        (JobQuery(job_ids=(1, 4, 99)), [1]),
        (JobQuery(job_ids=(1, 4, 99), active=False), [1, 4]),
        (JobQuery(job_ids=(5,)), [5, 6]),
        (JobQuery(job_ids=(6,)), [6]),
        (JobQuery(users=(1002,)), [2]),
        (JobQuery(names=("special", "none")), [3]),
        (JobQuery(states=("RUNNING",)), [2]),
        (JobQuery(partitions=("gpu",)), [3]),
        (JobQuery(partitions=("gpu", "debug")), [1, 2, 3, 5, 6, 7]),
        (JobQuery(partitions=("bug",)), []),
        (JobQuery(partitions=("debug",), users=(1002,), states=("PENDING",)), []),
    ],
)
def test_questions(store: Store, query: JobQuery, ids: list[int]) -> None:
    for job in (
        reference.job(1),
        reference.running(2, uid=1002),
        reference.job(3, partition="debug,gpu", request=reference.request(name="special")),
        reference.job(4, state="COMPLETED", end_time=100),
        reference.job(5, array_job_id=5, array_tasks="1-3"),
        reference.job(6, array_job_id=5, array_task_id=0),
        reference.job(7, cluster="other"),
    ):
        store.add_job(job)
    assert [job.job_id for job in store.jobs(query)] == ids


def test_questions_use_an_index(store: Store, path: str) -> None:
    connection = sqlite3.connect(path)
    for query in (JobQuery(), JobQuery(cluster="ref", job_ids=(5,)), JobQuery(active=False, ended_since=5.0)):
        condition, values = where(query)
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT key FROM jobs WHERE {condition}", values).fetchall()
        assert not any(row[3].startswith("SCAN") for row in plan), plan
    connection.close()


texts = st.text(max_size=20)


@given(
    name=texts,
    state=st.sampled_from(sorted(states.CODES)),
    priority=st.integers(0, 2**32),
    comment=texts,
    times=st.tuples(*[st.floats(0, 4e9)] * 3),
)
def test_any_job_survives(name: str, state: str, priority: int, comment: str, times: tuple[float, ...]) -> None:
    store = Store(":memory:", _memory())
    request = reference.request(name=name, comment=comment, arguments=(name, comment))
    job = store.add_job(
        reference.job(
            1,
            state=state,
            priority=priority,
            submit_time=times[0],
            start_time=times[1],
            end_time=times[2],
            request=request,
        )
    )
    assert store.job("ref", 1) == job
    store.close()


def _memory() -> sqlite3.Connection:
    from shim.control.index.schema import migrate

    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection


def test_a_name_that_is_no_text_survives(store: Store) -> None:
    job = store.add_job(reference.job(1, stdout="/tmp/\udcff.out", request=reference.request(work_dir="/\udcfe")))
    assert store.job("ref", 1) == job


def test_a_newer_index_is_refused_by_both(store: Store, path: str) -> None:
    store.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    for opened in (open_reader, open_store):
        with pytest.raises(IndexNewer, match="use the newer version"):
            opened(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: str) -> None:
    os.makedirs(os.path.dirname(path))
    content = b"no database at all, whatever it is called " * 100
    Path(path).write_bytes(content)
    for opened in (open_reader, open_store):
        with pytest.raises(IndexCorrupt, match="move it away"):
            opened(path)
    assert Path(path).read_bytes() == content


@pytest.mark.parametrize("record", ["no json", "[]", '{"state": "PENDING"}', '{"job_id": 1, "request": 5}'])
def test_an_unreadable_record_is_named(store: Store, path: str, record: str) -> None:
    store.add_job(reference.job(1))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE jobs SET record = ?", (record,))
    connection.commit()
    connection.close()
    with pytest.raises(IndexCorrupt, match="unreadable record"):
        reader_of(path).jobs(JobQuery())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexUnavailable, match="cannot use the job index"):
        open_store(str(tmp_path / "file" / "index.db"))


def test_a_full_disk_is_named_and_loses_nothing(store: Store, path: str) -> None:
    store.add_job(reference.job(1))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = reference.request(comment="x" * 1_000_000)
    with pytest.raises(IndexUnavailable, match="full"), store.transaction():
        store.add_job(reference.job(2, request=large))
    assert [job.job_id for job in store.jobs()] == [1]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.add_job(reference.job(2, request=large))
    assert [job.job_id for job in reader_of(path).jobs(JobQuery())] == [1, 2]


def test_a_writer_that_is_killed_leaves_what_it_committed(path: str) -> None:
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from shim.control.index.opening import open_store\n"
        "from shim.core.model.job import Job\n"
        "store = open_store(sys.argv[2]); store.add_job(Job(job_id=1))\n"
        "with store.transaction():\n"
        "    store.add_job(Job(job_id=2)); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(ROOT), path], timeout=120, check=False)
    assert done.returncode == -9
    assert [job.job_id for job in reader_of(path).jobs(JobQuery())] == [1]
    assert [job.job_id for job in open_store(path).jobs()] == [1]


def test_the_c_module_alone_reads_an_index(store: Store, path: str) -> None:
    """In an interpreter that has not loaded functools, which the module asks for."""
    store.add_job(reference.job(7))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from shim.control.index.reader import JobQuery, open_reader\n"
        "print([job.job_id for job in open_reader(sys.argv[2]).jobs(JobQuery())], 'functools' in sys.modules)\n"
        "import functools; print(functools.partial(int, '5')())\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT), path], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[7] False\n5\n", "")


def test_names_with_special_characters_are_paths(tmp_path: Path) -> None:
    path = str(tmp_path / "50%?#&=x" / "index.db")
    open_store(path).add_job(Job(job_id=1))
    assert len(reader_of(path).jobs(JobQuery())) == 1


def test_an_outline_is_what_columns_hold_and_a_record_to_decode(store: Store, path: str) -> None:
    written = [store.add_job(job) for job in reference.queue()]
    reader = reader_of(path)
    lines = reader.outlines(JobQuery())
    assert [line[: len(OUTLINE)] for line in lines] == [
        tuple(getattr(job, name) for name in OUTLINE) for job in written
    ]
    assert [reader.decoded(line[0], line[-1]) for line in lines] == written


def test_spans_are_what_jobs_held_since_a_time(store: Store, path: str) -> None:
    start = reference.START
    for job in [
        *reference.queue(),  # three of them run
        reference.running(7, state="COMPLETED", start_time=start - 100, end_time=start - 50),
        reference.running(8, state="COMPLETED", start_time=start - 100, end_time=start - 10, each=3),
        reference.job(9, state="CANCELLED", end_time=start),  # never began
    ]:
        store.add_job(job)
    reader = reader_of(path)
    found = sorted(span[1:] for span in reader.spans(start - 20, gpus=True))
    ended, *running = found
    assert ended == (start - 100, start - 10, 3, 0)
    assert sorted(span[2:] for span in running) == [(1, 0), (1, 0), (4, 2)]
    assert {span[:2] for span in running} == {(start, 0)}
    assert {span[4] for span in reader.spans(start - 20)} == {0}


def test_the_version_tells_that_somebody_else_has_written(store: Store, path: str) -> None:
    store.add_job(reference.job(1))
    reader = reader_of(path)
    before = reader.version()
    assert reader.version() == before
    store.add_job(reference.job(2))
    assert reader.version() != before
