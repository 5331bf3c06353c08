"""The long search: ``python -m tests.control.backends.kubernetes.run.driven.search FIRST NUMBER [wide] [one]`` tries that many schedules, and says which break.

``wide``: with arrays, and watches that list anew; ``one``: all controllers on one host.
"""

from __future__ import annotations

import sys
import time

from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule
from tests.control.backends.kubernetes.run.driven.wide import WideSchedule

EVERY = 1000  # schedules between two lines of progress


def main(first: int, number: int, made: type[DrivenSchedule], one_host: bool) -> int:
    broken = launches = 0
    began = time.process_time()
    for seed in range(first, first + number):
        schedule = made(seed, one_host=one_host)
        try:
            schedule.run()
        except Exception as found:
            broken += 1
            print(f"seed {seed}: {type(found).__name__}: {str(found)[:300]}", flush=True)
        launches += len(schedule.cluster.launches)
        done = seed + 1 - first
        if done % EVERY == 0 or done == number:
            each = (time.process_time() - began) / done * 1000
            print(f"{done} schedules, {launches} launches, {broken} broken, {each:.1f} ms each", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    kind = WideSchedule if "wide" in sys.argv[3:] else DrivenSchedule
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), kind, "one" in sys.argv[3:]))
