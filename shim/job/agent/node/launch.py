"""Starting one task: fork, and everything between fork and execve, where ``spawn`` cannot do it at less cost.

As slurmstepd does: an own session for each task, the submitter's limits and umask, the working directory or /tmp, no signal
blocked or ignored. What goes wrong in the child is written to the task's own standard error, in slurmstepd's words,
and the task ends with the error's number: 2 for a command that is not there, 13 for one that may not run.
"""

from __future__ import annotations

import fcntl
import os

from shim.job.agent.node.spawn import spawn
from shim.job.agent.node.task_start import TaskStart, default_signals, place_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Mapping, NoReturn, Sequence

    from shim.job.container.enter import ContainerPlace
else:
    import _signal

_TIOCSCTTY = 0x540E
_ALL = _signal.valid_signals()
_ENOENT, _EINVAL = 2, 22


def start(task: TaskStart) -> int:
    """Start the task; its pid. OSError: no process could be made."""
    spawned = spawn(task)
    if spawned is not None:
        return spawned
    # Blocked over the fork: a signal that came to the child now would run the agent's handler, into the agent's wake-up pipe.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _ALL)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                _become(task)
            finally:
                os._exit(1)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    return pid


def find_command(name: str, path: str, work_dir: str) -> str:
    """The file that a command stands for, as srun finds it: along ``path``; a name with a slash is below ``work_dir``.

    A command that is nowhere comes back as it is: execve then says so.
    """
    if name.startswith("/"):
        return name
    if "/" in name:
        return work_dir + "/" + name
    for folder in path.split(":"):
        candidate = os.path.join(work_dir, folder, name) if folder else ""
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return name


def _become(task: TaskStart) -> None:
    """In the child: turn into the task. Does not return."""
    default_signals()
    os.setsid()
    if task.pty:
        fcntl.ioctl(task.files[0], _TIOCSCTTY, 0)
    place_files(task.files)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.umask(task.umask)
    work_dir = _enter(task.work_dir, 2 if task.first else 1)
    _limit(task.rlimits)
    environment = dict(task.environment, SLURM_TASK_PID=str(os.getpid()))
    if task.prolog:
        environment = _after_prolog(task.prolog, environment)
    if not task.argv:
        _fail("No executable program specified for this task", _ENOENT)
    argv = task.argv
    if task.container is not None:
        argv, environment, work_dir = _in_container(task.container, argv, environment)
    command = find_command(argv[0], environment.get("PATH", ""), work_dir)
    if not command:
        _fail(f"execve(): : {os.strerror(_ENOENT)}", _ENOENT)
    try:
        os.execve(command, [command, *argv[1:]], environment)
    except OSError as error:
        number = error.errno or 1
        _fail(f"execve(): {_culprit(command, number)}: {os.strerror(number)}", number)
    except ValueError:  # a NUL inside a word, or a name with "=": there is no such command line
        _fail(f"execve(): {command}: {os.strerror(_EINVAL)}", _EINVAL)


def _enter(work_dir: str, times: int) -> str:
    try:
        os.chdir(work_dir)
    except (OSError, ValueError) as error:
        text = os.strerror(getattr(error, "errno", None) or _EINVAL)
        for _ in range(times):
            _tell(f"couldn't chdir to `{work_dir}': {text}: going to /tmp instead")
        os.chdir("/tmp")
        return "/tmp"
    return work_dir


def _limit(rlimits: Mapping[str, Sequence[int]]) -> None:
    import resource

    for name, (soft, hard) in rlimits.items():
        number = getattr(resource, name, None)
        if number is None:
            continue
        try:
            resource.setrlimit(number, (soft, hard))
        except (OSError, ValueError):
            # A hard limit cannot be raised again; as on a node of Slurm, the soft one then goes as far as it may.
            most = resource.getrlimit(number)[1]
            if most != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > most):
                soft = most
            resource.setrlimit(number, (soft, most))


def _after_prolog(path: str, environment: dict[str, str]) -> dict[str, str]:
    from shim.job.agent.node.task_scripts import PrologFailed, after_prolog

    try:
        return after_prolog(path, environment)
    except PrologFailed as failed:
        for line in failed.lines:
            _tell(line)
        os._exit(failed.code)


def _in_container(
    place: ContainerPlace, argv: Sequence[str], environment: dict[str, str]
) -> tuple[list[str], dict[str, str], str]:
    from shim.core.container import ContainerError
    from shim.job.container.enter import enter

    try:
        return enter(place, argv, environment)
    except ContainerError as error:
        _fail(f"container: {error}", 1)


def _culprit(command: str, number: int) -> str:
    """What execve did not find: the command, or the interpreter that the script's first line names."""
    if number == _ENOENT:
        try:
            with open(command, "rb") as script:
                first = script.read(255)
        except OSError:
            return command
        if first.startswith(b"#!"):
            return "bad interpreter(" + os.fsdecode(first[2:].split(b"\n")[0]) + ")"
    return command


def _fail(text: str, code: int) -> NoReturn:
    _tell(text)
    os._exit(code)


def _tell(text: str) -> None:
    os.write(2, os.fsencode(f"slurmstepd: error: {text}\n"))
