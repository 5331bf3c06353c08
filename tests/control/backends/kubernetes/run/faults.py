"""What goes wrong in the simulated cluster, and who makes it go wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

from shim.control.backends.kubernetes.run.evidence import Node
from tests.control.backends.kubernetes.run.controller import Controller
from tests.control.backends.kubernetes.run.simulated import Cluster
from tests.control.backends.kubernetes.run.things import HEARS, JobObject, Machine, PodObject, Process

# Kinds that need each other: a schedule of few kinds lets them meet, where all together only disturb each other.
TOGETHER = (
    ("cut", "give_up"),
    ("cut", "pause", "stick"),
    ("pause", "stick"),
    ("reboot", "cut", "new_container"),
    ("reboot", "exits", "unlink"),
    ("power", "cut", "pause"),
    ("suspend", "orphan", "take_job", "force"),
)


class Faults:
    def __init__(self, rng: random.Random, cluster: Cluster, controllers: list[Controller]) -> None:
        self.rng, self.cluster, self.controllers = rng, cluster, controllers
        self.victim: Process | None = None
        kinds: dict[str, Callable[[], None]] = {
            "crash": self.crash,
            "stick": self.stick,
            "force": self.force,
            "gently": self.gently,
            "take_job": self.take_job,
            "orphan": self.orphan,
            "suspend": self.suspend,
            "new_container": self.new_container,
            "exits": self.exits,
            "unlink": self.unlink,
            "pause": self.pause,
            "reboot": self.reboot,
            "power": self.power,
            "cut": self.cut,
            "give_up": self.give_up,
        }
        self.every = list(kinds.values())
        drawn = (
            rng.choice(TOGETHER) if rng.random() < 0.5 else rng.sample(sorted(kinds), rng.choice((2, 4, len(kinds))))
        )
        self.kinds = [kinds[name] for name in drawn]

    def one(self) -> None:
        self.rng.choice(self.kinds)()

    # Whom it meets: often whom it met before, or who stands between an ask and a launch; there it matters most

    def any_process(self) -> Process | None:
        rng = self.rng
        if self.victim is not None and self.victim.alive and rng.random() < 0.6:
            return self.victim
        asking = [process for process in self.cluster.processes if process.nonce and not process.launched]
        among = asking if asking and rng.random() < 0.5 else self.cluster.processes
        self.victim = rng.choice(among) if among else None
        return self.victim

    def any_machine(self) -> Machine:
        process = self.any_process()
        machines = list(self.cluster.machines.values())
        return process.machine if process is not None and self.rng.random() < 0.8 else self.rng.choice(machines)

    def any_pod(self) -> PodObject | None:
        process = self.any_process()
        pods = list(self.cluster.api.pods.values())
        its = [pod for pod in pods if process is not None and pod.uid == process.pod]
        among = its if its and self.rng.random() < 0.8 else pods
        return self.rng.choice(among) if among else None

    def any_job(self) -> JobObject | None:
        jobs = list(self.cluster.api.jobs.values())
        return self.rng.choice(jobs) if jobs else None

    # Controllers

    def crash(self) -> None:
        self.rng.choice(self.controllers).restart()

    def stick(self) -> None:
        self.rng.choice(self.controllers).stuck = self.cluster.now + self.rng.choice((30.0, 100.0, 200.0))

    # People with kubectl

    def force(self) -> None:
        """The object goes at once; the process lives until its kubelet hears of it."""
        pod = self.any_pod()
        if pod is not None:
            self.cluster.say("by hand: pod away, by force", pod.name)
            self.cluster.api.remove("pod", pod.name)

    def gently(self) -> None:
        pod = self.any_pod()
        if pod is not None:
            self.cluster.say("by hand: pod away", pod.name)
            self.cluster.take("pod", pod)

    def take_job(self) -> None:
        job = self.any_job()
        if job is not None:
            self.cluster.say("by hand: Job away", job.name)
            self.cluster.take("job", job)

    def orphan(self) -> None:
        job = self.any_job()
        if job is not None:
            self.cluster.say("by hand: Job away, its pods orphaned", job.name)
            for pod in list(self.cluster.api.pods.values()):
                if pod.job == job.uid:
                    self.cluster.api.put("pod", pod.replace(job=""))
            self.cluster.take("job", job)

    def suspend(self) -> None:
        job = self.any_job()
        if job is not None:
            self.cluster.say("by hand: Job", job.name, "resumed" if job.suspended else "suspended")
            self.cluster.api.put("job", job.replace(suspended=not job.suspended))

    # Containers

    def new_container(self) -> None:
        """The runtime has lost a container, and the kubelet may start another in the same pod."""
        process = self.any_process()
        if process is not None:
            self.cluster.say("container lost", process.pod)
            self.cluster.kill(process)
            process.machine.containers[process.pod].lost = True

    def exits(self) -> None:
        process = self.any_process()
        if process is not None:
            self.cluster.say("exits", process.pod)
            self.cluster.kill(process)

    def unlink(self) -> None:
        """A connection breaks between a worker and its leader."""
        process = self.any_process()
        if process is not None:
            process.leader = None

    def pause(self) -> None:
        """As a virtual machine that is stopped and goes on."""
        process = self.any_process()
        if process is not None:
            process.paused = self.cluster.now + self.rng.choice((5.0, 40.0, 100.0))
            self.cluster.say("pauses", process.pod, process.paused)

    # Machines

    def reboot(self) -> None:
        machine = self.any_machine()
        if machine.on:
            self.reboot_now(machine)

    def reboot_now(self, machine: Machine) -> None:
        self._down(machine)
        self.on(machine)

    def power(self) -> None:
        """Off; then somebody vouches for that; then on again, and the taint may be forgotten for a while."""
        machine = self.any_machine()
        if machine.on:
            self._down(machine)
            machine.on = False
        elif machine.shown is not None and not machine.shown.out_of_service:
            self.cluster.say("vouched off", machine.name)
            machine.shown = None if self.rng.random() < 0.5 else machine.shown.replace(out_of_service=True)
        else:
            self.on(machine, forgotten=self.rng.random() < 0.5)

    def _down(self, machine: Machine) -> None:
        self.cluster.say("down", machine.name)
        for container in machine.containers.values():
            if container.process.alive:
                self.cluster.kill(container.process)
                container.lost = True
            elif self.rng.random() < 0.5:
                container.lost = True
        machine.boots += 1
        machine.shown_from = self.cluster.now + self.rng.choice((0.0, 20.0, 100.0))
        machine.boot = f"{machine.name}-boot{machine.boots}"

    def on(self, machine: Machine, forgotten: bool = False) -> None:
        self.cluster.say("on", machine.name)
        machine.on = True
        shown = machine.shown or Node(boot=machine.boot)
        machine.shown = shown.replace(out_of_service=shown.out_of_service and forgotten)
        machine.due = self.cluster.now + HEARS

    def cut(self) -> None:
        """From the API server, from the other nodes, or both."""
        machine = self.any_machine()
        machine.cut = self.rng.random() < 0.8
        machine.island = not machine.cut or self.rng.random() < 0.5
        machine.cut_at = self.cluster.now
        machine.cut_until = self.cluster.now + self.rng.choice((5.0, 20.0, 30.0, 45.0, 90.0, 200.0))
        self.cluster.say("cut", machine.name, machine.cut, machine.island, machine.cut_until)
        if machine.island:
            for process in self.cluster.processes:
                across = process.leader is not None and machine in (process.machine, process.leader.machine)
                if across and self.rng.random() < 0.7:
                    process.leader = None

    def give_up(self) -> None:
        """A person forces away all pods of a node that does not answer."""
        for machine in self.cluster.machines.values():
            if machine.cut:
                for pod in list(self.cluster.api.pods.values()):
                    if pod.node == machine.name:
                        self.cluster.say("by hand: pod away, by force", pod.name)
                        self.cluster.api.remove("pod", pod.name)
                return

    def mend(self, machine: Machine) -> None:
        """A connection that was away for long is made anew, and the kubelet hears of what has happened only then."""
        self.cluster.say("mended", machine.name)
        if machine.cut and self.cluster.now - machine.cut_at > HEARS:
            machine.due = self.cluster.now + HEARS
        machine.cut = machine.island = False
