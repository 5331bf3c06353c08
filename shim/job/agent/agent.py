"""A node's agent: how it comes to the leader, and what its process does until the end.

A node that the leader has stopped leaves with 0; an agent ended by TERM ends its tasks first and leaves with 143.
"""

from __future__ import annotations

import os

from shim.job.address import read_address
from shim.job.agent.cleaning import Belongings, send
from shim.job.agent.node.node import Node
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.session import open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any

    from shim.job.link import Link
    from shim.job.simulated_time import SimulatedTimers
    from shim.job.spec import RunSpec
else:
    import _signal

TERMINATED = 143
_SIMULATED = "SHIM_SIMULATED_TIME"  # as simulated_time has it, which no other job loads
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # seconds between attempts to reach the leader; then the last of them again


def log(run_dir: str, index: int, text: str) -> None:
    """Add a line to the agent's log in the run folder."""
    try:
        with open(
            os.path.join(run_dir, f"agent.{index}.log"), "a", encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text + "\n")
    except OSError:
        return  # a full disk, or the folder is gone: nowhere to say it


def _simulated(spec: RunSpec, loop: Loop) -> SimulatedTimers | None:
    """What counts the job's time, where that is a throw-away cluster's."""
    if _SIMULATED not in spec.own:
        return None
    from shim.job import simulated_time

    clock = simulated_time.clock(spec.own[_SIMULATED])
    return simulated_time.SimulatedTimers(loop, clock) if clock is not None else None


class Agent:
    """A node that is not the leader: it looks for the leader, then obeys it. ``loop``: one that goes on after it."""

    def __init__(
        self, spec: RunSpec, index: int, run_dir: str, key: bytes, subreaper: bool, loop: Loop | None = None
    ) -> None:
        self._spec = spec
        self._index = index
        self._run_dir = run_dir
        self._key = key
        self._loop = loop or Loop()
        self._own_loop = loop is None
        self._still_open: list[int] = []  # descriptors that are watched after the run
        self._belongings = Belongings(run_dir, subreaper)
        self._node: Node | None = None
        self._code = 0
        self._simulated = _simulated(spec, self._loop)
        self._deadline = self._loop.now() + spec.barrier

    def run(self) -> int:
        """Work until the end; the exit code."""
        self._loop.on_signal(_signal.SIGTERM, self._terminated)
        if self._belongings.subreaper:
            self._loop.on_orphan(self._orphan)
        try:
            self._begin()
            self._loop.run()
        except BaseException:
            # An error of ours must not leave the tasks running with nobody above them.
            send(self._belongings.all(), _signal.SIGKILL)
            raise
        self._finish()
        return self._code

    def _begin(self) -> None:
        self._connect(0)

    def _finish(self) -> None:
        if self._simulated is not None:
            self._simulated.close()
        if self._own_loop:
            self._loop.close()
        else:
            self._loop.begin_anew(*self._still_open)

    def _connect(self, attempt: int) -> None:
        try:
            session = open_session(self._loop, self._address(), self._key, "node", index=self._index)
        except (OSError, ValueError) as error:
            self._try_again(attempt, str(error))
            return
        session.on_open = lambda _hello: self._connected(SessionLink(session))
        session.on_close = lambda reason: self._try_again(attempt, reason)

    def _address(self) -> dict[str, Any]:
        """Where the leader listens. OSError or ValueError while that is not known."""
        return read_address(self._run_dir)

    def _try_again(self, attempt: int, why: str) -> None:
        if self._loop.now() > self._deadline:
            log(self._run_dir, self._index, f"the leader cannot be reached: {why}")
            self._end(1)
            return
        pause = _PAUSES[min(attempt, len(_PAUSES) - 1)]
        self._loop.call_later(pause, lambda: self._connect(attempt + 1))

    def _connected(self, link: SessionLink) -> None:
        self._make_node(link).on_lost = self._leader_lost
        self._check_in()

    def _make_node(self, link: Link) -> Node:
        node = Node(self._spec, self._index, self._run_dir, self._loop, link, self._belongings, self._simulated)
        node.on_clear = lambda: self._cleared(link)
        self._node = node
        return node

    def _check_in(self) -> None:
        assert self._node is not None
        self._node.check_in()

    def _cleared(self, link: Link) -> None:
        link.finish(self._loop.stop)

    def _leader_lost(self, reason: str) -> None:
        log(self._run_dir, self._index, f"the leader is gone: {reason}")
        self._code = self._code or 1

    def _orphan(self, _pid: int, _status: int) -> None:
        if self._node is not None:
            self._node.look()

    def _terminated(self) -> None:
        self._code = TERMINATED
        if self._node is None or self._node.clear:
            self._loop.stop()
        else:
            # Before its tasks end: else a script that waits for them would go on, and the job would seem to have done its work.
            self._node.leave()
            self._node.stop(0)

    def _end(self, code: int) -> None:
        self._code = self._code or code
        self._loop.stop()
