"""A random schedule of the real driver: several controllers, a cluster, people, and faults as the rule; then calm."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from shim.control.backends.kubernetes import backend as backend_module
from shim.control.backends.kubernetes.cluster import cluster_cache, watches
from shim.control.backends.kubernetes.records.payload import Payload
from shim.control.backends.kubernetes.run import course, following, pod_view, run_folders
from shim.control.backends.kubernetes.submit import accepting
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from tests.control.backends.kubernetes.run.driven.agents import Agent, take
from tests.control.backends.kubernetes.run.driven.cluster import DrivenCluster, RecordOf
from tests.control.backends.kubernetes.run.driven.home import Files, Folders, Home
from tests.control.backends.kubernetes.run.driven.loop import Loop, Process
from tests.control.backends.kubernetes.run.driven.server import Reflector, Server
from tests.control.backends.kubernetes.run.faults import TOGETHER, Faults
from tests.control.backends.kubernetes.run.things import HEARS, Violation

STEPS = 60
FIRST_TASK = 100  # the id of an array's first task that has one of its own
CALM = 1500.0  # seconds without faults within which every job must have come to its end


class DrivenFaults(Faults):
    """Also those of controllers that know of each other by a Lease."""

    kinds_of_controllers = ("crash", "stick", "sleep", "disk", "hand_over", "two_holders")
    TOGETHER = (
        *TOGETHER,
        ("hand_over", "sleep", "two_holders"),
        ("hand_over", "crash", "disk"),
        ("sleep", "cut", "hand_over"),
        ("crash", "exits"),
    )

    def __init__(self, world: DrivenSchedule) -> None:
        self.world = world
        super().__init__(world.rng, world.cluster, [])
        own = {name: getattr(self, name) for name in self.kinds_of_controllers}
        rng = world.rng
        every = {one.__name__: one for one in self.every} | own
        drawn = (
            rng.choice(self.TOGETHER)
            if rng.random() < 0.5
            else rng.sample(sorted(every), rng.choice((2, 4, len(every))))
        )
        self.kinds = [every[name] for name in drawn]

    def crash(self) -> None:
        self.rng.choice(self.world.homes).restart()

    def stick(self) -> None:
        home = self.rng.choice(self.world.homes)
        home.stuck = self.world.loop.now + self.rng.choice((30.0, 100.0, 200.0))

    def sleep(self) -> None:
        """A laptop that is closed, or a process that is stopped: it goes on where it was, and believes what it believed."""
        home = self.rng.choice(self.world.homes)
        process, loop = home.process, self.world.loop
        self.cluster.say("controller sleeps", home.name)
        loop.stop(process)
        self.world.later(self.rng.choice((5.0, 40.0, 120.0)), lambda: loop.go_on(process))

    def disk(self) -> None:
        home = self.rng.choice(self.world.homes)
        self.cluster.say("disk lost", home.name)
        home.loses_disk()

    def hand_over(self) -> None:
        self.world.hold(self.rng.choice(self.world.homes))

    def two_holders(self) -> None:
        """One more believes that the Lease is its own."""
        home = self.rng.choice(self.world.homes)
        self.cluster.say("also holds the Lease", home.name)
        home.controller.backend._lease.held.set()


class DrivenSchedule:
    plant: frozenset[str] = frozenset()
    lists_anew = 0.0  # how often a watch that has something to tell was lost, and lists anew

    def __init__(self, seed: int, kinds: Sequence[str] = (), *, one_host: bool = False) -> None:
        """``kinds``: of faults; empty: any. ``one_host``: the controllers are of one machine by its name, each with a state folder of its own."""
        self.one_host = one_host
        self.last_id = FIRST_TASK
        self.rng = rng = random.Random(seed)
        self.loop = Loop()
        self.chaos = True
        self.mute: set[str] = set()  # homes whose answers reach no leader
        self.cluster = DrivenCluster(rng, self.plant, self.made, self.check_told)
        self.nodes_readable = rng.random() < 0.8
        self.luck = rng.choice((0.97, 0.9, 0.7))
        self.pace = rng.choice((1.0, 3.0, 6.0))
        self.worst = rng.choice((0.0, 0.1, 0.3))  # how often a fault comes just when something is written
        self.server = Server(self)
        self.accepted: set[int] = set()
        self.told: dict[int, list[tuple[str, str]]] = {}  # ends that indexes have committed
        self.ends: dict[tuple[str, int], str] = {}  # how scripts ended, by record and run
        self.homes: list[Home] = []
        self.faults = DrivenFaults(self)
        if kinds:
            self.faults.kinds = [getattr(self.faults, name) for name in kinds]
            self.luck, self.worst = 0.9, 0.5

    # Time

    def later(self, seconds: float, action: Callable[[], Any], process: Process | None = None) -> Any:
        """Done on behalf of a process, or of the cluster."""
        context = process.context if process is not None else self.loop.outside
        return self.loop.call_later(seconds, action, context=context)

    def advance(self, seconds: float) -> None:
        until = self.loop.now + seconds
        while until - self.loop.now > 1e-6:
            step = min(1.0, until - self.loop.now)
            self.cluster.advance(step)
            self.loop.run_until(self.loop.now + step)
            for agent in list(self.cluster.processes):
                agent.tick()  # type: ignore[attr-defined]
                self.connections(agent)
            self.leases()

    def connections(self, agent: Any) -> None:
        for one in list(agent.connections):
            if agent.machine.cut and self.rng.random() < 0.2:
                one.end()

    # Luck

    def lucky(self) -> bool:
        if self.chaos and self.worst and self.rng.random() < self.worst * 0.1:
            self.later(0.0, self.faults.one)
        return not self.chaos or self.rng.random() < self.luck

    def delay(self) -> float:
        """Of a message."""
        if self.lucky():
            return self.rng.random() * 0.1
        return self.rng.choice((1.0, 10.0, 29.0, 60.0))

    def made(self, agent: Agent) -> None:
        agent.world = self

    # The Lease

    def hold(self, home: Home) -> None:
        """This one holds the Lease from now on; the others learn of that, sooner or later."""
        self.cluster.say("holds the Lease", home.name)
        self.holder = home

    def leases(self) -> None:
        for home in self.homes:
            lease = home.controller.backend._lease
            lease.holder = self.holder.name
            if lease.held.is_set() != (home is self.holder) and (not self.chaos or self.rng.random() < 0.1):
                act = self._lost if lease.held.is_set() else lambda one: one.backend._lease.held.set()
                self.later(0.0, lambda act=act, one=home.controller: act(one), process=home.process)

    def _lost(self, controller: Any) -> None:
        lease = controller.backend._lease
        if lease.held.is_set() and self.holder is not controller.home and not controller.process.dead:
            lease.held.clear()
            controller.backend._lost()

    # The schedule

    def run(self) -> None:
        """Raises Violation."""
        with self.opened():
            rng = self.rng
            self.homes = [Home(self, name) for name in "abc"[: rng.choice((1, 2, 2, 3))]]
            self.hold(self.homes[0])
            for job_id in range(1, rng.choice((2, 2, 3))):
                self.submit(job_id)
            weights: list[tuple[int, Callable[[], None]]] = [
                (20, self.kubernetes),
                (2, self.person),
                (rng.choice((2, 6, 14)), self.faults.one),
                (2, lambda: self.advance(rng.choice((5.0, 20.0, 35.0)))),
            ]
            wheel = [action for weight, action in weights for _ in range(weight)]
            for _ in range(STEPS):
                self.kubernetes()
                self.advance(rng.random() * self.pace)
                self.mend()
                rng.choice(wheel)()
            self.calm()
            self.check_ends()
            self.shut()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """What is simulated is in its place, and the loop runs."""
        with self.loop.running(), in_place(self):
            yield

    def shut(self) -> None:
        for home in self.homes:
            home.kill()
        self.loop.run_until(self.loop.now)

    def kubernetes(self) -> None:
        self.cluster.job_controller()
        self.cluster.scheduler()
        for machine in self.cluster.machines.values():
            if machine.in_touch:
                self.cluster.kubelet(machine)

    def mend(self) -> None:
        for machine in self.cluster.machines.values():
            if (machine.cut or machine.island) and machine.cut_until <= self.cluster.now:
                self.faults.mend(machine)

    # People

    def submit(self, job_id: int) -> None:
        rng = self.rng
        job = Job(
            job_id=job_id,
            cluster="k8s",
            nodes=rng.choice((1, 1, 2, 3)),
            state=states.PENDING,
            request=JobRequest(name="j", requeue=rng.random() < 0.8),
        )
        controller = rng.choice(self.homes).controller
        controller.task(controller.submit(job))

    def next_id(self) -> int:
        """Whoever asks: the place numbers its jobs."""
        self.last_id += 1
        return self.last_id

    def person(self) -> None:
        rng = self.rng
        home, what = rng.choice(self.homes), rng.random()
        if home.jobs and what < 0.3:
            controller = home.controller
            controller.task(controller.cancel(rng.choice(list(home.jobs))))

    def vouch(self) -> None:
        """Where Nodes may not be read a person looks, and vouches that nothing lives."""
        for name, record in list(self.cluster.api.records.items()):
            register = record.register
            if (
                self.nodes_readable
                or register is None
                or register.state != "over"
                or record.wanted.vouched >= register.run
            ):
                continue
            gangs = self.cluster.granted.get((record.uid, register.run), [])
            if not any(one.alive for gang in gangs for one in gang) and self.rng.random() < 0.02:
                self.cluster.want(name, vouched=register.run)

    # Calm

    def calm(self) -> None:
        """Faults end: every accepted job must come to its end, and leave nothing."""
        cluster = self.cluster
        cluster.say("calm")
        self.chaos = False
        for machine in cluster.machines.values():
            self.faults.mend(machine)
            self.faults.on(machine)
        for home in self.homes:
            home.stuck = 0.0
            self.loop.go_on(home.process)
        self.advance(1.0)
        self.hold(self.rng.choice(self.homes))
        since = self.loop.now
        while not self.over():
            if self.loop.now - since > CALM:
                raise Violation(f"without an end: {self.left()}")
            self.advance(2.0)
            self.vouch()
            cluster.job_controller()
            cluster.scheduler()
            for machine in cluster.machines.values():
                if self.loop.now - since > HEARS:
                    cluster.kubelet(machine)

    def left(self) -> str:
        """What there is that should not be there any more."""
        cluster, api = self.cluster, self.cluster.api
        jobs = [
            (home.name, home is self.holder, home.controller.ready, job.job_id, job.state, job.restarts, job.journal)
            for home in self.homes
            for job in home.jobs.values()
        ]
        return f"{jobs} {api.records} {api.jobs} {api.pods} {list(cluster.secrets)} {cluster.processes}"

    def over(self) -> bool:
        cluster, api = self.cluster, self.cluster.api
        return not (api.records or api.jobs or api.pods or cluster.secrets or cluster.processes)

    # What must be so

    def note_end(self, job: Job) -> None:
        """An index has committed it."""

    def note_launch(self, record: str) -> None:
        """A run of this record, by its uid, has begun."""

    def check_told(self, record: RecordOf) -> None:
        """A record goes once the end of its job is in an index, and is the end that the record says."""
        job_id = self.cluster.ids[record.uid]
        payload = self.cluster.secrets.get(record.data["payload"])
        if not record.ended and record.register is None and (job_id not in self.accepted or not payload):
            return  # it was not accepted, or came once more, long afterwards
        told = self.told.get(job_id, [])
        if record.ended not in [state for _, state in told]:
            raise Violation(f"{record.name} is forgotten as {record.ended}, and told was {told}")

    def check_ends(self) -> None:
        """Every accepted job has ended, once, and as its script did."""
        for job_id in self.accepted:
            told = self.told.get(job_id, [])
            if not told:
                raise Violation(f"job {job_id} was accepted, and has no end")
            records = [uid for uid, one in self.cluster.ids.items() if one == job_id]
            completed = any(self.ends.get(run) == "COMPLETED" for run in self.ends if run[0] in records)
            if any(state == "COMPLETED" for _, state in told) and not completed:
                raise Violation(f"job {job_id} is COMPLETED, and no script of it ended so: {self.ends}")
            launched = [run for run in self.cluster.launches if run[0] in records]
            if len({uid for uid, _ in launched}) > 1:
                raise Violation(f"job {job_id} ran by two records: {launched}")


@contextlib.contextmanager
def in_place(world: DrivenSchedule) -> Iterator[None]:
    """What is simulated is put in its place."""

    class NoProxy:
        def __init__(self, *_: Any) -> None: ...

        async def open(self) -> None: ...

        async def close(self) -> None: ...

    folders, views = Folders(world), dict[int, tuple[Any, Any]]()

    def look(pod: Any) -> Any:
        """What is told of a pod is never changed, and looked at again and again."""
        found = views.get(id(pod))
        if found is None:
            found = views[id(pod)] = (pod, right(pod))
        return found[1]

    right = pod_view.look
    with contextlib.ExitStack() as stack:
        for where, name, what in (
            (watches, "Reflector", Reflector),
            (cluster_cache, "look", look),
            (pod_view, "look", look),
            (course, "Proxy", NoProxy),
            (following, "take", take),
            (Payload, "key", lambda self, record, run: (record, run)),
            (backend_module, "is_legacy", lambda run: False),
            (accepting, "rawfile", Files(world)),
            (run_folders, "ensure", folders.ensure),
            (run_folders, "remove", folders.remove),
            (run_folders, "known", folders.known),
        ):
            stack.enter_context(mock.patch.object(where, name, what))
        yield
