"""One run of an agent: its lock, its place (namespaces), its parts, its end.

The lock is what makes starting an agent twice harmless, and what tells everybody else that it lives. A leader that ends leaves
with 0, and so does a node that the leader has stopped; an agent ended by TERM ends its tasks first and leaves with 143.
"""

from __future__ import annotations

import fcntl
import os
import time

from shim.core.jsonlite import loads
from shim.core.model.states import NODE_FAIL
from shim.job import rawfile
from shim.job.address import read_address
from shim.job.agent.cleaning import Belongings, kill_marked, send
from shim.job.agent.journal import lock_name
from shim.job.agent.leader import Leader
from shim.job.agent.leader_herald import Herald, begin
from shim.job.agent.leader_outcome import ended_by
from shim.job.agent.node import Node
from shim.job.agent.place import Place
from shim.job.link import SessionLink, local_pair
from shim.job.loop import Loop
from shim.job.run_folder import ENVIRONMENT, KEY, SPEC, read_key
from shim.job.session import open_session
from shim.job.spec import RunSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any

    from shim.job.link import Link
else:
    import _signal

TERMINATED = 143
LOCK_PATIENCE = 0.3  # seconds: who looks whether an agent lives holds its lock for a moment
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # seconds between attempts to reach the leader; then the last of them again


def run(run_dir: str, index: int, bell: int | None = None, line: int | None = None, place: Place | None = None) -> int:
    """Be agent ``index`` of the run in ``run_dir``, to its end; the exit code. Another one holds the lock: 0, nothing done.

    ``bell``: of a herald that is there; without one a leader with news makes its own. ``line``: a leader's connection to the controller
    that asked for it. ``place``: of a process that goes on after this run.
    """
    lock = take_lock(run_dir, index, LOCK_PATIENCE)
    if lock is None:
        if line is not None:
            os.close(line)
        return 0
    try:
        given = loads(rawfile.read(os.path.join(run_dir, SPEC)))
        spec = RunSpec.from_dict(given)
        key = bytes.fromhex(given[KEY]) if KEY in given else read_key(run_dir)
        herald = None
        if index == 0 and spec.news:
            # Before the agent adopts processes and changes its view: what the herald starts is not the job's.
            herald = Herald(begin() if bell is None else os.dup(bell), spec.news)
        place = place or Place()
        try:
            place.take(spec, index)
        except OSError as error:
            # It worked when the backend tried it. The job runs, its nodes' names may not resolve.
            log(run_dir, index, f"no namespaces: {error}")
        if index == 0:
            leading = LeadingAgent(spec, index, run_dir, key, place.subreaper, herald, line, place.loop, lock)
            leading.environment = given.get(ENVIRONMENT)
            return leading.run()
        return Agent(spec, index, run_dir, key, place.subreaper, place.loop).run()
    finally:
        os.close(lock)


def take_lock(run_dir: str, index: int, patience: float = 0.0) -> int | None:
    """The descriptor that holds agent ``index``'s lock; None: somebody else holds it.

    Trying the lock is also how others see whether the agent lives, so one that is taken is tried again for ``patience`` seconds.
    """
    fd = os.open(os.path.join(run_dir, lock_name(index)), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(fd)
                return None
            time.sleep(0.01)
    return fd


def log(run_dir: str, index: int, text: str) -> None:
    """Add a line to the agent's log in the run folder."""
    try:
        with open(
            os.path.join(run_dir, f"agent.{index}.log"), "a", encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text + "\n")
    except OSError:
        return  # a full disk, or the folder is gone: nowhere to say it


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
        self._belongings = Belongings(run_dir, subreaper)
        self._node: Node | None = None
        self._code = 0
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
        if self._own_loop:
            self._loop.close()
        else:
            self._loop.begin_anew()

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
        node = Node(self._spec, self._index, self._run_dir, self._loop, link, self._belongings)
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
        line: int | None,
        loop: Loop | None = None,
        lock: int | None = None,
    ) -> None:
        super().__init__(spec, index, run_dir, key, subreaper, loop)
        self.environment: dict[str, str] | None = None  # the batch environment, if it has been read
        self._herald = herald
        self._line = line
        self._lock = lock  # the journal's file

    def _begin(self) -> None:
        self._leader = Leader(self._spec, self._run_dir, self._key, self._loop, herald=self._herald, journal=self._lock)
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
