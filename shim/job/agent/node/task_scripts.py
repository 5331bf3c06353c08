"""srun --task-prolog and --task-epilog: a program before and after each task, on its node, with its variables and directory.

The prolog runs in the process that becomes the task. Its output is read: ``export NAME=value`` and ``unset NAME`` change the
task's environment, ``print words`` goes to its standard output, all else is lost. The task is not started when it fails. The
epilog's output is lost too, and its failure is told only; the task's end is reported when it is over.
"""

from __future__ import annotations

import os

from shim.job.agent.node.task_start import default_signals, place_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Callable, Mapping

    from shim.job.loop import Loop
else:
    import _signal

LONGEST_EPILOG = 5.0  # seconds, then it is killed
_PROLOG_CONTEXT = {"SLURM_SCRIPT_CONTEXT": "prolog_task"}
_EPILOG_CONTEXT = {"SLURM_SCRIPT_CONTEXT": "epilog_task"}


class PrologFailed(Exception):
    """The task must end with ``code``; ``lines`` are slurmstepd's words about it."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__(*lines)
        self.code = code
        self.lines = (*lines, f"--task-prolog failed status={code}")


def after_prolog(path: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Runs the prolog and says its ``print`` lines on descriptor 1; the task's environment after it. Raises PrologFailed."""
    why = ""
    if not path.startswith("/"):
        why = f"is not fully qualified pathname ({path})"
    elif not os.access(path, os.R_OK | os.X_OK):
        why = f"can not be executed ({path}) {os.strerror(2 if not os.path.exists(path) else 13)}"
    if why:
        reason = "user task_prolog did not exit normally. reason: Run command failed - configuration error"
        raise PrologFailed(1, f"run_command: user task_prolog {why}", reason)
    ours, its = os.pipe2(os.O_CLOEXEC)
    pid = _run(path, {**environment, **_PROLOG_CONTEXT}, its, its)
    os.close(its)
    said = b""
    while True:
        piece = os.read(ours, 65536)
        if not piece:
            break
        said += piece
    os.close(ours)
    changed = obeyed(os.fsdecode(said), environment)
    status = os.waitpid(pid, 0)[1]
    if status:
        raise PrologFailed(status >> 8 or 1)
    return changed


def obeyed(said: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as a prolog's output changes it; what it prints is written to descriptor 1."""
    changed = dict(environment)
    for line in said.split("\n"):
        word, _, rest = line.partition(" ")
        name, equals, value = rest.lstrip().partition("=")
        if word == "print":
            os.write(1, os.fsencode(rest.lstrip() + "\n"))
        elif word == "export" and equals and name:
            changed[name] = value
        elif word == "unset":
            changed.pop(rest.strip(), None)
    return changed


def start_epilog(
    path: str, environment: Mapping[str, str], work_dir: str, stderr: int, loop: Loop, over: Callable[[str], None]
) -> None:
    """Starts the epilog. ``over(words)`` is called at its end, with slurmstepd's complaints or "". ``stderr`` is closed then."""

    def ended(words: str) -> None:
        os.close(stderr)
        over(words)

    if not os.access(path, os.R_OK | os.X_OK) or not path.startswith("/"):
        ended(
            f"slurmstepd: error: Could not run user task_epilog [{path}]: access denied\n"
            "slurmstepd: error: TaskEpilog failed status=-1\n"
        )
        return
    try:
        pid = _run(path, {**environment, **_EPILOG_CONTEXT}, -1, stderr, work_dir)
    except OSError as error:
        ended(f"slurmstepd: error: fork: {error.strerror}\n")
        return
    timer = loop.call_later(LONGEST_EPILOG, lambda: _kill(pid))

    def exited(status: int) -> None:
        timer.cancel()
        ended(f"slurmstepd: error: TaskEpilog failed status={status}\n" if status else "")

    loop.on_exit(pid, exited)


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, _signal.SIGKILL)
    except OSError:
        os.kill(pid, _signal.SIGKILL)  # it has not come to have a group of its own yet


def _run(path: str, environment: Mapping[str, str], stdout: int, stderr: int, work_dir: str = "") -> int:
    """Starts ``path`` in a process group of its own, with nothing to read; -1: what it writes is lost. Its pid."""
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            try:
                _become(path, environment, stdout, stderr, work_dir)
            finally:
                os._exit(127)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    return pid


def _become(path: str, environment: Mapping[str, str], stdout: int, stderr: int, work_dir: str) -> None:
    default_signals()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.setpgid(0, 0)
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    place_files((nothing, nothing if stdout < 0 else stdout, nothing if stderr < 0 else stderr))
    if work_dir:
        try:
            os.chdir(work_dir)
        except OSError:
            os.chdir("/tmp")  # as the task itself
    os.execve(path, [path], environment)
