"""Somebody's hands in the cluster: pods deleted, Jobs suspended, before and after the start of a script. See faults.py."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress

from compat.cluster.kubernetes.settings import ClusterError
from compat.show import ONCE, UNTIL_GO, Show, expect


def before(rounds: int, restricted: bool) -> bool:
    """A pod is deleted before the start: the job waits again, and runs once."""
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    with Show(restricted=restricted) as show:
        hit = 0
        for number in range(rounds):
            job, early = _before(show, number)
            hit += early
            ends[f"{show.ended(job)}, {show.marks()[f'e {job}']} to the end"] += 1
        again, left = show.twice(), show.left()
    print(
        f"before: {rounds} pods deleted (leader, worker in turn), {hit} before the script ran, {dict(ends)},"
        f" {again} runs began twice, left {left}, {time.monotonic() - begun:.0f} s"
    )
    return set(ends) == {"COMPLETED|0:0, 1 to the end"} and not again and not left


def _before(show: Show, number: int) -> tuple[str, bool]:
    job = show.submit(ONCE + "srun true\necho e $SLURM_JOB_ID >> marks\n", "-N2")
    expect(lambda: len(show.pods(job)) == 2, "two pods")
    time.sleep(number / 6 % 1)
    _delete_pod(show, job, number % 2)
    early = not any(line.startswith(f"s {job} ") for line in show.marks())
    show.wait()
    return job, early


def _delete_pod(show: Show, job: str, wanted: int) -> None:
    name = next(name for index, name, _node in show.pods(job) if index == wanted)
    show.kubectl("-n", show.namespace, "delete", "pod", name, "--wait=false")


def after(rounds: int, restricted: bool) -> bool:
    """A pod is deleted under a running job: without --requeue that is a lost node, with it the job runs again, as another run."""
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    with Show(restricted=restricted) as show:
        for number in range(rounds):
            asked = "--requeue" if number % 4 > 1 else "--no-requeue"
            ends[f"{asked} {_after(show, number % 2, asked)}"] += 1
        again, left = show.twice(), show.left()
    print(
        f"after: {rounds} pods deleted (leader, worker in turn), {dict(ends)}, {again} runs began twice, left {left},"
        f" {time.monotonic() - begun:.0f} s"
    )
    return set(ends) <= {"--requeue FAILED", "--no-requeue NODE_FAIL"} and not again and not left


def _after(show: Show, wanted: int, asked: str) -> str:
    job = show.submit(UNTIL_GO, "-N2", asked)
    expect(lambda: show.marks()[f"s {job} 0"] == 1, "a script that runs")
    _delete_pod(show, job, wanted)
    if asked == "--requeue":
        expect(lambda: show.marks()[f"s {job} 1"] == 1, "the second run")
        (show.shared / f"go.{job}").touch()
    show.wait()
    return show.ended(job).split("|")[0]


def suspended(rounds: int, restricted: bool) -> bool:
    """A Job is suspended by hand and let go again: before the start the job runs once, after it no second time."""
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    with Show(restricted=restricted) as show:
        for number in range(rounds):
            early = number % 2 == 0
            job = _suspended(show, early)
            ends[f"{'before' if early else 'after'}: {show.ended(job)}, {show.marks()[f's {job} 0']} run"] += 1
        again, left = show.twice(), show.left()
    print(
        f"suspended: {rounds} Jobs, {dict(ends)}, {again} runs began twice, left {left}, {time.monotonic() - begun:.0f} s"
    )
    return not again and not left


def _suspended(show: Show, early: bool) -> str:
    job = show.submit(UNTIL_GO, "-N2", "--no-requeue")
    if early:
        expect(lambda: len(show.pods(job)) == 2, "two pods")
    else:
        expect(lambda: show.marks()[f"s {job} 0"] == 1, "a script that runs")
    _suspend(show, job, True)
    with suppress(ClusterError):  # its controller may have removed it already
        _suspend(show, job, False)
    (show.shared / f"go.{job}").touch()
    show.wait()
    return job


def _suspend(show: Show, job: str, value: bool) -> None:
    patch = json.dumps({"spec": {"suspend": value}})
    show.kubectl("-n", show.namespace, "patch", "job", f"slurm-{job}", "-p", patch)
