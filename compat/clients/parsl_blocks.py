"""parsl's SlurmProvider: two blocks of two nodes whose workers srun starts, and blocks that cannot start, which parsl has to notice."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.executors.errors import BadStateException
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


class Provider(SlurmProvider):
    """Parsl's own, which asks for its blocks every second instead of every minute."""

    status_polling_interval = 1


@parsl.python_app
def place(number: int) -> tuple[int, str, str]:
    """Its square, and the job and the node that it ran on."""
    import os
    import time

    time.sleep(0.3)
    return number * number, os.environ["SLURM_JOB_ID"], os.environ["SLURM_NODEID"]


@parsl.bash_app
def shell(stdout: str) -> str:
    """A command of its own."""
    return "echo in $SLURM_JOB_NUM_NODES nodes"


def config(worker_init: str) -> Config:
    """Two blocks, on which workers of the environment that runs this file wait for work."""
    provider = Provider(
        "debug",
        nodes_per_block=2,
        init_blocks=2,
        max_blocks=2,
        walltime="00:05:00",
        exclusive=False,
        worker_init=worker_init,
        launcher=SrunLauncher(),
    )
    executor = HighThroughputExecutor(
        label="slurm", address="127.0.0.1", max_workers_per_node=1, provider=provider, encrypted=False
    )
    return Config(executors=[executor], strategy="none", run_dir="runs")


def main() -> None:
    """All of it; AssertionError names what is not as on Slurm."""
    path = f"export PATH={os.path.dirname(sys.executable)}:$PATH"
    with parsl.load(config(path)):
        found = [one.result(timeout=120) for one in [place(number) for number in range(24)]]
        assert [square for square, _, _ in found] == [number * number for number in range(24)]
        assert len({(job, node) for _, job, node in found}) > 1, found
        assert shell(stdout="shell.txt").result(timeout=60) == 0
        assert Path("shell.txt").read_text() == "in 2 nodes\n"
    parsl.clear()
    with parsl.load(config("exit 3")):
        problem = place(1).exception(timeout=120)
        assert isinstance(problem, BadStateException), problem
    print("parsl: two blocks, and two that failed")


if __name__ == "__main__":
    main()
