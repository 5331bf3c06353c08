#!/usr/bin/env python3
"""Requests drawn at random, given to sbatch of a real controller and to ours: ``drawn.py [--seed N] [--count N] [NO|ANY|ALL…]``.

Which of several reasons a request is refused for, and by which of several partitions, hangs on the order in which slurmctld looks:
partitions that are down, drained, inactive, empty, for others only, with limits of every kind (cluster/controller.py), for each
EnforcePartLimits. Prints what is not the same, and the figures; exit code 0 when all is, 1 when not, 2 when not understood.
"""

from __future__ import annotations

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat.cluster import packages, slurm
from compat.cluster.controller import LIMITED
from compat.header_case import differences, waits, words
from compat.headers import Caller, Case, ours, real, seen_of

ENFORCED = ("NO", "ANY", "ALL")
_PARTITIONS = ("main", "short", *(line.split()[0].partition("=")[2] for line in LIMITED.splitlines()), "nosuch")
# An option and the words it may have; one word is drawn.
_OPTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("-N", ("1", "2", "3", "4", "1-3", "2-6", "5-60", "60", "600")),
    ("-n", ("1", "3", "9", "40", "600", "3000")),
    ("-c", ("1", "5", "64", "300")),
    ("-t", ("10", "25", "45", "61", "100", "130", "UNLIMITED")),
    ("--time-min", ("5", "35", "70", "150")),
    ("--mem", ("500", "1500", "3000", "5000000")),
    ("--mem-per-cpu", ("100", "1200", "5000")),
    ("--mincpus", ("2", "5", "300")),
    ("--ntasks-per-node", ("1", "3", "5", "9")),
    ("-A", ("phys", "chem")),
    ("-q", ("high", "low")),
    ("-w", ("a0001", "a0003,a0007", "h001", "nosuch")),
    ("-x", ("a0001", "a[0001-0004]", "h[001-016]")),
    ("-C", ("fast", "nosuch")),
    ("--deadline", ("now+20minutes", "now+2hours")),
    ("--gpus", ("1", "100")),
    ("--reservation", ("nosuch",)),
    ("-L", ("matlab:2", "matlab:5000")),
)
_FLAGS = ("--exclusive", "-O", "--contiguous", "--spread-job", "--no-requeue")


def drawn(rng: random.Random, enforce: str) -> Case:
    """A request."""
    argv = []
    if rng.random() < 0.95:
        argv += ["-p", ",".join(rng.sample(_PARTITIONS, rng.choice((1, 1, 2, 2, 3, 4))))]
    for name, values in rng.sample(_OPTIONS, rng.choice((0, 1, 1, 2, 2, 3, 4))):
        argv.append(f"{name}={rng.choice(values)}" if name.startswith("--") else f"{name}{rng.choice(values)}")
    if rng.random() < 0.15:
        argv.append(rng.choice(_FLAGS))
    case: Case = {"script": "#!/bin/bash\ntrue\n", "argv": argv, "enforce": enforce}
    if rng.random() < 0.25:
        case["later"] = True
    return case


def compared(cases: list[Case], enforce: str) -> int:
    """Asks both sides; prints what differs, and returns how many requests do."""
    found: list[list[Case]] = []
    for side in (real, ours):
        with side(enforce) as caller, ThreadPoolExecutor(2) as pool:
            found.append(list(pool.map(lambda case, caller=caller: _seen(caller, case), cases)))
    wrong = 0
    for case, theirs, own in zip(cases, *found):
        lines = differences(theirs, own)
        if lines:
            wrong += 1
            print(f"{enforce}: sbatch {waits(case)} {' '.join(words(case))}")
            print("".join(f"    {line}\n" for line in lines), end="", flush=True)
    refused = sum(one["rc"] != 0 for one in found[0])
    print(f"EnforcePartLimits={enforce}: {len(cases)} requests, {refused} refused: {wrong} differ", flush=True)
    return wrong


def _seen(caller: Caller, case: Case) -> Case:
    return seen_of(caller, case, verbose=False)


def main(argv: list[str]) -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(
        prog="drawn.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("enforce", nargs="*", metavar="|".join(ENFORCED))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="requests for each (300)")
    options = parser.parse_args(argv)
    if not set(options.enforce) <= set(ENFORCED):
        parser.error(f"one of {', '.join(ENFORCED)} is wanted")
    wrong = 0
    try:
        slurm.up()
        for enforce in options.enforce or ENFORCED:
            rng = random.Random(f"{options.seed} {enforce}")
            wrong += compared([drawn(rng, enforce) for _ in range(options.count)], enforce)
    except (slurm.ClusterError, packages.PackageError) as problem:
        print(f"drawn.py: {problem}", file=sys.stderr)
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
