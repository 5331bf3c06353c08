"""A fence over the nodes of a step: what the tasks of all nodes have published goes to all of them, once each node's tasks have come."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Mapping

    Message = dict[str, Any]

_PIECE = 256 << 10  # characters of names and values in one message; a frame holds four times as much


def messages(step: int, pairs: Mapping[str, str]) -> Iterator[Message]:
    """What a node says to the leader at a fence, and the leader to the nodes when all have come: ``pairs``, in pieces; ``last`` with
    the last one.
    """
    piece: dict[str, str] = {}
    size = 0
    for name, value in pairs.items():
        piece[name] = value
        size += len(name) + len(value)
        if size > _PIECE:
            yield {"do": "pmi", "step": step, "pairs": piece, "last": False}
            piece, size = {}, 0
    yield {"do": "pmi", "step": step, "pairs": piece, "last": True}


class Fence:
    """The leader's part. ``send(node, message)`` says something to a node of the step."""

    def __init__(self, step: int, nodes: set[int], send: Callable[[int, Message], None]) -> None:
        self._step = step
        self._nodes = nodes
        self._send = send
        self._pairs: dict[str, str] = {}
        self._come: set[int] = set()

    def came(self, node: int, message: Message) -> None:
        """A message of a node."""
        self._pairs.update(message["pairs"])
        if not message["last"]:
            return
        self._come.add(node)
        if self._come < self._nodes:
            return
        found, self._pairs = self._pairs, {}
        self._come.clear()
        for piece in messages(self._step, found):
            for index in sorted(self._nodes):
                self._send(index, piece)
