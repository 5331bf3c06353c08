#!/usr/bin/env python3
"""The regression suite: ``run.py VERB [CASE…]``.

    list      the cases
    record    run them on real Slurm and keep what it did in compat/expected/
    verify    run them on real Slurm and compare with what was kept
    check     run them on this checkout's local backend and compare with what was kept; needs no Slurm
    matrix    verify and check, side by side
    pods      run them on a real Kubernetes and compare with what was kept
    restricted  the same, by a user who has the documented Role only, in a `restricted` namespace

``--workers N``: cases at once on the local backend. ``--times N``: each case so often (a case must not depend on
luck). ``--known``: shows what differs by design too. Exit code 0 when everything is the same, 1 when not, 2 when not understood.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat.case import EXPECTED, Case, CaseError, load
from compat.cluster import k8s, packages, slurm
from compat.pods import Kubernetes, Restricted
from compat.record import compare, render
from compat.targets import Local, RealSlurm, Target


@dataclass
class Result:
    """How a case went on a target: ``same``, ``differs``, ``known`` (differs by design), ``failed`` or ``no record``."""

    case: Case
    target: str
    verdict: str
    record: str
    difference: str
    seconds: float


def judge(case: Case, target: Target) -> Result:
    """Run ``case`` on ``target`` and compare with the record of real Slurm."""
    begin = time.monotonic()
    outcome, places = target.run(case)
    record = render(case, outcome, places)
    seconds = time.monotonic() - begin
    if not case.expected.exists():
        return Result(case, target.name, "no record", record, "", seconds)
    difference = compare(case.expected.read_text(), record, case.name, target.name)
    verdict = "same"
    if difference:
        verdict = "known" if reason(case, target.name) else "failed" if outcome.failure else "differs"
    return Result(case, target.name, verdict, record, difference, seconds)


def reason(case: Case, target: str) -> str:
    """Why the case differs there by design; "" if it should not. What holds for pods holds for those of a restricted user."""
    return case.differs.get(target) or (case.differs.get(Kubernetes.name, "") if target == Restricted.name else "")


def run_all(cases: list[Case], target: Target) -> list[Result]:
    """The results of ``cases`` on ``target``, in the order given; as many at once as the target bears."""
    with ThreadPoolExecutor(target.workers) as pool:
        return list(pool.map(lambda case: judge(case, target), cases))


def record_all(cases: list[Case]) -> int:
    """Run ``cases`` on real Slurm and keep what it did; a case that did not go to its end is not kept."""
    EXPECTED.mkdir(exist_ok=True)
    failed = 0
    for result in run_all(cases, RealSlurm()):
        if "\n? " in f"\n{result.record}":
            failed += 1
            print(f"{result.case.name}: not recorded\n{result.record}")
        else:
            result.case.expected.write_text(result.record)
            print(f"{result.case.name}: recorded ({result.seconds:.1f} s)")
    return 1 if failed else 0


def show_matrix(columns: list[list[Result]], known: bool) -> None:
    """One line a case, one column a target; then the differences. ``known``: those that are by design in full, too."""
    width = max(len(result.case.name) for result in columns[0])
    head = f"{'case':{width}}"
    for column in columns:
        head += f"  {column[0].target:>16}"
    print(head)
    for row in zip(*columns, strict=True):
        cells = "".join(f"  {result.verdict:>9} {result.seconds:5.1f}s" for result in row)
        print(f"{row[0].case.name:{width}}{cells}")
    for result in (result for column in columns for result in column):
        if result.verdict == "known":
            print(f"\n{result.case.name} on {result.target}: {reason(result.case, result.target)}")
            if known:
                print(result.difference)
        elif result.verdict != "same":
            print(f"\n{result.case.name} on {result.target}: {result.verdict}\n{result.difference}")
    for column in columns:
        same = sum(result.verdict == "same" for result in column)
        print(f"\n{column[0].target}: {same} of {len(column)} the same as recorded from real Slurm")


def main(argv: list[str]) -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("verb", choices=("list", "record", "verify", "check", "matrix", "pods", "restricted"))
    parser.add_argument("case", nargs="*")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--known", action="store_true", help="show what differs by design, too")
    options = parser.parse_args(argv)
    try:
        cases = [case for case in load(options.case) for _ in range(options.times)]
        if options.verb == "list":
            for case in cases:
                print(f"{case.name:24} {case.title}")
            return 0
        if options.verb in ("pods", "restricted"):
            k8s.main(["up"])
        elif options.verb != "check":
            slurm.up()
    except (CaseError, slurm.ClusterError, packages.PackageError) as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return 2
    if options.verb == "record":
        return record_all(cases)
    targets: list[Target] = []
    if options.verb in ("verify", "matrix"):
        targets.append(RealSlurm())
    if options.verb in ("check", "matrix"):
        targets.append(Local(options.workers))
    if options.verb == "pods":
        targets.append(Kubernetes(options.workers))
    if options.verb == "restricted":
        targets.append(Restricted(options.workers))
    columns = [run_all(cases, target) for target in targets]
    show_matrix(columns, options.known)
    return 0 if all(result.verdict in ("same", "known") for column in columns for result in column) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
