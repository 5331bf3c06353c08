"""A simulated cluster: an API server with its log of changes, the Job controller, the scheduler, kubelets, and our agents.

It does what Kubernetes documents or was seen to do, at its worst: kubelets learn of things late, objects are gone while processes live
on, a container is started again, a Job makes an index twice. What must never happen raises ``Violation`` at once.
"""

from __future__ import annotations

import random
from typing import Any

from shim.control.backends.kubernetes.run.register import GRANTED, MADE, OVER, WITHDRAWN, Record, Register, Wanted
from tests.control.backends.kubernetes.run.agents import Agents
from tests.control.backends.kubernetes.run.things import (
    HEARS,
    LIMITS,
    RENEWS,
    Container,
    JobObject,
    Machine,
    PodObject,
    Process,
    Violation,
)

ARROWS = {(MADE, GRANTED), (MADE, WITHDRAWN), (GRANTED, OVER)}


class Cluster(Agents):
    """The whole, without those who drive it. ``plant``: names of faults that are built in."""

    def __init__(self, rng: random.Random, plant: frozenset[str] = frozenset(), machines: int = 3) -> None:
        super().__init__(rng, plant)
        self.machines = {name: Machine(name) for name in [f"n{number}" for number in range(machines)]}
        self.versions = 0

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
            name=name, uid=self.uid("record"), version=str(self.versions), nodes=nodes, wanted=wanted, limits=LIMITS
        )
        self.say("submit", name, record.uid, nodes, wanted)
        self.api.put("record", record)

    def want(self, name: str, **changes: Any) -> None:
        """A person, through whichever command: the other half of the record."""
        record = self.api.records[name]
        self.versions += 1
        self.say("want", name, changes)
        self.api.put("record", record.replace(wanted=record.wanted.replace(**changes), version=str(self.versions)))

    def write(self, name: str, uid: str, version: int, register: Register | None, ended: str, **more: Any) -> None:
        record = self.api.records.get(name)
        if record is None or record.uid != uid or (record.version != version and "unversioned" not in self.plant):
            self.say("409", name, version)
            return
        if not self.plant & {"unversioned", "register on the Job"}:
            self._check_arrow(record, register, ended)
        if register is not None and register.state == MADE and record.register != register:
            self.check_fence(record.uid, register.run)
        if register is not None and register.state == GRANTED:
            self.granted.setdefault((uid, register.run), []).append(self.gangs[register.nonce])
        if register is not None and register.state == OVER:
            self.closed_at.setdefault((uid, register.run), self.now)
        self.versions += 1
        self.say("write", name, register, ended)
        self.api.put("record", record.replace(register=register, ended=ended, version=str(self.versions), **more))

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
            self.check_forgotten(found)
        else:
            record = next((one for one in self.api.records.values() if one.uid == found.record), None)
            register = record.register if record is not None else None
            if register is not None and (
                found.run > register.run or (found.run == register.run and not register.closed)
            ):
                raise Violation(f"deleted, and its run goes on: {found} {register}")
        self.say("delete", kind, name, uid)
        self.take(kind, found)

    def check_forgotten(self, record: Record) -> None:
        if not record.ended:
            raise Violation(f"the record of a job that has not ended is deleted: {record}")

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
                self.api.put("record", record.replace(register=Register(run=job.run), version=str(self.versions)))

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
            elif pod.job or (pod.alone and pod.record not in owners):
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
        if machine.shown is not None and machine.shown.boot != machine.boot and self.now >= machine.shown_from:
            machine.shown = machine.shown.replace(boot=machine.boot)

    def _kubelet_pod(self, machine: Machine, pod: PodObject) -> None:
        container = machine.containers.get(pod.uid)
        if container is None:
            if pod.deleting:
                self.api.remove("pod", pod.name)
            elif not pod.ended:
                self.start(machine, pod)
        elif container.lost:
            if pod.deleting or pod.ended or self.rng.random() < 0.3:
                del machine.containers[pod.uid]
                self.api.put("pod", pod.replace(ended=True, unknown=pod.unknown or not pod.ended))
            else:
                self.start(machine, pod)
        elif not container.process.alive or (pod.deleting and self._stopped(container)):
            if not pod.ended:
                pod = pod.replace(ended=True, report=container.process.report)
                self.api.put("pod", pod)
            if pod.deleting:
                self.api.remove("pod", pod.name)

    def start(self, machine: Machine, pod: PodObject) -> None:
        process = Process(pod, machine, self.now)
        machine.containers[pod.uid] = Container(process)
        self.processes.append(process)

    def _stopped(self, container: Container) -> bool:
        """TERM, and KILL within the grace period."""
        if container.term is None:
            container.term = self.now
        if container.process.alive and self.now >= container.term + self.rng.random() * LIMITS.grace:
            self.kill(container.process)
        return not container.process.alive
