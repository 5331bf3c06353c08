"""submitit: results, errors, several tasks, arrays, every state that it tells apart, checkpoint and requeue."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

FOLDER = Path("logs/%j")
SEEN: set[str] = set()


def executor(**parameters: object) -> submitit.SlurmExecutor:
    """One that writes into FOLDER. Without parameters: one task, five minutes."""
    made = submitit.SlurmExecutor(folder=FOLDER, max_num_timeout=3)
    made.update_parameters(**{"time": 5, **parameters})
    return made


def state(job: submitit.Job) -> str:
    """The job's state as Slurm tells it now."""
    told = job.watcher.get_state(job.job_id, mode="force")
    SEEN.add(told.split()[0])
    return told


def until(job: submitit.Job, condition: Callable[[str], bool], limit: float = 120) -> str:
    """The first state that satisfies the condition."""
    end = time.monotonic() + limit
    while not condition(told := state(job)):
        assert time.monotonic() < end, f"job {job.job_id} is {told}: {job.stderr()}"
        time.sleep(0.2)
    return told


def ended(job: submitit.Job, limit: float = 120) -> str:
    """Its last state."""
    return until(
        job, lambda told: told.split()[0] not in ("PENDING", "RUNNING", "UNKNOWN", "REQUEUED", "COMPLETING"), limit
    )


def add(left: int, right: int) -> int:
    return left + right


def fail() -> None:
    raise ValueError("on purpose")


def place() -> tuple[int, int, int, str]:
    env = submitit.JobEnvironment()
    return env.global_rank, env.local_rank, env.num_tasks, env.hostname


def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Counter:
    """Counts to ten, slowly; what was counted survives a requeue by its checkpoint."""

    def __init__(self) -> None:
        self.lives: list[str] = []
        self.count = 0

    def __call__(self, mark: str) -> tuple[list[str], int]:
        self.lives.append(os.environ.get("SLURM_RESTART_COUNT", "0"))
        Path(f"{mark}.{len(self.lives)}").touch()
        while self.count < 10:
            if self.count == 5 and len(self.lives) == 1:
                time.sleep(600)  # until somebody sends the signal
            self.count += 1
        return self.lives, self.count

    def checkpoint(self, mark: str) -> submitit.helpers.DelayedSubmission:
        return submitit.helpers.DelayedSubmission(self, mark)


def requeued(job: submitit.Job, mark: str, timeout: bool) -> None:
    """Interrupts the job in its first life, and looks at what the second one says."""
    end = time.monotonic() + 120
    while not Path(f"{mark}.1").exists():
        assert time.monotonic() < end, job.stderr()
        time.sleep(0.1)
    time.sleep(1)  # submitit's handler is there when its function runs
    job._interrupt(timeout=timeout)
    assert ended(job) == "COMPLETED", job.stderr()
    assert job.result() == (["0", "1"], 10)


def main() -> None:
    """All of it; AssertionError names what is not as on Slurm."""
    over = executor(time=1, signal_delay_s=0, setup=["trap '' USR2"]).submit(wait, 600)  # a minute: looked at last

    job = executor().submit(add, 2, 3)
    assert job.result() == 5
    assert ended(job) == "COMPLETED"

    job = executor().submit(fail)
    try:
        job.result()
    except FailedJobError as error:
        assert "on purpose" in str(error)
    else:
        raise AssertionError("no error of a job that failed")
    assert ended(job) == "FAILED"

    job = executor(nodes=2, ntasks_per_node=2).submit(place)
    places = job.results()
    assert [one[:3] for one in places] == [(0, 0, 4), (1, 1, 4), (2, 0, 4), (3, 1, 4)], places
    assert places[0][3] == places[1][3] != places[2][3], places

    jobs = executor(array_parallelism=3).map_array(add, range(12), range(12))
    assert [one.result() for one in jobs] == [2 * number for number in range(12)]
    assert jobs[0].job_id.endswith("_0")

    job = executor().submit(wait, 600)
    until(job, lambda told: told == "RUNNING")
    job.cancel()
    assert ended(job).startswith("CANCELLED")
    try:
        job.result()
    except UncompletedJobError:
        pass
    else:
        raise AssertionError("a result of a job that was cancelled")

    first = executor().submit(wait, 3)
    late = executor(dependency=f"afterok:{first.job_id}").submit(add, 1, 1)
    assert state(late) == "PENDING"
    assert late.result() == 2

    requeued(executor().submit(Counter(), "timed-out"), "timed-out", timeout=True)
    requeued(executor().submit(Counter(), "preempted"), "preempted", timeout=False)
    requeued(executor().map_array(Counter(), ["element"])[0], "element", timeout=True)

    try:
        over.result()
    except UncompletedJobError:
        pass
    else:
        raise AssertionError("a result of a job over its limit")
    assert ended(over, 180) == "TIMEOUT"
    assert {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"} <= SEEN, SEEN
    print("submitit:", *sorted(SEEN))


if __name__ == "__main__":
    main()
