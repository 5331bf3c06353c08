"""The first pod's agent: what a leader in a pod does before the start, and what its container ends with."""

from __future__ import annotations

import os
import sys

import shim.job.agent.node.step  # noqa: F401 - the batch script is started here as soon as all are there
from shim.core.model.states import COMPLETED, FAILED, NODE_FAIL
from shim.job.address import write_address
from shim.job.agent.agent import TERMINATED, log
from shim.job.agent.leader.leading_agent import LeadingAgent
from shim.job.agent.leader.outcome import Outcome, ended_by
from shim.job.pod.agent import PodPart
from shim.job.pod.asking import Asking, Member
from shim.job.pod.changes import Finder, LeaderChanges
from shim.job.pod.ending import Departure, tell_end, termination_record
from shim.job.pod.meeting import Meeting, full_name, hosts_of
from shim.job.pod.output import PodOutput
from shim.job.pod.resolver import servers_of
from shim.job.pod.staging import ARCHIVE, LeaderStage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.agent.node.node import Node
    from shim.job.link import Link
    from shim.job.pod.places import Places
    from shim.job.spec import RunSpec


def exit_code(outcome: Outcome | None) -> int:
    """What a leader's container ends with: the script's code; 0 only for a job that is COMPLETED."""
    if outcome is None:
        return 1
    status = outcome.status
    code = 128 + (status & 0x7F) if status & 0x7F else status >> 8
    return 0 if outcome.state == COMPLETED else code or 1


class PodLeader(PodPart, LeadingAgent):
    """The node that leads."""

    def __init__(self, spec: RunSpec, index: int, run_dir: str, key: bytes, subreaper: bool, places: Places) -> None:
        super().__init__(spec, index, run_dir, key, subreaper, None, None)
        self._places = places
        self._meeting: Meeting | None = None
        self._asking: Asking | None = None
        self._nonces: list[str] = []  # of all gangs that this process has assembled
        self.why = ""

    def _begin(self) -> None:
        super()._begin()
        self._leader.before_start = self._before_start
        self._leader.on_watched = self._ask_again
        self._leader.on_answer = self._answered
        # Nothing of the other nodes' is on this machine.
        self._leader.on_node_lost = self._dissolve
        echo = 1 if self._spec.echo_output and self._spec.script else None
        self._leader.output = output = PodOutput(self._loop, self._spec, echo)
        if self._spec.staged:
            self._make_output_folders()
            given = os.path.exists(f"{self._places.ticket}/{ARCHIVE}")
            work_dir = self._spec.job.request.work_dir
            self._leader.stage = LeaderStage(self._loop, self._run_dir, work_dir, given)
            if self._spec.returns.bytes:
                archive = f"{self._places.ticket}/{ARCHIVE}"
                finder = Finder(self._loop, self._run_dir, work_dir, archive, self._spec.returns)
                self._leader.changes = LeaderChanges(
                    self._loop, self._leader, self._run_dir, finder, lambda: output.streamed, output.add_changes
                )
        departure = Departure(self._loop, self._leader, self._leave)
        self._leader.on_done = departure.forgotten
        self._leader.on_ended = lambda: self._ended(departure)
        port = int(self._spec.listen.partition(":")[2])
        write_address(self._run_dir, {"tcp": ["127.0.0.1", port]})

    def _leave(self) -> None:
        output = self._leader.output
        lost = output.lost if output is not None else ""
        if lost:
            lines = self._leader.journal.lines
            tell_end(self._places, termination_record(lines, self.why, self._nonces, lost))
        self._loop.stop()

    def _make_output_folders(self) -> None:
        """They are there on the submitting machine; a copy may be without them (ignored, or nothing was in them)."""
        for path in (self._spec.job.stdout, self._spec.job.stderr):
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            except OSError:
                continue  # whoever opens the file there says so

    def _ended(self, departure: Departure) -> None:
        tell_end(self._places, termination_record(self._leader.journal.lines, self.why, self._nonces))
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
        self._dissolve(0)
        known = self._leader.nodes.checked_in
        alone = len(self._spec.nodes) == 1
        # Not the leader's own: the others have found it by that name, and their early questions may still be answered "none".
        others = [] if alone or _writes_hosts(known) else [index for index in known if index]
        names = [full_name(self._spec, index) for index in others]

        def met(missing: list[str]) -> None:
            if missing:
                self._say(f"these names do not resolve: {', '.join(missing)}")
            self._bring_files(lambda: self._tell_peers(lambda: self._ask(then)))

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
            errors = [str(one["staged"]) for one in self._leader.nodes.checked_in.values() if one.get("staged")]
            if errors:
                brought(errors[0])
            else:
                self._leader.stage.start(self._leader.nodes.links, brought)

    def _tell_peers(self, then: Callable[[], None]) -> None:
        links = self._leader.nodes.links
        hosts = hosts_of(self._spec, self._leader.nodes.checked_in)
        for link in links.values() if len(links) > 1 else ():
            link.send({"do": "peers", "hosts": hosts})
        then()

    # Whether the run may begin: the record in the cluster decides

    def _ask(self, then: Callable[[], None]) -> None:
        if not self._spec.record:
            then()
            return
        known = self._leader.nodes.checked_in
        members = tuple(
            Member(
                index=index,
                pod=str(known[index].get("uid") or ""),
                node=str(known[index].get("node") or ""),
                boot=str(known[index].get("boot") or ""),
            )
            for index in range(len(self._spec.nodes))
        )
        self._asking = Asking(
            self._loop, self._spec.record, self._spec.run, members, self._leader.record.tell, then, self._refused
        )
        self._nonces.append(self._asking.nonce)
        self._asking.ask()

    def _ask_again(self) -> None:
        """A controller has come."""
        if self._asking is not None:
            self._asking.ask()

    def _answered(self, message: dict[str, Any]) -> None:
        if self._asking is not None:
            self._asking.answered(message)

    def _dissolve(self, _index: int) -> None:
        """A member is lost: whoever meets next is another gang. Nothing is to be done for its node from here."""
        if self._asking is not None:
            self._asking.close()

    def _refused(self) -> None:
        self.why = "this run is not to begin here: it has begun in another pod, or was taken back"
        self._say(self.why)
        self._leader.end(ended_by(NODE_FAIL))

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
        if self._leader.changes is not None:
            self._leader.changes.hurry()
        if self._leader.output is not None:
            self._leader.output.hurry()
        self._leader.end(ended_by(NODE_FAIL))

    def _cleared(self, link: Link) -> None:
        """The leader goes on until the end of the run is written and told."""

    def _finish(self) -> None:
        if self._code == 0:
            self._code = exit_code(self._leader.outcome)
        super()._finish()


def _writes_hosts(checked_in: dict[int, dict[str, Any]]) -> bool:
    return all(one.get("hosts") for one in checked_in.values())
