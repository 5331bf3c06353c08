"""Faults that are built in on purpose: the search must find each of them, or it is no search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from shim.control.backends.kubernetes.run import decide, evidence, register
from shim.control.backends.kubernetes.run.evidence import Node, Seen
from shim.control.backends.kubernetes.run.register import GRANTED, Record
from shim.job.pod.asking import Ask, Member
from tests.control.backends.kubernetes.run.controller import Controller
from tests.control.backends.kubernetes.run.schedule import Schedule

Plant = Callable[[], "contextlib.AbstractContextManager[Any]"]


def built_in(name: str) -> Plant:
    """The simulated cluster, or the driver, knows how."""
    return lambda: mock.patch.object(Schedule, "plant", frozenset([name]))


def by_uid() -> Any:
    """Granted to a pod, whichever process in it asks."""

    def answer(record: Record | None, ask: Ask) -> bool | None:
        if record is None or record.uid != ask.record or record.register is None or record.register.run != ask.run:
            return False
        leader = record.register.leader
        return record.register.state == GRANTED and leader is not None and leader.pod == ask.members[0].pod

    return mock.patch.object(register, "answer", answer)


def by_absence() -> Any:
    """What live reads do not show is believed to have ended."""

    def is_over(member: Member, seen: Seen, now: float, grace: float) -> bool:
        return member.pod in seen.over or member.pod in seen.absent

    return mock.patch.object(evidence, "is_over", is_over)


def by_renewal() -> Any:
    """One renewal long after the pod was missed is enough, whatever was before."""

    def renewals(before: evidence.Renewals | None, value: str, now: float) -> evidence.Renewals:
        if before is None:
            return evidence.Renewals(value=value, read=now, since=now, until=now)
        return before.replace(value=value, read=now, until=before.until if value == before.value else now)

    return mock.patch.object(evidence, "renewals", renewals)


def never_again() -> Any:
    """What was sent is believed to have arrived."""
    return mock.patch.object(decide, "LOOK", 10.0**6)


def nothing_swept() -> Any:
    """What is left of a run is left there."""
    return mock.patch.object(decide, "_sweep", lambda *_: ())


def any_boot() -> Any:
    """The boot id that the agents name is believed, whatever the Node object says at the grant."""
    return _granting(lambda member, ask: member.replace(boot=ask.boot))


def _granting(change: Callable[[Member, Member], Member]) -> Any:
    right = evidence.grant

    def grant(record: Record, ask: Ask, seen: Seen) -> register.Register | None:
        found = right(record, ask, seen)
        if found is None:
            return None
        return found.replace(members=tuple(change(one, asked) for one, asked in zip(found.members, ask.members)))

    return mock.patch.object(decide, "grant", grant)


@contextlib.contextmanager
def stale_nodes() -> Iterator[None]:
    """Nodes as a watch showed them some time ago."""
    right, kept = Controller.node, {}

    def node(self: Controller, name: str) -> Node:
        key = (id(self.cluster), self.name, name)
        if key not in kept or self.world.rng.random() < 0.1:
            kept[key] = right(self, name)
        return kept[key]

    with mock.patch.object(Controller, "node", node):
        yield


# Found once in some thousand schedules, if at all: test_evidence.py and test_directed.py show what is wrong with them.
RARE = frozenset(["one renewal is enough", "boot ids unverified", "Nodes from the watch", "one nonce for two gangs"])

PLANTS: dict[str, Plant] = {
    "register on the Job": built_in("register on the Job"),
    "answered by uid, not by nonce": by_uid,
    "answered from the watch": built_in("cached answers"),
    "fence by absence": by_absence,
    "deletes without uids": built_in("no uids"),
    "writes without resourceVersions": built_in("unversioned"),
    "no limit of 30 seconds": built_in("no 30 s"),
    "not looked at again": never_again,
    "nothing is swept": nothing_swept,
    "one renewal is enough": by_renewal,
    "boot ids unverified": any_boot,
    "Nodes from the watch": stale_nodes,
    "one nonce for two gangs": built_in("one nonce for two gangs"),
}
