"""Who is connected to the leader: nodes, sruns, controllers, commands inside the job; and what the last two may say."""

from __future__ import annotations

import os

from shim.job.address import SOCKET, listen, write_address
from shim.job.agent.kept_line import KeptLine, ListeningSocket
from shim.job.agent.leader.orders import obey
from shim.job.link import SessionLink
from shim.job.listener import Listener
from shim.job.wire import CAST, STAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    from shim.job.agent.journal import Journal
    from shim.job.agent.leader.broadcasts import Broadcasts
    from shim.job.agent.leader.orders import Obedient
    from shim.job.agent.leader.record import Record
    from shim.job.agent.leader.usage_questions import UsageQuestions
    from shim.job.link import Link
    from shim.job.loop import Loop
    from shim.job.pod.changes import LeaderChanges as Changes
    from shim.job.pod.output import PodOutput as Output
    from shim.job.pod.staging import LeaderStage as Stage

    Message = dict[str, Any]

    class Led(Obedient, Protocol):
        """The leader, as far as its peers concern it."""

        journal: Journal
        record: Record
        output: Output | None
        stage: Stage | None
        changes: Changes | None
        orders_done: set[int]
        usage: UsageQuestions
        broadcasts: Broadcasts
        over: bool
        on_done: Callable[[], None]
        on_watched: Callable[[], None]
        on_answer: Callable[[Message], None]

        def node_first(self, link: Link, message: Message) -> None: ...


class Peers:
    """The connections of a leader, which all know the run's key."""

    def __init__(self, leader: Led, loop: Loop) -> None:
        self._leader = leader
        self._loop = loop
        self._listener: Listener | None = None
        self._listening: ListeningSocket | None = None  # what the listener has, where the next run could have it too
        self._links: set[Link] = set()
        self._line: SessionLink | None = None  # the controller's that asked for this run
        self.kept: KeptLine | None = None  # the same, when it is for the next run

    def listen(
        self, where: str, run_dir: str, key: bytes, line: int | KeptLine | None, encrypted: bool = False
    ) -> None:
        """Begins to listen ("unix", or "tcp:PORT"; ``encrypted``: to other machines in secret only) and tells where in the run folder; ``line`` is a controller's connection that is
        there already. OSError when that cannot be done.
        """
        word, _, port = where.partition(":")
        if word == "unix":
            self._listening = _listening_at(os.path.join(run_dir, SOCKET), line)
            server = self._listening.server
        else:
            server, address = listen({"tcp": ["::", int(port)]})
            write_address(run_dir, address)
        self._listener = Listener(
            self._loop, server, key, lambda session, hello: self.add(SessionLink(session), hello["role"]), encrypted
        )
        if isinstance(line, KeptLine):
            self._go_on(line)
        elif line is not None:
            self._line = SessionLink(self._listener.take(line))
            self.add(self._line, "controller")

    def close(self) -> None:
        """Ends the connections, after what was sent to them; not the one that is kept."""
        if self._listener is not None and self.kept is None:
            self._listener.close()
        elif self._listener is not None and self.kept is not None:
            self._listener.leave()
            self.kept.listening = self._listening
            self._links.discard(self.kept.link)
        for link in self._links:
            link.finish()
            link.close()

    def discard(self, link: Link) -> None:
        """That connection is over."""
        self._links.discard(link)
        if self._leader.output is not None:
            self._leader.output.closed(link)

    def add(self, link: Link, role: str) -> None:
        """Somebody who knows the key: a "node", an "srun", a "controller", or a "command" inside the job."""
        leader = self._leader
        if leader.over and role != "controller":
            link.finish()  # the key is good for what comes after a run's end alone
            return
        self._links.add(link)
        if role == "node":
            link.on_message = guarded(link, lambda message: leader.node_first(link, message))
            link.on_close = lambda _reason: self._links.discard(link)
        elif role == "srun":
            link.on_message = guarded(link, lambda message: leader.steps.srun_message(link, message))
            link.on_data = lambda _step, rank, _stream, data: leader.steps.srun_data(link, rank, data)
            link.on_close = lambda _reason: self._srun_gone(link)
        elif role == "command":
            link.on_message = guarded(link, lambda message: self._command_message(link, message))
            link.on_data = lambda step, rank, _stream, data: (
                leader.broadcasts.data(link, data) if step == CAST else leader.steps.attached_data(link, rank, data)
            )
            link.on_close = lambda _reason: self._command_gone(link)
        else:
            link.on_message = guarded(link, lambda message: self._controller_message(link, message))
            stage = leader.stage
            if stage is not None:
                link.on_data = lambda step, _rank, _stream, data: stage.data(link, data) if step == STAGE else None
            link.on_close = lambda _reason: self._controller_gone(link)

    def _go_on(self, line: KeptLine) -> None:
        """With the last run's connection, and what has come by it since."""
        if line.ended:
            return
        link = self._line = line.link
        self.add(link, "controller")
        self._loop.call_soon(lambda: _repeat(line.said, link))

    def _srun_gone(self, link: Link) -> None:
        self.discard(link)
        self._leader.steps.srun_gone(link)

    def _command_gone(self, link: Link) -> None:
        self._links.discard(link)
        self._leader.usage.gone(link)
        self._leader.broadcasts.gone(link)
        self._leader.steps.detached(link)

    def _controller_gone(self, link: Link) -> None:
        leader = self._leader
        self._links.discard(link)
        leader.record.unwatch(link)
        if leader.output is not None:
            leader.output.gone(link)
        if leader.over:
            leader.record.ask()

    def _controller_message(self, link: Link, message: Message) -> None:
        leader = self._leader
        do = message["do"]
        if do == "watch":
            if message.get("files") and leader.output is not None:
                leader.output.tell_files(link)
                link.send({"do": "clock", "at": leader.journal.now()})
            leader.record.watch(link, int(message["after"]))
            leader.on_watched()
        elif do == "answer":
            leader.on_answer(message)
        elif do == "order":
            number = int(message["order"]["number"])
            if number not in leader.orders_done:
                obey(leader, message["order"])
                leader.orders_done.add(number)
            link.send({"do": "done", "number": number})
        elif do == "forget":
            if leader.over:
                if message.get("keep") and self._line is link:
                    leader.record.unwatch(link)
                    self.kept = KeptLine(self._line, self._loop)
                leader.on_done()
        elif do in ("output", "credit") and leader.output is not None:
            leader.output.message(link, message)
        elif do == "stage" and leader.stage is not None:
            leader.stage.message(link, message)
        elif do == "gather" and leader.changes is not None:
            leader.changes.asked(link, message)
        else:
            raise ValueError(f"no such message of a controller: {do}")

    def _command_message(self, link: Link, message: Message) -> None:
        """A command inside the job (where it reaches no controller) asks about it, or wants something of it."""
        do = message["do"]
        if do == "usage":
            self._leader.usage.ask(link)
            return
        if do == "broadcast":
            self._leader.broadcasts.begin(link, message)
            return
        if do == "attach":
            self._leader.steps.attach(link, str(message["step"]), not message.get("layout"))
            return
        if do == "credit":
            self._leader.steps.attached_credit(link, int(message["bytes"]))
            return
        if do == "show":
            for line in self._leader.journal.lines:
                link.send({"do": "journal", "line": line})
        elif do == "order":
            obey(self._leader, message["order"])
        elif do == "controller":
            self._leader.record.summon()
        else:
            raise ValueError(f"no such message of a command: {do}")
        link.send({"do": "done"})


def _listening_at(path: str, line: int | KeptLine | None) -> ListeningSocket:
    kept = line.listening_at(path) if isinstance(line, KeptLine) else None
    return kept or ListeningSocket(listen({"unix": path})[0], path)


def _repeat(said: list[Message], link: Link) -> None:
    for message in said:
        link.on_message(message)


def guarded(link: Link, handle: Callable[[Message], None]) -> Callable[[Message], None]:
    """Ends the connection of a peer whose messages make no sense, as if it were lost."""

    def handled(message: Message) -> None:
        try:
            handle(message)
        except (KeyError, TypeError, ValueError):
            link.close()
            link.on_close("a message that makes no sense")

    return handled
