"""What a run of faults at random counts as a fault."""

import os
import subprocess
from pathlib import Path

import pytest

from compat.chaos import BEGUN, verdict


def test_each_accepted_job_comes_to_its_end_and_each_run_begins_once() -> None:
    marks = {"s 1 0": 1, "s 1 1": 1, "e 1": 1}  # the second run of a job is another one
    assert not any(verdict({"1"}, marks).values())


def test_a_job_that_only_began_is_unfinished_and_one_without_marks_lost() -> None:
    found = verdict({"1", "2"}, {"s 1 0": 1})
    assert (found["unfinished"], found["lost"]) == (["1"], ["2"])


def test_a_run_that_began_twice_and_a_refused_job_that_ran_are_told() -> None:
    found = verdict({"1"}, {"s 1 0": 2, "e 1": 2, "s 2 0": 1})
    assert (found["twice"], found["refused but ran"]) == (["s 1 0"], ["2"])


@pytest.mark.parametrize(
    ("variables", "mark"),
    [
        ({"SLURM_JOB_ID": "7"}, "s 7 0\n"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}, "s 7_0 0\n"),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, "s 7 1\n"),
    ],
)
def test_the_mark_of_a_task_names_its_array(variables: dict[str, str], mark: str, tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", BEGUN], cwd=tmp_path, env={"PATH": os.environ["PATH"], **variables}, check=True)
    assert (tmp_path / "marks").read_text() == mark
