"""Which processes belong to a job on this node, and getting rid of them.

An agent is a child subreaper: whatever the job's processes do, they stay below it in the process tree. Two kinds of processes
below it are not the job's: our own services (a controller, or the fork server, that a command inside the job started:
``SHIM_SERVICE`` in their environment), and the processes of other runs (another ``SHIM_RUN_DIR``), which may come below this
agent with such a service.

Without a subreaper, and after an agent was killed, the environment is what is left to go by: tasks and their children
carry the run's folder in ``SHIM_RUN_DIR`` and SLURM_TASK_PID. salloc's command has the first and not the second: it is the user's own.
"""

from __future__ import annotations

import os

from shim.job.agent import cgroup
from shim.job.agent.processes import by_parent, children, environment, table, value_of
from shim.job.run_folder import JOURNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Iterable

    from shim.job.agent.processes import Process
else:
    import _signal

RUN_DIR = b"SHIM_RUN_DIR"
SERVICE = b"SHIM_SERVICE"
_TASK = b"SLURM_TASK_PID"
_NODE = b"SLURMD_NODENAME"


def is_foreign(environ: list[bytes], run_dir: bytes) -> bool:
    """Whether a process below the agent, by its environment, is a service of ours or another run's."""
    if value_of(environ, SERVICE) is not None:
        return True
    other = value_of(environ, RUN_DIR)
    return other is not None and other != run_dir


def is_marked(environ: list[bytes], run_dir: bytes) -> bool:
    """Whether a process anywhere, by its environment, is a task of the run or comes from one."""
    return (
        value_of(environ, RUN_DIR) == run_dir
        and value_of(environ, _TASK) is not None
        and value_of(environ, SERVICE) is None
    )


class Belongings:
    """The processes of one run below one agent. ``subreaper``: whether the agent is one. ``tasks``: its running tasks."""

    def __init__(self, run_dir: str, subreaper: bool) -> None:
        self.tasks: set[int] = set()
        self.subreaper = subreaper
        self._run_dir = os.fsencode(run_dir)
        self._agent = os.getpid()

    def nothing_but_tasks(self) -> bool:
        """A quick look: True when for certain nothing runs below the agent but its tasks and what is below them."""
        if not self.subreaper:
            return False
        below = children(self._agent)
        return below is not None and self.tasks.issuperset(below)

    def all(self, processes: dict[int, Process] | None = None) -> list[int]:
        """All living processes of the run on this node."""
        processes = table() if processes is None else processes
        if self.subreaper:
            return self.below([self._agent], processes)
        # Without, what has left its task's tree is known by its environment alone.
        found = [pid for pid in self.tasks if pid in processes and processes[pid].alive]
        found += self.below(self.tasks, processes)
        known = set(found)
        return found + [pid for pid in _marked(processes, self._run_dir) if pid not in known]

    def below(self, roots: Iterable[int], processes: dict[int, Process]) -> list[int]:
        """The living processes of the run below ``roots`` (these not included)."""
        tree = by_parent(processes)
        found = []
        waiting = [child for root in roots for child in tree.get(root, ())]
        for pid in waiting:
            # A task that has not come to its execve yet still shows the environment of the fork server, a service.
            if pid in self.tasks or not is_foreign(environment(pid), self._run_dir):
                waiting += tree.get(pid, ())
                if processes[pid].alive:
                    found.append(pid)
        return found

    def of_step(self, tasks: Iterable[int], step: bytes | None) -> list[int]:
        """The living processes of one step: ``tasks`` (pids, ended or not), their sessions, all below them, and what has
        left both and still names the step in its environment (``step`` None: the batch script, which names none).
        """
        processes = table()
        sessions = set(tasks)
        found = []
        for pid in self.all(processes):
            process = processes[pid]
            if pid in sessions or process.session in sessions or self._is_below(pid, sessions, processes):
                found.append(pid)
            elif process.parent == self._agent and value_of(environment(pid), b"SLURM_STEP_ID") == step:
                # An orphan in a session of its own: a daemon. What is below it goes with it.
                sessions.add(pid)
                found.append(pid)
        return found

    def _is_below(self, pid: int, roots: set[int], processes: dict[int, Process]) -> bool:
        parent = processes[pid].parent
        while parent != self._agent and parent in processes:
            if parent in roots:
                return True
            parent = processes[parent].parent
        return False


def send(pids: Iterable[int], *signals: int) -> None:
    """Send each signal to each process. Those that are gone, or no longer ours to signal, are passed over, and so is a number
    that is no signal: Slurm takes those too (``scancel -s 99``).
    """
    for pid in pids:
        for number in signals:
            try:
                os.kill(pid, number)
            except (OSError, OverflowError):
                break


def kill_marked(run_dir: str, node: str | None = None) -> int:
    """Kill what an agent that is gone has left of a run: by its control group, and by the environment (``node``: on that node only); how
    many were killed by that.

    For whoever finds that agent dead, on the same machine. The run's own agents are never among them.
    """
    marker = os.fsencode(run_dir)
    name = None if node is None else os.fsencode(node)
    killed: set[int] = set()
    while True:
        found = (
            set(_marked(table(), marker)) - killed
        )  # what was forked meanwhile; the killed may take their time to go
        if name is not None:
            found = {pid for pid in found if value_of(environment(pid), _NODE) == name}
        if not found:
            cgroup.sweep(_state_dir(run_dir))
            return len(killed)
        killed |= found
        send(found, _signal.SIGKILL)


def kill_agents(run_dir: str) -> int:
    """Kill the agents of a run that do not obey, and all that is below them: they may have been stopped by the job. How many.

    They are known by the files of the run folder that they hold open.
    """
    processes = table()
    agents = [pid for pid in processes if pid != os.getpid() and _holds(pid, run_dir)]
    found = [*agents, *Belongings(run_dir, True).below(agents, processes)]
    send(found, _signal.SIGKILL)
    cgroup.end_those_of(_state_dir(run_dir), agents)
    return len(found)


def _state_dir(run_dir: str) -> str:
    return os.path.dirname(os.path.dirname(run_dir))


def _holds(pid: int, run_dir: str) -> bool:
    locks = (f"{run_dir}/{JOURNAL}", f"{run_dir}/lock.")
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(locks) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # it ended, or is somebody else's


def _marked(processes: dict[int, Process], run_dir: bytes) -> list[int]:
    return [pid for pid, process in processes.items() if process.alive and is_marked(environment(pid), run_dir)]
