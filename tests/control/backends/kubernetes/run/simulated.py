"""A simulated cluster: an API server with its log of changes, the Job controller, the scheduler, kubelets, and our agents.

It does what Kubernetes documents or was seen to do, at its worst: kubelets learn of things late, objects are gone while processes live
on, a container is started again, a Job makes an index twice. What must never happen raises ``Violation`` at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.run.evidence import Job, Node, Pod, Report
from shim.control.backends.kubernetes.run.register import (
    ANSWER_HOLDS,
    GRANTED,
    MADE,
    OVER,
    WITHDRAWN,
    Ask,
    Limits,
    Member,
    Record,
    Register,
    Wanted,
    may_launch,
)

LIMITS = Limits(boot=60.0, node=30.0, cancel=10.0, grace=5.0)
AGENT_BOOT = 80.0  # an agent whose run does not begin ends by itself
ORPHAN = 60.0  # so does a worker that has lost its leader
HEARS = 20.0  # a kubelet that is in touch learns of everything within that time
RENEWS = 10.0

ARROWS = {(MADE, GRANTED), (MADE, WITHDRAWN), (GRANTED, OVER)}


class Violation(AssertionError):
    """The invariant does not hold."""


class JobObject(Job):
    record: str  # uid of its owner
    width: int
    suspended: bool = False
    failed: frozenset[int] = frozenset()


class PodObject(Pod):
    record: str
    job: str = ""  # uid of its owner; empty: an orphan


class Process:
    """An agent, in a container of a pod. ``gang``: a leader's members, itself included."""

    def __init__(self, sim: Cluster, pod: PodObject, machine: Machine) -> None:
        self.pod, self.record, self.run, self.index = pod.uid, pod.record, pod.run, pod.index
        self.machine, self.boot, self.alive = machine, machine.boot, True
        self.leader: Process | None = None
        self.gang: tuple[Process, ...] = ()
        self.nonce = ""
        self.launched = self.begun = False
        self.deadline = sim.now + AGENT_BOOT
        self.asked_last = -1000.0
        self.paused = 0.0  # until then it does nothing, as in a stopped virtual machine
        self.end = 0.0
        self.report: Report | None = None
        self.lost_since = 0.0

    @property
    def linked(self) -> bool:
        return all(one.alive and (one is self or one.leader is self) for one in self.gang)


class Container:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.lost = False  # the machine was rebooted: the runtime knows nothing of it
        self.term: float | None = None


class Machine:
    """A node: the machine, its kubelet, and what the API shows of it."""

    def __init__(self, name: str) -> None:
        self.name, self.boot = name, f"{name}-boot0"
        self.boots = 0
        self.on = True
        self.cut = False  # from the API server
        self.cut_at = self.cut_until = 0.0
        self.island = False  # from the other nodes
        self.containers: dict[str, Container] = {}
        self.due = self.touched = 0.0
        self.renewed = 0.0  # the Lease
        self.shown: Node | None = Node(boot=self.boot)

    @property
    def in_touch(self) -> bool:
        return self.on and not self.cut and self.shown is not None


class Api:
    """Objects by name. Every change is in the log, which watches follow; the live state is the end of the log."""

    def __init__(self) -> None:
        self.stores: dict[str, dict[str, Any]] = {"record": {}, "job": {}, "pod": {}}
        self.records: dict[str, Record] = self.stores["record"]
        self.jobs: dict[str, JobObject] = self.stores["job"]
        self.pods: dict[str, PodObject] = self.stores["pod"]
        self.log: list[tuple[str, str, Any]] = []

    def put(self, kind: str, value: Any) -> None:
        self.stores[kind][value.name] = value
        self.log.append((kind, value.name, value))

    def remove(self, kind: str, name: str) -> None:
        del self.stores[kind][name]
        self.log.append((kind, name, None))


class Cluster:
    """The whole, without those who drive it. ``plant``: names of faults that are built in."""

    def __init__(self, rng: random.Random, plant: frozenset[str] = frozenset(), machines: int = 3) -> None:
        self.rng, self.plant = rng, plant
        self.now = 0.0
        self.api = Api()
        self.machines = {name: Machine(name) for name in [f"n{number}" for number in range(machines)]}
        self.processes: list[Process] = []
        self.gangs: dict[str, tuple[Process, ...]] = {}  # by nonce
        self.granted: dict[tuple[str, int], list[tuple[Process, ...]]] = {}
        self.launches: set[tuple[str, int]] = set()
        self.closed_at: dict[tuple[str, int], float] = {}  # when a granted run was over
        self.uids = 0
        self.versions = 0
        self.told: list[str] = []

    def uid(self, what: str) -> str:
        self.uids += 1
        return f"{what}{self.uids}"

    def say(self, *words: object) -> None:
        self.told.append(f"{self.now:7.1f} " + " ".join(str(word) for word in words))

    # Time

    def advance(self, seconds: float) -> None:
        """Lets time pass; kubelets that are in touch do not sleep through it."""
        while seconds > 0:
            step = min(seconds, 5.0)
            seconds -= step
            self.now += step
            for machine in self.machines.values():
                if machine.in_touch:
                    machine.touched = self.now
                    if self.now - machine.renewed >= RENEWS:
                        machine.renewed = self.now
                    if self.now >= machine.due:
                        self.kubelet(machine)

    # Requests

    def submit(self, name: str, nodes: int, wanted: Wanted) -> None:
        self.versions += 1
        record = Record(
            name=name, uid=self.uid("record"), version=self.versions, nodes=nodes, wanted=wanted, limits=LIMITS
        )
        self.say("submit", name, record.uid, nodes, wanted)
        self.api.put("record", record)

    def want(self, name: str, **changes: Any) -> None:
        """A person, through whichever command: the other half of the record."""
        record = self.api.records[name]
        self.versions += 1
        self.say("want", name, changes)
        self.api.put("record", record.replace(wanted=record.wanted.replace(**changes), version=self.versions))

    def write(self, name: str, uid: str, version: int, register: Register | None, ended: str) -> None:
        record = self.api.records.get(name)
        if record is None or record.uid != uid or (record.version != version and "unversioned" not in self.plant):
            self.say("409", name, version)
            return
        if not self.plant & {"unversioned", "register on the Job"}:
            self._check_arrow(record, register, ended)
        if register is not None and register.state == MADE and record.register != register:
            self._check_fence(record.uid, register.run)
        if register is not None and register.state == GRANTED:
            self.granted.setdefault((uid, register.run), []).append(self.gangs[register.nonce])
        if register is not None and register.state == OVER:
            self.closed_at.setdefault((uid, register.run), self.now)
        self.versions += 1
        self.say("write", name, register, ended)
        self.api.put("record", record.replace(register=register, ended=ended, version=self.versions))

    def _check_arrow(self, record: Record, register: Register | None, ended: str) -> None:
        before = record.register
        if record.ended and (record.ended != ended or register != before):
            raise Violation(f"{record.name} had ended: {record} {register}")
        if before == register:
            return
        assert register is not None
        if before is None or before.run != register.run:
            follows = register.run == (0 if before is None else before.run + 1) and register.state == MADE
            if not follows or (before is not None and not before.closed):
                raise Violation(f"from {before} to {register}")
        elif (before.state, register.state) not in ARROWS or (before.nonce and before.nonce != register.nonce):
            raise Violation(f"from {before} to {register}")

    def create_job(self, name: str, uid: str, run: int) -> None:
        if name in self.api.jobs:
            return
        record = self.api.records.get(name.rsplit("-r", 1)[0])
        self.say("job", name, uid)
        width = record.nodes if record is not None else 1
        self.api.put("job", JobObject(name=name, uid=self.uid("job"), run=run, record=uid, width=width))

    def delete(self, kind: str, name: str, uid: str) -> None:
        """On behalf of a controller: only what belongs to a run that launches nothing any more."""
        found = self.api.stores[kind].get(name)
        if found is None or (found.uid != uid and "no uids" not in self.plant):
            return
        if kind == "record":
            if not found.ended:
                raise Violation(f"the record of a job that has not ended is deleted: {found}")
        else:
            record = next((one for one in self.api.records.values() if one.uid == found.record), None)
            register = record.register if record is not None else None
            if register is not None and (
                found.run > register.run or (found.run == register.run and not register.closed)
            ):
                raise Violation(f"deleted, and its run goes on: {found} {register}")
        self.say("delete", kind, name, uid)
        self.take(kind, found)

    def take(self, kind: str, found: Any) -> None:
        """Deletes as the API server does."""
        if kind == "pod" and found.node:
            if not found.deleting:
                self.api.put("pod", found.replace(deleting=True))
        else:
            self.api.remove(kind, found.name)
            if kind == "job" and "register on the Job" in self.plant:
                self._lose_register(found)

    def _lose_register(self, job: JobObject) -> None:
        for record in list(self.api.records.values()):
            register = record.register
            if (
                record.uid == job.record
                and register is not None
                and register.run == job.run
                and register.state == GRANTED
            ):
                self.versions += 1
                self.api.put("record", record.replace(register=Register(run=job.run), version=self.versions))

    # What Kubernetes does

    def job_controller(self) -> None:
        """Also the garbage collector."""
        api, rng = self.api, self.rng
        owners = {record.uid for record in api.records.values()}
        for job in list(api.jobs.values()):
            if job.record not in owners:
                self.take("job", job)
        jobs = {job.uid: job for job in api.jobs.values()}
        pods: dict[str, list[PodObject]] = {uid: [] for uid in jobs}
        for pod in list(api.pods.values()):
            machine = self.machines.get(pod.node)
            if machine is not None and (machine.shown is None or machine.shown.out_of_service):
                api.remove("pod", pod.name)
            elif pod.job in jobs:
                pods[pod.job].append(pod)
            elif pod.job:
                self.take("pod", pod)
        for uid, job in jobs.items():
            mine = pods[uid]
            if job.suspended:
                for pod in mine:
                    self.take("pod", pod)
                continue
            failed = job.failed | {pod.index for pod in mine if pod.ended and not pod.deleting}
            if failed != job.failed:
                job = job.replace(failed=failed, finished=job.finished or 0 in failed)
                api.put("job", job)
            if job.finished:
                for pod in mine:
                    if not pod.ended:
                        self.take("pod", pod)
                continue
            there = {pod.index for pod in mine if not pod.deleting}
            for index in range(job.width):
                if (index not in there and index not in failed) or rng.random() < 0.004:
                    name = self.uid("pod-")
                    api.put("pod", PodObject(name=name, uid=name, run=job.run, index=index, record=job.record, job=uid))

    def scheduler(self) -> None:
        good = [
            machine.name
            for machine in self.machines.values()
            if machine.shown is not None and not machine.shown.out_of_service and self.now - machine.touched < 40
        ]
        for pod in list(self.api.pods.values()):
            if not pod.node and good and not pod.deleting:
                self.api.put("pod", pod.replace(node=self.rng.choice(good)))

    def kubelet(self, machine: Machine) -> None:
        """Brings the machine's containers and what the API shows of them together."""
        machine.due = self.now + HEARS
        there = set()
        for pod in list(self.api.pods.values()):
            if pod.node == machine.name:
                there.add(pod.uid)
                self._kubelet_pod(machine, pod)
        for uid, container in list(machine.containers.items()):
            if uid not in there and self._stopped(container):
                del machine.containers[uid]
        if machine.shown is not None and machine.shown.boot != machine.boot and self.rng.random() < 0.7:
            machine.shown = machine.shown.replace(boot=machine.boot)

    def _kubelet_pod(self, machine: Machine, pod: PodObject) -> None:
        container = machine.containers.get(pod.uid)
        if container is None:
            if pod.deleting:
                self.api.remove("pod", pod.name)
            elif not pod.ended:
                self._start(machine, pod)
        elif container.lost:
            if pod.deleting or pod.ended or self.rng.random() < 0.3:
                del machine.containers[pod.uid]
                self.api.put("pod", pod.replace(ended=True, unknown=pod.unknown or not pod.ended))
            else:
                self._start(machine, pod)
        elif not container.process.alive or (pod.deleting and self._stopped(container)):
            if not pod.ended:
                pod = pod.replace(ended=True, report=container.process.report)
                self.api.put("pod", pod)
            if pod.deleting:
                self.api.remove("pod", pod.name)

    def _start(self, machine: Machine, pod: PodObject) -> None:
        process = Process(self, pod, machine)
        machine.containers[pod.uid] = Container(process)
        self.processes.append(process)

    def _stopped(self, container: Container) -> bool:
        """TERM, and KILL within the grace period."""
        if container.term is None:
            container.term = self.now
        if container.process.alive and self.now >= container.term + self.rng.random() * LIMITS.grace:
            self.kill(container.process)
        return not container.process.alive

    def kill(self, process: Process) -> None:
        process.alive = False
        self.processes.remove(process)

    # What agents do

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
        if leader is not None and leader.alive:
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
        width = 1
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
        self._check_fence(*run)
        later = [one for one in self.granted if one[0] == run[0] and one[1] > run[1]]
        closed = self.closed_at.get(run, self.now)
        if later or closed < ask.asked or self.now - closed > ANSWER_HOLDS:
            raise Violation(f"launched when it was over: {run}")
        self.launches.add(run)
        leader.launched = True
        leader.end = self.now + self.rng.choice((1.0, 20.0, 100.0))
        for one in leader.gang:
            one.begun = True

    def _check_fence(self, record: str, run: int) -> None:
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

    def granted_leader(self, record: Record) -> Process | None:
        """The process that holds the granted nonce, if it lives."""
        nonce = record.register.nonce if record.register is not None else ""
        gang = self.gangs.get(nonce, ())
        return gang[0] if gang and gang[0].alive else None
