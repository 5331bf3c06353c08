"""The batch script of a run: how node 0 is told to launch it, and the lines that its output gets when the job is ended."""

from __future__ import annotations

import os

from shim.core.formats.times import stamp
from shim.core.model.usage import sampling
from shim.job.agent.leader.outcome import job_line
from shim.job.agent.step_manager.launch import with_ours
from shim.job.spec import SCRIPT
from shim.job.wire import BATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.loop import Loop
    from shim.job.spec import RunSpec

_LOOK_AGAIN = 0.02  # seconds between two looks for a folder


class BatchScript:
    """``running`` from the launch until the script's exit was reported; ``used``: what was reported with it."""

    def __init__(self, spec: RunSpec, run_dir: str, wall: Callable[[], float]) -> None:
        self.running = False
        self.status: int | None = None  # the script's own, raw, where the job had another end before
        self.used: dict[str, Any] | None = None
        self._told = False  # that it is being ended
        self._spec = spec
        self._run_dir = run_dir
        self._wall = wall

    def when_folders_are_there(self, loop: Loop, then: Callable[[], None]) -> None:
        """Calls ``then`` when the script's files can be made, or cannot after a while.

        Programs make the folder of the output when they know the job's id: a real Slurm starts nothing before its next turn.
        """
        if self._spec.script:
            self._look(loop, then, loop.now() + self._spec.cluster.output_wait)
        else:
            then()

    def _look(self, loop: Loop, then: Callable[[], None], until: float) -> None:
        job = self._spec.job
        folders = {os.path.dirname(path) for path in (job.stdout, job.stderr) if path.startswith("/")}
        if loop.now() >= until or all(map(os.path.isdir, folders)):
            then()
        else:
            loop.call_later(_LOOK_AGAIN, lambda: self._look(loop, then, until))

    def launch(self, environment: dict[str, str]) -> dict[str, Any]:
        """The launch message for node 0. ``environment``: the batch environment, complete but for our own variables."""
        self.running = True
        job = self._spec.job
        request = job.request
        append = request.open_mode == "a"
        out = _file(job.stdout, append)
        return {
            "do": "launch",
            "step": BATCH,
            "name": "batch",
            "tasks": [
                {
                    "rank": 0,
                    "local": 0,
                    "argv": [os.path.join(self._run_dir, SCRIPT), *request.arguments],
                    "environment": {},
                }
            ],
            "environment": with_ours(environment, self._spec),
            "work_dir": request.work_dir,
            "umask": request.umask,
            "stdin": _file(job.stdin, False),
            "stdout": out,
            "stderr": out if job.stderr in ("", job.stdout) else _file(job.stderr, append),
            "ntasks": 1,
            "sampling": sampling(request.extra.get("acctg-freq")),
            "container": {} if self._spec.apart else request.container,
        }

    def say_cancelled(self, state: str) -> None:
        """Adds the line of a job that is being ended to the script's standard error; once, whatever it makes of the signal."""
        if not self.running or self._told:
            return
        self._told = True
        job = self._spec.job
        self.say(job_line(job.job_id, self._spec.nodes[0].name, stamp(self._wall()), state))

    def say(self, line: str) -> None:
        """Adds a line to the script's standard error."""
        job = self._spec.job
        try:
            file = os.open(job.stderr or job.stdout or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError:
            return  # the file, or its folder, was removed meanwhile: nobody is there to read the line
        try:
            os.write(file, line.encode() + b"\n")
        except OSError:
            return  # a full disk: the state tells
        finally:
            os.close(file)


def _file(path: str, append: bool) -> dict[str, Any]:
    if path in ("", os.devnull):
        return {"to": "null"}
    return {"to": "file", "path": path, "append": append}
