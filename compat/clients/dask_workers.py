"""dask-jobqueue: six workers at once on four nodes of two CPUs, sums over them, and nothing left when the cluster is closed."""

from __future__ import annotations

import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def queue() -> list[str]:
    """The user's jobs."""
    return subprocess.run(
        ["squeue", "-h", "--me", "-o", "%i %t"], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def main() -> None:
    """All of it; AssertionError names what is not as on Slurm."""
    options = {"cores": 1, "processes": 1, "memory": "500MB", "walltime": "00:10:00", "log_directory": "logs"}
    with SLURMCluster(scheduler_options={"host": "127.0.0.1", "dashboard_address": None}, **options) as cluster:
        cluster.scale(jobs=6)
        with Client(cluster) as client:
            client.wait_for_workers(6, timeout=180)
            assert sorted(line.split()[1] for line in queue()) == ["R"] * 6
            assert sum(client.gather(client.map(lambda number: number * number, range(100)))) == 328_350
        cluster.scale(jobs=2)
        end = time.monotonic() + 60
        while len(queue()) > 2:
            assert time.monotonic() < end, queue()
            time.sleep(0.3)
    end = time.monotonic() + 60
    while queue():
        assert time.monotonic() < end, queue()
        time.sleep(0.3)
    print("dask: six workers")


if __name__ == "__main__":
    main()
