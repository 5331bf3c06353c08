"""Agents that have nothing to do, as their fork server keeps them: the next run on the same place is given to one of them.

A new agent copies half of the fork server's memory while it works and enters its namespaces; one that is there already has done both.
Only an agent that has left nothing of its last run behind says that it is free (``life``), so a run finds it as new. Each holds one end
of a socket pair: a request, with the descriptor that came with it, goes to the agent, one byte comes back when it is free. An agent ends
when its pair is closed: after LINGER seconds without work, or with the fork server.
"""

from __future__ import annotations

import _socket
import select
from _struct import pack
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

LINGER = 20.0  # seconds: longer than most pauses between two bursts of short jobs
MOST = 64  # agents that are kept, busy and free; one more ends with its run


class _Agent:
    __slots__ = ("line", "pid", "place", "since")

    def __init__(self, place: str, pid: int, line: _socket.socket) -> None:
        self.place = place
        self.pid = pid
        self.line = line
        self.since: float | None = None  # when it became free


class Spares:
    """The agents that may be used again, busy and free; their sockets are registered with ``poll``."""

    def __init__(self, poll: select.poll, clock: Callable[[], float] = monotonic) -> None:
        self._poll = poll
        self._clock = clock
        self._agents: dict[int, _Agent] = {}  # by descriptor
        self._free: list[_Agent] = []  # the one that waits longest first

    @property
    def room(self) -> bool:
        """Whether one more may be kept."""
        return len(self._agents) < MOST

    def add(self, place: str, pid: int, line: _socket.socket) -> None:
        """A new agent at the other end of ``line``; it is busy."""
        self._agents[line.fileno()] = _Agent(place, pid, line)
        self._poll.register(line.fileno(), select.POLLIN)

    def give(self, place: str, request: bytes, passed: int | None) -> int | None:
        """Have a free agent of this place serve the request; its pid, or None when there is none."""
        for agent in reversed(self._free):  # the last to work has most of its memory in the caches
            if agent.place != place:
                continue
            self._free.remove(agent)
            agent.since = None
            descriptors = [] if passed is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pack("i", passed))]
            try:
                agent.line.sendmsg([request], descriptors)
            except OSError:
                self._drop(agent)  # it was killed
                continue
            return agent.pid
        return None

    def hear(self, descriptor: int) -> None:
        """What an agent says: that it is free, or nothing any more."""
        agent = self._agents.get(descriptor)
        if agent is None:
            return
        try:
            free = bool(agent.line.recv(1))
        except OSError:
            free = False
        if free:
            agent.since = self._clock()
            self._free.append(agent)
        else:
            self._drop(agent)

    def pause(self) -> float | None:
        """Lets those go that have waited for long enough; milliseconds until the next one has. None: nobody waits."""
        now = self._clock()
        while self._free:
            since = self._free[0].since
            assert since is not None
            if now < since + LINGER:
                return (since + LINGER - now) * 1000 + 1
            self._drop(self._free[0])
        return None

    def close(self) -> None:
        """Lets all of them go; who has work does it to its end."""
        for agent in list(self._agents.values()):
            self._drop(agent)

    def _drop(self, agent: _Agent) -> None:
        if agent in self._free:
            self._free.remove(agent)
        descriptor = agent.line.fileno()
        del self._agents[descriptor]
        self._poll.unregister(descriptor)
        agent.line.close()
