"""What `shim top` reads out of the answers of a real Slurm's squeue and sinfo."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.admin.top.real import RealSlurm, answered, entries, node_lines
from shim.admin.top.selected import output_of, uses
from shim.admin.top.snapshot import TARGET
from shim.core.routing import ClusterRef

SEVEN = "\x1f".join(
    [
        "7_[0-3%2]",
        "debug",
        "an array",
        "bob",
        "PD",
        "0:00",
        "2",
        "(Resources)",
        "10:00",
        "10:00",
        "4",
        "2026-11-20T18:00:00",
        "",
        "(null)",
        "7",
        "1000",
        "2026-11-20T17:00:00",
        "7",
    ]
)


@pytest.fixture(autouse=True)
def greenwich() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def nodes(*rows: tuple[str, ...]) -> str:
    return "".join("".join(f"{value:<64}" for value in row) + "\n" for row in rows)


def test_jobs_are_read() -> None:
    (job,) = entries("hpc", f"{SEVEN}\nno line\n")
    assert (job.cluster, job.job_id, job.user, job.partition, job.state, job.priority) == (
        "hpc",
        7,
        "bob",
        "debug",
        "PENDING",
        1000,
    )
    assert job.start - job.submit == 3600
    assert job.cells(0)["R"] == "(Resources)"
    assert job.cells(0)[TARGET] == "7_[0-3]"
    assert job.job() is None


def test_a_long_array_is_meant_as_a_whole() -> None:
    (job,) = entries("hpc", SEVEN.replace("7_[0-3%2]", "7_[0,2,4,6,8,..."))
    assert job.cells(0)[TARGET] == "7"


def test_nodes_are_read_once() -> None:
    row = (
        "n1",
        "mix",
        "3/5/0/8",
        "16000",
        "1000",
        "gpu:a100:4(S:0-1),gpu:t4:2",
        "gpu:a100:2(IDX:0,3),gpu:t4:0(IDX:N/A)",
    )
    (found,) = node_lines("hpc", nodes(row, row))
    assert (found.cpus_used, found.cpus, found.memory_used, found.memory) == (3, 8, 1000, 16000)
    assert (found.gpus_used, found.gpus) == (2, 6)
    assert node_lines("hpc", nodes(("n2", "idle", "0/8/0/8", "1", "0", "(null)", "")))[0].gpus == 0


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_it_is_asked_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text(SEVEN + "\n")
    (tmp_path / "nodes").write_text(nodes(("n1", "idle", "0/8/0/8", "16000", "0", "(null)", "")))
    script(tmp_path / "squeue", f"cat {tmp_path}/queue")
    script(tmp_path / "sinfo", f"cat {tmp_path}/nodes")
    one = RealSlurm(ClusterRef("hpc", "slurm", folder=str(tmp_path), timeout=20.0))
    answered([one])
    assert [job.job_id for job in one.entries] == [7]
    assert (one.line.cpus, one.trouble) == (8, "")
    assert one.due > time.monotonic() + 3  # it is left alone for a while
    script(tmp_path / "squeue", "echo slurm_load_jobs error: no contact >&2; exit 1")
    one.due = 0.0
    answered([one])
    assert one.trouble == "slurm_load_jobs error: no contact"
    assert [job.job_id for job in one.entries] == [7]  # as it was seen last


def test_one_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    script(tmp_path / "squeue", "exec sleep 60")
    script(tmp_path / "sinfo", "exec sleep 60")
    one = RealSlurm(ClusterRef("hpc", "slurm", folder=str(tmp_path), timeout=0.2))
    answered([one])
    assert one.trouble == "no answer within 0.2 s"


def test_where_its_output_is_and_what_it_uses_is_read() -> None:
    told = "JobId=7 JobName=a StdErr=/w/e StdIn=/dev/null StdOut=/w/a b.out Power="
    assert output_of(told) == "/w/a b.out"
    assert output_of("JobId=7 StdOut=/w/out") == "/w/out"
    assert output_of("no such job") == ""
    assert uses("7.batch|1|00:00:02|120M\n7.0|4|00:01:00|1G\n") == (
        "It uses, by sstat, of each task: batch: 1 task, CPU 00:00:02, memory 120M; 0: 4 tasks, CPU 00:01:00, memory 1G."
    )
    assert uses("") == ""
