"""Many jobs at once on the real Kubernetes: gangs that compete, two homes in one namespace, hundreds that run. See faults.py."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from compat.show import NODES, PATIENCE, Show, expect, jobs_of

AT_ONCE = 12  # jobs that start at the same time where hundreds are to run


def gangs(rounds: int, restricted: bool) -> bool:
    """Two jobs, two homes, three nodes: never two halves. By the cluster's PodGroup."""
    return _gangs("gangs", rounds, Show(restricted=restricted))


def unaided(rounds: int, restricted: bool) -> bool:
    """The same by suspension alone."""
    return _gangs("unaided", rounds, Show(restricted=restricted, more=f'{NODES}gang = "suspend"\n'))


def _gangs(name: str, rounds: int, made: Show) -> bool:
    script = '#!/bin/sh\necho "s $SLURM_JOB_ID" >> marks\nsrun sh -c "echo t $SLURM_JOB_ID >> marks"\necho "e $SLURM_JOB_ID" >> marks\n'
    worst, jobs, begun, ended = 0.0, 0, time.monotonic(), True
    with made as show:
        for _ in range(rounds):
            at = time.monotonic()
            for home in "ab":
                jobs += bool(show.submit(script, "-N2", "--gpus-per-node=4", "--no-requeue", home=home))
            ended = show.wait("a", "b") and ended
            worst = max(worst, time.monotonic() - at)
        marks = show.marks()
        whole = sum(marks[f"s {job}"] == marks[f"e {job}"] == 1 and marks[f"t {job}"] == 2 for job in jobs_of(marks))
        twice = sum(marks[f"s {job}"] > 1 for job in jobs_of(marks))
        left = show.left()
    print(
        f"{name}: {rounds} rounds, {jobs} jobs, {whole} ran whole, {twice} twice, worst round {worst:.1f} s,"
        f" all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and whole == jobs == 2 * rounds and not left


def homes(count: int, restricted: bool) -> bool:
    """Two homes submit in turns; each sees its own jobs, and no id is given twice."""
    script = "#!/bin/sh\necho s $SLURM_JOB_ID $1 >> marks\nsleep 1\nexit $2\n"
    ids: dict[str, list[str]] = {"a": [], "b": []}
    begun = time.monotonic()
    with Show(restricted=restricted, spread=False) as show:
        for number in range(count):
            for home in ids:
                ids[home].append(show.submit(script, "--no-requeue", "job.sh", home, str(number % 3), home=home))
        submitted = time.monotonic() - begun
        ended = show.wait("a", "b")
        marks = show.marks()
        once = sum(marks[f"s {job} {home}"] == 1 for home, given in ids.items() for job in given)
        codes = 0
        for home, given in ids.items():
            told = show.run("sacct", "-n", "-X", "-P", "-o", "jobid,exitcode", home=home).split()
            codes += told == [f"{job}|{number % 3}:0" for number, job in enumerate(given)]
        left = show.left()
    both = len(set(ids["a"]) | set(ids["b"]))
    print(
        f"homes: 2 x {count} submitted in {submitted:.0f} s, {both} different ids, {once} ran once, {sum(marks.values())} runs,"
        f" {codes} of 2 homes know their jobs and exit codes and no others, all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and both == once == sum(marks.values()) == 2 * count and codes == 2 and not left


def many(count: int, restricted: bool) -> bool:
    """So many jobs that run at once: the controller's memory, its connections and watches, and squeue beside an empty Python."""
    script = "#!/bin/sh\necho s $SLURM_JOB_ID >> marks\nuntil [ -e go ]; do sleep 60; done\n"
    more = 'nodes = 3\nnode_names = "node[1-3]"\ncpus = 400\nmemory = 400000\n'
    begun, limit = time.monotonic(), max(PATIENCE, 3.0 * count)
    with Show(restricted=restricted, spread=False, more=more) as show:
        before = watches(show)
        alone = squeue(show)

        def starting() -> int:
            return show.run("squeue", "-h", "-t", "PD,CF", "-o", "%i").count("\n")

        for _ in range(count):
            show.submit(script, "--no-requeue")
            # Kubelets that start very many pods at once on two cores do nothing else: probes and leases run out.
            expect(lambda: starting() < AT_ONCE, f"fewer than {AT_ONCE} jobs that are not running yet", PATIENCE)
        expect(lambda: not starting(), f"{count} jobs that run", PATIENCE)
        started = time.monotonic() - begun
        costs = memory(show)
        text = f"{watches(show) - before} watches, squeue {squeue(show):.1f} ms (without jobs {alone:.1f})"
        (show.shared / "go").touch()
        ended = show.wait(limit=limit)
        marks = show.marks()
        left = show.left()
    once = sum(times == 1 for times in marks.values())
    print(
        f"many: {count} submitted, all run after {started:.0f} s; controller {costs}, {text}; {once} ran once,"
        f" all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and once == count and not left


def watches(show: Show) -> int:
    """Watches of Jobs and pods in single namespaces that the API server keeps open: ours, if nobody else has any."""
    found = 0
    for line in show.kubectl("get", "--raw", "/metrics").split("\n"):
        words = ("apiserver_longrunning_requests{", 'scope="namespace"', 'verb="WATCH"')
        if all(word in line for word in words) and ('resource="pods"' in line or 'resource="jobs"' in line):
            found += int(float(line.split()[-1]))
    return found


def memory(show: Show) -> str:
    """Resident and proportional memory of the controller, and its connections to the API server."""
    pid = show.controller()
    if pid is None:
        return "gone"
    rows = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().split("\n") if line]
    size = {row[0]: int(row[1]) / 1024 for row in rows[1:]}
    sockets = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().split("\n")[1:] if line]
    connected = sum(line[3] == "01" and f"socket:[{line[9]}]" in sockets for line in lines)
    return f"RSS {size['Rss:']:.0f} MiB, PSS {size['Pss:']:.0f} MiB, {connected} connections"


def squeue(show: Show) -> float:
    """Milliseconds of CPU of a squeue of one line."""
    took = []
    for _ in range(30):
        before = os.times()
        show.run("squeue", "-h", "-n", "nobody")
        after = os.times()
        took.append((after[2] + after[3] - before[2] - before[3]) * 1000)
    return statistics.median(took)
