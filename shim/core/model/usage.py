"""What the tasks of a step have used, as the index and the journal record it, and as sacct and sstat show it."""

from __future__ import annotations

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The measures beside CPU time, with their units. Of each an agent tells what was seen last and the most that was seen.
MEASURES = (
    "memory",  # KiB: resident, of a task's processes together
    "virtual",  # KiB: address space, likewise
    "pages",  # page faults that needed the disk
    "read",  # bytes, from whatever
    "written",  # bytes, to whatever
)
_SPREADS = ("cpu", *MEASURES)
FREQUENCY = 30  # seconds between two looks at a task (JobAcctGatherFrequency)


class Spread(Value):
    """One measure over the tasks of a step: of all together, and the most and the least that one had, and whose that was."""

    total: float = 0
    most: float = 0
    most_task: int = 0
    most_node: str = ""
    least: float = 0
    least_task: int = 0
    least_node: str = ""

    def plus(self, other: Spread) -> Spread:
        """Of both. Of equal tasks the one of ``other`` counts."""
        most = self if self.most > other.most else other
        least = self if self.least < other.least else other
        return Spread(
            total=round(self.total + other.total, 6),
            most=most.most,
            most_task=most.most_task,
            most_node=most.most_node,
            least=least.least,
            least_task=least.least_task,
            least_node=least.least_node,
        )


class Usage(Value):
    """What tasks have used. ``user``, ``system``: seconds of CPU of all of them together; ``cpu``: both, task by task.

    A measure is None where nothing was seen of it: a task that ended at once was never looked at.
    """

    user: float = 0
    system: float = 0
    tasks: int = 1  # how many were measured
    cpu: Spread | None = None
    memory: Spread | None = None
    virtual: Spread | None = None
    pages: Spread | None = None
    read: Spread | None = None
    written: Spread | None = None
    _nested = dict.fromkeys(_SPREADS, Spread)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Usage:
        """The inverse of ``to_dict``; also of what earlier versions wrote, which knew the peak of memory alone."""
        if "rss" in data:
            peak, task, node = data["rss"], data.get("task", 0), data.get("node", "")
            data = dict(data, memory=Spread(total=peak, most=peak, most_task=task, most_node=node).to_dict())
        return super().from_dict(data)

    def plus(self, other: Usage | None) -> Usage:
        """Of both."""
        if other is None:
            return self
        both: dict[str, Any] = {name: _together(getattr(self, name), getattr(other, name)) for name in _SPREADS}
        user, system = round(self.user + other.user, 6), round(self.system + other.system, 6)
        return Usage(user=user, system=system, tasks=self.tasks + other.tasks, **both)


def of_task(told: Mapping[str, Any], rank: int, node: str) -> Usage:
    """What an agent tells of one task: seconds of CPU (``user``, ``system``), and of each measure that was seen what it was last and at most."""

    def spread(total: float, most: float) -> Spread:
        return Spread(
            total=total,
            most=most,
            most_task=rank,
            most_node=node,
            least=total,
            least_task=rank,
            least_node=node,
        )

    user, system = float(told["user"]), float(told["system"])
    cpu = round(user + system, 6)
    seen: dict[str, Any] = {name: spread(*told[name]) for name in MEASURES if name in told}
    return Usage(user=user, system=system, cpu=spread(cpu, cpu), **seen)


def _together(one: Spread | None, other: Spread | None) -> Spread | None:
    if one is None or other is None:
        return one or other
    return one.plus(other)


def sampling(asked: str | None) -> int:
    """The seconds between two looks that ``--acctg-freq`` asks for: ``10``, or ``task=10`` among others; 0: only the end counts."""
    for word in (asked or "").lower().split(","):
        kind, equals, seconds = word.rpartition("=")
        digits = seconds.strip()
        if (not equals or kind == "task") and digits.isdecimal():
            return int(digits)
    return FREQUENCY
