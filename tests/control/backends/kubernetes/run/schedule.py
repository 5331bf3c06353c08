"""Random schedules: two controllers that know nothing of each other, people, faults as the default, and then calm."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.run import decide as deciding
from shim.control.backends.kubernetes.run import evidence, register
from shim.control.backends.kubernetes.run.decide import Answer, CreateJob, Decision, Delete, TellEnd, Write
from shim.control.backends.kubernetes.run.evidence import Node, Renewals, Report, Seen
from shim.control.backends.kubernetes.run.register import Ask, Record, Wanted
from tests.control.backends.kubernetes.run.simulated import Cluster, Machine, PodObject, Process, Violation

STEPS = 130
CALM = 1500.0  # seconds without faults within which every job must have come to its end


class Controller:
    """Carries out what is decided. Its watch may lag for any time, its requests and answers may be lost, or come late."""

    def __init__(self, world: Schedule, name: str) -> None:
        self.world, self.cluster, self.name = world, world.cluster, name
        self.restart()

    def restart(self) -> None:
        """A new process: nothing in memory, a fresh list, a clock of its own."""
        cluster, rng = self.cluster, self.world.rng
        self.lag = rng.choice((1.0, 0.6, 0.2, 0.03))
        self.offset, self.rate = rng.random() * 1000, 0.99 + rng.random() * 0.02
        self.cache: dict[str, dict[str, Any]] = {kind: dict(store) for kind, store in cluster.api.stores.items()}
        self.position = len(cluster.api.log)
        self.stuck = 0.0  # until then the watch tells nothing
        self.over = {pod.uid for pod in cluster.api.pods.values() if pod.ended and not pod.unknown}
        self.asks: dict[str, Ask] = {}
        self.reports: dict[str, Report] = {}
        self.heard: dict[tuple[str, int], float] = {}
        self.since: dict[str, tuple[Any, float]] = {}
        self.absent: dict[str, float] = {}
        self.leases: dict[str, Renewals] = {}

    @property
    def now(self) -> float:
        return self.cluster.now * self.rate + self.offset

    def follow(self, count: int) -> None:
        """Takes up to ``count`` events from its watch."""
        log = self.cluster.api.log
        for kind, name, value in log[self.position : self.position + count]:
            if value is None:
                self.cache[kind].pop(name, None)
            else:
                self.cache[kind][name] = value
                if kind == "pod" and value.ended and not value.unknown:
                    self.over.add(value.uid)
        self.position = min(len(log), self.position + count)

    def look(self, name: str) -> Decision | None:
        world, rng = self.world, self.world.rng
        if self.cluster.now >= self.stuck or not world.chaos:
            self.follow(10**6 if rng.random() < self.lag or not world.chaos else rng.randrange(3))
        store = self.cluster.api.records if rng.random() < 0.3 else self.cache["record"]
        record: Record | None = store.get(name)
        if record is None:
            asked = [ask for ask in self.asks.values() if not any(one.uid == ask.record for one in store.values())]
            for ask in asked[:1]:
                self._answer(name, ask)
            return None
        seen = self.see(record)
        decision = deciding.decide(record, seen, self.now)
        for effect in decision.effects:
            self.carry_out(record, effect)
        return decision

    def see(self, record: Record) -> Seen:
        world, rng, now = self.world, self.world.rng, self.now
        run = record.register
        if record.uid not in self.since or self.since[record.uid][0] != run:
            self.since[record.uid] = (run, now)
        asks = tuple(ask for ask in self.asks.values() if ask.record == record.uid)
        closed = run is not None and run.state == register.OVER
        if run is not None and run.members:
            key = (record.uid, run.run)
            leader = self.cluster.granted_leader(record)
            spoken = (
                leader is not None and leader.machine.in_touch and leader.paused <= self.cluster.now and world.lucky()
            )
            self.heard[key] = now if spoken else self.heard.get(key, now)
            if world.lucky():
                self._look_for_pods(record, run)
        nodes: dict[str, Node] = {}
        if world.nodes_readable and (closed or asks):
            members = [member for ask in asks for member in ask.members] + list(run.members if run is not None else ())
            for name in sorted({member.node for member in members}):
                if world.lucky():
                    nodes[name] = self.node(name)
                    self._look_at_lease(name)
        return Seen(
            jobs=tuple(job for job in self.cache["job"].values() if job.record == record.uid),
            pods=tuple(pod for pod in self.cache["pod"].values() if pod.record == record.uid),
            over=frozenset(self.over),
            asks=asks,
            report=self.reports.get(record.uid),
            since=self.since[record.uid][1],
            heard=self.heard.get((record.uid, run.run), now) if run is not None else now,
            nodes=nodes if world.nodes_readable else None,
            leases=self.leases,
            absent=self.absent,
            turn=not world.chaos or rng.random() < 0.6,
            archived=not world.chaos or rng.random() < 0.5,
        )

    def node(self, name: str) -> Node:
        return self.cluster.machines[name].shown or Node(gone=True)

    def _look_for_pods(self, record: Record, run: register.Register) -> None:
        """A live read of the run's pods."""
        there = {pod.uid for pod in self.cluster.api.pods.values() if pod.record == record.uid}
        for member in run.members:
            if member.pod in there:
                self.absent.pop(member.pod, None)
            else:
                self.absent.setdefault(member.pod, self.now)

    def _look_at_lease(self, name: str) -> None:
        machine = self.cluster.machines[name]
        if machine.shown is None:
            self.leases.pop(name, None)
        else:
            self.leases[name] = evidence.renewals(self.leases.get(name), repr(machine.renewed), self.now)

    def carry_out(self, record: Record, effect: deciding.Effect) -> None:
        cluster, world = self.cluster, self.world
        if isinstance(effect, Write):
            write = effect
            world.request(lambda: cluster.write(write.name, write.uid, write.version, write.register, write.ended))
        elif isinstance(effect, CreateJob):
            create = effect
            world.request(lambda: cluster.create_job(create.name, create.record, create.run))
        elif isinstance(effect, Delete):
            delete = effect
            world.request(lambda: cluster.delete(delete.kind, delete.name, delete.uid))
        elif isinstance(effect, Answer):
            self._answer(record.name, effect.ask)
        elif isinstance(effect, TellEnd):
            leader = cluster.granted_leader(record)
            if leader is not None and leader.machine.in_touch and leader.paused <= cluster.now and world.lucky():
                cluster.finish(leader, "CANCELLED")
                world.report(leader)

    def _answer(self, name: str, ask: Ask) -> None:
        """Reads live, says what it finds, and nothing where it could not read."""
        if not self.world.lucky():
            return
        store = self.cache["record"] if "cached answers" in self.cluster.plant else self.cluster.api.records
        answered = register.answer(store.get(name), ask)
        if answered is not None:
            self.asks.pop(ask.nonce, None)
            self.world.reply(ask, answered)


class Schedule:
    plant: frozenset[str] = frozenset()  # faults of the cluster or of the driver that are built in: plants.py

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.cluster = Cluster(rng, self.plant)
        self.chaos = True
        self.nodes_readable = rng.random() < 0.8
        self.luck = rng.choice((0.95, 0.85, 0.6))
        self.late: list[Callable[[], None]] = []
        self.replies: list[tuple[Ask, bool]] = []
        self.controllers = [Controller(self, "a"), Controller(self, "b")]
        self.names = ["slurm-1"] if rng.random() < 0.6 else ["slurm-1", "slurm-2"]
        kinds = [self.crash, self.force, self.gently, self.take_job, self.orphan, self.suspend, self.new_container]
        kinds += [self.reboot, self.power, self.cut, self.pause, self.exits, self.unlink, self.stick]
        self.faults = rng.sample(kinds, rng.choice((2, 3, 4, 14)))  # few kinds meet oftener
        self.worst = rng.choice((0.0, 0.2, 0.5))  # how often one comes while a leader asks
        self.pace = rng.choice((1.0, 2.0, 5.0))
        self.actions: list[tuple[int, Callable[[], None]]] = [
            (20, self.look),
            (6, self.kubernetes),
            (12, self.kubelet),
            (12, self.agents),
            (10, self.deliver),
            (14, self.together),
            (3, self.apply_late),
            (2, self.person),
            (rng.choice((2, 6, 14)), self.fault),
            (3, lambda: self.cluster.advance(rng.choice((5.0, 20.0, 35.0)))),
        ]

    def run(self) -> None:
        """Raises Violation."""
        rng = self.rng
        wheel = [action for weight, action in self.actions for _ in range(weight)]
        for name in self.names:
            self.submit(name)
        for _ in range(STEPS):
            self.cluster.advance(rng.random() * self.pace)
            self.mend_machines()
            wheel[int(rng.random() * len(wheel))]()
        self.calm()

    def submit(self, name: str) -> None:
        if name not in self.cluster.api.records:
            wanted = Wanted(requeue=self.rng.random() < 0.8)
            self.cluster.submit(name, self.rng.choice((1, 1, 2, 3)), wanted)

    # Requests and answers

    def lucky(self) -> bool:
        return not self.chaos or self.rng.random() < self.luck

    def request(self, apply: Callable[[], None]) -> None:
        """Lost on its way, applied at some time, or applied now; whoever sent it is told nothing that it could rely on."""
        if self.lucky():
            apply()
        elif self.rng.random() < 0.6:
            self.late.append(apply)

    def apply_late(self) -> None:
        if self.late:
            self.late.pop(self.rng.randrange(len(self.late)))()

    def ask(self, leader: Process, ask: Ask) -> None:
        if self.chaos and self.rng.random() < self.worst:
            self.fault()
        if leader.machine.in_touch:
            for controller in self.controllers:
                if self.rng.random() < 0.7:
                    controller.asks[ask.nonce] = ask

    def reply(self, ask: Ask, answered: bool) -> None:
        if self.lucky():
            self.replies.append((ask, answered))

    def deliver(self) -> None:
        if self.replies:
            ask, answered = self.replies.pop(self.rng.randrange(len(self.replies)))
            gang = self.cluster.gangs[ask.nonce]
            if gang[0].paused > self.cluster.now or not gang[0].machine.in_touch:
                self.replies.append((ask, answered))
            else:
                self.cluster.hear(gang[0], ask, answered)

    def report(self, leader: Process) -> None:
        for controller in self.controllers:
            if leader.report is not None and leader.machine.in_touch and self.lucky():
                controller.reports[leader.record] = leader.report

    # Steps

    def look(self) -> None:
        controller = self.controllers[self.rng.random() < 0.4]
        controller.look(self.rng.choice(self.names))

    def kubelet(self) -> None:
        machine = self.any_machine()
        if machine.in_touch:
            self.cluster.kubelet(machine)

    def kubernetes(self) -> None:
        self.cluster.job_controller()
        self.cluster.scheduler()

    def together(self) -> None:
        """Everything that usually happens within a second."""
        self.look()
        self.kubernetes()
        for machine in self.cluster.machines.values():
            if machine.in_touch:
                self.cluster.kubelet(machine)
        self.agents()
        self.look()
        self.deliver()

    def agents(self) -> None:
        for process in list(self.cluster.processes):
            self.cluster.agent(process, self.ask)
            if process.report is not None:
                self.report(process)

    def person(self) -> None:
        name = self.rng.choice(self.names)
        record = self.cluster.api.records.get(name)
        if record is None:
            return self.submit(name)  # ids begin again: another job of the same name
        what = self.rng.random()
        if what < 0.3:
            self.cluster.want(name, cancel=True)
        elif what < 0.6:
            self.cluster.want(name, hold=not record.wanted.hold)
        return None

    # Faults

    def fault(self) -> None:
        self.rng.choice(self.faults)()

    def any_machine(self) -> Machine:
        return self.rng.choice(list(self.cluster.machines.values()))

    def any_pod(self) -> PodObject | None:
        pods = list(self.cluster.api.pods.values())
        return self.rng.choice(pods) if pods else None

    def any_process(self) -> Process | None:
        """Often a leader between its ask and its launch, where it matters most."""
        asking = [process for process in self.cluster.processes if process.nonce and not process.launched]
        among = asking if asking and self.rng.random() < 0.5 else self.cluster.processes
        return self.rng.choice(among) if among else None

    def crash(self) -> None:
        self.rng.choice(self.controllers).restart()

    def force(self) -> None:
        pod = self.any_pod()
        if pod is not None:
            self.cluster.say("by hand: pod away, by force", pod.name)
            self.cluster.api.remove("pod", pod.name)

    def gently(self) -> None:
        pod = self.any_pod()
        if pod is not None:
            self.cluster.take("pod", pod)

    def take_job(self) -> None:
        for job in list(self.cluster.api.jobs.values())[:1]:
            self.cluster.say("by hand: Job away", job.name)
            self.cluster.take("job", job)

    def orphan(self) -> None:
        for job in list(self.cluster.api.jobs.values())[:1]:
            self.cluster.say("by hand: Job away, its pods orphaned", job.name)
            for pod in list(self.cluster.api.pods.values()):
                if pod.job == job.uid:
                    self.cluster.api.put("pod", pod.replace(job=""))
            self.cluster.take("job", job)

    def suspend(self) -> None:
        for job in list(self.cluster.api.jobs.values())[:1]:
            self.cluster.say("by hand: suspended, or resumed", job.name)
            self.cluster.api.put("job", job.replace(suspended=not job.suspended))

    def new_container(self) -> None:
        """The runtime has lost a container, and the kubelet starts another in the same pod."""
        process = self.any_process()
        if process is not None and process.machine.on:
            pod = next((one for one in self.cluster.api.pods.values() if one.uid == process.pod), None)
            if pod is not None and not pod.ended:
                self.cluster.say("another container", pod.name)
                self.cluster.kill(process)
                process.machine.containers[pod.uid].lost = True

    def exits(self) -> None:
        process = self.any_process()
        if process is not None:
            self.cluster.kill(process)

    def unlink(self) -> None:
        process = self.any_process()
        if process is not None:
            process.leader = None

    def pause(self) -> None:
        process = self.any_process()
        if process is not None:
            process.paused = self.cluster.now + self.rng.choice((5.0, 40.0, 100.0))

    def down(self, machine: Machine) -> None:
        for container in machine.containers.values():
            if container.process.alive:
                self.cluster.kill(container.process)
                container.lost = True
            elif self.rng.random() < 0.5:
                container.lost = True
        machine.boots += 1
        machine.boot = f"{machine.name}-boot{machine.boots}"

    def reboot(self) -> None:
        machine = self.any_machine()
        self.cluster.say("reboot", machine.name)
        self.down(machine)
        self.up(machine)

    def power(self) -> None:
        """Off, and perhaps somebody vouches for it; or on again, where the taint may stay for a while."""
        machine = self.any_machine()
        if machine.on:
            self.cluster.say("off", machine.name)
            self.down(machine)
            machine.on = False
        elif machine.shown is not None and not machine.shown.out_of_service:
            self.cluster.say("vouched off", machine.name)
            machine.shown = None if self.rng.random() < 0.5 else machine.shown.replace(out_of_service=True)
        else:
            self.up(machine)

    def up(self, machine: Machine) -> None:
        self.cluster.say("on", machine.name)
        machine.on = True
        shown = machine.shown or Node(boot=machine.boot)
        machine.shown = shown if self.chaos and self.rng.random() < 0.5 else shown.replace(out_of_service=False)
        machine.due = self.cluster.now + 20.0

    def stick(self) -> None:
        self.rng.choice(self.controllers).stuck = self.cluster.now + self.rng.choice((30.0, 100.0, 200.0))

    def cut(self) -> None:
        process = self.any_process()
        machine = process.machine if process is not None else self.any_machine()
        self.cluster.say("cut", machine.name)
        machine.cut, machine.cut_at = self.rng.random() < 0.8, self.cluster.now
        machine.cut_until = self.cluster.now + self.rng.choice((5.0, 20.0, 35.0, 45.0, 90.0, 200.0))
        machine.island = self.rng.random() < 0.5
        if machine.island:
            for process in self.cluster.processes:
                if process.leader is not None and machine in (process.machine, process.leader.machine):
                    process.leader = None if self.rng.random() < 0.7 else process.leader

    def mend_machines(self) -> None:
        for machine in self.cluster.machines.values():
            if (machine.cut or machine.island) and machine.cut_until <= self.cluster.now:
                self.mend(machine)

    def mend(self, machine: Machine) -> None:
        self.cluster.say("mended", machine.name)
        if machine.cut and self.cluster.now - machine.cut_at > 25.0:
            machine.due = self.cluster.now + 20.0
        machine.cut = machine.island = False

    # Calm

    def calm(self) -> None:
        """Faults end: every job must come to its end, and leave nothing."""
        cluster = self.cluster
        cluster.say("calm")
        self.chaos = False
        while self.late:
            self.apply_late()
        for machine in cluster.machines.values():
            self.up(machine)
            self.mend(machine)
        for job in list(cluster.api.jobs.values()):
            cluster.api.put("job", job.replace(suspended=False))
        for name, record in list(cluster.api.records.items()):
            if record.wanted.hold:
                cluster.want(name, hold=False)
        end = cluster.now + CALM
        while cluster.api.records or cluster.api.jobs or cluster.processes:
            if cluster.now > end:
                raise Violation(f"without an end: {cluster.api.records} {cluster.api.jobs} {cluster.api.pods}")
            self.quiet()

    def quiet(self) -> None:
        cluster = self.cluster
        cluster.advance(5.0)
        self.kubernetes()
        for machine in cluster.machines.values():
            cluster.kubelet(machine)
        self.agents()
        for controller in self.controllers:
            for name in self.names:
                self.vouch(controller.look(name), name)
        while self.replies:
            self.deliver()
            if all(cluster.gangs[ask.nonce][0].paused > cluster.now for ask, _ in self.replies):
                break

    def vouch(self, decision: Decision | None, name: str) -> None:
        """Where Nodes may not be read a person looks, once it waits."""
        record = self.cluster.api.records.get(name)
        if decision is None or record is None or record.register is None or decision.free or self.nodes_readable:
            return
        gangs = self.cluster.granted.get((record.uid, record.register.run), [])
        living = any(one.alive for gang in gangs for one in gang)
        if decision.next in (deciding.WAITS, deciding.ENDED) and not living and self.rng.random() < 0.1:
            self.cluster.want(name, vouched=record.register.run)
