"""Schedules by hand, with the real driver, for faults that luck hardly ever puts together: each breaks what must be so if the rule for it is left out."""

from __future__ import annotations

from shim.core.model import states
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from tests.control.backends.kubernetes.run.driven.agents import Agent
from tests.control.backends.kubernetes.run.driven.home import Home
from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule

LONG = 1000.0  # seconds


class Play(DrivenSchedule):
    """One job of one node, and no faults but those that a play asks for. ``a`` holds the Lease, and ``b`` believes that it does."""

    def __init__(self) -> None:
        super().__init__(1)
        self.chaos, self.nodes_readable = False, True
        self.transit = 0.0  # seconds that a message takes between a leader and who listens
        self.deaf: set[str] = set()  # machines whose kubelets hear nothing

    def run(self) -> None:
        with self.opened():
            self.homes = [Home(self, name) for name in "ab"]
            self.hold(self.homes[0])
            self.submit(1)
            self.play()
            self.mute.clear()
            self.deaf.clear()
            self.calm()
            self.check_ends()
            self.shut()

    def play(self) -> None:
        raise NotImplementedError

    def submit(self, job_id: int) -> None:
        job = Job(job_id=job_id, cluster="k8s", state=states.PENDING, request=JobRequest(name="j", requeue=False))
        controller = self.homes[-1].controller
        controller.task(controller.submit(job))

    def delay(self) -> float:
        return self.transit

    def leases(self) -> None:
        """Both hold it, each as far as it knows."""
        for home in self.homes:
            home.controller.backend._lease.held.set()

    def kubernetes(self) -> None:
        cluster = self.cluster
        cluster.job_controller()
        hearing = [machine for machine in cluster.machines.values() if machine.name not in self.deaf]
        for pod in list(cluster.api.pods.values()):
            if not pod.node and not pod.deleting:
                cluster.api.put("pod", pod.replace(node=hearing[0].name))
        for machine in hearing:
            cluster.kubelet(machine)

    # What plays are made of

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.advance(1.0)
            self.kubernetes()

    def until(self, state: str) -> None:
        """Goes on until the register says so."""
        for _ in range(100):
            record = self.cluster.api.records.get("slurm-1")
            if record is not None and record.register is not None and record.register.state == state:
                return
            self.rounds(1)
        raise AssertionError(f"never {state}:\n" + "\n".join(self.cluster.told))

    def granted(self) -> Agent:
        """The leader, when its run has just been granted and nobody has told it."""
        self.mute = {"a", "b"}
        self.until("granted")
        leader = self.cluster.processes[0]
        assert isinstance(leader, Agent) and not leader.launched
        return leader

    def force_away(self) -> None:
        """The Job and its pods, by hand: what runs in them goes on until their kubelets hear of it."""
        for process in self.cluster.processes:
            self.deaf.add(process.machine.name)
            process.machine.due = self.cluster.now + LONG
        for name in list(self.cluster.api.pods):
            self.cluster.api.remove("pod", name)
        for job in list(self.cluster.api.jobs.values()):
            self.cluster.take("job", job)


class JobGone(Play):
    """The Job of a run goes while its script runs."""

    def play(self) -> None:
        self.until("granted")
        self.rounds(5)
        (leader,) = self.cluster.processes
        assert leader.launched
        leader.end = self.cluster.now + 100.0
        self.force_away()
        for home in self.homes:
            home.loses_disk()
        self.rounds(60)


class AnsweredLate(Play):
    """The leader hears of its grant from one whose watch still tells of it, when another has closed the run."""

    def play(self) -> None:
        self.granted()
        self.rounds(2)
        self.homes[1].stuck = self.cluster.now + LONG
        self.force_away()
        self.until("over")
        self.rounds(5)
        self.mute = {"a"}
        self.rounds(5)


class HeardLate(Play):
    """The leader's machine is stopped just when the answer comes, and goes on when the run is closed."""

    def play(self) -> None:
        leader = self.granted()
        self.mute, self.transit = {"b"}, 3.0
        self.rounds(5)
        leader.paused, self.transit = self.cluster.now + 60.0, 0.0
        self.force_away()
        self.until("over")
        self.rounds(80)


class SameName(Play):
    """Somebody deletes a record, and the next job gets its id; one whose watch tells nothing deletes the first record, as it is to."""

    def play(self) -> None:
        self.until("granted")
        self.rounds(3)
        self.cluster.processes[0].end = 0.0
        self.until("over")
        for home in self.homes:
            home.stuck = LONG
        self.cluster.api.remove("record", "slurm-1")
        self.rounds(5)
        self.homes.append(Home(self, "c"))
        self.submit(1)
        self.until("granted")
        self.rounds(3)
        second = self.cluster.processes[-1]
        second.end += LONG  # it runs while the first one's objects are deleted
        self.rounds(150)
        second.end -= LONG
        for home in self.homes:
            home.stuck = 0.0

    def check_ends(self) -> None:
        """These are two jobs."""
