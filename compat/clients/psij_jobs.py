"""psij's slurm executor: ends of every kind, a launch by srun on two nodes, a cancelled job, and the list of what it submitted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig

LIMIT = timedelta(seconds=120)


def job(name: str, *command: str, **more: object) -> Job:
    """A job that writes ``name``.out."""
    attributes = JobAttributes(duration=timedelta(minutes=5), queue_name="debug")
    paths = {"stdout_path": Path.cwd() / f"{name}.out", "stderr_path": Path.cwd() / f"{name}.err"}
    return Job(
        JobSpec(executable=command[0], arguments=list(command[1:]), attributes=attributes, name=name, **paths, **more)
    )


def main() -> None:
    """All of it; AssertionError names what is not as on Slurm."""
    settings = SlurmExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
    executor = JobExecutor.get_instance("slurm", config=settings)
    four = ResourceSpecV1(node_count=2, processes_per_node=2, cpu_cores_per_process=1)
    jobs = {
        "good": job("good", "/bin/sh", "-c", "echo job $SLURM_JOB_ID"),
        "bad": job("bad", "/bin/sh", "-c", "exit 3"),
        "wide": job("wide", "/bin/sh", "-c", "echo $SLURM_PROCID", resources=four, launcher="srun"),
        "long": job("long", "/bin/sleep", "300"),
    }
    for one in jobs.values():
        executor.submit(one)
    assert jobs["long"].wait(timeout=LIMIT, target_states=[JobState.ACTIVE]).state == JobState.ACTIVE
    jobs["long"].cancel()
    ends = {name: one.wait(timeout=LIMIT) for name, one in jobs.items()}
    assert {name: end and (end.state.name, end.exit_code) for name, end in ends.items()} == {
        "good": ("COMPLETED", 0),
        "bad": ("FAILED", 3),
        "wide": ("COMPLETED", 0),
        "long": ("CANCELED", None),
    }, ends
    assert Path("good.out").read_text() == f"job {jobs['good'].native_id}\n"
    assert sorted(Path("wide.out").read_text().split()) == ["0", "1", "2", "3"]
    assert {one.native_id for one in jobs.values()}.issubset(executor.list())
    print("psij:", *sorted(end.state.name for end in ends.values()))


if __name__ == "__main__":
    main()
