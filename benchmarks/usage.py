"""What looking at tasks costs: 64 of them below one agent, each look by the clock of CPU time, as a share of a core at 30 seconds and at 1.

python -m benchmarks.usage
"""

from __future__ import annotations

import subprocess
import time

from shim.core.model.usage import FREQUENCY
from shim.job.agent.node.usage import UsageWatch
from shim.job.loop import Loop

TASKS = 64
LOOKS = 50


def main() -> None:
    """Prints the figures."""
    loop = Loop()
    watch = UsageWatch(loop)
    tasks = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(TASKS)]
    try:
        for task in tasks:
            watch.add(task.pid, 0)
        watch.look()
        before = time.process_time()
        for _ in range(LOOKS):
            watch.look()
        each = (time.process_time() - before) / LOOKS
    finally:
        for task in tasks:
            task.kill()
            task.wait()
        watch.close()
        loop.close()
    print(f"one look at {TASKS} tasks: {each * 1000:.1f} ms of CPU")
    for every in (FREQUENCY, 1):
        print(f"every {every:2} s: {each / every:.4%} of a core (at most 0.5 % at {FREQUENCY} s)")


if __name__ == "__main__":
    main()
