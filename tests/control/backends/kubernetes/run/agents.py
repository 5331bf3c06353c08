"""What agents do in the simulated cluster, and what must never happen when they launch."""

from __future__ import annotations

import random
from collections.abc import Callable

from shim.control.backends.kubernetes.run.evidence import Report
from shim.control.backends.kubernetes.run.register import Record
from shim.job.pod.asking import ANSWER_HOLDS, Ask, Member, may_launch
from tests.control.backends.kubernetes.run.things import ORPHAN, Api, Process, Violation


class Agents:
    """The half of the cluster that is ours: leaders that meet their workers, ask, launch and end."""

    def __init__(self, rng: random.Random, plant: frozenset[str]) -> None:
        self.rng, self.plant = rng, plant
        self.now = 0.0
        self.api = Api()
        self.processes: list[Process] = []
        self.reports: list[Process] = []  # leaders that have just ended
        self.gangs: dict[str, tuple[Process, ...]] = {}  # by nonce
        self.granted: dict[tuple[str, int], list[tuple[Process, ...]]] = {}  # by uid of the record, and run
        self.launches: set[tuple[str, int]] = set()
        self.closed_at: dict[tuple[str, int], float] = {}  # when a granted run was over
        self.uids = 0
        self.told: list[str] = []

    def uid(self, what: str) -> str:
        self.uids += 1
        return f"{what}{self.uids}"

    def say(self, *words: object) -> None:
        self.told.append(f"{self.now:7.1f} " + " ".join(str(word) for word in words))

    def kill(self, process: Process) -> None:
        process.alive = False
        self.processes.remove(process)

    def agent(self, process: Process, ask: Callable[[Process, Ask], None]) -> None:
        """One step of an agent, unless its machine sleeps."""
        if process.paused > self.now or not process.alive:
            return
        if process.launched:
            if self.now >= process.end:
                self.finish(process, "COMPLETED")
        elif process.index:
            self._worker(process)
        elif self.now >= process.deadline:
            self.finish(process, "NOT_BEGUN")
        else:
            self._leader(process, ask)

    def _worker(self, worker: Process) -> None:
        leader = worker.leader
        if leader is not None and self.reachable(worker, leader):
            worker.lost_since = self.now
            return
        if not worker.begun:
            worker.leader = None
            if self.now >= worker.deadline:
                self.kill(worker)
        elif self.now - worker.lost_since >= ORPHAN:
            self.kill(worker)

    def _leader(self, leader: Process, ask: Callable[[Process, Ask], None]) -> None:
        if not leader.gang or not leader.linked:
            again = bool(leader.gang)
            leader.gang = self._meet(leader)
            if leader.gang and not (again and "one nonce for two gangs" in self.plant):
                leader.nonce = self.uid("nonce")
            if leader.gang:
                self.gangs[leader.nonce] = leader.gang
        if leader.gang and self.now - leader.asked_last >= 2.0:
            leader.asked_last = self.now
            ask(leader, self.asking(leader))

    def asking(self, leader: Process) -> Ask:
        members = tuple(
            Member(index=one.index, pod=one.pod, node=one.machine.name, boot=one.boot) for one in leader.gang
        )
        return Ask(record=leader.record, run=leader.run, nonce=leader.nonce, members=members, asked=self.now)

    def _meet(self, leader: Process) -> tuple[Process, ...]:
        """All the others, if they can be reached and follow no other leader."""
        found: dict[int, Process] = {0: leader}
        for other in self.processes:
            if (other.record, other.run) == (leader.record, leader.run) and other.index:
                free = other.leader is None or other.leader is leader
                if free and self.reachable(leader, other) and other.paused <= self.now:
                    found.setdefault(other.index, other)
        record = next((one for one in self.api.records.values() if one.uid == leader.record), None)
        width = record.nodes if record is not None else 1
        if len(found) < width:
            return ()
        gang = tuple(found[index] for index in range(width))
        for other in gang[1:]:
            other.leader = leader
            other.lost_since = self.now
        return gang

    def reachable(self, one: Process, other: Process) -> bool:
        apart = one.machine is not other.machine and (one.machine.island or other.machine.island)
        return one.alive and other.alive and not apart

    def hear(self, leader: Process, ask: Ask, answered: bool) -> None:
        """An answer reaches the leader."""
        if not leader.alive or leader.launched or leader.nonce != ask.nonce:
            return
        if not answered:
            self.finish(leader, "NOT_BEGUN")
        elif may_launch(answered, ask, self.now, leader.linked) or ("no 30 s" in self.plant and leader.linked):
            self._launch(leader, ask)

    def _launch(self, leader: Process, ask: Ask) -> None:
        run = (leader.record, leader.run)
        self.say("launch", run, leader.nonce, leader.pod)
        if run in self.launches:
            raise Violation(f"launched twice: {run}")
        self.check_fence(*run)
        later = [one for one in self.granted if one[0] == run[0] and one[1] > run[1]]
        closed = self.closed_at.get(run, self.now)
        if later or closed < ask.asked or self.now - closed > ANSWER_HOLDS:
            raise Violation(f"launched when it was over: {run}")
        self.launches.add(run)
        self.granted.setdefault(run, []).append(leader.gang)
        leader.launched = True
        leader.end = self.now + self.rng.choice((1.0, 20.0, 300.0))
        for one in leader.gang:
            one.begun = True

    def check_fence(self, record: str, run: int) -> None:
        """No process lives that belongs to a gang that an earlier run was granted to, whether it launched or not."""
        for (other, number), gangs in self.granted.items():
            living = [one.pod for gang in gangs for one in gang if one.alive]
            if other == record and number < run and living:
                raise Violation(f"run {run} of {record} begins, and of run {number} there live {living}")

    def finish(self, leader: Process, outcome: str) -> None:
        """The leader ends its run, and lets the workers go whom it reaches."""
        leader.report = Report(nonce=leader.nonce, outcome=outcome)
        for one in leader.gang:
            if one is not leader and one.alive and one.leader is leader and self.reachable(leader, one):
                self.kill(one)
        self.kill(leader)
        self.reports.append(leader)

    def reporting(self) -> list[Process]:
        """Leaders that have ended since this was last asked."""
        found, self.reports = self.reports, []
        return found

    def granted_leader(self, record: Record) -> Process | None:
        """The process that holds the granted nonce, if it lives."""
        nonce = record.register.nonce if record.register is not None else ""
        gang = self.gangs.get(nonce, ())
        return gang[0] if gang and gang[0].alive else None
