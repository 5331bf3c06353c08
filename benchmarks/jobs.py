"""What a job costs: from sbatch to the script's first line, and 200 of them beside a real Slurm."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import REAL_CONF, cost, environment, row, wait_for


def latency(folder: Path) -> None:
    """From the start of sbatch to the script's first line, with a warm controller and with none."""
    env = environment(folder)
    row(
        "sbatch to the script's first line, warm",
        f"{statistics.median(_first_lines(folder, env, 15, False)):.0f} ms",
        "wanted: <= 60 ms",
    )
    row(
        "the same, controller to be started",
        f"{statistics.median(_first_lines(folder, env, 7, True)):.0f} ms",
        "wanted: <= 300 ms",
    )


def _first_lines(folder: Path, env: Mapping[str, str], rounds: int, cold: bool) -> list[float]:
    found = []
    for number in range(rounds + 1):
        mark = folder / f"mark.{cold}.{number}"
        if cold:
            subprocess.run(
                ["shim", "controller", "stop", "--now"], env=dict(env), check=True, stdout=subprocess.DEVNULL
            )
        began = time.time()
        cost(["sbatch", "-o", "/dev/null", "--wrap", f"date +%s.%N > {mark}"], env, folder)
        wait_for(mark)
        if number:
            found.append((float(mark.read_text()) - began) * 1000)
    return found


def drain(folder: Path) -> None:
    """200 held `true` jobs, released at once, 32 slots: jobs a second until the last is gone, in turns with real Slurm."""
    (folder / "shim").mkdir()
    (folder / "shim" / "config.toml").write_text(
        '[clusters.local]\nbackend = "local"\nnodes = 4\ncpus = 8\nmemory = "16000M"\n'
    )
    ours = environment(folder)
    rates: dict[str, list[float]] = {"ours": [], "real": []}
    real = dict(os.environ, SLURM_CONF=str(REAL_CONF)) if REAL_CONF.exists() else None
    for number in range(6):
        rates["ours"].append(_drained(ours, folder, as_user=None))
        if real:
            rates["real"].append(_drained(real, Path("/"), as_user="shimcompat"))
        print(
            f"    round {number}: {', '.join(f'{name} {values[-1]:.0f}/s' for name, values in rates.items() if values)}",
            flush=True,
        )
    mine = statistics.median(rates["ours"][1:])
    if not real:
        row("drain of 200 jobs, 32 slots", f"{mine:.0f} jobs/s", "no real Slurm to compare with")
        return
    theirs = statistics.median(rates["real"][1:])
    row(
        "drain of 200 jobs, 32 slots, to real Slurm",
        f"{mine / theirs:.1f} x ({mine:.0f}/{theirs:.0f})",
        "wanted: >= 5 x",
    )


def _drained(env: Mapping[str, str], folder: Path, as_user: str | None) -> float:
    script = """
set -e
ids=
for i in $(seq 200); do ids="$ids,$(sbatch --parsable --hold -n1 -J drain$$ -o /dev/null --wrap true)"; done
start=$(date +%s.%N)
scontrol release ${ids#,}
while [ -n "$(squeue -h -o %i -n drain$$)" ]; do sleep 0.05; done
echo "$(date +%s.%N) $start"
"""
    command = ["sh", "-c", script]
    if as_user:
        command = ["runuser", "-u", as_user, "--", *command]
    answer = subprocess.run(command, env=dict(env), cwd=folder, capture_output=True, text=True, check=True).stdout
    end, start = answer.split()
    return 200 / (float(end) - float(start))
