"""srun --prolog and --epilog: a program of the user where srun runs, before the tasks start and after they have ended.

It gets the command line of the tasks as its arguments, srun's own streams and directory, and variables about the step.
"""

from __future__ import annotations

import os

from shim.core.formats import hostlist
from shim.core.formats.lists import fold_counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping, Sequence
    from typing import Any, Callable

    from shim.job.loop import Loop
else:
    import _signal


class Scripts:
    """The two programs of one srun, each a path or empty; ``argv`` is the command line of the tasks."""

    def __init__(self, prolog: str, epilog: str, argv: Sequence[str]) -> None:
        self._paths = {"prolog": prolog, "epilog": epilog}
        self._argv = list(argv)

    def run(
        self,
        kind: str,
        created: Mapping[str, Any],
        loop: Loop,
        say: Callable[[str], None],
        then: Callable[[int], None],
    ) -> None:
        """Runs the ``prolog`` or the ``epilog``, and ``then`` with what waitpid says of it: 0 where there is nothing to run.

        ``created``: what the leader told of the step. A path that cannot be run is told, and is no failure, as with Slurm.
        """
        path = self._paths[kind]
        if not path or path.lower() == "none":
            then(0)
            return
        try:
            os.stat(path)
            if not os.access(path, os.R_OK | os.X_OK):
                raise PermissionError(13, os.strerror(13))
            environment = {**os.environ, **_variables(created), "SLURM_SCRIPT_CONTEXT": f"{kind}_srun"}
            pid = _start(path, self._argv, environment)
        except (OSError, ValueError) as error:
            say(f"Access denied for {path}: {getattr(error, 'strerror', None) or os.strerror(22)}")
            then(0)
            return
        loop.on_exit(pid, then)


def _start(path: str, argv: Sequence[str], environment: Mapping[str, str]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _signal.set_wakeup_fd(-1)
            for number in (_signal.SIGPIPE, _signal.SIGTTIN):
                _signal.signal(number, _signal.SIG_DFL)
            os.execve(path, [path, *argv], environment)
        finally:
            os._exit(127)
    return pid


def _variables(created: Mapping[str, Any]) -> dict[str, str]:
    nodes = [str(name) for name in created["nodes"]]
    job_id, step, tasks = str(created["job_id"]), str(created["step"]), str(created["ntasks"])
    return {
        "SLURM_JOBID": job_id,
        "SLURM_JOB_ID": job_id,
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_NODELIST": hostlist.fold(nodes),
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS": tasks,
        "SLURM_STEPID": step,
        "SLURM_STEP_ID": step,
        "SLURM_TASKS_PER_NODE": fold_counts([len(ranks) for ranks in created["ranks"]]),
    }
