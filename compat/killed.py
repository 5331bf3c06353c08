"""What jobs need is killed while they run: controllers, the API server, a kubelet, a whole submitting machine. See faults.py."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from compat.cluster.kubernetes import cluster
from compat.cluster.kubernetes.settings import FOLDER
from compat.show import ONCE, UNTIL_GO, Show, command_of, expect, until


def kills(count: int, restricted: bool) -> bool:
    """Submissions while the controller is killed again and again."""
    killed, begun, ids = 0, time.monotonic(), []
    chance = random.Random(count)
    with Show(restricted=restricted, spread=False) as show:
        for _ in range(count):
            script = ONCE + "sleep 0.$(($SLURM_JOB_ID % 10))\n"
            ids.append(show.submit(script, "--no-requeue", f"-N{chance.choice((1, 1, 2))}"))
            found = show.controller()
            if found is not None and chance.random() < 0.5:
                time.sleep(chance.random() / 4)
                try:
                    os.kill(found, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        submitted = time.monotonic() - begun
        ended = show.wait()
        marks = show.marks()
        once = sum(marks[f"s {job} 0"] == 1 for job in ids)
        again = show.twice()
        states = Counter(show.run("sacct", "-n", "-X", "-P", "-o", "state", "-j", ",".join(ids)).split())
        left = show.left()
    print(
        f"kills: {len(ids)} submitted in {submitted:.0f} s, {killed} kills, {once} ran once, {again} twice,"
        f" {dict(states)}, all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and once == len(set(ids)) == count and not again and not left


def server(rounds: int, restricted: bool) -> bool:
    """The API server is killed under ten jobs, some of which end meanwhile, and comes back."""
    begun = time.monotonic()
    with Show(restricted=restricted, spread=False) as show:
        good = sum(_one_server(show) for _ in range(rounds))
        again, left = show.twice(), show.left()
    print(
        f"server: {rounds} kills, {good} of {10 * rounds} jobs ended with their exit code, {again} ran twice,"
        f" all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return good == 10 * rounds and not again and not left


def _one_server(show: Show) -> int:
    script = ONCE + "srun sleep $1\necho e $SLURM_JOB_ID >> marks\nexit 4\n"
    jobs = [show.submit(script, "--no-requeue", f"-N{1 + n % 2}", "job.sh", str(n + 1)) for n in range(10)]
    expect(lambda: all(show.state(job) != "PENDING" for job in jobs), "ten jobs that run")
    pid = cluster.registry().pid("kube-apiserver")
    if pid is None:
        raise SystemExit("no API server to kill: is this the cluster of cluster/k8s.py?")
    os.kill(pid, signal.SIGKILL)
    time.sleep(3)
    cluster.up()
    show.wait()
    marks = show.marks()
    return sum(show.ended(job) == "FAILED|4:0" and marks[f"e {job}"] == 1 for job in jobs)


def kubelet(rounds: int, restricted: bool) -> bool:
    """A kubelet dies under a running job, and comes back."""
    begun = time.monotonic()
    with Show(restricted=restricted) as show:
        good = sum(_one_kubelet(show, number % 2) for number in range(rounds))
        left = show.left()
    print(
        f"kubelet: {rounds} killed under running jobs, {good} jobs went on and ended with their exit code, left {left},"
        f" {time.monotonic() - begun:.0f} s"
    )
    return good == rounds and not left


def _one_kubelet(show: Show, wanted: int) -> bool:
    job = show.submit(ONCE + "srun sleep 15\necho e $SLURM_JOB_ID >> marks\nexit 4\n", "-N2", "--no-requeue")
    expect(lambda: show.state(job) == "RUNNING", "a job that runs")
    node = next(node for index, _name, node in show.pods(job) if index == wanted)
    os.kill(kubelet_of(node), signal.SIGKILL)
    show.wait()
    marks = show.marks()
    return show.ended(job) == "FAILED|4:0" and marks[f"s {job} 0"] == marks[f"e {job}"] == 1


def kubelet_of(node: str) -> int:
    """The kubelet's process on that node."""
    first = json.loads((FOLDER / "processes.json").read_text())[node][0]
    below: list[int] = [first]
    for pid in below:  # children may have smaller numbers: those come round again
        if command_of(pid).split(b"\0")[0].endswith(b"/kubelet"):
            return pid
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has ended
                below += map(int, path.read_text().split())
    raise SystemExit(f"no kubelet below process {first} of {node}")


def lost(rounds: int, restricted: bool) -> bool:
    """A machine is lost (its controller killed) with two running jobs; another home carries on with them."""
    begun = time.monotonic()
    with Show(restricted=restricted, spread=False) as show:
        good = sum(_one_lost(show, f"a{number}", f"b{number}") for number in range(rounds))
        again, left = show.twice(), show.left()
    print(
        f"lost: {rounds} machines with two jobs, {good} carried on with by another one, {again} runs began twice, left {left},"
        f" {time.monotonic() - begun:.0f} s"
    )
    return good == rounds and not again and not left


def _one_lost(show: Show, here: str, there: str) -> bool:
    jobs = [show.submit(UNTIL_GO, f"-N{nodes}", "--no-requeue", home=here) for nodes in (1, 2)]
    expect(lambda: all(show.marks()[f"s {job} 0"] for job in jobs), "two scripts that run")
    found = show.controller(here)
    if found is not None:
        os.kill(found, signal.SIGKILL)
    show.run("shim", "adopt", home=there)
    expect(lambda: all(show.state(job, there) == "RUNNING" for job in jobs), "jobs that go on elsewhere")
    inside = show.run("srun", "--jobid", jobs[1], "--overlap", "-n2", "hostname", home=there).split()
    for job in jobs:
        (show.shared / f"go.{job}").touch()
    show.wait(there)
    good = all(show.ended(job, there) == "FAILED|4:0" for job in jobs) and len(inside) == 2
    show.run("squeue", home=here)  # the first machine is back: it learns that its jobs are another's
    return until(lambda: all("CANCELLED" in show.ended(job, here) for job in jobs), 60) and good
