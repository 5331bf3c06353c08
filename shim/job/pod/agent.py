"""Agents in pods: how a node finds its leader, what it tells of itself, and what a leader does before the start.

Nothing is decided here that is not about pods; the rest is ``shim.job.agent``.
"""

from __future__ import annotations

import os
import sys

from shim.core.model.states import COMPLETED, FAILED, NODE_FAIL
from shim.job.address import write_address
from shim.job.agent.leader_outcome import Outcome, ended_by
from shim.job.agent.main import TERMINATED, Agent, LeadingAgent, log
from shim.job.agent.processes import environment
from shim.job.pod import places as pod
from shim.job.pod.ending import Departure, tell_end, termination_record
from shim.job.pod.environment import Adapter
from shim.job.pod.folder import mark_started
from shim.job.pod.meeting import Meeting, full_name, hosts_of
from shim.job.pod.oom import OomKills
from shim.job.pod.output import BatchOutput
from shim.job.pod.resolver import Lookup, servers_of
from shim.job.pod.staging import ARCHIVE, LeaderStage, NodeStage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.agent.node import Node
    from shim.job.link import Link
    from shim.job.pod.places import Places
    from shim.job.spec import RunSpec

_TRIES = 10  # at an address until the leader's name is looked up again: there may be another pod of that name
_PAUSE = 0.2  # seconds before a leader that was lost is looked for again


def exit_code(outcome: Outcome | None) -> int:
    """What a leader's container ends with: the script's code; 0 only for a job that is COMPLETED."""
    if outcome is None:
        return 1
    status = outcome.status
    code = 128 + (status & 0x7F) if status & 0x7F else status >> 8
    return 0 if outcome.state == COMPLETED else code or 1


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
        self._stage = NodeStage(self._loop, run_dir, spec.job.request.work_dir)
        self.why = ""  # it ended without a part in the run

    def _begin(self) -> None:
        self._loop.call_at(self._deadline, self._too_late)
        self._look_up()

    def _look_up(self) -> None:
        Lookup(self._loop, self._servers, self._spec.leader, self._found)

    def _too_late(self) -> None:
        if self._node is None:
            self.why = f"the first pod of the job was not found within {self._spec.barrier} seconds"
            self._end(1)

    def _found(self, address: str) -> None:
        self._where = {"tcp": [address, int(self._spec.listen.partition(":")[2])]}
        write_address(self._run_dir, self._where)
        self._connect(0)

    def _address(self) -> dict[str, Any]:
        return self._where

    def _try_again(self, attempt: int, why: str) -> None:
        if attempt >= _TRIES and self._loop.now() <= self._deadline:
            self._look_up()
        else:
            super()._try_again(attempt, why)

    def _make_node(self, link: Link) -> Node:
        node = super()._make_node(link)
        node.returns = True
        node.obeys["refused"] = lambda message: self._refused(message["why"])
        node.obeys["stage"] = lambda message: self._stage.message(link, message)
        node.on_stage_data = lambda data: self._stage.data(link, data)
        self._fit_out(node)
        return node

    def _refused(self, why: str) -> None:
        # The leader has this node already, or the run has begun without this pod: it must not begin a second time.
        self.why = f"the first pod of the job does not take this one: {why}"
        log(self._run_dir, self._index, self.why)
        self._end(1)

    def _leader_lost(self, reason: str) -> None:
        if self._node is None or self._node.started:
            super()._leader_lost(reason)
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


class PodLeader(PodPart, LeadingAgent):
    """The node that leads."""

    def __init__(self, spec: RunSpec, index: int, run_dir: str, key: bytes, subreaper: bool, places: Places) -> None:
        super().__init__(spec, index, run_dir, key, subreaper, None, None)
        self._places = places
        self._meeting: Meeting | None = None
        self.why = ""

    def _begin(self) -> None:
        super()._begin()
        self._leader.before_start = self._before_start
        # Nothing of the other nodes' is on this machine.
        self._leader.on_node_lost = _leave
        if self._spec.script:
            self._leader.output = BatchOutput(self._loop, self._spec, (1, 2) if self._spec.echo_output else None)
        if self._spec.staged:
            self._make_output_folders()
            given = os.path.exists(f"{self._places.ticket}/{ARCHIVE}")
            self._leader.stage = LeaderStage(self._loop, self._run_dir, self._spec.job.request.work_dir, given)
        departure = Departure(self._loop, self._leader, self._loop.stop)
        self._leader.on_done = departure.forgotten
        self._leader.on_ended = lambda: self._ended(departure)
        port = int(self._spec.listen.partition(":")[2])
        write_address(self._run_dir, {"tcp": ["127.0.0.1", port]})

    def _make_output_folders(self) -> None:
        """They are there on the submitting machine; a copy may be without them (ignored, or nothing was in them)."""
        for path in (self._spec.job.stdout, self._spec.job.stderr):
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            except OSError:
                continue  # whoever opens the file there says so

    def _ended(self, departure: Departure) -> None:
        tell_end(self._places, termination_record(self._leader.journal.lines, self.why))
        departure.ended()

    def _make_node(self, link: Link) -> Node:
        node = super()._make_node(link)
        self._fit_out(node)
        return node

    def _clean_after_the_dead(self) -> None:
        """Other nodes are other machines."""

    def _before_start(self, then: Callable[[], None]) -> None:
        if self._meeting is not None:
            self._meeting.close()
        known = self._leader.checked_in
        alone = len(self._spec.nodes) == 1
        # Not the leader's own: the others have found it by that name, and their early questions may still be answered "none".
        others = [] if alone or _writes_hosts(known) else [index for index in known if index]
        names = [full_name(self._spec, index) for index in others]

        def met(missing: list[str]) -> None:
            if missing:
                self._say(f"these names do not resolve: {', '.join(missing)}")
            self._bring_files(lambda: self._tell_peers(then))

        if names:
            self._meeting = Meeting(self._loop, servers_of(self._places.resolv_conf), names, met)
        else:
            met([])

    def _bring_files(self, then: Callable[[], None]) -> None:
        def brought(wrong: str) -> None:
            if wrong:
                self._fail(wrong)
            else:
                then()

        if self._leader.stage is None:
            then()
        else:
            errors = [str(one["staged"]) for one in self._leader.checked_in.values() if one.get("staged")]
            if errors:
                brought(errors[0])
            else:
                self._leader.stage.start(self._leader.node_links(), brought)

    def _tell_peers(self, then: Callable[[], None]) -> None:
        links = self._leader.node_links()
        hosts = hosts_of(self._spec, self._leader.checked_in)
        for link in links.values() if len(links) > 1 else ():
            link.send({"do": "peers", "hosts": hosts})
        then()

    def _fail(self, why: str) -> None:
        """The run cannot be started here."""
        self.why = why
        self._say(why)
        self._leader.end(Outcome(FAILED, 1 << 8, "JobLaunchFailure"), said=False)

    def _say(self, text: str) -> None:
        log(self._run_dir, self._index, text)
        sys.stderr.write(f"slurm-shim: {text}\n")

    def _terminated(self) -> None:
        self._code = TERMINATED
        self._leader.end(ended_by(NODE_FAIL))

    def _cleared(self, link: Link) -> None:
        """The leader goes on until the end of the run is written and told."""

    def _finish(self) -> None:
        if self._code == 0:
            self._code = exit_code(self._leader.outcome)
        super()._finish()


def _writes_hosts(checked_in: dict[int, dict[str, Any]]) -> bool:
    return all(one.get("hosts") for one in checked_in.values())


def _leave(_index: int) -> None:
    """Nothing to do for a lost node from here."""
