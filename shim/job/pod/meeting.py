"""What a leader does when all pods of its run are there and nothing has started: see that their names resolve, tell all addresses.

Programs of the job may ask for the names at once, and a name asked for too early is gone for 30 s (``resolver``). Where every
pod may write its /etc/hosts nobody needs the DNS.
"""

from __future__ import annotations

from shim.job.pod.resolver import Lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.loop import Loop, Timer
    from shim.job.pod.resolver import Server
    from shim.job.spec import RunSpec

LIMIT = 15.0  # seconds that a start waits for names


def full_name(spec: RunSpec, index: int) -> str:
    """The DNS name of a node's pod."""
    return f"{spec.nodes[index].host}.{spec.leader.partition('.')[2].rstrip('.')}"


def hosts_of(spec: RunSpec, checked_in: dict[int, dict[str, Any]]) -> list[list[str]]:
    """Address, full name and name of each node that told its address, in the nodes' order."""
    return [
        [str(checked_in[index]["ip"]), full_name(spec, index), node.host]
        for index, node in enumerate(spec.nodes)
        if checked_in.get(index, {}).get("ip")
    ]


class Meeting:
    """Looks every name up, at most ``LIMIT`` seconds; then ``on_done(names that do not resolve)``. ``close`` at any time."""

    def __init__(
        self, loop: Loop, servers: list[Server], names: list[str], on_done: Callable[[list[str]], None]
    ) -> None:
        self._on_done = on_done
        self._lookups = {
            name: Lookup(loop, servers, name, lambda _address, name=name: self._found(name))  # type: ignore[misc]
            for name in names
        }
        self._timer: Timer = loop.call_later(LIMIT if names else 0.0, self._end)

    def close(self) -> None:
        """Look no further."""
        self._timer.cancel()
        for lookup in self._lookups.values():
            lookup.close()

    def _found(self, name: str) -> None:
        del self._lookups[name]
        if not self._lookups:
            self._end()

    def _end(self) -> None:
        self.close()
        self._on_done(list(self._lookups))
