"""The steps of a run: numbers, resources, the order in which they wait, their tasks and their ends.

srun asks for a step (``step``), gets ``created`` when its resources are free (``busy`` first when not), opens its files and
says ``launch``. Tasks' exits and output go to srun as they come. A step is over when all its nodes have said ``drained``
and everything has been passed on; its resources are then given to those that wait, in the order in which they came,
skipping those that still do not fit.
"""

from __future__ import annotations

import os
from errno import E2BIG
from time import time

from shim.core.model.states import CANCELLED, FAILED
from shim.core.placement.step_values import in_use
from shim.job.agent.step_manager.launch import Launcher
from shim.job.agent.step_manager.parts import lay_out, together, wishes_of
from shim.job.agent.step_manager.queue import Queue
from shim.job.agent.step_manager.relay import Relay
from shim.job.agent.step_manager.step import SIGKILL, SIGTERM, StepRun, Surroundings
from shim.job.pmi.fence import Fence
from shim.job.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.job.agent.leader.record import Record
    from shim.job.agent.step_manager.parts import Part, Wish
    from shim.job.link import Link
    from shim.job.loop import Loop, Timers
    from shim.job.spec import RunSpec

    Message = dict[str, Any]

LAST_WORDS = 5.0  # seconds


class StepManager:
    """``nodes``: the links of the run's nodes by index, filled by the leader. ``wall``: the clock of texts, epoch seconds.
    ``on_finished(srun)``: an srun was told its last word, and its link is closed. ``on_opened(srun, files)``: an srun beside the leader
    has opened files. ``timers``: what counts the time of steps.
    """

    def __init__(
        self, spec: RunSpec, record: Record, loop: Loop, wall: Callable[[], float] = time, timers: Timers | None = None
    ) -> None:
        self.on_finished: Callable[[Link], None] = _ignore
        self.on_opened: Callable[[Link, Sequence[Sequence[Any]]], None] = _ignore
        self.nodes: dict[int, Link] = {}
        self.steps: dict[int, StepRun] = {}
        self.derived = 0  # highest status of a step, raw
        self.ending = False  # the job's own end has begun: it takes care of the tasks
        self.gone: dict[int, bool] = {}  # components that were ended alone
        self.given_up: set[int] = set()  # nodes that the job has no more
        self.spec = spec
        self._record = record
        self._loop = loop
        self._around = Surroundings(spec, self.nodes, timers or loop, wall)
        self._launcher = Launcher(spec)
        self._next = 0
        self._queue = Queue(spec.job.job_id, self._place, self._create, self._refuse)
        self._closing = False
        self._on_empty: Callable[[], None] | None = None

    # srun's side

    def srun_message(self, srun: Link, message: Message) -> None:
        """A message of an srun. KeyError, TypeError or ValueError: it is none."""
        do = message["do"]
        if do == "step":
            self._asked(srun, message)
            return
        step = self._step_of(srun)
        if step is None:
            return
        if do == "launch":
            self._launch(step, message)
        elif do == "credit":
            step.relay.srun_credit(int(message["bytes"]))
        elif do == "signal":
            step.signal(int(message["signal"]))
        elif do == "window":
            step.send_nodes({"do": "window", "rows": int(message["rows"]), "columns": int(message["columns"])})
        elif do in ("abort", "terminate"):
            self._end_tasks(step, at_once=do == "abort")
        else:
            raise ValueError(f"no such message of srun: {do}")

    def srun_data(self, srun: Link, rank: int, data: bytes) -> None:
        """Input for the tasks of an srun's step."""
        step = self._step_of(srun)
        if step is not None and step.launched:
            step.relay.input(rank, data)

    def srun_gone(self, srun: Link) -> None:
        """An srun's connection is lost: its tasks are killed. At the end of the job, which ends the srun of a script that is over before
        its tasks, they have what is left of KillWait.
        """
        self._queue.drop(srun)
        step = self._step_of(srun)
        if step is None:
            return
        step.srun = None
        step.relay.srun_gone()
        if not step.launched:
            step.nodes.clear()
        elif not self.ending:
            if step.running:
                step.say_cancelled()
            step.signal(SIGKILL)
        self._maybe_over(step)

    # sattach's side

    def attach(self, link: Link, step_id: str, stay: bool) -> None:
        """Somebody attaches to a step, or (``stay`` False) asks for its layout alone: ``layout``, then what comes, at last ``done``."""
        step = self.steps.get(int(step_id)) if step_id.isdigit() else None
        there = step is not None and step.launched and not step.over
        if step is not None and there:
            layout = step.layout
            nodes = [step.name_of(index) for index in layout.nodes]
            link.send({"do": "layout", "nodes": nodes, "ranks": layout.ranks})
        elif step_id == "batch" and self.spec.script:
            link.send({"do": "layout", "nodes": [self.spec.nodes[0].name], "ranks": [[0]]})
        if step is not None and there and stay:
            step.relay.attached.add(link)
        else:
            link.send({"do": "done"})

    def attached_credit(self, link: Link, count: int) -> None:
        """Who is attached has written so many bytes."""
        for step in self.steps.values():
            step.relay.attached.credit(link, count)

    def attached_data(self, link: Link, rank: int, data: bytes) -> None:
        """Who is attached has input for the tasks."""
        for step in self.steps.values():
            if link in step.relay.attached:
                step.relay.input(rank, data, link)

    def detached(self, link: Link) -> None:
        """Who was attached is gone."""
        for step in self.steps.values():
            step.relay.attached.discard(link)

    # The nodes' side

    def node_message(self, index: int, message: Message) -> None:
        """A message about a step from node ``index``."""
        step = self.steps.get(message["step"])
        if step is None:
            return
        do = message["do"]
        if do == "exit":
            self._task_ended(step, index, message)
        elif do == "drained":
            self._drained(step, index)
        elif do == "credit":
            step.relay.node_credit(index, int(message["bytes"]))
        elif do == "pmi":
            self._pmi(step, index, message)
        elif do == "task":
            step.tell({"do": "task", "rank": message["rank"], "node": step.name_of(index), "pid": message["pid"]})

    def _pmi(self, step: StepRun, index: int, message: Message) -> None:
        """A node's tasks have come to a fence of PMI, or one of them asks for the step's end (MPI_Abort)."""
        if "abort" in message:
            self.cancel(step.number, None)
            return
        if step.fence is None:
            step.fence = Fence(step.number, set(step.layout.nodes), self._to_node)
        step.fence.came(index, message)

    def _to_node(self, index: int, message: Message) -> None:
        if index in self.nodes:
            self.nodes[index].send(message)

    def node_data(self, index: int, number: int, rank: int, stream: int, data: bytes) -> None:
        """Output of a task on node ``index``."""
        step = self.steps.get(number)
        if step is not None:
            step.relay.output(index, rank, stream, data)

    def limit(self, number: int | None, seconds: int | None) -> None:
        """Another time limit of a step of its own, counted from its start; of all of them (None). ``seconds`` None: no limit."""
        for step in list(self.steps.values()):
            if number in (None, step.number):
                step.limit.change(seconds)

    def pause(self) -> None:
        """The job is suspended: no step's time counts."""
        for step in list(self.steps.values()):
            step.limit.pause()

    def resume(self) -> None:
        """It goes on."""
        for step in list(self.steps.values()):
            if step.launched:
                step.limit.begin()

    def node_lost(self, index: int) -> None:
        """A node is gone with its tasks; the job is about to end."""
        self.nodes.pop(index, None)
        for step in list(self.steps.values()):
            if index not in step.nodes:
                continue
            step.tell({"do": "note", "line": f"error: Node failure on {step.name_of(index)}"})
            self._fallen(step, index)

    def _fallen(self, step: StepRun, index: int) -> None:
        """What had not ended of a step on that node counts as killed."""
        for rank, place in step.place.items():
            if place == index and rank not in step.statuses:
                self._task_ended(step, index, {"rank": rank, "status": SIGKILL, "text": "", "oom": False})
        self._drained(step, index)

    # The leader's orders

    def open(self) -> None:
        """The barrier is open: steps may start."""
        self._queue.open()

    def signal(self, signal: int, number: int | None = None, component: int = 0) -> None:
        """Signals the tasks of one step, or of all. TERM and KILL are said as what they are: a cancelled step.

        ``component`` above 0: only those tasks that run on it.
        """
        for step, part in self._chosen(number, component):
            if signal in (SIGKILL, SIGTERM):
                step.say_cancelled(abort=signal == SIGKILL, only=part)
            step.signal(signal, part)

    def cancel(self, number: int, uid: int | None, component: int = 0) -> None:
        """Ends one step (``scancel 7.0``), or what of it runs on a component."""
        for step, part in self._chosen(number, component):
            step.ended_as = step.ended_as or CANCELLED
            step.fell(uid, part)
            step.say_cancelled(abort=True, only=part)
            step.signal(SIGKILL, part)

    def component_ends(self, component: int, state: str) -> None:
        """A component is being ended alone: nothing starts on it any more. Its nodes end the tasks."""
        self.gone[component] = True
        for step, part in self._chosen(None, component):
            step.fell(part=part)
            step.say_cancelled(state, abort=True, only=part)
        self._queue.retry()

    def give_up(self, nodes: Sequence[int]) -> None:
        """The job has these nodes no more: nothing starts there. They end their tasks, and report it; the steps go on elsewhere."""
        self.given_up.update(nodes)
        for index in nodes:
            self.nodes.pop(index, None)
            for step in list(self.steps.values()):
                if not step.launched and index in step.nodes:
                    self._fallen(step, index)
        self._queue.retry()

    def job_ends(self, state: str, said: bool) -> None:
        """The job is ending: nothing starts any more. ``said``: an order or a limit ends it, which the steps are told; else only of its
        failure.
        """
        self._closing = True
        self._queue.close()
        for step in list(self.steps.values()):
            if not step.launched:
                step.nodes.clear()
                self._maybe_over(step)
            elif step.running:
                step.ended_as = step.ended_as or CANCELLED
                step.fell()
                step.say_cancelled(state if said or state == FAILED else CANCELLED, abort=True)

    def job_gone(self, then: Callable[[], None]) -> None:
        """Nothing of the job is left on any node: what did not report its end has ended. ``then``: all steps are over.

        An srun that does not read gets ``LAST_WORDS`` seconds for the output that is left.
        """
        self._on_empty = then
        for step in list(self.steps.values()):
            for rank, index in step.place.items():
                if step.launched and rank not in step.statuses:
                    self._task_ended(step, index, {"rank": rank, "status": SIGKILL, "text": "", "oom": False})
            step.nodes.clear()
            self._maybe_over(step)
        if self.steps:
            self._loop.call_later(LAST_WORDS, self._drop_output)
        else:
            then()

    def _drop_output(self) -> None:
        for step in list(self.steps.values()):
            step.relay.srun_gone()

    # Creation

    def _asked(self, srun: Link, message: Message) -> None:
        if self._step_of(srun) is not None:
            raise ValueError("one step for one srun")
        self._queue.add(srun, wishes_of(message))

    def _create(self, srun: Link, parts: Sequence[Part]) -> None:
        number = self._next
        self._next += 1
        layout = together(parts)
        step = StepRun(self._around, number, parts, layout, srun)
        links = {index: self.nodes[index] for index in layout.nodes if index in self.nodes}
        step.relay = Relay(number, srun, links, step.place)
        step.relay.on_idle = lambda: self._maybe_over(step)
        self.steps[number] = step
        created = self._launcher.created(step)
        for part in parts:
            self._record.write(
                "step",
                **step.in_journal(part),
                name=part.name,
                nodes=[step.name_of(index) for index in part.nodes],
                tasks=part.layout.ntasks,
                cpus=sum(part.layout.cpus),
                **part.details(),
                then=(lambda: srun.send(created)) if part is parts[-1] else None,
            )

    def _launch(self, step: StepRun, message: Message) -> None:
        if step.launched or step.over or self._closing:
            return
        step.launched = True
        if message.get("opened") and step.srun is not None:
            self.on_opened(step.srun, message["opened"])
        for index, launch in self._launcher.messages(step, message):
            if index not in self.nodes:
                continue  # the job is ending: it has lost a node
            try:
                self.nodes[index].send(launch)
            except WireError:
                self._not_launched(step, index)
        step.limit.begin()

    def _not_launched(self, step: StepRun, index: int) -> None:
        """The node's tasks do not fit a frame: they count as tasks whose execve failed."""
        text = f"slurmstepd: error: execve(): {step.name}: {os.strerror(E2BIG)}"
        for rank in [rank for rank, place in step.place.items() if place == index]:
            self._task_ended(step, index, {"rank": rank, "status": E2BIG << 8, "text": text, "oom": False})
            text = ""
        self._drained(step, index)

    # Ends

    def _task_ended(self, step: StepRun, index: int, message: Message) -> None:
        rank = int(message["rank"])
        if rank in step.statuses or rank not in step.place:
            return
        status = int(message["status"])
        step.task_ended(rank, status, bool(message.get("oom")), message.get("used"))
        step.relay.attached.tell({"do": "exit", "rank": rank, "status": status})
        step.tell(
            {
                "do": "exit",
                "rank": rank,
                "node": step.name_of(index),
                "status": status,
                "text": message.get("text", ""),
                "oom": bool(message.get("oom")),
            },
        )

    def _drained(self, step: StepRun, index: int) -> None:
        step.nodes.discard(index)
        step.relay.node_gone(index)
        self._maybe_over(step)

    def _maybe_over(self, step: StepRun) -> None:
        if step.over or step.nodes or not step.relay.idle:
            return  # the relay tells when it is idle
        step.over = True
        step.stop_timers()
        results = [step.result(part) for part in step.parts]
        status = max(result["status"] for result in results)
        self.derived = max(self.derived, status)
        for result in results:
            last = result is results[-1]
            self._record.write("step-end", then=(lambda: self._ended(step, status)) if last else None, **result)

    def _ended(self, step: StepRun, status: int) -> None:
        step.tell({"do": "ended", "status": status})
        step.relay.attached.tell({"do": "done"})
        if step.srun is not None:
            self._finish(step.srun)
        del self.steps[step.number]
        if not self._closing:
            self._queue.retry()
        elif not self.steps and self._on_empty is not None:
            self._on_empty()

    def _end_tasks(self, step: StepRun, at_once: bool) -> None:
        """srun gives its step up: KILL, or TERM and KILL after KillWait."""
        if self._closing or not step.running:
            return  # the job's own end goes on, with its own pauses
        step.fell()
        step.say_cancelled()
        if at_once:
            step.signal(SIGKILL)
        else:
            step.term_then_kill()

    # Small things

    def _chosen(self, number: int | None, component: int) -> list[tuple[StepRun, Part | None]]:
        """The running steps that are meant, with the part that is (None: all of it)."""
        steps = [
            step for step in self.steps.values() if step.launched and step.running and number in (None, step.number)
        ]
        if not component:
            return [(step, None) for step in steps]
        return [(step, part) for step in steps for part in step.parts if part.component == component]

    def _step_of(self, srun: Link) -> StepRun | None:
        for step in self.steps.values():
            if step.srun is srun:
                return step
        return None

    def _place(self, wishes: Sequence[Wish]) -> list[Part]:
        used = in_use([step.layout for step in self.steps.values()], len(self.spec.nodes))
        return lay_out(wishes, self.spec, used, self.gone, self.given_up)

    def _refuse(self, srun: Link, lines: Sequence[str]) -> None:
        srun.send({"do": "refused", "lines": list(lines), "code": 1})
        self._finish(srun)

    def _finish(self, srun: Link) -> None:
        srun.finish(lambda: self.on_finished(srun))


def _ignore(*_event: object) -> None:
    """Nobody keeps the links, or the files."""
