"""Ratios, measured side by side in one run: what our commands cost beside an empty Python entry point.

    ./dev bench                 everything that needs no real Slurm
    ./dev bench --only drain    the named ones (commands, parsing, latency, drain, passing, idle, top, pods)

With a real Slurm up (compat/cluster/slurm.py up) ``drain`` measures it too, in turns with ours. Prints a table; asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks.commands import commands, in_job, parsing, passing
from benchmarks.idle import idle
from benchmarks.jobs import drain, latency
from benchmarks.measuring import cost, empty_entry_point, environment, row
from benchmarks.top import top


def pods(folder: Path) -> None:
    """A job in pods beside a bare Indexed Job: see pods.py."""
    if not os.environ.get("KUBECONFIG"):
        row("jobs in pods", "not measured", "KUBECONFIG names no cluster (compat/cluster/k8s.py up)")
        return
    from benchmarks.pods import measure  # nobody else needs what it imports

    env = environment(folder)
    empty = empty_entry_point(folder)
    measure(folder, env, row, statistics.median(cost(empty, env, folder) for _ in range(20)))


def requests(folder: Path) -> None:
    """What the API server is asked for an array in pods: see api_requests.py."""
    if not os.environ.get("KUBECONFIG"):
        row("requests of an array in pods", "not measured", "KUBECONFIG names no cluster (compat/cluster/k8s.py up)")
        return
    from benchmarks.api_requests import measure  # as above

    measure(folder, environment(folder), row)


MEASUREMENTS = {
    "commands": commands,
    "parsing": parsing,
    "latency": latency,
    "drain": drain,
    "passing": passing,
    "idle": idle,
    "top": top,
    "pods": pods,
    "requests": requests,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASUREMENTS, action="append")
    parser.add_argument("--in-job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_job:
        in_job(options.in_job)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    for name in options.only or MEASUREMENTS:
        folder = Path(tempfile.mkdtemp(prefix="shim-bench."))
        try:
            MEASUREMENTS[name](folder)
        finally:
            env = environment(folder)
            subprocess.run(["shim", "controller", "stop", "--now"], env=env, check=False, stdout=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
