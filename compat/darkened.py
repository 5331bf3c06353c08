"""A whole node is killed, with everything on it: under running jobs, and while their pods are being made. See faults.py."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter

from compat.cluster.kubernetes import cluster
from compat.cluster.kubernetes.settings import FOLDER
from compat.show import NODES, ONCE, UNTIL_GO, Show, expect, until

NOTICED = 150.0  # seconds in which a job's end is told: Kubernetes takes some 50 to miss a node
EVICTED = 480.0  # the same where nodes may not be seen and nothing ran: by the eviction after five minutes
_MORE = "node_wait = 10\n"


def node(rounds: int, restricted: bool) -> bool:
    """The node of a leader or of a worker is killed under a running job. One that may run again does so when the node is back."""
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    worst = 0.0
    with _show(restricted) as show:
        for number in range(rounds):
            asked = "--requeue" if number % 4 > 1 else "--no-requeue"
            end, took = _node(show, number % 2, asked)
            ends[f"{'worker' if number % 2 else 'leader'} {asked} {end}"] += 1
            worst = max(worst, took)
        again, left = show.twice(), show.left()
    print(
        f"node: {rounds} killed under running jobs, {dict(ends)}, told after {worst:.0f} s at most, {again} runs began twice,"
        f" left {left}, {time.monotonic() - begun:.0f} s"
    )
    good = all(end.endswith(("--no-requeue NODE_FAIL", "--requeue FAILED")) for end in ends)
    return good and not again and not left


def _node(show: Show, wanted: int, asked: str) -> tuple[str, float]:
    job = show.submit(UNTIL_GO, "-N2", asked)
    expect(lambda: show.marks()[f"s {job} 0"] == 1, "a script that runs")
    kill_node(next(node for index, _name, node in show.pods(job) if index == wanted))
    at = time.monotonic()
    told = until(lambda: show.state(job) in ("", "PENDING"), NOTICED)
    took = time.monotonic() - at
    if asked == "--requeue":
        time.sleep(15)  # in which nothing may begin: what is on the node might still run
        told = told and not show.marks()[f"s {job} 1"]
    cluster.up()
    if asked == "--requeue":
        expect(lambda: show.marks()[f"s {job} 1"] == 1, "the second run")
        (show.shared / f"go.{job}").touch()
    show.wait()
    return show.ended(job).split("|")[0] if told else "not told in time, or begun too early", took


def node_early(rounds: int, restricted: bool) -> bool:
    """The node of a leader or of a worker is killed before the start: the job waits, and runs once to its end."""
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    with _show(restricted) as show:
        early = 0
        for number in range(rounds):
            job, hit, told = _node_early(show, number % 2)
            early += hit
            end = f"{show.ended(job)}, {show.marks()[f'e {job}']} to the end"
            ends[end if told else f"{end}, but only when the node was back"] += 1
        again, left = show.twice(), show.left()
    print(
        f"node_early: {rounds} nodes killed (leader's, worker's in turn), {early} before the script ran, {dict(ends)},"
        f" {again} runs began twice, left {left}, {time.monotonic() - begun:.0f} s"
    )
    return set(ends) == {"COMPLETED|0:0, 1 to the end"} and not again and not left


def _node_early(show: Show, wanted: int) -> tuple[str, bool, bool]:
    job = show.submit(f"{ONCE}srun true\necho e $SLURM_JOB_ID >> marks\n", "-N2", "--requeue")
    placed: list[str] = []

    def known() -> bool:
        placed[:] = [node for _index, _name, node in sorted(show.pods(job)) if node]
        return len(placed) == 2

    expect(known, "two pods with nodes")
    kill_node(placed[wanted])
    early = not any(line.startswith(f"s {job} ") for line in show.marks())
    told = until(lambda: show.state(job) in ("", "PENDING"), EVICTED)
    cluster.up()
    show.wait()
    return job, early, told


def _show(restricted: bool) -> Show:
    return Show(restricted=restricted, more=f"{NODES if restricted else ''}{_MORE}")


def kill_node(node: str) -> None:
    """The node with all that runs on it."""
    os.kill(json.loads((FOLDER / "processes.json").read_text())[node][0], signal.SIGKILL)
