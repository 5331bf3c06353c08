#!/usr/bin/env python3
"""The same command lines to a real Slurm and to this checkout's local backend: ``differ.py [--workers N] [NAME…]``.

Prints, for each line where standard output, standard error or the exit code is not the same, both. Nothing is recorded: what
the real Slurm says now is the measure. Exit code 0 when lines differ only where their file says so and why, 1 when not, 2
when not understood. As root both sides act as the test user of cluster/slurm.py.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat.case import CaseError
from compat.cluster import packages, slurm, slurm_conf
from compat.lines import Line, Scene, load
from compat.normalise import JOB_ID, Places, clean, number_jobs
from compat.record import Outcome
from compat.targets import Local, RealSlurm, Target, acting

# Ours has the shape of the real one from the same file.
CONFIG = f"""\
operators = []

[clusters.local]
backend = "local"
slurm_conf = "{{conf}}"
kill_wait = {slurm_conf.KILL_WAIT}
first_job_id = {slurm_conf.FIRST_JOB_ID}
"""
# Which plugins a client loads is its build's business.
_PLUGINS = re.compile(r"^\w+: (debug:  )?(select|auth|hash)/\S+: (common_|init: )?init: .* loaded.*\n", re.MULTILINE)


@dataclass
class Answer:
    """What a command line did, without ids, times and places."""

    out: str
    err: str
    code: str

    def text(self) -> list[str]:
        """For people: ``>`` output, ``!`` errors, ``=`` the exit code."""
        lines = [f"{mark} {line}" for mark, text in ((">", self.out), ("!", self.err)) for line in text.splitlines()]
        return [*lines, f"= {self.code}"]


def answers(scene: Scene, target: Target) -> list[Answer]:
    """What each line of ``scene`` did on ``target``; CaseError if not all of them were run."""
    outcome, places = target.run(scene.case)
    if outcome.failure or len(outcome.steps) != len(scene.lines):
        done = f"{len(outcome.steps)} of {len(scene.lines)} lines were run"
        raise CaseError(f"{scene.case.name} on {target.name}: {outcome.failure or done}")
    return _tidied(scene, outcome, places)


def _tidied(scene: Scene, outcome: Outcome, places: Places) -> list[Answer]:
    """The answers, jobs numbered as they come; those that only a line shows that differs by design have no number."""

    def clear(text: str) -> str:
        return clean(_PLUGINS.sub("", text), places, scene.case.replace)

    found = [(clear(step.out), clear(step.err), step.code) for step in outcome.steps]
    told = [
        text for line, (out, err, _) in zip(scene.lines, found, strict=True) if not line.differs for text in (out, err)
    ]
    names = number_jobs(told)

    def named(text: str, line: Line) -> str:
        shown = JOB_ID.sub(lambda match: match.group(1) + names.get(match.group(2), "<another job>"), text)
        return "".join(sorted(shown.splitlines(keepends=True))) if line.any_order else shown

    return [
        Answer(named(out, line), named(err, line), code)
        for line, (out, err, code) in zip(scene.lines, found, strict=True)
    ]


@dataclass
class Tally:
    """How many lines were compared, and how many differed as declared and otherwise."""

    lines: int = 0
    known: int = 0
    wrong: int = 0


def as_said(line: Line, pair: tuple[Answer, Answer]) -> bool:
    """Whether the answers of the real one and of ours are the same, or differ as the file says."""
    return (pair[0] == pair[1]) != bool(line.differs)


def compare(scene: Scene, pairs: list[tuple[Answer, Answer]], tally: Tally, show_known: bool) -> None:
    """Print the lines that differ, and those that do not although their file says so."""
    for line, (real, ours) in zip(scene.lines, pairs, strict=True):
        tally.lines += 1
        if not as_said(line, (real, ours)):
            tally.wrong += 1
            print(_shown(scene, line, real, ours))
        elif line.differs:
            tally.known += 1
            if show_known:
                print(f"\n{scene.case.name}:{line.number}: {line.text}\n  by design: {line.differs}")


def _shown(scene: Scene, line: Line, real: Answer, ours: Answer) -> str:
    head = f"\n{scene.case.name}:{line.number}: {line.text}"
    if real == ours:
        return f"{head}\n  is the same, though it is said to differ: {line.differs}"
    diff = difflib.unified_diff(real.text(), ours.text(), "slurm", "ours", lineterm="", n=1)
    return "\n".join([head, *(f"  {one}" for one in list(diff)[2:])])


def compared(
    scenes: list[Scene], real: Target, ours: Target, workers: int
) -> Iterator[tuple[Scene, list[tuple[Answer, Answer]]]]:
    """Each scene with what its lines did on both. The real one has all its scenes on the same nodes: one at a time.

    What a moment decided is not seen twice: a scene with wrong lines is run again when all others are done, and only lines count
    that are wrong both times.
    """
    doubtful: list[tuple[Scene, list[tuple[Answer, Answer]]]] = []
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(workers) as several:
        pending = [(scene, one.submit(answers, scene, real), several.submit(answers, scene, ours)) for scene in scenes]
        for scene, left, right in pending:
            pairs = list(zip(left.result(), right.result(), strict=True))
            if all(map(as_said, scene.lines, pairs)):
                yield scene, pairs
            else:
                doubtful.append((scene, pairs))
    for scene, pairs in doubtful:
        again = zip(answers(scene, real), answers(scene, ours), strict=True)
        yield scene, [one if as_said(line, one) else two for line, one, two in zip(scene.lines, pairs, again)]


def main(argv: list[str]) -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(
        prog="differ.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("name", nargs="*")
    parser.add_argument("--workers", type=int, default=2, help="scenes at once on the local backend")
    parser.add_argument("--known", action="store_true", help="show also what differs by design")
    options = parser.parse_args(argv)
    begin = time.monotonic()
    tally = Tally()
    try:
        scenes = load(options.name)
        slurm.up()
        account = acting()
        real, ours = (
            RealSlurm(account, only_own=True),
            Local(options.workers, account=account, config=CONFIG.format(conf=slurm.CONF)),
        )
        for scene, pairs in compared(scenes, real, ours, ours.workers):
            compare(scene, pairs, tally, options.known)
    except (CaseError, slurm.ClusterError, packages.PackageError) as problem:
        print(f"differ.py: {problem}", file=sys.stderr)
        return 2
    print(
        f"\n{tally.lines} command lines to Slurm and to ours in {time.monotonic() - begin:.0f} s:"
        f" {tally.wrong} differ, {tally.known} more by design"
    )
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
