"""One step's tasks on one node: started, fed, listened to, signalled, and cleaned up after.

When the last task has ended, what the tasks left running is killed, as slurmstepd does; then the output ends, and the step
is ``drained`` here.
"""

from __future__ import annotations

import os

from shim.core.model import states
from shim.core.model.usage import FREQUENCY
from shim.job.agent.cleaning import send
from shim.job.agent.node.launch import start
from shim.job.agent.node.task_files import Files, OpenError, pipe, resize, terminal
from shim.job.agent.node.task_input import Feed
from shim.job.agent.node.task_output import Output
from shim.job.agent.node.task_start import TaskStart
from shim.job.wire import BATCH, STDERR, STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable, Mapping, Sequence

    from shim.job.agent.cleaning import Belongings
    from shim.job.agent.node.usage import Told, UsageWatch
    from shim.job.container.enter import ContainerPlace
    from shim.job.link import Link
    from shim.job.loop import Loop
    from shim.job.pmi.server import Server

    Epilog = tuple[str, Mapping[str, str], str, int]  # its path, the task's environment and directory, where errors go
else:
    import _signal

_STREAMS = ((STDOUT, "stdout"), (STDERR, "stderr"))
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds between two rounds of killing what is left


class NodeStep:
    """``on_drained(step)`` is called when nothing of it is left on the node. ``job_id`` is for texts. ``kernel_kills()``: how many
    processes the kernel has killed here for memory since it was asked last.
    """

    def __init__(
        self,
        number: int,
        job_id: int,
        link: Link,
        loop: Loop,
        belongings: Belongings,
        usage: UsageWatch,
        on_drained: Callable[[NodeStep], None],
    ) -> None:
        self.number = number
        self.id = None if number == BATCH else str(number).encode()  # SLURM_STEP_ID of its tasks
        self.name = f"{job_id}.{'batch' if number == BATCH else number}"
        self.running: dict[int, int] = {}  # rank -> pid, of tasks that have not ended
        self.pids: list[int] = []  # of all its tasks
        self.output = Output(number, link, loop, self._maybe_drained)
        self.feed = Feed(number, link, loop)
        self._link = link
        self._loop = loop
        self._belongings = belongings
        self._usage = usage
        self._on_drained = on_drained
        self.kernel_kills: Callable[[], int] = _none
        self._oom_kills = 0
        self._epilogs = 0  # that run
        self._children = False  # are waited for
        self._held: list[tuple[int, int]] = []  # rank and status of tasks whose end is not reported yet
        self._every: float = FREQUENCY  # seconds between two looks at its tasks' usage
        self._used: dict[int, Told] = {}  # by rank, of tasks that ended
        self._clean = False
        self._drained = False
        self._terminals: list[int] = []
        self._error_file: int | None = None  # the file that its first task's standard error goes to, for our own lines
        self._mute = False  # that goes nowhere
        self._first_rank = 0
        self.pmi: Server | None = None  # answers its tasks' MPI library
        self._container: tuple[str, str] | None = None  # the run's folder and the step's name in it, where it has one

    # Starting

    def launch(self, message: dict[str, Any], rlimits: Mapping[str, Sequence[int]], run_dir: str) -> None:
        """Start its tasks as the leader's ``launch`` says; each that cannot be started is reported as ended."""
        files = Files(message["work_dir"], message["umask"])
        environment = dict(message["environment"], SHIM_RUN_DIR=run_dir)
        self._first_rank = message["tasks"][0]["rank"]
        self._children = bool(message.get("wait_for_children"))
        self._every = float(message.get("sampling", FREQUENCY))
        if message.get("container") and _wants_container(message["container"]):
            node = message["tasks"][0]["environment"].get("SLURMD_NODENAME") or environment.get("SLURMD_NODENAME", "")
            self._container = (run_dir, f"{'batch' if self.number == BATCH else self.number}.{node}")
        if message.get("pmi"):
            from shim.job.pmi.server import Server

            ranks = [task["rank"] for task in message["tasks"]]
            self.pmi = Server(self.number, ranks, message["pmi"], self._loop, self._link.send, self._note)
        try:
            for place, task in enumerate(message["tasks"]):
                self._start(message, task, dict(environment, **task["environment"]), files, rlimits, place == 0)
        finally:
            files.close()
        self._look_for_the_end()

    def _start(
        self,
        message: dict[str, Any],
        task: dict[str, Any],
        environment: dict[str, str],
        files: Files,
        rlimits: Mapping[str, Sequence[int]],
        first: bool,
    ) -> None:
        rank = task["rank"]
        theirs: list[int] = []  # ends that only the task keeps
        epilog: Epilog | None = None
        kept: list[int] = []  # for the epilog, if the task starts
        pty = bool(message.get("pty")) and rank == 0
        try:
            fds = self._terminal(message, rank, theirs) if pty else self._streams(message, task, files, theirs)
            if self.pmi is not None:
                theirs.append(self.pmi.connect(rank))
                environment.update(self.pmi.environment(rank, theirs[-1]))
            if message.get("task_epilog"):
                kept.append(os.dup(fds[2]))
                epilog = (message["task_epilog"], environment, message["work_dir"], kept[0])
            pid = start(
                TaskStart(
                    task.get("argv") or message.get("argv", ()),
                    environment,
                    message["work_dir"],
                    message["umask"],
                    rlimits,
                    fds,
                    first,
                    pty=pty,
                    prolog=message.get("task_prolog", ""),
                    container=self._container_place(message, task),
                )
            )
        except OpenError as error:
            if self.number == BATCH:
                self._not_started(rank, states.LAUNCH_FAILURE, error.detail, "open")
            else:
                self._not_started(rank, 1 << 8, f"error: {error}", "open")
            return
        except OSError as error:
            self._not_started(rank, 1 << 8, f"slurmstepd: error: fork: {error.strerror}", "fork")
            return
        else:
            kept.clear()
        finally:
            for fd in (*theirs, *kept):
                os.close(fd)
        self.running[rank] = pid
        self.pids.append(pid)
        self._belongings.tasks.add(pid)
        self._usage.add(pid, self._every)
        self._link.send({"do": "task", "step": self.number, "rank": rank, "pid": pid})
        self._loop.on_exit(pid, lambda status: self._ended(rank, status, epilog))

    def _container_place(self, message: dict[str, Any], task: dict[str, Any]) -> ContainerPlace | None:
        if self._container is None:
            return None
        from shim.job.container.enter import ContainerPlace

        script = task["argv"][0] if self.number == BATCH else ""
        return ContainerPlace(message["container"], *self._container, message["work_dir"], script)

    def _terminal(self, message: dict[str, Any], rank: int, theirs: list[int]) -> tuple[int, int, int]:
        window = message.get("window")
        ours, its = terminal((window[0], window[1]) if window else None)
        theirs.append(its)
        self._terminals.append(os.dup(ours))
        self.feed.add(rank, os.dup(ours), terminal=True)
        self.output.add(ours, rank, STDOUT)
        return its, its, its

    def _streams(
        self, message: dict[str, Any], task: dict[str, Any], files: Files, theirs: list[int]
    ) -> tuple[int, int, int]:
        rank = task["rank"]
        fds = []
        where = task.get("stdin") or message["stdin"]
        if where["to"] == "leader":
            its, ours = pipe()
            theirs.append(its)
            self.feed.add(rank, ours)
            fds.append(its)
        else:
            fds.append(files.input(where))
        for stream, name in _STREAMS:
            where = task.get(name) or message[name]
            if where["to"] == "leader":
                ours, its = pipe()
                theirs.append(its)
                self.output.add(ours, rank, stream)
                fds.append(its)
            else:
                fds.append(files.output(where, stream))
                if stream == STDERR and rank == self._first_rank:
                    self._mute = where["to"] != "file"
                    self._error_file = None if self._mute else os.dup(fds[-1])
        return fds[STDIN], fds[STDOUT], fds[STDERR]

    def _not_started(self, rank: int, status: int, text: str, failed: str) -> None:
        self.feed.remove(rank)
        self._report(rank, status, text, failed)

    # Signals and terminals

    def signal(self, number: int, ranks: Sequence[int] | None, only_tasks: bool) -> None:
        """Signal its tasks (``ranks`` None: all) with everything below them, or (``only_tasks``) the tasks' first processes."""
        tasks = [pid for rank, pid in self.running.items() if ranks is None or rank in ranks]
        send(tasks if only_tasks else self._belongings.of_step(tasks, self.id if ranks is None else b""), number)

    def sample(self) -> list[dict[str, Any]]:
        """What its running tasks used when they were looked at last: rank, ``used``, and their processes."""
        told = ((rank, *self._usage.told(pid)) for rank, pid in sorted(self.running.items()))
        return [{"rank": rank, "used": used, "pids": pids} for rank, used, pids in told]

    def window(self, rows: int, columns: int) -> None:
        """Its terminal has another size."""
        for fd in self._terminals:
            resize(fd, rows, columns)

    def killed_for_memory(self) -> None:
        """One of its processes was killed for the node's memory limit."""
        self._oom_kills += 1

    # Ends

    def _ended(self, rank: int, status: int, epilog: Epilog | None) -> None:
        pid = self.running.pop(rank)
        self._belongings.tasks.discard(pid)
        self._used[rank] = self._usage.ended(pid, self._loop.used, self._loop.moved)
        self.feed.remove(rank)
        if status or not self.running:  # a task that ends well while others run is not the one that was hit
            self._oom_kills += self.kernel_kills()
        if epilog is not None:
            from shim.job.agent.node.task_scripts import start_epilog

            self._epilogs += 1
            start_epilog(*epilog, self._loop, lambda words: self._epilog_over(rank, status, words))
            return
        self._task_over(rank, status)

    def _epilog_over(self, rank: int, status: int, words: str) -> None:
        self._epilogs -= 1
        if words:
            self._say(words)
        self._task_over(rank, status)

    def _task_over(self, rank: int, status: int) -> None:
        self._held.append((rank, status))
        if not self._children:
            self._report_held()
        elif not self.running and not self._epilogs:
            self._await_children(_FIRST_PAUSE)

    def _await_children(self, pause: float) -> None:
        """--wait-for-children: the tasks end when nothing is left that they started."""
        if self._something_left() and self._belongings.of_step(self.pids, self.id):
            self._loop.call_later(pause, lambda: self._await_children(min(2 * pause, _LONGEST_PAUSE)))
        else:
            self._report_held()

    def _report_held(self) -> None:
        for rank, status in self._held:
            self._report(rank, status, "", "")
        self._held.clear()
        self._look_for_the_end()

    def _look_for_the_end(self) -> None:
        if not self.running and not self._epilogs:
            self._tasks_over()

    def _report(self, rank: int, status: int, text: str, failed: str) -> None:
        self._link.send(
            {
                "do": "exit",
                "step": self.number,
                "rank": rank,
                "status": status,
                "oom": self._oom_kills > 0,
                "text": text,
                "failed": failed,
                "used": self._used.pop(rank, None),
            }
        )

    def _tasks_over(self) -> None:
        if self._oom_kills:
            self._say(
                f"slurmstepd: error: Detected {self._oom_kills} oom-kill event(s) in StepId={self.name}. "
                "Some of your processes may have been killed by the cgroup out-of-memory handler.\n"
            )
        self._kill_rest(_FIRST_PAUSE)

    def _kill_rest(self, pause: float) -> None:
        rest = self._belongings.of_step(self.pids, self.id) if self._something_left() else []
        if rest:
            send(rest, _signal.SIGKILL)
            # A process can take long to die (in a file system that hangs): looked at again, ever more seldom.
            self._loop.call_later(pause, lambda: self._kill_rest(min(2 * pause, _LONGEST_PAUSE)))
            return
        self._discard_container()

    def _discard_container(self) -> None:
        """What its container has left on disk goes with it; the step is over when it has."""
        pid = None
        if self._container is not None:
            from shim.job.container.enter import discard

            pid = discard(*self._container)
        if pid is None:
            self._cleaned()
        else:
            self._loop.on_exit(pid, lambda _status: self._cleaned())

    def _cleaned(self) -> None:
        self._clean = True
        self.output.give_up()
        self._maybe_drained()

    def _something_left(self) -> bool:
        return bool(self.pids) and not self._belongings.nothing_but_tasks()

    def _maybe_drained(self) -> None:
        if self._clean and self.output.idle and not self._drained:
            self._drained = True
            self.close()
            self._link.send({"do": "drained", "step": self.number})
            self._on_drained(self)

    def abandon(self) -> None:
        """Nobody takes its last output, and none of its processes is left: drop the output."""
        self.output.close()
        self._maybe_drained()

    def close(self) -> None:
        """Give the descriptors back."""
        self.output.close()
        self.feed.close()
        for fd in self._terminals:
            os.close(fd)
        self._terminals.clear()
        if self.pmi is not None:
            self.pmi.close()
        if self._error_file is not None:
            os.close(self._error_file)
            self._error_file = None

    def _note(self, line: str) -> None:
        self.say(f"slurmstepd: {line}")

    def say(self, line: str) -> None:
        """Add a line of our own to the first task's standard error."""
        self._say(f"{line}\n")

    def _say(self, text: str) -> None:
        if self._mute:
            return
        if self._error_file is None:
            self.output.say(self._first_rank, STDERR, text)
            return
        try:
            os.write(self._error_file, os.fsencode(text))
        except OSError:
            return  # a full disk: the job's state tells it too


def _wants_container(options: Mapping[str, str]) -> bool:
    from shim.core.container import wants_bundle, wants_image

    return wants_image(options) or wants_bundle(options)


def _none() -> int:
    """Nobody counts: the limit of a node on this machine is kept by ``memory``."""
    return 0
