"""Starting a task without a copy of the agent's memory: vfork and execve in C, by way of what ``subprocess`` is built on.

After a plain fork both sides pay for every page that either touches: for a short task that is more than all else. But nothing of ours
runs between vfork and execve, and a task must find its own pid in its environment. So the pid is guessed, as the one after the
last that the kernel gave, and the working directory is entered by ``/proc/self/task/<pid>/root``: that is there for the process of this pid
alone. A wrong guess ends before execve, and shows the next one. Whatever is out of the ordinary is left to ``launch``, with its messages.
"""

from __future__ import annotations

import os
import sys

from shim.job import rawfile
from shim.job.dispositions import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Callable, Mapping, Sequence

    from shim.job.agent.node.task_start import TaskStart
else:
    import _signal

try:
    from _posixsubprocess import fork_exec as _found

    # Its arguments are the interpreter's own business: these versions are known.
    _fork_exec: Callable[..., int] | None = _found if (3, 11) <= sys.version_info[:2] <= (3, 13) else None
except ImportError:
    _fork_exec = None

_TRIES = 4  # on a machine where somebody else always forks first
_ALL = _signal.valid_signals() - IGNORED  # what Python ignores fork_exec undoes


def next_pid() -> int:
    """The pid that the next process of this machine, or container, will have: the last word of ``loadavg`` is the last one given.
    0: nobody knows.
    """
    try:
        return int(rawfile.read("/proc/loadavg").split()[-1]) + 1
    except (OSError, ValueError):
        return 0


def spawn(task: TaskStart, guess: Callable[[], int] = next_pid) -> int | None:
    """Start the task; its pid. None: it was not started, and must be forked. OSError: no process could be made.

    ``guess`` gives the pid that the next process will have, or 0.
    """
    if _fork_exec is None or not _is_ordinary(task):
        return None
    argv = [os.fsencode(word) for word in task.argv]
    environment = _joined(task.environment)
    if environment is None:
        return None
    guessed = guess()
    if not guessed:
        return None
    for _ in range(_TRIES):
        try:
            pid, failed = _try(task, argv, environment, guessed)
        except ValueError:
            return None  # a NUL inside a word
        if not failed:
            return pid
        os.waitpid(pid, 0)
        if pid == guessed:
            return None  # the directory or the command: the one who is forked says what is wrong
        guessed = pid + 1
    return None


def _try(task: TaskStart, argv: Sequence[bytes], environment: list[bytes], guessed: int) -> tuple[int, bool]:
    """The pid of a process that is the task if it is ``guessed``, and whether it failed."""
    assert _fork_exec is not None
    stdin, stdout, stderr = task.files
    errors, told = os.pipe2(os.O_CLOEXEC)
    try:
        pid = _fork_exec(
            argv,
            (argv[0],),
            False,  # close_fds: all of an agent's are close-on-exec
            (),
            os.fsencode(f"/proc/self/task/{guessed}/root{task.work_dir}"),
            [*environment, b"SLURM_TASK_PID=%d" % guessed],
            *(stdin, -1, -1, stdout, -1, stderr),
            *(errors, told),
            True,  # restore_signals
            True,  # start_new_session
            *(-1, None, None, None),  # process group, gid, groups, uid
            task.umask,
            None,
            True,  # allow_vfork
        )
    finally:
        os.close(told)
        failed = os.read(errors, 1)  # its end, once the task is what it is to be
        os.close(errors)
    return pid, bool(failed)


def _is_ordinary(task: TaskStart) -> bool:
    """Whether the task needs nothing but what vfork can do."""
    if (
        task.pty
        or task.prolog
        or task.container is not None
        or not task.argv
        or not task.argv[0].startswith("/")
        or not task.work_dir.startswith("/")
    ):
        return False
    return not _blocked_or_ignored() and _limits_are(task.rlimits)


def _blocked_or_ignored() -> bool:
    """Whether a child would find a signal blocked, or ignored, that Python itself does not ignore."""
    if _signal.pthread_sigmask(_signal.SIG_BLOCK, ()):
        return True
    return _signal.SIG_IGN in map(_signal.getsignal, _ALL)


def _limits_are(wanted: Mapping[str, Sequence[int]]) -> bool:
    import resource

    for name, limits in wanted.items():
        number = getattr(resource, name, None)
        if number is not None and resource.getrlimit(number) != tuple(limits):
            return False
    return True


def _joined(environment: Mapping[str, str]) -> list[bytes] | None:
    """As execve takes it, without the pid; None for what no process can have."""
    if "" in environment or "=" in "".join(environment):
        return None
    lines = [f"{name}={value}" for name, value in environment.items() if name != "SLURM_TASK_PID"]
    encoded = os.fsencode("\0".join(lines)).split(b"\0")  # once for all of them
    return encoded if len(encoded) == len(lines) else None
