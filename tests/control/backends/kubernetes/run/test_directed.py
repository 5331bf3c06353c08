"""Schedules by hand, for faults that luck hardly ever puts together; each breaks the invariant if the rule for it is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shim.control.backends.kubernetes.run.register import Wanted
from shim.job.pod.asking import Ask
from tests.control.backends.kubernetes.run.plants import PLANTS
from tests.control.backends.kubernetes.run.schedule import Schedule
from tests.control.backends.kubernetes.run.things import Process, Violation


class Stage(Schedule):
    """One job, one controller, no faults but those that a test asks for."""

    def __init__(self, nodes: int) -> None:
        super().__init__(1)
        self.chaos, self.nodes_readable = False, True
        self.controllers = self.controllers[:1]
        self.cluster.submit("slurm-1", nodes, Wanted())
        self.away = False  # answers are lost

    def ask(self, leader: Process, ask: Ask) -> None:
        if leader.machine.in_touch:
            self.controllers[0].asks[ask.nonce] = ask

    def reply(self, ask: Ask, answered: bool) -> None:
        if not self.away:
            self.replies.append((ask, answered))

    def kubernetes(self) -> None:
        """Each index has a machine of its own."""
        self.cluster.job_controller()
        for pod in list(self.cluster.api.pods.values()):
            if not pod.node and not pod.deleting:
                self.cluster.api.put("pod", pod.replace(node=f"n{pod.index}"))

    def until(self, state: str, run: int = 0) -> None:
        """Goes on until the register says so."""
        for _ in range(60):
            register = self.cluster.api.records["slurm-1"].register
            if register is not None and (register.state, register.run) == (state, run):
                return
            self.round()
        raise AssertionError(f"never {state} {run}:\n" + "\n".join(self.cluster.told))

    def round(self) -> None:
        self.cluster.advance(2.0)
        self.kubernetes()
        for machine in self.cluster.machines.values():
            if machine.in_touch and machine.due - self.cluster.now < 10.0:
                self.cluster.kubelet(machine)
        self.agents()
        self.controllers[0].look("slurm-1")
        for _ in range(len(self.replies)):
            self.deliver()

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.round()

    def launched(self) -> Process:
        """The leader, once it has launched something that takes long."""
        for _ in range(10):
            if self.cluster.launches:
                leader = self.agent(0)
                leader.end = 10000.0
                return leader
            self.round()
        raise AssertionError("\n".join(self.cluster.told))

    def agent(self, index: int) -> Process:
        return next(one for one in reversed(self.cluster.processes) if one.index == index)


def boots_unverified(stage: Stage) -> None:
    """The machine was booted, its Node does not show it yet, the run is granted, and the machine is cut off."""
    for machine in stage.cluster.machines.values():
        stage.faults.reboot_now(machine)
        machine.shown_from = 10000.0
    stage.until("granted")
    stage.launched().machine.cut = True
    stage.rounds(30)


def one_renewal(stage: Stage) -> None:
    """Job and pod are forced away while their machine is cut off for long; then the machine is back, its kubelet not informed yet."""
    stage.until("granted")
    leader = stage.launched()
    leader.machine.cut = True
    for name in list(stage.cluster.api.pods):
        stage.cluster.api.remove("pod", name)
    for job in list(stage.cluster.api.jobs.values()):
        stage.cluster.take("job", job)
    stage.rounds(60)
    stage.faults.mend(leader.machine)
    stage.rounds(3)


def two_gangs(stage: Stage) -> None:
    """The answer is lost, and meanwhile a worker's machine is booted; its next process takes part in what was granted before."""
    stage.away = True
    stage.until("granted")
    worker = stage.agent(1)
    pod = next(pod for pod in stage.cluster.api.pods.values() if pod.uid == worker.pod)
    stage.faults.reboot_now(worker.machine)
    worker.machine.shown_from = 0.0
    stage.cluster.start(worker.machine, pod)
    stage.cluster.kubelet(worker.machine)
    stage.rounds(2)
    stage.away = False
    for _ in range(3):
        stage.round()
        if stage.cluster.launches:
            worker.machine.cut = True
            stage.cluster.kill(stage.agent(0))
            break
    stage.rounds(15)


@pytest.mark.parametrize(
    "play, nodes, plant",
    [
        (boots_unverified, 1, "boot ids unverified"),
        (one_renewal, 1, "one renewal is enough"),
        (two_gangs, 2, "one nonce for two gangs"),
    ],
)
def test_another_run_begins_when_nothing_of_this_one_lives(
    play: Callable[[Stage], None], nodes: int, plant: str
) -> None:
    stage = Stage(nodes)
    play(stage)
    stage.calm()
    with PLANTS[plant](), pytest.raises(Violation, match="there live"):
        play(Stage(nodes))
