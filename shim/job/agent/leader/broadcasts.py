"""Files that a command sends to the nodes of the run (sbcast, ``srun --bcast``), piece by piece, no faster than the slowest node writes."""

from __future__ import annotations

from shim.job.wire import CAST, STDIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from shim.job.agent.step_manager.manager import StepManager
    from shim.job.link import Link
    from shim.job.spec import RunSpec

    Message = dict[str, Any]

_GONE = 113  # EHOSTUNREACH


class _Broadcast:
    """``written``: bytes, by the index of a node that has not answered for the whole file."""

    def __init__(self, link: Link, nodes: Iterable[int]) -> None:
        self.link = link
        self.written = dict.fromkeys(nodes, 0)
        self.errors: dict[int, int] = {}
        self.sent = 0
        self.credited = 0


class Broadcasts:
    """``nodes``: the links of the run's nodes by index.

    Nodes of one machine share its files: there the first of them writes, unless each has a file of its own (``%N`` in the path).
    """

    def __init__(self, spec: RunSpec, nodes: Mapping[int, Link], steps: StepManager) -> None:
        self._spec = spec
        self._nodes = nodes
        self._steps = steps
        self._running: dict[int, _Broadcast] = {}
        self._next = 0

    def begin(self, link: Link, message: Message) -> None:
        """A command has a file for the nodes, or those of its step. It is told ``broadcast`` with ``errors``, by node, then ``done``."""
        indexes = self._targets(message.get("step"), "%N" in message["path"])
        if indexes is None:
            link.send({"do": "broadcast", "errors": None})
            link.send({"do": "done"})
            return
        self._next += 1
        ticket, cast = self._next, _Broadcast(link, indexes)
        self._running[ticket] = cast
        for index in indexes:
            node = self._nodes.get(index)
            path = str(message["path"]).replace("%N", self._name(index))
            told: Message = {name: message[name] for name in ("mode", "times", "force", "folder") if name in message}
            if node is None:
                self._over(ticket, index, _GONE)
            else:
                node.send({"do": "receive", "ticket": ticket, "path": path, **told})

    def data(self, link: Link, data: bytes) -> None:
        """A piece of the file of that command, or its end."""
        for ticket, cast in list(self._running.items()):
            if cast.link is not link:
                continue
            cast.sent += len(data)
            for index in list(cast.written):
                node = self._nodes.get(index)
                if node is not None:
                    node.send_data(CAST, ticket, STDIN, data)
            self._credit(cast)

    def told(self, index: int, message: Message) -> None:
        """Node ``index`` has written a piece, or is done with the file."""
        ticket = int(message["ticket"])
        cast = self._running.get(ticket)
        if cast is None or index not in cast.written:
            return
        if "error" in message:
            self._over(ticket, index, int(message["error"]))
            return
        cast.written[index] += int(message["bytes"])
        self._credit(cast)

    def node_lost(self, index: int) -> None:
        """It will not answer."""
        for ticket, cast in list(self._running.items()):
            if index in cast.written:
                self._over(ticket, index, _GONE)

    def gone(self, link: Link) -> None:
        """The command is gone: what has arrived of its file is removed."""
        for ticket, cast in list(self._running.items()):
            if cast.link is link:
                del self._running[ticket]
                for index in cast.written:
                    if index in self._nodes:
                        self._nodes[index].send({"do": "drop", "ticket": ticket})

    def _over(self, ticket: int, index: int, error: int) -> None:
        cast = self._running[ticket]
        del cast.written[index]
        if error:
            cast.errors[index] = error
        if cast.written:
            self._credit(cast)
            return
        del self._running[ticket]
        errors = [[self._name(at), cast.errors[at]] for at in sorted(cast.errors)]
        cast.link.send({"do": "broadcast", "errors": errors})
        cast.link.send({"do": "done"})

    def _credit(self, cast: _Broadcast) -> None:
        """What all that still write have written may be followed by as much."""
        done = min(cast.written.values(), default=cast.sent)
        if done > cast.credited:
            cast.link.send({"do": "credit", "bytes": done - cast.credited})
            cast.credited = done

    def _targets(self, step: str | None, of_each: bool) -> list[int] | None:
        nodes = [index for index in range(len(self._spec.nodes)) if index not in self._steps.given_up]
        if step is not None and step != "batch":
            found = self._steps.steps.get(int(step))
            if found is None:
                return None
            nodes = sorted(found.layout.nodes)
        return nodes if self._spec.apart or of_each else nodes[:1]

    def _name(self, index: int) -> str:
        return self._spec.nodes[index].name
