"""Agents in pods: how a node finds its leader, and what it tells of itself.

Nothing is decided here that is not about pods; the rest is ``shim.job.agent``. All pods of a job start at once, often on the same
machines, and the last one decides when the job begins: what only a leader needs is in ``leading``, and is not loaded by the others.
"""

from __future__ import annotations

import os

from shim.job.address import write_address
from shim.job.agent.agent import TERMINATED, Agent, log
from shim.job.agent.processes import environment
from shim.job.pod import places as pod
from shim.job.pod.asking import boot_id
from shim.job.pod.environment import Adapter
from shim.job.pod.folder import mark_started
from shim.job.pod.oom import OomKills
from shim.job.pod.resolver import Lookup, servers_of
from shim.job.spec import UNMET
from shim.job.tls import available
from shim.job.wire import CHANGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.job.agent.node.node import Node
    from shim.job.link import Link
    from shim.job.pod.changes import NodeChanges
    from shim.job.pod.places import Places
    from shim.job.pod.staging import NodeStage
    from shim.job.spec import RunSpec

_TRIES = 10  # at an address until the leader's name is looked up again: there may be another pod of that name
_PAUSE = 0.2  # seconds before a leader that was lost is looked for again


class PodPart:
    """What all agents in pods have in common, the leader among them."""

    _spec: RunSpec
    _run_dir: str
    _places: Places
    _node: Node | None
    _index: int
    unstaged = ""  # why the working directory in the ticket could not be unpacked

    def _fit_out(self, node: Node) -> None:
        """Makes a node one in a pod."""
        given = [os.fsdecode(item).partition("=") for item in environment(os.getpid()) if item]
        node.adapt = Adapter({name: value for name, _, value in given}, self._places.home).adapt
        node.obeys["peers"] = lambda message: self._meet_peers(message["hosts"])
        node.kernel_kills = OomKills().new
        node.on_start = lambda: mark_started(self._run_dir)

    def _check_in(self) -> None:
        assert self._node is not None
        self._node.check_in(
            run=self._spec.name,
            uid=os.environ.get(pod.POD_UID, ""),
            ip=os.environ.get(pod.POD_IP, ""),
            node=os.environ.get(pod.NODE_NAME, ""),
            hosts=os.access(self._places.hosts, os.W_OK),
            boot=boot_id(),
            staged=self.unstaged,
        )

    def _meet_peers(self, hosts: list[list[str]]) -> None:
        own = self._spec.nodes[self._index].host
        lines = "".join(f"{address}\t{full}\t{name}\n" for address, full, name in hosts if name != own)
        try:
            # Added, not replaced: it is a mount, and the kubelet's own lines stay.
            with open(self._places.hosts, "a", encoding="ascii") as file:
                file.write(lines)
        except OSError:
            return  # not as this user: the DNS knows the names


class PodAgent(PodPart, Agent):
    """A node that is not the leader."""

    def __init__(self, spec: RunSpec, index: int, run_dir: str, key: bytes, subreaper: bool, places: Places) -> None:
        super().__init__(spec, index, run_dir, key, subreaper)
        self._places = places
        self._servers = servers_of(places.resolv_conf)
        self._where: dict[str, Any] = {}
        self._stage: NodeStage | None = None
        if spec.staged:
            from shim.job.pod.staging import NodeStage  # seldom, and large

            self._stage = NodeStage(self._loop, run_dir, spec.job.request.work_dir)
        self._changes: NodeChanges | None = None
        self.why = ""  # it ended without a part in the run
        self._lookup: Lookup | None = None
        self._problem = ""  # of the last try to reach the leader
        self._complained = ""

    def _begin(self) -> None:
        self._loop.call_at(self._deadline, self._too_late)
        if self._spec.complain:
            self._loop.call_later(self._spec.complain, self._complain)
        self._look_up()
        if self._spec.encrypted and not available():
            self.why = "the image's Python has no ssl, by which pods of a job encrypt: another image, or encrypt = false in the configuration"
            self._end(1)

    def _look_up(self) -> None:
        self._lookup = Lookup(self._loop, self._servers, self._spec.leader, self._found)

    def _complain(self) -> None:
        """Says what keeps it from the leader, where whoever looks at the pod from outside reads it."""
        if self._node is None:
            text = self._trouble()
            if text != self._complained:
                self._complained = text
                os.write(2, f"{UNMET}{self._spec.nodes[self._index].host} {text}\n".encode(errors="replace"))
        self._loop.call_later(self._spec.complain, self._complain)

    def _trouble(self) -> str:
        leader = self._spec.nodes[0].host
        if self._lookup is not None:
            servers = ", ".join(address for address, _port in self._servers)
            said = "says that there is no such name" if self._lookup.answered else "does not answer (UDP port 53)"
            return f"does not find {leader}: the DNS at {servers} {said}"
        address, port = self._where["tcp"]
        return f"cannot reach {leader} at {address} on TCP port {port}: {self._problem or 'no answer'}"

    def _too_late(self) -> None:
        if self._node is None:
            self.why = f"the first pod of the job was not found within {self._spec.barrier} seconds"
            self._end(1)

    def _found(self, address: str) -> None:
        self._lookup = None
        self._where = {"tcp": [address, int(self._spec.listen.partition(":")[2])], "encrypted": self._spec.encrypted}
        write_address(self._run_dir, self._where)
        self._connect(0)

    def _address(self) -> dict[str, Any]:
        return self._where

    def _try_again(self, attempt: int, why: str) -> None:
        self._problem = why
        if attempt >= _TRIES and self._loop.now() <= self._deadline:
            self._look_up()
        else:
            super()._try_again(attempt, why)

    def _make_node(self, link: Link) -> Node:
        node = super()._make_node(link)
        node.returns = True
        node.obeys["refused"] = lambda message: self._refused(message["why"])
        stage = self._stage
        if stage is not None:
            node.obeys["stage"] = lambda message: stage.message(link, message)
            node.on_stage_data = lambda data: stage.data(link, data)
        if self._spec.staged and self._spec.returns.bytes:
            node.obeys["gather"] = lambda message: self._changed().send(link, int(message["round"]))
            node.obeys["leave"] = lambda _message: self._changed().left()
            obey_credit = node.obeys["credit"]
            node.obeys["credit"] = lambda message: (
                self._changed().credit(int(message["bytes"])) if message["step"] == CHANGES else obey_credit(message)
            )
        self._fit_out(node)
        return node

    def _changed(self) -> NodeChanges:
        if self._changes is None:
            from shim.job.pod.changes import Finder, NodeChanges  # at the end: what waits for others is there sooner
            from shim.job.pod.staging import ARCHIVE

            archive, root = f"{self._places.ticket}/{ARCHIVE}", self._spec.job.request.work_dir
            self._changes = NodeChanges(
                self._loop, Finder(self._loop, self._run_dir, root, archive, self._spec.returns)
            )
        return self._changes

    def _cleared(self, link: Link) -> None:
        if self._spec.staged and self._spec.returns.bytes and self._node is not None and self._node.started:
            self._changed().send_last(link, lambda: super(PodAgent, self)._cleared(link))
        else:
            super()._cleared(link)

    def _refused(self, why: str) -> None:
        # The leader has this node already, or the run has begun without this pod: it must not begin a second time.
        self.why = f"the first pod of the job does not take this one: {why}"
        log(self._run_dir, self._index, self.why)
        self._end(1)

    def _leader_lost(self, reason: str) -> None:
        if self._node is None or self._node.started:
            super()._leader_lost(reason)
            if self._changes is not None:
                self._changes.left()
            return
        self._node = None
        log(self._run_dir, self._index, f"the leader is gone before the start: {reason}")
        self._loop.call_later(_PAUSE, lambda: self._connect(0))

    def _terminated(self) -> None:
        self._code = TERMINATED
        if self._node is None or self._node.clear or not self._node.started:
            self._loop.stop()
        else:
            self._node.leave()
            self._node.stop(self._spec.cluster.kill_wait)
