"""Everything at once, at random: jobs of all kinds while what they need is killed, suspended, deleted and lost. See faults.py.

A job's script leaves a mark when it begins and another when it ends, on a folder that pods share: each accepted job must come to its end,
each run begins once, what was refused never runs, and nothing stays behind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from compat.cluster.kubernetes import cluster
from compat.cluster.kubernetes.settings import ClusterError
from compat.darkened import kill_node
from compat.killed import kubelet_of
from compat.show import GARBAGE, Show, command_of, until

AGAIN = '[ -n "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 300; }\n'  # it asks for its second run itself
# The tasks of an array have ids that sbatch does not tell: they are named as squeue names them.
NAME = "me=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}\n"
BEGUN = f"#!/bin/sh\n{NAME}echo s $me ${{SLURM_RESTART_COUNT:-0}} >> marks\n"
SCRIPT = BEGUN + "%ssrun -n1 true\nsleep 0.$(($SLURM_JOB_ID %% 10))\necho e $me >> marks\n"
NODES = ("node1", "node2", "node3")
HOMES = "ab"
PENDING_AT_MOST = 40  # jobs that wait or run at the same time: two cores start about one pod a second
EVERY = 4.0  # seconds from one blow to the next, on average
REST = 0.1  # of the jobs: when no more than these are to come to their end, all is left in peace
SUSPEND = '{"spec":{"suspend":%s}}'
REPAIR = 6.0  # seconds that something of the cluster's own stays down


def chaos(count: int, restricted: bool) -> bool:
    """So many jobs from two homes (arrays, gangs, dependencies, requeues) while everything is killed at random."""
    with Show(restricted=restricted, spread=False, more="node_wait = 10\n") as show:
        run = Run(show, count)
        try:
            run.carry_out()
            fine = run.told()
        finally:
            run.end_strays()
        if not fine:
            show.keep()
        return fine


def verdict(accepted: set[str], marks: Mapping[str, int]) -> dict[str, list[str]]:
    """What went wrong, by kind: jobs that never began, that began and did not come to their end, that ran though refused; runs that began twice."""
    began = {line.split()[1] for line in marks if line.startswith("s ")}
    ended = {line.split()[1] for line in marks if line.startswith("e ")}
    return {
        "lost": sorted(accepted - began),
        "unfinished": sorted((accepted & began) - ended),
        "refused but ran": sorted(began - accepted),
        "twice": sorted(line for line, times in marks.items() if line.startswith("s ") and times > 1),
    }


def mostly_ended(accepted: set[str], marks: Mapping[str, int]) -> bool:
    """Whether all but a small rest have come to their end. Their marks say so even while no server answers squeue."""
    ended = {line.split()[1] for line in marks if line.startswith("e ")}
    return len(accepted - ended) <= REST * len(accepted)


class Run:
    """What was accepted, what was done to it, and what came of it."""

    def __init__(
        self,
        show: Show,
        count: int,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        seed = int(os.environ.get("CHAOS_SEED") or time.time())
        print(f"chaos: CHAOS_SEED={seed}", flush=True)
        self._show, self._count, self._chance = show, count, random.Random(seed)
        self._accepted: set[str] = set()
        self._same: set[str] = set()
        self._refused = 0
        self._last = ""  # the id that sbatch printed last
        self._bereft: set[int] = set()  # controllers whose state folders were removed
        self._blows: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()  # blows that found nothing to hit, or no server
        self._suspended: set[str] = set()  # Jobs that are still to be resumed
        self._clock, self._pause = clock, pause
        self._patience = max(300.0, 3.0 * count)  # seconds for what was submitted to end, under blows and then in peace
        self._begun = self._next = clock()
        self._repair_at = 0.0
        self._late = False

    def carry_out(self) -> None:
        """Submits and strikes in turns; strikes until most have come to their end; then lets the rest end, in peace."""
        while len(self._accepted) < self._count:
            self._submit(self._chance.choice(HOMES))
            self._strike_in_time()
            while len(self._waiting()) > PENDING_AT_MOST:
                self._strike_in_time()
                self._pause(0.5)
        over = self._clock() + self._patience
        while not mostly_ended(self._accepted, self._show.marks()) and self._clock() < over:
            self._strike_in_time()
            self._pause(0.5)
        self._mend()
        for one in self._suspended:
            with suppress(ClusterError):  # it has gone
                self._kubectl("patch", one, "-p", SUSPEND % "false")
        self._late = not self._show.wait(*HOMES, limit=self._patience)

    def told(self) -> bool:
        """The line of figures; whether all of it is as it must be."""
        marks, left = self._show.marks(), self._show.left()
        found = verdict(self._accepted, marks)
        until(lambda: not self._folderless(), GARBAGE)
        left += [f"controller {pid} of a removed folder" for pid in self._folderless()]
        states = Counter(state for home in HOMES for state in self._states(home))
        print(
            f"chaos: {len(self._accepted)} jobs, {dict(self._blows)}, missed {dict(self._missed)}, {self._refused} refused, {found}, same id twice {self._same},"
            f" {dict(states)}, left {left}, {self._clock() - self._begun:.0f} s"
        )
        return not (any(found.values()) or self._same or left or self._late)

    def end_strays(self) -> None:
        """Ends the controllers whose folders were removed: nothing else finds them."""
        for pid in self._folderless():
            os.kill(pid, signal.SIGTERM)

    def _folderless(self) -> list[int]:
        return [pid for pid in self._bereft if b"shim.control.controller" in command_of(pid)]

    def _states(self, home: str) -> list[str]:
        return self._show.run("sacct", "-n", "-X", "-P", "-o", "state", home=home).split("\n")[:-1]

    def _submit(self, home: str) -> None:
        kind = self._chance.choice(("plain", "gang", "array", "after", "requeued"))
        words = {"gang": ["-N2"], "array": ["-a0-3"]}.get(kind, [])
        if kind == "after" and self._last:
            words = [f"-dafterany:{self._last}"]
        job = self._show.submit(SCRIPT % (AGAIN if kind == "requeued" else ""), "--requeue", *words, home=home)
        if not job:
            self._refused += 1
            return
        self._last = job
        ids = {f"{job}_{number}" for number in range(4)} if kind == "array" else {job}
        self._same |= ids & self._accepted
        self._accepted |= ids

    def _waiting(self) -> list[str]:
        return self._show.run("squeue", "-h", "-r", "-o", "%A", home=self._chance.choice(HOMES)).split()

    def _strike_in_time(self) -> None:
        now = self._clock()
        if self._repair_at and now > self._repair_at:
            self._mend()
        if now < self._next:
            return
        self._next = now + self._chance.uniform(0, 2 * EVERY)
        blow = self._chance.choice(self.possible())
        try:
            blow()
        except (ClusterError, OSError):  # the server is down, or what was to be hit has gone
            self._missed[blow.__name__.strip("_")] += 1
        else:
            self._blows[blow.__name__.strip("_")] += 1

    def possible(self) -> list[Callable[[], None]]:
        """The blows that can be struck now; one that is more frequent is there more often."""
        blows = (
            [self._controller] * 4 + [self._state_folder] + [self._delete_pod] * 3 + [self._suspend, self._delete_job]
        )
        return blows if self._repair_at else [*blows, self._server, self._kubelet, self._node]

    def _mend(self) -> None:
        self._repair_at = 0.0
        for _ in range(3):
            try:
                cluster.up()
                return
            except ClusterError as problem:
                print(f"chaos: the cluster is not up again: {problem}", file=sys.stderr)

    def _controller(self) -> None:
        found = self._show.controller(self._chance.choice(HOMES))
        if found is None:
            raise OSError("no controller runs there")
        os.kill(found, signal.SIGKILL)

    def _state_folder(self) -> None:
        home = self._chance.choice(HOMES)
        found = self._show.controller(home)
        if found is not None:
            self._bereft.add(found)
        shutil.rmtree(self._show.folder / home, ignore_errors=True)

    def _server(self) -> None:
        pid = cluster.registry().pid("kube-apiserver")
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            self._repair_at = self._clock() + REPAIR

    def _kubelet(self) -> None:
        os.kill(kubelet_of(self._chance.choice(NODES)), signal.SIGKILL)
        self._repair_at = self._clock() + REPAIR

    def _node(self) -> None:
        kill_node(self._chance.choice(NODES))
        self._repair_at = self._clock() + REPAIR

    def _delete_pod(self) -> None:
        force = self._chance.choice(([], ["--grace-period=0", "--force"]))
        self._kubectl("delete", self._one_of("pods"), "--wait=false", *force)

    def _delete_job(self) -> None:
        cascade = self._chance.choice(("background", "orphan"))
        self._kubectl("delete", self._one_of("jobs"), "--wait=false", f"--cascade={cascade}")

    def _suspend(self) -> None:
        one = self._one_of("jobs")
        self._suspended.add(one)
        self._kubectl("patch", one, "-p", SUSPEND % "true")
        self._pause(self._chance.random())
        self._kubectl("patch", one, "-p", SUSPEND % "false")
        self._suspended.discard(one)

    def _one_of(self, kind: str) -> str:
        names = self._kubectl("get", kind, "-o", "name").split()
        if not names:
            raise OSError("there is none")
        return self._chance.choice(names)

    def _kubectl(self, *words: str) -> str:
        return self._show.kubectl("--request-timeout=5s", "-n", self._show.namespace, *words)
