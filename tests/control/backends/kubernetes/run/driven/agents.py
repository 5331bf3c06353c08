"""Agents in the simulated pods: how a gang meets is simulated; the ask, its limit and what a leader leaves behind are the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shim.control.backends.leader_link import LinkError
from shim.job.pod.asking import AGAIN, ANSWER_HOLDS, Ask, Asking, Member
from shim.job.pod.ending import PATIENCE, termination_record
from tests.control.backends.kubernetes.run.things import Machine, PodObject, Process

if TYPE_CHECKING:
    from tests.control.backends.kubernetes.run.driven.cluster import DrivenCluster
    from tests.control.backends.kubernetes.run.driven.home import Home
    from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule

Line = dict[str, Any]
__all__ = ["AGAIN", "ANSWER_HOLDS", "Agent", "Connection", "Link", "take"]


class Agent(Process):
    """``world`` is given once it exists. ``state``: the end that its script came to; "" for none."""

    def __init__(self, pod: PodObject, machine: Machine, cluster: DrivenCluster) -> None:
        super().__init__(pod, machine, cluster.now)
        self.cluster = cluster
        self.world: DrivenSchedule
        self.key = (self.record, self.run)
        self.journal: list[Line] = []
        self.nonces: list[str] = []
        self.asking: Asking | None = None
        self.connections: list[Connection] = []
        self.state = ""
        self.leaving = False
        self.width = 1

    # Time

    def tick(self) -> None:
        if self.paused > self.cluster.now or not self.alive or self.leaving:
            return
        if self.index:
            self.cluster._worker(self)
        elif self.launched:
            if self.cluster.now >= self.end:
                self.finish("COMPLETED")
        elif self.cluster.now >= self.deadline:
            self.finish("NODE_FAIL")
        elif not self.gang or not self.linked:
            self._assemble()

    def _assemble(self) -> None:
        """PodLeader._dissolve and _ask."""
        reused = None
        if self.asking is not None:
            if "one nonce for two gangs" in self.cluster.plant:
                reused = self.asking.nonce
            self.asking.close()
        self.asking = None
        self.gang = self.cluster._meet(self)
        if not self.gang:
            return
        members = tuple(Member(index=one.index, pod=one.pod, node=one.machine.name, boot=one.boot) for one in self.gang)
        self.asking = Asking(
            self,  # type: ignore[arg-type]
            self.record,
            self.run,
            members,
            self.tell,
            self._begin,
            lambda: self.finish("NODE_FAIL"),
            lambda: self.cluster.now,
        )
        self.asking._ask = self.asking._ask.replace(nonce=reused or self.cluster.uid("nonce"))
        self.nonce = self.asking.nonce
        self.nonces.append(self.nonce)
        self.cluster.gangs[self.nonce] = self.gang
        self.asking.ask()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        """As the leader's event loop: it does not run while the machine is stopped."""
        return self.world.later(seconds, lambda: self._awake(callback))

    def _awake(self, callback: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.paused > self.cluster.now:
            self.world.later(self.paused - self.cluster.now, lambda: self._awake(callback))
        else:
            callback()

    # The run

    def _begin(self) -> None:
        assert self.answered is not None
        self.cluster._launch(self, self.answered)
        self.world.note_launch(self.record)
        self.line("started")

    answered: Ask | None = None

    def hear(self, message: Line) -> None:
        """What a controller says."""
        if message["do"] == "answer" and self.asking is not None:
            if "one nonce for two gangs" not in self.cluster.plant or message["nonce"] == self.asking.nonce:
                self.answered = self.asking._ask.replace(asked=float(message["asked"]))
                self.asking.answered(message)
        elif message["do"] == "order" and not self.leaving:
            order = message["order"]
            if order["kind"] == "end":
                self.finish(order["state"])
        elif message["do"] == "forget" and self.leaving:
            self._go()

    def finish(self, state: str) -> None:
        """The end of the run: written, told, and the workers let go."""
        if self.leaving:
            return
        if self.asking is not None:
            self.asking.close()
        self.state = state if self.launched else ""
        self.leaving = True
        if self.launched:
            self.world.ends.setdefault(self.key, state)
        self.line("ended", state=state, status=0)
        self.report = termination_record(self.journal, nonces=self.nonces)  # type: ignore[assignment]
        for one in self.gang:
            if one is not self and one.alive and one.leader is self and self.cluster.reachable(self, one):
                self.cluster.kill(one)
        if self.connections:
            self.call_later(PATIENCE, self._go)
        else:
            self._go()

    def _go(self) -> None:
        if self.alive:
            self.cluster.say("leaves", self.pod)
            self.cluster.kill(self)

    def died(self) -> None:
        if self.asking is not None:
            self.asking.close()
        for one in list(self.connections):
            one.end()

    # Streams

    def line(self, kind: str, **more: Any) -> None:
        line = {"n": len(self.journal) + 1, "at": self.cluster.now, "kind": kind, **more}
        self.journal.append(line)
        self.tell({"do": "journal", "line": line})

    def tell(self, message: Line) -> None:
        """To all controllers that listen."""
        for one in self.connections:
            if one.watched:
                one.say(message)

    def watched(self, connection: Connection, after: int) -> None:
        connection.watched = True
        for line in self.journal[after:]:
            connection.say({"do": "journal", "line": line})
        if self.asking is not None:
            self.asking.ask()


class Connection:
    """A stream between a leader and one controller's process: in order, late, and it may break."""

    def __init__(self, agent: Agent, home: Home, world: DrivenSchedule) -> None:
        self.agent, self.world, self.home, self.process = agent, world, home.name, home.process
        self.link: Link | None = None
        self.watched = self.broken = False
        self.lost = False  # it broke: what was under way to the leader does not arrive
        self.due = 0.0
        agent.connections.append(self)

    def say(self, message: Line | None) -> None:
        """To the controller; None: the stream is at its end."""
        self.due = max(self.due, self.world.loop.now + self.world.delay())
        self.world.later(self.due - self.world.loop.now, lambda: self._arrive(message), process=self.process)

    def _arrive(self, message: Line | None) -> None:
        if self.link is not None and not self.link.closed:
            self.link.come(message)

    def send(self, message: Line) -> None:
        """To the leader."""
        if message["do"] == "answer" and self.home in self.world.mute:
            return
        self.world.later(self.world.delay(), lambda: self.agent._awake(lambda: self._heard(message)))

    def _heard(self, message: Line) -> None:
        if self.lost or self.agent.machine.cut:
            return
        if message["do"] == "watch":
            self.agent.watched(self, message["after"])
        else:
            self.agent.hear(message)

    def end(self) -> None:
        """Nothing goes over it any more; the controller sees that when all has come that was under way."""
        if not self.broken:
            self.broken = self.lost = True
            self.agent.connections.remove(self)
            self.say(None)


class Link:
    """In place of ``LeaderLink``."""

    def __init__(self, line: Connection) -> None:
        self.line, self.closed = line, False
        self.on_data: Any = None
        self.queue: asyncio.Queue[Line | None] = asyncio.Queue()
        line.link = self

    def come(self, message: Line | None) -> None:
        self.queue.put_nowait(message)

    def send(self, message: Line) -> None:
        if not self.closed:
            self.line.send(message)

    async def receive(self) -> Line:
        message = await self.queue.get()
        if message is None:
            self.queue.put_nowait(None)
            raise LinkError("the stream is at its end")
        return message

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self.line.broken:
                self.line.broken = True
                self.line.agent.connections.remove(self.line)


async def take(line: Connection, key: Any) -> Link:
    """A link to whoever has the key."""
    if line.agent.key != key:
        line.end()
        raise LinkError("another key")
    return Link(line)
