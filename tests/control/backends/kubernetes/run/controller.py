"""A controller in the simulated cluster: carries out what is decided, in a world where nothing can be relied on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from shim.control.backends.kubernetes.run import decide as deciding
from shim.control.backends.kubernetes.run import evidence, register
from shim.control.backends.kubernetes.run.decide import Answer, CreateJob, Decision, Delete, TellEnd, Write
from shim.control.backends.kubernetes.run.evidence import Node, Renewals, Report, Seen
from shim.control.backends.kubernetes.run.register import Record
from shim.job.pod.asking import Ask
from tests.control.backends.kubernetes.run.simulated import Cluster

ALL = 10**6


class World(Protocol):
    """Between a controller and the cluster. While there is chaos, luck decides what of it works."""

    rng: random.Random
    cluster: Cluster
    chaos: bool
    nodes_readable: bool
    names: list[str]  # of its jobs

    def lucky(self) -> bool: ...

    def request(self, apply: Callable[[], None]) -> None: ...

    def reply(self, ask: Ask, answered: bool) -> None: ...


class Controller:
    """There are two of them that know nothing of each other, as when one slept past the end of its Lease."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.cluster, self.name = world, world.cluster, name
        self.restart()

    def restart(self) -> None:
        """A new process: nothing in memory, a fresh list, a clock of its own."""
        cluster, rng = self.cluster, self.world.rng
        self.prompt = rng.choice((1.0, 0.6, 0.2, 0.03))  # how often its watch has told everything
        self.stuck = 0.0  # until then it tells nothing
        self.offset, self.rate = rng.random() * 1000, 0.99 + rng.random() * 0.02
        self.cache: dict[str, dict[str, Any]] = {kind: dict(store) for kind, store in cluster.api.stores.items()}
        self.position = len(cluster.api.log)
        self.over = {pod.uid for pod in cluster.api.pods.values() if pod.ended and not pod.unknown}
        self.asks: dict[str, Ask] = {}
        self.reports: dict[str, Report] = {}
        self.heard: dict[tuple[str, int], float] = {}
        self.since: dict[str, tuple[Any, float]] = {}
        self.absent: dict[str, float] = {}
        self.leases: dict[str, Renewals] = {}
        self.news = set(self.world.names)  # jobs that are to be looked at, because something has come
        self.look_at: dict[str, float] = {}

    @property
    def now(self) -> float:
        return self.cluster.now * self.rate + self.offset

    # What it sees

    def follow(self, count: int) -> None:
        """Takes up to ``count`` events from its watch."""
        log = self.cluster.api.log
        if self.position < len(log):
            self.news.update(self.world.names)
        for kind, name, value in log[self.position : self.position + count]:
            if value is None:
                self.cache[kind].pop(name, None)
                continue
            self.cache[kind][name] = value
            if kind == "pod" and value.ended and not value.unknown:
                self.over.add(value.uid)
        self.position = min(len(log), self.position + count)

    def see(self, record: Record) -> Seen:
        world, now, run = self.world, self.now, record.register
        if record.uid not in self.since or self.since[record.uid][0] != run:
            self.since[record.uid] = (run, now)
        asks = tuple(ask for ask in self.asks.values() if ask.record == record.uid)
        heard = now
        if run is not None and run.members:
            heard = self._listen(record, run)
            if world.lucky():
                self._look_for_pods(record, run)
        nodes: dict[str, Node] = {}
        if world.nodes_readable:
            members = [member for ask in asks for member in ask.members]
            if run is not None and run.state == register.OVER:
                members += run.members
            nodes = self._look_at_nodes({member.node for member in members})
        return Seen(
            jobs=tuple(job for job in self.cache["job"].values() if job.record == record.uid),
            pods=tuple(pod for pod in self.cache["pod"].values() if pod.record == record.uid),
            over=frozenset(self.over),
            asks=asks,
            report=self.reports.get(record.uid),
            since=self.since[record.uid][1],
            heard=heard,
            nodes=nodes if world.nodes_readable else None,
            leases=self.leases,
            absent=self.absent,
            turn=not world.chaos or world.rng.random() < 0.6,
            archived=not world.chaos or world.rng.random() < 0.5,
        )

    def _listen(self, record: Record, run: register.Register) -> float:
        """When the leader was last heard."""
        key = (record.uid, run.run)
        if key not in self.heard or self._reaches_leader(record):
            self.heard[key] = self.now
        return self.heard[key]

    def _reaches_leader(self, record: Record) -> bool:
        leader = self.cluster.granted_leader(record)
        awake = leader is not None and leader.machine.in_touch and leader.paused <= self.cluster.now
        return awake and self.world.lucky()

    def _look_for_pods(self, record: Record, run: register.Register) -> None:
        """A live read of the run's pods."""
        there = {pod.uid for pod in self.cluster.api.pods.values() if pod.record == record.uid}
        for member in run.members:
            if member.pod in there:
                self.absent.pop(member.pod, None)
            else:
                self.absent.setdefault(member.pod, self.now)

    def _look_at_nodes(self, names: set[str]) -> dict[str, Node]:
        """Live reads of Nodes and their Leases; some fail."""
        found = {}
        for name in sorted(names):
            if self.world.lucky():
                found[name] = self.node(name)
                machine = self.cluster.machines[name]
                self.leases[name] = evidence.renewals(self.leases.get(name), repr(machine.renewed), self.now)
        return found

    def node(self, name: str) -> Node:
        return self.cluster.machines[name].shown or Node(gone=True)

    # What it does

    def look(self, name: str) -> Decision | None:
        """Decides about the job of that name, from the watch or from a live read, and carries it out."""
        world, rng = self.world, self.world.rng
        if not world.chaos:
            self.follow(ALL)
        elif self.cluster.now >= self.stuck:
            self.follow(ALL if rng.random() < self.prompt else rng.randrange(3))
        self.news.discard(name)
        store = self.cluster.api.records if rng.random() < 0.3 else self.cache["record"]
        record: Record | None = store.get(name)
        if record is None:
            self._answer_for_none(name)
            return None
        seen = self.see(record)
        decision = deciding.decide(record, seen, self.now)
        self.look_at[name] = self.now + (ALL if decision.look_again is None else decision.look_again)
        for effect in decision.effects:
            self.carry_out(record, effect)
        return decision

    def must_look(self) -> list[str]:
        """Jobs of which there is news, or that are to be looked at by now."""
        if self.position < len(self.cluster.api.log):
            return self.world.names
        return [name for name in self.world.names if name in self.news or self.now >= self.look_at.get(name, 0.0)]

    def carry_out(self, record: Record, effect: deciding.Effect) -> None:
        cluster, request = self.cluster, self.world.request
        if isinstance(effect, Write):
            write = effect
            request(lambda: cluster.write(write.name, write.uid, write.version, write.register, write.ended))
        elif isinstance(effect, CreateJob):
            create = effect
            request(lambda: cluster.create_job(create.name, create.record, create.run))
        elif isinstance(effect, Delete):
            delete = effect
            request(lambda: cluster.delete(delete.kind, delete.name, delete.uid))
        elif isinstance(effect, Answer):
            self._answer(record.name, effect.ask)
        elif isinstance(effect, TellEnd) and self._reaches_leader(record):
            leader = cluster.granted_leader(record)
            assert leader is not None
            cluster.finish(leader, "CANCELLED")

    def _answer(self, name: str, ask: Ask) -> None:
        """Reads live, says what it finds, and nothing where it could not read."""
        if not self.world.lucky():
            return
        store = self.cache["record"] if "cached answers" in self.cluster.plant else self.cluster.api.records
        answered = register.answer(store.get(name), ask)
        if answered is not None:
            self.asks.pop(ask.nonce, None)
            self.world.reply(ask, answered)

    def _answer_for_none(self, name: str) -> None:
        """Of a record that is gone, leaders may still ask."""
        for ask in list(self.asks.values()):
            if ask.record not in {record.uid for record in self.cache["record"].values()}:
                self._answer(name, ask)
