"""The nodes of a run as its leader has them: who has checked in and with what, who is silent, who is lost, who has stopped."""

from __future__ import annotations

from shim.job.agent.heartbeat import Heartbeat
from shim.job.agent.leader.peers import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.agent.leader.record import Record
    from shim.job.link import Link
    from shim.job.loop import Loop
    from shim.job.spec import RunSpec

    Message = dict[str, Any]


class Nodes:
    """``links`` of those that are there, by index; ``checked_in``: what each has said of itself, also one that is lost.

    ``on_joined(index, link)``: a node has checked in. ``on_message(index, message)``: what it says afterwards. ``on_lost(index,
    link)``: its connection has ended, or nothing was heard by it for too long. ``settled``: the run starts with these, no other may
    check in.
    """

    def __init__(self, spec: RunSpec, loop: Loop, record: Record) -> None:
        self.on_joined: Callable[[int, Link], None] = _nothing
        self.on_message: Callable[[int, Message], None] = _nothing
        self.on_lost: Callable[[int, Link], None] = _nothing
        self.links: dict[int, Link] = {}
        self.checked_in: dict[int, Message] = {}
        self.stopped: set[int] = set()
        self.settled = False
        self._spec = spec
        self._record = record
        self._beats = Heartbeat(loop, spec.heartbeat, spec.grace, self._silent, self._suspect, self._recovered)

    def first(self, link: Link, message: Message) -> None:
        """The first message of a node: it checks in, or comes too late."""
        index = message.get("index")
        known = isinstance(index, int) and 0 <= index < len(self._spec.nodes) and index not in self.links
        if message["do"] != "check-in" or not known or self.settled:
            link.send({"do": "refused", "why": "the run has started" if self.settled else "this node is there already"})
            link.finish()
            return
        assert isinstance(index, int)
        self.links[index] = link
        if index:  # the first is the leader's own process
            self._beats.add(index, link)
        self.checked_in[index] = message
        link.on_message = guarded(link, lambda message: self._message(index, message))
        link.on_close = lambda _reason: self._lost(index, link)
        self.on_joined(index, link)

    @property
    def complete(self) -> bool:
        """Whether all are there."""
        return len(self.links) == len(self._spec.nodes)

    @property
    def all_stopped(self) -> bool:
        """Whether nothing of the job is left on those that are there."""
        return self.stopped.issuperset(self.links)

    def names(self) -> list[str]:
        """What users call the nodes, by index; empty for one that has not said it."""
        return [str(self.checked_in[index].get("node") or "") for index in range(len(self._spec.nodes))]

    def has_stopped(self, index: int) -> None:
        """Nothing of the job is left there: it need not be heard any more."""
        self.stopped.add(index)
        self._beats.remove(index)

    def _message(self, index: int, message: Message) -> None:
        self._beats.heard(index)
        self.on_message(index, message)

    def _lost(self, index: int, link: Link) -> None:
        if self.links.pop(index, None) is not None:
            self._beats.remove(index)
            self.on_lost(index, link)

    def _silent(self, index: int) -> None:
        link = self.links[index]
        link.close()
        self._lost(index, link)

    def _suspect(self, index: int) -> None:
        # Before the start the journal stays empty: a line means that the run was started.
        if self.settled:
            self._record.write("suspect", host=self._spec.nodes[index].host)

    def _recovered(self, index: int) -> None:
        if self.settled:
            self._record.write("recovered", host=self._spec.nodes[index].host)


def _nothing(*_event: object) -> None:
    """Nobody waits for it."""
