"""A random schedule: steps of everybody in any order, with faults as the rule; then calm, in which everything must come to its end."""

from __future__ import annotations

import random
from collections.abc import Callable

from shim.control.backends.kubernetes.run.decide import ENDED, WAITS, Decision
from shim.control.backends.kubernetes.run.register import Wanted
from shim.job.pod.asking import Ask
from tests.control.backends.kubernetes.run.controller import Controller
from tests.control.backends.kubernetes.run.faults import Faults
from tests.control.backends.kubernetes.run.simulated import Cluster
from tests.control.backends.kubernetes.run.things import HEARS, Process, Violation

STEPS = 150
CALM = 1500.0  # seconds without faults within which every job must have come to its end


class Schedule:
    plant: frozenset[str] = frozenset()  # faults of the cluster or of the driver that are built in: plants.py

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.cluster = Cluster(rng, self.plant)
        self.chaos = True
        self.nodes_readable = rng.random() < 0.8
        self.luck = rng.choice((0.95, 0.85, 0.6))
        self.pace = rng.choice((1.0, 2.0, 5.0, 8.0))  # seconds a step at most
        self.worst = rng.choice((0.0, 0.2, 0.5))  # how often a fault comes just when a leader asks
        self.late: list[Callable[[], None]] = []
        self.replies: list[tuple[Ask, bool]] = []
        self.names = ["slurm-1"] if rng.random() < 0.6 else ["slurm-1", "slurm-2"]
        self.controllers = [Controller(self, "a"), Controller(self, "b")]
        self.faults = Faults(rng, self.cluster, self.controllers)

    def run(self) -> None:
        """Raises Violation."""
        rng = self.rng
        weights: list[tuple[int, Callable[[], None]]] = [
            (20, self.look),
            (6, self.kubernetes),
            (12, self.kubelet),
            (12, self.agents),
            (10, self.deliver),
            (14, self.all_together),
            (3, self.apply_late),
            (2, self.person),
            (rng.choice((2, 6, 14)), self.faults.one),
            (3, self.wait),
        ]
        wheel = [action for weight, action in weights for _ in range(weight)]
        for name in self.names:
            self.submit(name)
        for _ in range(STEPS):
            self.cluster.advance(rng.random() * self.pace)
            self.mend()
            wheel[int(rng.random() * len(wheel))]()
        self.calm()

    # Requests and answers

    def lucky(self) -> bool:
        return not self.chaos or self.rng.random() < self.luck

    def request(self, apply: Callable[[], None]) -> None:
        """Applied now, at any later time, or never; whoever sent it is told nothing that it could rely on."""
        if self.lucky():
            apply()
        elif self.rng.random() < 0.6:
            self.late.append(apply)

    def apply_late(self) -> None:
        if self.late:
            self.late.pop(self.rng.randrange(len(self.late)))()

    def ask(self, leader: Process, ask: Ask) -> None:
        if self.chaos and self.rng.random() < self.worst:
            self.faults.one()
        if leader.machine.in_touch:
            for controller in self.controllers:
                if self.rng.random() < 0.7:
                    controller.asks[ask.nonce] = ask
                    controller.news.update(self.names)

    def reply(self, ask: Ask, answered: bool) -> None:
        if self.lucky():
            self.replies.append((ask, answered))

    def deliver(self) -> None:
        """Any of the answers that are on their way."""
        if not self.replies:
            return
        number = self.rng.randrange(len(self.replies))
        ask, answered = self.replies[number]
        leader = self.cluster.gangs[ask.nonce][0]
        if leader.paused <= self.cluster.now and leader.machine.in_touch:
            del self.replies[number]
            self.cluster.hear(leader, ask, answered)

    # Steps

    def look(self) -> None:
        controller = self.controllers[self.rng.random() < 0.4]
        controller.look(self.rng.choice(self.names))

    def kubernetes(self) -> None:
        self.cluster.job_controller()
        self.cluster.scheduler()

    def kubelet(self) -> None:
        machine = self.rng.choice(list(self.cluster.machines.values()))
        if machine.in_touch:
            self.cluster.kubelet(machine)

    def agents(self) -> None:
        for process in list(self.cluster.processes):
            self.cluster.agent(process, self.ask)
        for leader in self.cluster.reporting():
            for controller in self.controllers:
                if leader.report is not None and leader.machine.in_touch and self.lucky():
                    controller.reports[leader.record] = leader.report
                    controller.news.update(self.names)

    def all_together(self) -> None:
        """What usually happens within a second."""
        self.look()
        self.kubernetes()
        for machine in self.cluster.machines.values():
            if machine.in_touch:
                self.cluster.kubelet(machine)
        self.agents()
        self.look()
        self.deliver()

    def wait(self) -> None:
        self.cluster.advance(self.rng.choice((5.0, 20.0, 35.0)))

    def mend(self) -> None:
        for machine in self.cluster.machines.values():
            if (machine.cut or machine.island) and machine.cut_until <= self.cluster.now:
                self.faults.mend(machine)

    # People

    def submit(self, name: str) -> None:
        self.cluster.submit(name, self.rng.choice((1, 1, 2, 3)), Wanted(requeue=self.rng.random() < 0.8))

    def person(self) -> None:
        name = self.rng.choice(self.names)
        record = self.cluster.api.records.get(name)
        what = self.rng.random()
        if record is None:
            self.submit(name)  # ids have begun again: another job of the same name
        elif what < 0.3:
            self.cluster.want(name, cancel=True)
        elif what < 0.6:
            self.cluster.want(name, hold=not record.wanted.hold)

    def vouch(self, decision: Decision | None, name: str) -> None:
        """Where Nodes may not be read a person looks, once the job waits for it."""
        record = self.cluster.api.records.get(name)
        if decision is None or record is None or record.register is None or decision.free or self.nodes_readable:
            return
        gangs = self.cluster.granted.get((record.uid, record.register.run), [])
        living = any(one.alive for gang in gangs for one in gang)
        if decision.next in (WAITS, ENDED) and not living and self.rng.random() < 0.1:
            self.cluster.want(name, vouched=record.register.run)

    # Calm

    def calm(self) -> None:
        """Faults end: every job must come to its end, and leave no process and no object that would make one."""
        cluster = self.cluster
        cluster.say("calm")
        self.chaos = False
        while self.late:
            self.apply_late()
        for machine in cluster.machines.values():
            self.faults.mend(machine)
            self.faults.on(machine)
        for name, record in list(cluster.api.records.items()):
            if record.wanted.hold:
                cluster.want(name, hold=False)
        for name, record in cluster.api.records.items():
            if record.register is None or record.register.closed:
                for controller in self.controllers:
                    controller.news.add(name)  # from the scheduler, or from where ends are kept
        self.calm_since = cluster.now
        while cluster.api.records or cluster.api.jobs or cluster.processes:
            if cluster.now - self.calm_since > CALM:
                raise Violation(f"without an end: {cluster.api.records} {cluster.api.jobs} {cluster.api.pods}")
            self.quiet()

    def quiet(self) -> None:
        """Five seconds in which everybody does what there is to do."""
        cluster = self.cluster
        cluster.advance(5.0)
        self.kubernetes()
        for machine in cluster.machines.values():
            if cluster.now - self.calm_since > HEARS:  # those that were cut off may need that long
                cluster.kubelet(machine)
        self.agents()
        for controller in self.controllers:
            for name in controller.must_look():
                self.vouch(controller.look(name), name)
        for _ in range(len(self.replies)):
            self.deliver()
