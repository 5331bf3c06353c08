"""shim move through the real controller: two local clusters, one job, run once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.admin import move
from shim.control import client, paths
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError
from tests.control.controller import processes
from tests.support import wait_until

CONFIG = 'default = "a"\n[clusters.a]\n[clusters.b]\nnodes = 1\n[clusters.b.partitions.other]\n'


@pytest.fixture(autouse=True)
def two_clusters(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = tmp_path / "shim.toml"
    path.write_text(CONFIG)
    monkeypatch.setenv("SHIM_CONFIG", str(path))
    with processes.ended_afterwards():
        yield


def moved(job: int, cluster: str) -> str:
    out = io.StringIO()
    move.report(str(job), cluster, out)
    return out.getvalue()


def test_a_job_runs_where_it_was_moved_to(tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = processes.submit("echo $SLURM_CLUSTER_NAME\n", stdout=str(out), hold=True, partition="debug")
    assert moved(job, "b") == f"job {job} is on cluster b\n  --partition=debug: not on b; its other partition is used\n"
    client.call("release_job", {"targets": [{"job_id": job}]})
    assert client.call("wait", {"job_id": job})["state"] == "COMPLETED"
    assert out.read_text() == "b\n"
    with pytest.raises(ShimError, match=f"only a pending job can be moved: {job} is COMPLETED"):
        moved(job, "a")


def test_killed_in_the_middle_of_a_move_it_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("SHIM_TEST_CRASH", "moved")
    job = processes.submit(f"echo $SLURM_CLUSTER_NAME >> {out}\n", hold=True)
    monkeypatch.delenv("SHIM_TEST_CRASH")
    assert moved(job, "b").startswith(f"job {job} is on cluster b\n")  # asked again: the first controller died
    assert processes.begun() == 2
    client.call("release_job", {"targets": [{"job_id": job}]})
    client.call("wait", {"job_id": job})
    assert out.read_text() == "b\n"
    reader = wait_until(lambda: open_reader(paths.index_path()), "the index")
    found = reader.job(None, job)
    reader.close()
    assert found is not None
    assert (found.cluster, found.restarts) == ("b", 0)


@pytest.mark.parametrize(
    ("job", "cluster", "said"),
    [
        ("x", "b", "invalid job id x"),
        ("7_1", "b", "invalid job id 7_1"),
        ("7", "nosuch", "no cluster nosuch is configured; there are: a, b"),
        ("7", "b", "Invalid job id specified"),
    ],
)
def test_refusals(job: str, cluster: str, said: str) -> None:
    with pytest.raises(ShimError, match=said):
        move.report(job, cluster, io.StringIO())
