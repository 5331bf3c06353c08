"""The leader: the agent of a run's first node, which the other nodes, srun and the controller talk to.

It opens the barrier when all nodes have checked in, starts the batch script, keeps the time limit, obeys the controller's
orders, leads the steps (``step_manager``), and ends the run: every node stopped and clean, the end in the journal, a controller
told. Nothing of the user's runs before the barrier is open, and ``started`` is in the journal before that.
"""

from __future__ import annotations

import os
from time import time

from shim.core.jsonlite import loads
from shim.core.model.states import CANCELLED, NODE_FAIL, TIMEOUT
from shim.core.model.usage import of_task
from shim.job import rawfile
from shim.job.agent.herald import Herald
from shim.job.agent.journal import Journal
from shim.job.agent.kept_line import KeptLine, drop
from shim.job.agent.leader.batch_script import BatchScript
from shim.job.agent.leader.broadcasts import Broadcasts
from shim.job.agent.leader.components import Components
from shim.job.agent.leader.nodes import Nodes
from shim.job.agent.leader.outcome import Outcome, ended_by, own_end
from shim.job.agent.leader.peers import Peers
from shim.job.agent.leader.record import Record
from shim.job.agent.leader.time_limit import TimeLimit
from shim.job.agent.leader.usage_questions import UsageQuestions
from shim.job.agent.step_manager.manager import StepManager
from shim.job.run_folder import JOURNAL
from shim.job.wire import BATCH, CHANGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any, Callable

    from shim.job.link import Link
    from shim.job.loop import Loop, Timers
    from shim.job.pod.changes import LeaderChanges as Changes
    from shim.job.pod.output import PodOutput as Output
    from shim.job.pod.staging import LeaderStage as Stage
    from shim.job.spec import RunSpec

    Message = dict[str, Any]


_ENDING = (9, 15)  # KILL and TERM


class Leader:
    """``on_done`` is called when the leader may exit: its end is told, and nothing of the run is left. ``on_node_lost(index)``:
    a node's connection is lost; before anything follows from that. ``before_start(then)``: all nodes have checked in
    (``nodes.checked_in``: with what), ``then()`` starts the run if they still are there. ``on_ended``: the end is on disk, and told to
    those who watch. ``output``: who passes the batch script's output on, ``stage``: who brings the working directory to
    the nodes, ``changes``: who gathers what has changed in it before the end is written, where somebody needs that.

    ``start`` begins to listen; ``add_node`` takes the link of the node in the leader's own process. ``wall`` gives the epoch,
    ``timers`` counts the time of the job (the loop, unless another is given); ``journal`` is the journal's file, open for appending.
    """

    def __init__(
        self,
        spec: RunSpec,
        run_dir: str,
        key: bytes,
        loop: Loop,
        *,
        wall: Callable[[], float] = time,
        timers: Timers | None = None,
        herald: Herald | None = None,
        journal: int | None = None,
    ) -> None:
        self.on_done: Callable[[], None] = _nothing
        self.on_node_lost: Callable[[int], None] = _nothing
        self.on_ended: Callable[[], None] = _nothing
        self.output: Output | None = None
        self.stage: Stage | None = None
        self.changes: Changes | None = None
        self.before_start: Callable[[Callable[[], None]], None] = self._when_folders_are_there
        self.on_watched: Callable[[], None] = _nothing
        self.on_answer: Callable[[Message], None] = _nothing
        self.spec = spec
        self.outcome: Outcome | None = None  # set when the run is ending
        self.over = False  # nothing of the run is left; its end is being written down, or is
        self.ended_by_uid: int | None = None
        self.environment: dict[str, str] | None = None  # the batch environment; None: it is a file
        self.orders_done: set[int] = set()
        self._run_dir = run_dir
        self._key = key
        self._loop = loop
        self._herald = herald
        self.journal = Journal(os.path.join(run_dir, JOURNAL), wall, journal)
        self.record = Record(self.journal, loop, herald.ring if herald is not None else None)
        self.record.on_unheard = self._unheard
        self.steps = StepManager(spec, self.record, loop, wall, timers)
        self.steps.on_finished = lambda link: self._peers.discard(link)
        self.steps.on_opened = self._files_opened
        self.batch = BatchScript(spec, run_dir, wall)
        lead = spec.job.request.signal
        self.limit = TimeLimit(
            timers or loop,
            spec.limit,
            lead.lead if lead is not None else None,
            self._signal_before_limit,
            self._limit_reached,
        )
        self.components = Components(spec, self.record, self.steps, timers or loop, self._stop_node)
        self.started = False
        self.started_at = 0.0  # by the loop's clock
        self.nodes = Nodes(spec, loop, self.record)
        self.nodes.on_joined = self._node_joined
        self.nodes.on_message = self._node_message
        self.nodes.on_lost = self._node_lost
        self.usage = UsageQuestions(spec, self.nodes.links, self.steps)
        self.broadcasts = Broadcasts(spec, self.nodes.links, self.steps)
        self._stopping = False
        self._peers = Peers(self, loop)

    # Connections

    def start(self, line: int | KeptLine | None = None) -> None:
        """Begins to listen and tells where in the run folder. OSError when that cannot be done.

        ``line``: a connection that somebody has opened already. A run whose journal has lines was started before: it is lost,
        nothing is done.
        """
        if self.journal.lines:
            drop(line)
            self._loop.call_soon(self.on_done)
            return
        self._loop.call_later(self.spec.barrier, self._barrier_late)
        self._peers.listen(self.spec.listen, self._run_dir, self._key, line, self.spec.encrypted)

    def close(self) -> None:
        """Ends the connections, after what was sent to them, and the journal."""
        self._peers.close()
        self.record.close()
        if self._herald is not None:
            self._herald.close()

    @property
    def kept(self) -> KeptLine | None:
        """The controller's connection, where that is to be kept for the next run."""
        return self._peers.kept

    def add_node(self, link: Link) -> None:
        """The link of the node in this process: it is to check in like the others."""
        self.add_peer(link, "node")

    def add_peer(self, link: Link, role: str) -> None:
        """Somebody who knows the key: a "node", an "srun", a "controller", or a "command" inside the job."""
        self._peers.add(link, role)

    # Nodes and the barrier

    def node_first(self, link: Link, message: Message) -> None:
        """The first message of a node: it checks in, or comes too late."""
        self.nodes.first(link, message)

    @property
    def node_links(self) -> dict[int, Link]:
        """Of the nodes that are there, by index."""
        return self.nodes.links

    @property
    def node_names(self) -> list[str]:
        """What users call the nodes of the run, all of which have been there, by index."""
        told = self.nodes.names() if self.spec.told_names else ()
        return [name or node.name for name, node in zip(told, self.spec.nodes)] or [one.name for one in self.spec.nodes]

    def _node_joined(self, index: int, link: Link) -> None:
        self.steps.nodes[index] = link
        link.on_data = lambda step, rank, stream, data: self._node_data(index, step, rank, stream, data)
        if self._stopping:
            link.send({"do": "stop", "grace": 0})
        elif self._all_there():
            self.before_start(self._start_run)

    def _all_there(self) -> bool:
        return self.nodes.complete and self.outcome is None

    def _when_folders_are_there(self, then: Callable[[], None]) -> None:
        self.batch.when_folders_are_there(self._loop, then)

    def _start_run(self) -> None:
        if self._all_there() and not self.nodes.settled:
            self.nodes.settled = True
            self._learn_names()
            hosts = [node.host for node in self.spec.nodes]
            # A script may be over at once. Who waits for an allocation wants to know of it now.
            self.record.write(
                "started", hosts=hosts, pid=os.getpid(), then=self._open_barrier, followed=self.spec.script
            )

    def _learn_names(self) -> None:
        """What users call the nodes: a step may ask for them by these names as by those that resolve here."""
        told = self.nodes.names()
        if self.spec.told_names and all(told):
            job = self.spec.job
            shares = tuple([share.replace(name=name) for share, name in zip(job.shares, told)])
            self.spec = self.steps.spec = self.spec.replace(job=job.replace(shares=shares))

    def _barrier_late(self) -> None:
        if not self.started and self.outcome is None:
            self.end(ended_by(NODE_FAIL))

    def _open_barrier(self) -> None:
        self.started = True
        self.started_at = self._loop.now()
        if self.outcome is not None:
            return  # it was ended while the disk was full
        for link in self.nodes.links.values():
            link.send({"do": "start"})
        self.limit.begin()
        self.components.begin()
        self.steps.open()
        if self.spec.script:
            environment = self.environment
            if environment is None:
                environment = loads(rawfile.read(os.path.join(self._run_dir, "environment.json")))
            if self.output is not None:
                self.output.before()
            self.nodes.links[0].send(self.batch.launch(environment))

    def _files_opened(self, srun: Link, files: Sequence[Sequence[Any]]) -> None:
        """An srun beside this process has opened files: where they would be lost, they are passed on as the script's output is."""
        if self.output is not None:
            for line in self.output.opened(srun, files):
                srun.send({"do": "note", "line": line})

    def _node_data(self, index: int, step: int, rank: int, stream: int, data: bytes) -> None:
        if step != CHANGES:
            self.steps.node_data(index, step, rank, stream, data)
        elif self.changes is not None:
            self.changes.node_data(index, data)

    def _node_message(self, index: int, message: Message) -> None:
        do = message["do"]
        if do == "leaving":
            self.end(ended_by(NODE_FAIL))
        elif do == "stopped":
            self._node_stopped(index)
        elif do == "sampled":
            self.usage.sampled(index, message)
        elif do == "file":
            self.broadcasts.told(index, message)
        elif self.stage is not None and self.stage.node_message(index, message):
            return
        elif do == "changes" and self.changes is not None:
            self.changes.node_message(index, message)
        elif message.get("step") == BATCH:
            if do == "exit":
                self._batch_ended(message)
            elif do == "task" and self.output is not None:
                self.output.begin()
        elif "step" in message:
            self.steps.node_message(index, message)

    def _node_lost(self, index: int, link: Link) -> None:
        self._peers.discard(link)
        if self.changes is not None:
            self.changes.node_lost(index)
        if self.spec.apart and not self.nodes.settled and self.outcome is None:
            # Nothing of the user's has run: it may come back, or another pod in its place.
            self.on_node_lost(index)
            self.steps.nodes.pop(index, None)
            return
        stopped = index in self.nodes.stopped
        if not stopped:
            self.on_node_lost(index)
        self.steps.node_lost(index)
        self.usage.node_lost(index)
        self.broadcasts.node_lost(index)
        if stopped or self.over:
            return
        if not self._stopping and index not in self.steps.given_up:
            self.end(ended_by(NODE_FAIL))
        self._node_stopped(index)

    # Ends

    def _batch_ended(self, message: Message) -> None:
        self.batch.running = False
        self.batch.used = message.get("used")
        if self.outcome is not None:
            self.batch.status = int(message["status"])
        self.end(own_end(int(message["status"]), bool(message.get("oom")), message.get("text", "")), said=False)

    def _limit_reached(self) -> None:
        self.end(ended_by(TIMEOUT))

    def _signal_before_limit(self) -> None:
        signal = self.spec.job.request.signal
        assert signal is not None
        if signal.batch:
            self.signal_batch(signal.number)
        else:
            self.steps.signal(signal.number)

    def signal_batch(self, signal: int, scope: str = "batch") -> None:
        """Signals the batch shell (scope "batch"), or it and all its processes ("all")."""
        if self.batch.running:
            if signal in _ENDING:
                self.batch.say_cancelled(CANCELLED)
            self.nodes.links[0].send({"do": "signal", "step": BATCH, "signal": signal, "scope": scope, "ranks": None})

    def signal_everything(self, signal: int) -> None:
        """Signals every process of the job on every node."""
        for link in self.nodes.links.values():
            link.send({"do": "signal", "step": None, "signal": signal, "scope": "all", "ranks": None})

    def end(self, outcome: Outcome, uid: int | None = None, said: bool = True) -> None:
        """Ends the run into ``outcome``; the first end counts. ``said``: the outputs are told why (not at an own end)."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        self.steps.ending = True
        self.ended_by_uid = uid
        self.limit.stop()
        self.components.pause()
        # An own end is followed by the last line at once, unless something is left of the job.
        self.record.write("ending", state=outcome.state, then=lambda: self._stop_nodes(said), followed=not said)

    def _stop_nodes(self, said: bool) -> None:
        assert self.outcome is not None
        self._stopping = True
        self.steps.job_ends(self.outcome.state, said)
        if said:
            self.batch.say_cancelled(self.outcome.state)
        for index in list(self.nodes.links):
            self._stop_node(index)
        self._maybe_over()

    def _stop_node(self, index: int, at_once: bool = False) -> None:
        if index in self.nodes.links:
            self.nodes.links[index].send({"do": "stop", "grace": 0 if at_once else self.spec.cluster.kill_wait})
        else:
            self._node_stopped(index)

    def _node_stopped(self, index: int) -> None:
        first = index not in self.nodes.stopped
        self.nodes.has_stopped(index)
        self.components.stopped(index)
        if first and index in self.steps.given_up and self.nodes.stopped >= self.steps.given_up:
            self.record.write("resized", nodes=self._kept_nodes())
        self._maybe_over()

    def keep_nodes(self, names: Container[str]) -> None:
        """The job gives up all its other nodes: what runs there is killed, and their agents leave (the first one's goes on leading).

        The journal tells which are left once nothing is left of the job on the others. A script's own node must be among ``names``.
        """
        shares = self.spec.job.shares
        given_up = [
            index for index, share in enumerate(shares) if share.name not in names and index not in self.steps.given_up
        ]
        if not self.started or self.outcome is not None:
            return
        self.steps.give_up(given_up)
        for index in given_up:
            self._stop_node(index, at_once=True)

    def _kept_nodes(self) -> list[str]:
        return [share.name for index, share in enumerate(self.spec.job.shares) if index not in self.steps.given_up]

    def _maybe_over(self) -> None:
        if self._stopping and not self.over and self.nodes.all_stopped:
            self.over = True
            self.steps.job_gone(self._before_end)

    def _before_end(self) -> None:
        if self.changes is not None and self.started:
            self.changes.gather(self._write_end, last=True)
        else:
            self._write_end()

    def _write_end(self) -> None:
        assert self.outcome is not None
        said = [text for text in (self.outcome.detail, self.changes.lost if self.changes is not None else "") if text]
        more: dict[str, Any] = {"detail": "; ".join(said)} if said else {}
        if self.batch.used:
            more["usage"] = of_task(self.batch.used, 0, self.spec.nodes[0].name).to_dict()
        status = self.outcome.status
        if self.batch.status is not None and self.outcome.state in (CANCELLED, TIMEOUT):
            status = self.batch.status  # what the script made of it
        if self.batch.status not in (None, status):
            more["script"] = self.batch.status
        self.record.write(
            "ended",
            state=self.outcome.state,
            status=status,
            derived=self.steps.derived,
            reason=self.outcome.reason,
            uid=self.ended_by_uid,
            **more,
            then=self._ended,
        )

    def _ended(self) -> None:
        self.record.ask()
        self.on_ended()

    def _unheard(self) -> None:
        if self.over:
            self.on_done()


def _nothing(*_event: object) -> None:
    """Nobody waits for it."""
