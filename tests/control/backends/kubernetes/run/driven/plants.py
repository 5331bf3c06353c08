"""Faults that are built into the real driver, or into what it stands on: the search must find each of them."""

from __future__ import annotations

from typing import Any
from unittest import mock

from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.run import driver, evidence
from shim.control.backends.kubernetes.run.decide import Answer
from shim.control.backends.kubernetes.run.driver import Driver
from shim.control.backends.kubernetes.run.register import GRANTED, Record, Register, answer
from shim.control.backends.kubernetes.submit.accepting import Accepting
from shim.job.pod import asking
from shim.job.pod.asking import Ask, Member
from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule


def built_in(name: str) -> Any:
    """The simulated cluster knows how."""
    return lambda: mock.patch.object(DrivenSchedule, "plant", frozenset([name]))


def by_uid() -> Any:
    def granted(record: Record | None, ask: Ask) -> bool | None:
        if record is None or record.uid != ask.record or record.register is None or record.register.run != ask.run:
            return False
        leader = record.register.leader
        return record.register.state == GRANTED and leader is not None and leader.pod == ask.members[0].pod

    return mock.patch.object(driver, "answer", granted)


def from_the_watch() -> Any:
    async def told(self: Driver, effect: Answer) -> None:
        found = self._site.records.find(self._job_id)
        if self.course is not None:
            self.course.answer(
                effect.ask, answer(found.deciding(self._limits) if found is not None else None, effect.ask)
            )

    return mock.patch.object(Driver, "_answer", told)


def by_absence() -> Any:
    def is_over(member: Member, seen: evidence.Seen, now: float, grace: float) -> bool:
        return member.pod in seen.over or member.pod in seen.absent

    return mock.patch.object(evidence, "is_over", is_over)


def no_limit() -> Any:
    return mock.patch.object(asking, "may_launch", lambda answered, ask, now, linked: answered is True and linked)


def serves_always() -> Any:
    """A run that was granted and not begun is the run of every later start."""
    return mock.patch.object(
        Register, "serves", lambda self, restart: self.restart == restart and self.state != "withdrawn"
    )


def never_cleared() -> Any:
    """What nobody owns is left there."""

    async def clear(self: Site, job_id: int) -> None: ...

    return mock.patch.object(Site, "clear", clear)


def payloads_at_once() -> Any:
    """A record whose payload is not there yet is looked at once."""
    return mock.patch.object(Accepting, "look_again", None)


# Of these few kinds of faults it needs many, where all together only disturb each other.
FOCUS = {
    "fence by absence": ("cut", "force"),
    "writes without resourceVersions": ("two_holders", "hand_over", "stick"),
    "a run that was not begun is started for ever": ("pause", "cut"),
    "what nobody owns is left": ("orphan",),
}

PLANTS: dict[str, Any] = {
    "register on the Job": built_in("register on the Job"),
    "answered by uid, not by nonce": by_uid,
    "answered from the watch": from_the_watch,
    "fence by absence": by_absence,
    "deletes without uids": built_in("no uids"),
    "writes without resourceVersions": built_in("unversioned"),
    "no limit of 30 seconds": no_limit,
    "a run that was not begun is started for ever": serves_always,
    "what nobody owns is left": never_cleared,
    "late payloads": payloads_at_once,
}
