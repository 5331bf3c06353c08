"""Watches one run: connects to its leader, hands journal lines on in order, passes orders, notices death.

The journal on disk is the truth; the connection only tells that there is more. A leader whose lock is free and whose journal
has no end is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from shim.control.backends.base import Observer, Order, Run
from shim.control.backends.leader_link import LeaderLink, LinkError, dial
from shim.control.backends.local import runs
from shim.control.backends.local.line import Line
from shim.control.threads import aside
from shim.job.address import read_address
from shim.job.agent.cleaning import kill_agents, kill_marked

FIRST_PAUSE = 0.002  # seconds between tries to reach a leader that is just starting; doubles up to LONGEST_PAUSE
LONGEST_PAUSE = 0.25
DISOBEDIENT = 10.0  # seconds beyond KillWait after which agents that do not end their run are killed
START_LIMIT = 15.0  # seconds in which an agent that was asked for must hold its lock


class Watch:
    """The watcher of a single run, until the run's end is reported.

    ``line``: a connection whose other end the leader was given, or has from an earlier run. While it holds nothing else is needed; a
    task looks for the leader where there is none, or when it has ended. ``again``: how the run is asked of another leader if an earlier
    run's is gone before it has said anything; it may have begun, which the run's lock and journal tell the other one. ``place``: the
    leader's, if it is to be kept afterwards. ``kill_wait``: seconds that a run has from the order to end to its end.
    """

    def __init__(
        self,
        run: Run,
        seen: int,
        observer: Observer,
        line: Line | None = None,
        again: Callable[[], Awaitable[Line | None]] | None = None,
        place: str = "",
        kill_wait: float = 30.0,
    ) -> None:
        self._run = run
        self._seen = seen
        self._observer = observer
        self._orders: dict[int, Order] = {}
        self._link: LeaderLink | None = None
        self._line: Line | None = None
        self._again = again
        self.place = place
        self._kill_wait = kill_wait
        self._force: asyncio.TimerHandle | None = None
        self._forced: asyncio.Future[int] | None = None
        self._over = False  # the end, or the loss, was reported
        self._began = asyncio.get_running_loop().time()
        self._task: asyncio.Task[None] | None = None
        if line is None:
            self._look()
        elif again is None:
            self._take(line)
        else:
            self._take(line, {"do": "run", "run_dir": runs.folder(run), "index": 0})

    def order(self, order: Order) -> None:
        """Keeps the order until the leader has said that it is done."""
        self._orders[order.number] = order
        if order.kind in ("end", "release") and order.step is None and not order.component and self._force is None:
            self._force = asyncio.get_running_loop().call_later(self._kill_wait + DISOBEDIENT, self._end_by_force)
        for link in (self._line, self._link):
            if link is not None:
                self._send_order(link, order)

    def catch_up(self) -> None:
        """Tells at once what the journal on disk says: what a new controller must know before it answers anybody."""
        self._read_file()

    async def forget(self) -> Line | None:
        """Tells the leader that its end is committed, and stops watching. The connection, if the leader keeps it for another run."""
        kept = None
        if self._line is not None and self._over and self.place:
            kept, self._line = self._line, None
            kept.send({"do": "forget", "keep": True})
        for link in (self._line, self._link):
            if link is not None:
                link.send({"do": "forget"})
        await self.close()
        return kept

    def _end_by_force(self) -> None:
        """The run was to end, and has not: a job can stop its own agents. Without them it is lost, as what was ordered."""
        if not self._over:
            self._forced = asyncio.ensure_future(aside(kill_agents, runs.folder(self._run)))

    async def close(self) -> None:
        """Stops watching."""
        if self._force is not None:
            self._force.cancel()
        if self._line is not None:
            self._line.close()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    def _take(self, line: Line, *before: dict[str, Any]) -> None:
        self._line = line
        line.turn_to(self._message, self._look)
        line.send(*before, {"do": "watch", "after": self._seen})
        if line.closed:  # it ended before anybody was informed
            self._look()

    def _look(self) -> None:
        self._line = None
        again, self._again = self._again, None
        if self._over:
            return
        if again is not None and not self._seen:
            self._task = asyncio.ensure_future(self._ask_again(again))
        else:
            self._task = asyncio.ensure_future(self._work())

    async def _ask_again(self, again: Callable[[], Awaitable[Line | None]]) -> None:
        line = await again()
        if line is None:
            await self._work()
            return
        self._task = None
        self._take(line)
        for order in list(self._orders.values()):
            self._send_order(line, order)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while not self._over:
            seen = self._seen
            if await self._follow():
                self._began = loop.time()
            if self._seen != seen:
                pause = FIRST_PAUSE
                continue
            lives = runs.alive(self._run)
            self._read_file()
            if self._over:
                return
            # A leader that was only just asked for has no lock yet; one with a line in its journal had one.
            if not lives and (self._seen or loop.time() - self._began > START_LIMIT):
                self._over = True
                # The other nodes clean up by themselves; the first had no time to.
                await aside(kill_marked, runs.folder(self._run))
                self._observer.lost(self._run, "the job's first agent is gone")
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _follow(self) -> bool:
        """Connects and hands on what the leader tells until it is gone; False if it could not be reached."""
        try:
            link = await dial(read_address(runs.folder(self._run)), runs.key(self._run))
        except (OSError, ValueError, LinkError):
            return False
        self._link = link
        try:
            link.send({"do": "watch", "after": self._seen})
            for order in list(self._orders.values()):
                self._send_order(link, order)
            while True:
                self._message(await link.receive())
        except LinkError:
            return True
        finally:
            if self._link is link:
                self._link = None
            await link.close()

    def _message(self, message: dict[str, Any]) -> None:
        if message.get("do") == "journal":
            self._tell(message["line"])
        elif message.get("do") == "done":
            self._orders.pop(message["number"], None)

    def _read_file(self) -> None:
        for line in runs.journal(self._run, self._seen):
            self._tell(line)

    def _tell(self, line: dict[str, Any]) -> None:
        if self._over or line["n"] <= self._seen:
            return
        self._seen = line["n"]
        self._over = line["kind"] == "ended"
        self._observer.happened(self._run, line)

    @staticmethod
    def _send_order(link: Line | LeaderLink, order: Order) -> None:
        link.send({"do": "order", "order": order.to_dict()})
