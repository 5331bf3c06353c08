"""The things of the simulated cluster: objects, machines, containers and the agents in them."""

from __future__ import annotations

from typing import Any

from shim.control.backends.kubernetes.run.evidence import Job, Node, Pod, Report
from shim.control.backends.kubernetes.run.register import Limits, Record

LIMITS = Limits(boot=60.0, node=15.0, cancel=10.0, grace=5.0)
AGENT_BOOT = 80.0  # an agent whose run does not begin ends by itself
ORPHAN = 60.0  # so does a worker that has lost its leader
HEARS = 20.0  # a kubelet that is in touch learns of everything within that time
RENEWS = 10.0


class Violation(AssertionError):
    """The invariant does not hold."""


class JobObject(Job):
    record: str  # uid of its owner
    width: int
    suspended: bool = False
    failed: frozenset[int] = frozenset()


class PodObject(Pod):
    record: str
    job: str = ""  # uid of its owner; empty: an orphan …
    alone: bool = False  # … or the only pod of its run, which belongs to the record
    running: bool = False


class Process:
    """An agent, in a container of a pod. ``gang``: a leader's members, itself included."""

    def __init__(self, pod: PodObject, machine: Machine, now: float) -> None:
        self.pod, self.record, self.run, self.index = pod.uid, pod.record, pod.run, pod.index
        self.machine, self.boot, self.alive = machine, machine.boot, True
        self.leader: Process | None = None
        self.gang: tuple[Process, ...] = ()
        self.nonce = ""
        self.launched = self.begun = False
        self.deadline = now + AGENT_BOOT
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
        self.shown_from = 0.0  # when the Node object shows the last boot
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
