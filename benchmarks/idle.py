"""What a controller with nothing to do takes of the machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import cost, environment, row


def idle(folder: Path) -> None:
    """Memory and wake-ups of a controller, its fork server and what that keeps, with nothing to do."""
    env = environment(folder, SHIM_CONTROLLER_IDLE="600")
    cost(["sbatch", "-o", "/dev/null", "--wrap", "true"], env, folder)
    while subprocess.run(["squeue", "-h"], env=env, capture_output=True, check=True).stdout:
        time.sleep(0.05)
    answer = subprocess.run(
        ["shim", "controller", "status"], env=env, capture_output=True, text=True, check=True
    ).stdout
    pid = answer.split("pid ")[1].split()[0]
    family = _family(pid)
    rss = pss = 0
    for member in family:
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                pss += int(line.split()[1])
            elif line.startswith("Rss:"):
                rss += int(line.split()[1])
    row("idle controller and its children, memory", f"{pss / 1024:.0f} MiB (RSS {rss / 1024:.0f})", "wanted: <= 60 MB")
    while len(family := _family(pid)) > 2:  # an agent that waits for another job
        time.sleep(1)
    before = _switches(family)
    time.sleep(10)
    row("the same, wake-ups in 10 s", str(_switches(family) - before), "wanted: 0")


def _family(pid: str) -> list[str]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in below for member in _family(child))]


def _switches(family: Sequence[str]) -> int:
    total = 0
    for member in family:
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total
