"""What a run of faults at random counts as a fault."""

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.chaos import BEGUN, EVERY, Run, mostly_ended, verdict
from compat.show import Show


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


class _Slow(Show):
    """A show whose jobs end one after the other, each after so many seconds; no server is asked."""

    def __init__(self, each: float) -> None:
        self.now, self._each = 0.0, each
        self.jobs = 0
        self.submitted = 0.0  # when the last one was

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def submit(self, script: str, *words: str, home: str = "a") -> str:
        self.jobs, self.submitted = self.jobs + 1, self.now
        return str(self.jobs)

    def run(self, *words: str, home: str = "a") -> str:
        return ""  # squeue finds no server

    def marks(self) -> Counter[str]:
        names = [str(one + 1) for one in range(self.jobs)] + [
            f"{one + 1}_{task}" for one in range(self.jobs) for task in range(4)
        ]
        return Counter(f"e {name}" for name in names if int(name.split("_")[0]) * self._each <= self.now)

    def wait(self, *homes: str, limit: float = 0.0) -> bool:
        self.peace = self.now
        return True


class _Struck(Run):
    """Notes when it strikes; nothing is hit."""

    def __init__(self, show: _Slow, count: int) -> None:
        super().__init__(show, count, show.clock, show.pause)
        self.times: list[float] = []
        self._slow = show

    def possible(self) -> list[Callable[[], None]]:
        return [self._blow]

    def _blow(self) -> None:
        self.times.append(self._slow.now)

    def _mend(self) -> None:
        pass


def test_the_blows_go_on_when_all_is_submitted_until_most_have_ended() -> None:
    show = _Slow(each=10.0)
    run = _Struck(show, 30)
    run.carry_out()
    after = [at for at in run.times if at > show.submitted]
    assert show.submitted == 0.0  # this took no time
    assert len(after) > show.peace / EVERY / 2
    assert 0.8 * 10 * show.jobs <= show.peace <= 10 * show.jobs
    assert max(after) > show.peace - 4 * EVERY


def test_jobs_that_never_end_are_left_in_peace_after_a_while() -> None:
    show = _Slow(each=10.0**9)
    _Struck(show, 30).carry_out()
    assert 300.0 <= show.peace < 310.0


def test_a_tenth_that_has_not_ended_is_the_rest() -> None:
    accepted = {str(number) for number in range(20)}
    assert mostly_ended(accepted, {f"e {number}": 1 for number in range(18)})
    assert not mostly_ended(accepted, {f"e {number}": 1 for number in range(17)} | {"s 17 0": 1, "s 18 0": 1})
