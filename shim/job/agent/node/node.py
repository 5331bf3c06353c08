"""A node's part in a run: it obeys the leader (docs/internals/agent-protocol.md), starts tasks, reports, and leaves nothing behind.

The leader's own node is the same object at the other end of a link inside the process.
"""

from __future__ import annotations

import os

from shim.job import rawfile
from shim.job.agent.cleaning import send
from shim.job.agent.heartbeat import Heartbeat
from shim.job.agent.node.memory import MemoryWatch
from shim.job.wire import BATCH, CAST, STAGE, STDIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable

    from shim.job.agent.cleaning import Belongings
    from shim.job.agent.node.arriving_files import ArrivingFiles
    from shim.job.agent.node.step import NodeStep
    from shim.job.agent.node.usage import UsageWatch
    from shim.job.link import Link
    from shim.job.loop import Loop, Timer, Timers
    from shim.job.spec import RunSpec
else:
    import _signal

_LOOK_AGAIN = 0.25  # seconds; only while processes of a job that ends are dying
_LAST_OUTPUT = 5.0  # seconds that the end of a job waits for a leader (a stopped srun) to take the last output


class Node:
    """Node ``index`` of a run at its end of ``link``. ``on_lost(reason)``: the leader is gone; everything has been sent KILL, and
    ``on_clear()`` follows when nothing is left. ``on_clear`` also comes after an ordered stop. ``before_stopped()``: what else to clean.
    ``returns``: before the start a lost leader is looked for again, so that nothing is stopped then. ``obeys``: what is done for each
    message of the leader. ``on_start()``: before the barrier opens here. ``adapt``: makes tasks' environments fit this node.
    ``kernel_kills()``: as ``NodeStep`` has it.
    ``on_stage_data(bytes)``: a piece of the working directory. ``timers``: what counts KillWait (the loop, unless another is given).
    """

    def __init__(
        self,
        spec: RunSpec,
        index: int,
        run_dir: str,
        loop: Loop,
        link: Link,
        belongings: Belongings,
        timers: Timers | None = None,
    ) -> None:
        self.on_lost: Callable[[str], None] = _ignore
        self.on_clear: Callable[[], None] = _ignore
        self.on_stage_data: Callable[[bytes], None] = _ignore
        self.returns = False
        self.adapt: Callable[[dict[str, str]], dict[str, str]] | None = None
        self.kernel_kills: Callable[[], int] | None = None
        self.on_start: Callable[[], None] = _ignore
        self.before_stopped: Callable[[], None] = _ignore
        self._spec = spec
        self._index = index
        self._run_dir = run_dir
        self._loop = loop
        self._timers = timers or loop
        self._link = link
        self._belongings = belongings
        self._steps: dict[int, NodeStep] = {}
        self._started = False
        self._stopping = False
        self._clear = False
        self._killed_at: float | None = None
        self._timer: Timer | None = None
        memory = spec.memory[index] if index < len(spec.memory) else 0
        self._memory = MemoryWatch(memory, belongings, loop, self._over_memory)
        self._usage: UsageWatch | None = None  # with the first task
        self._files: ArrivingFiles | None = None  # with the first of them
        self._beats = Heartbeat(loop, spec.heartbeat if index else 0, spec.grace, self._leader_silent, _ignore, _ignore)
        self.obeys: dict[str, Callable[[dict[str, Any]], None]] = {
            "start": self._start,
            "launch": self._launch,
            "signal": self._signal,
            "say": self._say,
            "window": self._window,
            "credit": self._credit,
            "pmi": self._pmi,
            "sample": self._sample,
            "receive": lambda message: self._arriving().begin(message),
            "drop": lambda message: self._arriving().drop(message),
            "stop": lambda message: self.stop(message["grace"]),
            "beat": _ignore,
            "refused": _ignore,  # the end of the link follows
        }
        link.on_message = self._message
        link.on_data = self._data
        link.on_close = self._lost

    @property
    def clear(self) -> bool:
        """Whether a stop is complete."""
        return self._clear

    @property
    def started(self) -> bool:
        """Whether the leader has opened the barrier."""
        return self._started

    def check_in(self, **more: object) -> None:
        """Tell the leader that the node is there; ``more``: what a pod tells of itself."""
        self._link.send({"do": "check-in", "index": self._index, "pid": os.getpid(), "boot": _boot(), **more})
        self._beats.add(0, self._link)

    # The leader's words

    def _message(self, message: dict[str, Any]) -> None:
        self._beats.heard(0)
        self.obeys[message["do"]](message)

    def _data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        if stream != STDIN:
            return
        if step == STAGE:
            self.on_stage_data(data)
            return
        if step == CAST:
            self._arriving().data(rank, data)
        elif step in self._steps:
            self._steps[step].feed.data(rank, data)
        elif data:  # sent before the end of the step was known there: the sender must not wait for it
            self._link.send({"do": "credit", "step": step, "bytes": len(data), "stream": "in"})

    def _start(self, _message: dict[str, Any]) -> None:
        self.on_start()
        self._started = True

    def _launch(self, message: dict[str, Any]) -> None:
        number = message["step"]
        if not self._started or self._stopping or number in self._steps:
            return
        # With the first task: pods that wait for others are there sooner.
        from shim.job.agent.node.step import NodeStep
        from shim.job.agent.node.usage import UsageWatch

        self._usage = self._usage or UsageWatch(self._loop)
        step = NodeStep(
            number, self._spec.job.job_id, self._link, self._loop, self._belongings, self._usage, self._drained
        )
        if self.kernel_kills is not None:
            step.kernel_kills = self.kernel_kills
        self._steps[number] = step
        self._memory.start()
        if self.adapt is not None:
            message = dict(message, environment=self.adapt(message["environment"]))
        step.launch(message, message.get("rlimits", self._spec.rlimits), self._run_dir)

    def _signal(self, message: dict[str, Any]) -> None:
        number, scope = message["signal"], message.get("scope", "steps")
        if message["step"] is None and scope == "all":
            send(self._belongings.all(), number)
            return
        for step in list(self._steps.values()):
            if message["step"] == step.number or (message["step"] is None and step.number != BATCH):
                step.signal(number, message.get("ranks"), scope == "batch")

    def _say(self, message: dict[str, Any]) -> None:
        if message["step"] in self._steps:
            self._steps[message["step"]].say(message["line"])

    def _window(self, message: dict[str, Any]) -> None:
        if message["step"] in self._steps:
            self._steps[message["step"]].window(message["rows"], message["columns"])

    def _credit(self, message: dict[str, Any]) -> None:
        if message["step"] in self._steps:
            self._steps[message["step"]].output.credit(message["bytes"])

    def _arriving(self) -> ArrivingFiles:
        if self._files is None:
            from shim.job.agent.node.arriving_files import ArrivingFiles

            self._files = ArrivingFiles(self._link)
        return self._files

    def _sample(self, message: dict[str, Any]) -> None:
        if self._usage is not None:
            self._usage.look()
        steps = [{"step": step.number, "tasks": step.sample()} for step in self._steps.values()]
        self._link.send({"do": "sampled", "ticket": message["ticket"], "steps": steps})

    def _pmi(self, message: dict[str, Any]) -> None:
        step = self._steps.get(message["step"])
        if step is not None and step.pmi is not None:
            step.pmi.passed(message)

    def _leader_silent(self, _leader: int) -> None:
        self._link.close()
        self._lost(f"no sign of life for {self._spec.grace} seconds")

    def _lost(self, reason: str) -> None:
        self._beats.remove(0)
        if self._started or not self.returns:
            self.stop(0)
        self.on_lost(reason)

    # Steps

    def _drained(self, step: NodeStep) -> None:
        del self._steps[step.number]
        if not self._steps:
            self._memory.stop()
            if self._usage is not None:
                self._usage.close()
        self.look()

    def _over_memory(self, pid: int) -> None:
        for step in self._steps.values():
            if pid in self._belongings.of_step(step.pids, step.id):
                step.killed_for_memory()
                self._link.send({"do": "memory", "step": step.number, "pid": pid})
                break
        else:
            self._link.send({"do": "memory", "step": None, "pid": pid})
        send((pid,), _signal.SIGKILL)

    # The end

    def leave(self) -> None:
        """This node is being taken away: the leader is to know before its tasks end."""
        self._link.send({"do": "leaving"})

    def stop(self, grace: float) -> None:
        """End everything of the job here: TERM and CONT, KILL after ``grace`` seconds; at once when that is 0. Then ``stopped`` goes to
        the leader. Asked again, the shorter grace counts.
        """
        if self._clear or self._killed_at is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if grace > 0:
            if not self._stopping and not self._empty():
                send(self._belongings.all(), _signal.SIGTERM, _signal.SIGCONT)
            self._timer = self._timers.call_later(grace, self._kill)
            self._stopping = True
            self._loop.call_soon(self.look)
        else:
            self._stopping = True
            self._kill()

    def look(self) -> None:
        """Whether the stop is complete; called whenever a process below the agent has ended."""
        if not self._stopping or self._clear or self._steps:
            return
        if not self._empty():
            return  # the timer of the stop looks again
        self._clear = True
        if self._timer is not None:
            self._timer.cancel()
        if self._files is not None:
            self._files.close()
        self.before_stopped()
        self._link.send({"do": "stopped"})
        self.on_clear()

    def _kill(self) -> None:
        if self._killed_at is None:
            self._killed_at = self._loop.now()
        if not self._empty():
            send(self._belongings.all(), _signal.SIGKILL)
        elif self._loop.now() > self._killed_at + _LAST_OUTPUT:
            for step in list(self._steps.values()):
                step.abandon()
        self._timer = None if self._clear else self._loop.call_later(_LOOK_AGAIN, self._kill)
        self._loop.call_soon(self.look)

    def _empty(self) -> bool:
        return not self._belongings.tasks and (self._belongings.nothing_but_tasks() or not self._belongings.all())


def _boot() -> str:
    """The machine's start, as the kernel names it."""
    if not _known_boot:
        _known_boot.append(rawfile.read("/proc/sys/kernel/random/boot_id").decode("ascii").strip())
    return _known_boot[0]


_known_boot: list[str] = []  # it outlives no process


def _ignore(*_event: object) -> None:
    """The handler of an event that nobody asked for."""
