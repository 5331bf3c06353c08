"""A job's memory on a node, held to its limit: what cgroups do on a real node, done by looking.

Memory is counted by proportional set size: summed resident sizes would count what forked data loaders share once for each. Reading
it makes the kernel walk the page tables, so it is read only while the cheap sum of resident sizes is over the limit.
"""

from __future__ import annotations

from shim.job.agent.processes import pss, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.agent.cleaning import Belongings
    from shim.job.agent.processes import Process
    from shim.job.loop import Loop, Timer

INTERVAL = 1.0  # seconds between two looks
_MIB = 1024 * 1024


def heaviest_over(limit: int, belongings: Belongings, processes: dict[int, Process]) -> int | None:
    """The pid with the most memory when the run's processes on this node hold more than ``limit`` bytes together."""
    pids = belongings.all(processes)
    if sum(processes[pid].rss for pid in pids) <= limit:
        return None
    sizes = {}
    for pid in pids:
        size = pss(pid)
        sizes[pid] = processes[pid].rss if size is None else size
    if sum(sizes.values()) <= limit:
        return None
    return max(sizes, key=lambda pid: sizes[pid])


class MemoryWatch:
    """Looks every second from ``start`` to ``stop``; ``on_over(pid)``: the node's limit (MiB) is passed, ``pid`` holds most."""

    def __init__(self, limit: int, belongings: Belongings, loop: Loop, on_over: Callable[[int], None]) -> None:
        self._limit = limit * _MIB
        self._belongings = belongings
        self._loop = loop
        self._on_over = on_over
        self._timer: Timer | None = None
        self._killed: int | None = None  # the last that was told

    def start(self) -> None:
        """Tasks run. Nothing happens without a limit."""
        if self._limit > 0 and self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._look)

    def stop(self) -> None:
        """No task runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._look)
        processes = table()
        if self._killed in processes and processes[self._killed].alive:
            return  # it is giving its memory back: another must not die for that
        self._killed = heaviest_over(self._limit, self._belongings, processes)
        if self._killed is not None:
            self._on_over(self._killed)
