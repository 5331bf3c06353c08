"""The agent of a run's first node, which leads. What a node needs that only follows is not here: in a pod it is loaded without this."""

from __future__ import annotations

import os
from time import time

from shim.core.model.states import NODE_FAIL
from shim.job.agent.agent import TERMINATED, Agent
from shim.job.agent.cleaning import kill_marked
from shim.job.agent.leader.leader import Leader
from shim.job.agent.leader.outcome import ended_by
from shim.job.agent.lock import take_lock
from shim.job.link import local_pair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.job.agent.herald import Herald
    from shim.job.agent.kept_line import KeptLine
    from shim.job.link import Link
    from shim.job.loop import Loop
    from shim.job.spec import RunSpec


class LeadingAgent(Agent):
    """The first node: leader and node in one process, over a link inside it."""

    def __init__(
        self,
        spec: RunSpec,
        index: int,
        run_dir: str,
        key: bytes,
        subreaper: bool,
        herald: Herald | None,
        line: int | KeptLine | None,
        loop: Loop | None = None,
        lock: int | None = None,
    ) -> None:
        super().__init__(spec, index, run_dir, key, subreaper, loop)
        self.environment: dict[str, str] | None = None  # the batch environment, if it has been read
        self._herald = herald
        self._line = line
        self._lock = lock  # the journal's file
        self.kept: KeptLine | None = None  # the connection, for the next run

    def _begin(self) -> None:
        self._leader = Leader(
            self._spec,
            self._run_dir,
            self._key,
            self._loop,
            wall=self._simulated.clock if self._simulated is not None else time,
            timers=self._simulated,
            herald=self._herald,
            journal=self._lock,
        )
        self._leader.environment = self.environment
        self._leader.on_done = self._loop.stop
        lost = bool(self._leader.journal.lines)
        self._leader.start(self._line)
        if lost:
            return  # started before: without a node to check in, nothing can start again
        leaders_end, nodes_end = local_pair(self._loop)
        self._leader.add_node(leaders_end)
        # An agent may die before this node is clear, or after. One that lives kills all that it has when its leader is lost.
        self._leader.on_node_lost = self._clean
        self._make_node(nodes_end).before_stopped = self._clean_after_the_dead
        self._check_in()

    def _terminated(self) -> None:
        if self._node is not None:
            # First of all: else the death of the batch script would count as the run's own end.
            self._leader.end(ended_by(NODE_FAIL))
        super()._terminated()

    def _cleared(self, link: Link) -> None:
        # The leader goes on until the end of the run is told. After a TERM there is no more to wait for: a journal without
        # an end and a free lock say what became of the run.
        if self._code == TERMINATED:
            self._loop.stop()

    def _finish(self) -> None:
        self._leader.close()
        self.kept = self._leader.kept
        if self.kept is not None:
            self._still_open.append(self.kept.fd)
        super()._finish()

    def _clean_after_the_dead(self) -> None:
        """A node whose agent was killed could not clean up; on one machine it can be done from here, before the run's end."""
        for index in range(len(self._spec.nodes)):
            lock = take_lock(self._run_dir, index) if index else None
            if lock is not None:
                self._clean(index)
                os.close(lock)

    def _clean(self, index: int) -> None:
        kill_marked(self._run_dir, self._spec.nodes[index].name)
