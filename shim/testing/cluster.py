"""A throw-away cluster: its own state, configuration and home; it is there as long as a ``with``, and leaves no process behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from shim.control import channel, launchers, paths
from shim.control.index.errors import IndexFault
from shim.control.index.query import JobQuery
from shim.control.index.reader import Reader, open_reader
from shim.core.formats.times import parse_seconds_any
from shim.core.model import states
from shim.core.model.cluster import Cluster as Shape
from shim.core.model.job import Job as Record
from shim.core.model.job import Step
from shim.job import libc, simulated_time
from shim.testing import faults, submission
from shim.testing.job import PATIENCE, Job, NotInTime, names_below
from shim.testing.submission import SubmitError

NAME = "local"
# Nothing of the caller's own job, cluster or options reaches a throw-away one.
_FOREIGN = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SHIM_", "SKYPILOT_")
_KILLED_AFTER = 5.0  # seconds that processes of the cluster have to end by themselves
_LONG = 3600.0  # seconds: more than any KillWait
_ROUNDS = 5
_ENDING = (states.RUNNING, states.COMPLETING, states.SUSPENDED)
_LOOK_AGAIN = 0.05  # seconds, where the kernel has no more watches to give
_HANDLERS = 1.0  # seconds of real time that what handles a signal has


class Finished:
    """A command that has ended. ``jobs``: those that it says it has submitted."""

    def __init__(self, command: Sequence[str], ended: subprocess.CompletedProcess[str], jobs: Sequence[Job]) -> None:
        self.command = tuple(command)
        self.code = ended.returncode
        self.stdout = ended.stdout
        self.stderr = ended.stderr
        self.jobs = list(jobs)

    def __repr__(self) -> str:
        return f"<{' '.join(self.command)}: {self.code}\n{self.stdout}{self.stderr}>"


class Cluster:
    """A cluster in ``folder``, which must not be others' to write. ``with Cluster(folder) as slurm:`` begins and ends it; meanwhile this
    process and what it starts have its environment: the commands first on PATH, an empty HOME, no other configuration.

    The shape is given in the words of the configuration (docs/configuration.md): ``nodes`` (a number, or names: ``"n[1-4]"``), ``cpus``,
    ``memory``, ``gpus`` and so on; ``partitions``: names, the first of them the default one, or tables by name; ``slurm_conf``: a site's, for
    all of this. Unless something is said, there are four nodes with 8 CPUs and 16 GB each.

    ``work_dir``: where scripts run that are submitted without ``cwd``.
    """

    def __init__(
        self,
        folder: Path,
        work_dir: Path | None = None,
        *,
        nodes: int | str | None = None,
        partitions: Iterable[str] | Mapping[str, Mapping[str, Any]] | None = None,
        plugins: Mapping[str, Any] | None = None,
        **words: Any,
    ) -> None:
        self.folder = folder
        self.work_dir = work_dir or folder / "work"
        self.config = folder / "config.toml"
        self.state_dir = ""  # once it has begun
        self._before: dict[str, str] = {}
        self._ahead = 0.0
        shape: dict[str, Any] = {"backend": "local", **words}
        if "slurm_conf" in words:
            shape["slurm_conf"] = str(Path(words["slurm_conf"]).absolute())
        else:
            shape = {"cpus": 8, "memory": "16G", "requeue_delay": 0, **shape}
            shape.update({"node_names": nodes} if isinstance(nodes, str) else {"nodes": 4 if nodes is None else nodes})
        if partitions is not None:
            tables = partitions if isinstance(partitions, Mapping) else {name: {} for name in partitions}
            first = next(iter(tables), None)
            default = any("default" in table for table in tables.values())
            shape["partitions"] = {
                name: {**({"default": True} if name == first and not default else {}), **table}
                for name, table in tables.items()
            }
        self._configuration: dict[str, Any] = {"clusters": {NAME: shape}}
        if plugins:
            self._configuration["plugins"] = dict(plugins)

    # Its life

    def __enter__(self) -> Cluster:
        for one in (self.folder, self.folder / "home", self.work_dir):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.config.write_text("".join(_toml(self._configuration)))
        self._before = dict(os.environ)
        for name in list(os.environ):
            if name.startswith(_FOREIGN):
                del os.environ[name]
        os.environ.update(
            HOME=str(self.folder / "home"),
            XDG_CONFIG_HOME=str(self.folder / "home/.config"),
            XDG_STATE_HOME=str(self.folder / "home/.state"),
            SHIM_STATE_DIR=str(self.folder / "state"),
            SHIM_CONFIG=str(self.config),
            SHIM_NO_SYSTEM_CONFIG="1",
        )
        os.environ[simulated_time.VARIABLE] = "1"
        paths.ensure(paths.state_dir())
        self.state_dir = paths.state_dir()
        simulated_time.move(self.state_dir, 0.0)
        os.environ["PATH"] = f"{launchers.folder()}:{os.environ.get('PATH', os.defpath)}"
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._end()
        finally:
            os.environ.clear()
            os.environ.update(self._before)

    def _end(self) -> None:
        for _ in range(_ROUNDS):  # a job that is ending may still go back into the queue
            active = [str(job.job_id) for job in self.records(JobQuery())]
            if not active:
                break
            self.run("scancel", "--signal=KILL", "--full", *active, check=False)
            self.run("scancel", *active, check=False)
            self.advance(_LONG)  # whoever ignores TERM is killed
            with suppress(NotInTime):
                self.until(lambda: not self.records(JobQuery(states=_ENDING)), lambda: "", _KILLED_AFTER)
        found = channel.connect(paths.socket_path())
        if found is not None:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGTERM)
            found.ends(_KILLED_AFTER)
            found.close()
        faults.end(faults.processes(self.state_dir), _KILLED_AFTER)

    # Jobs

    def submit(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        cwd: Path | None = None,
        **options: object,
    ) -> Job:
        """Submits a batch script by `sbatch`: a path, or the text of one (it begins with ``#!``). SubmitError if that is refused.

        ``options``: those of `sbatch`, with ``_`` for ``-``: ``nodes=2``, ``signal="B:USR1@600"``; ``True`` for one without a value.
        """
        text = os.fspath(script)
        if text.startswith("#!"):
            path = self.folder / "home" / f"script-{len(os.listdir(self.folder / 'home'))}"
            path.write_text(text)
        else:
            path = Path(text).absolute()
        done = self.run("sbatch", *_words(options), str(path), *arguments, cwd=cwd, check=False)
        if done.code or not done.jobs:
            raise SubmitError(done.command, done.code, done.stderr)
        return done.jobs[0]

    def run(
        self, *command: str | os.PathLike[str], cwd: Path | None = None, check: bool = True, timeout: float = 60.0
    ) -> Finished:
        """Runs any command on the cluster's submit host, e.g. ``squeue``, or a script of yours that calls ``sbatch``.

        ``check``: an exit code other than 0 is a CalledProcessError.
        """
        words = [os.fspath(word) for word in command]
        folder = (cwd or self.work_dir).absolute()
        before = {folder: names_below(folder)}
        ended = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
        if check and ended.returncode:
            problem = subprocess.CalledProcessError(ended.returncode, words, ended.stdout, ended.stderr)
            problem.add_note(ended.stderr)
            raise problem
        return Finished(words, ended, [Job(self, job_id, before=before) for job_id in submission.ids(ended.stdout)])

    @property
    def jobs(self) -> list[Job]:
        """All jobs that there were, an array once, in the order of their submission."""
        found = dict.fromkeys(one.array_job_id or one.job_id for one in self.records(JobQuery(active=False)))
        return [Job(self, job_id) for job_id in found]

    def records(self, query: JobQuery) -> list[Record]:
        """What is recorded of the jobs that fit."""
        found: list[Record] = self._asked(lambda reader: reader.jobs(query), [])
        return found

    def steps(self, record: Record) -> list[Step]:
        """The steps of the present run of a job."""
        found: list[Step] = self._asked(lambda reader: reader.steps([record]), [])
        return found

    def shape(self, name: str = NAME) -> Shape | None:
        """The cluster as the controller has recorded it; None before the first job."""
        found: Shape | None = self._asked(lambda reader: reader.cluster(name), None)
        return found

    def _asked(self, question: Callable[[Reader], Any], nothing: Any) -> Any:
        reader = open_reader(os.path.join(self.state_dir, "index.db"))
        if reader is None:
            return nothing
        try:
            return question(reader)
        finally:
            reader.close()

    # Time

    def advance(self, time_: float | str | timedelta) -> None:
        """Moves the cluster's clock on: seconds, or a time as Slurm writes it (``"2-00:00:00"``, ``"47:50:00"``, ``"30"``: minutes).

        All that counts a job's time goes by that clock: limits, ``--signal``, ``--begin``, KillWait, what squeue and sacct show. What runs in a
        job does not: a ``sleep`` takes as long as it says, ``date`` tells the machine's time. What is due meanwhile happens in its
        order; wait for what it makes of the job, and stop where the script needs time of its own.
        """
        if isinstance(time_, timedelta):
            seconds = time_.total_seconds()
        elif isinstance(time_, str):
            seconds = float(parse_seconds_any(time_))
        else:
            seconds = float(time_)
        if seconds < 0:
            raise ValueError("time does not go back")
        self._ahead += seconds
        simulated_time.move(self.state_dir, self._ahead)

    @property
    def now(self) -> float:
        """The cluster's time: seconds since the epoch."""
        return time.time() + self._ahead

    def until(
        self, condition: Callable[[], bool], what: Callable[[], str], timeout: float = PATIENCE, *folders: Path
    ) -> None:
        """Returns when ``condition`` holds; it is looked at whenever the jobs, or a file in one of ``folders``, have changed.

        NotInTime, with the text of ``what()``, after ``timeout`` seconds of real time.
        """
        end = time.monotonic() + timeout
        watched = [self.state_dir, *(str(one) for one in folders if one.is_dir())]
        try:
            watch = libc.watch_writes(watched)
        except OSError:
            watch = -1
        poll = select.poll()
        if watch >= 0:
            poll.register(watch, select.POLLIN)
        try:
            while not self._holds(condition):
                left = end - time.monotonic()
                if left <= 0:
                    raise NotInTime(f"not within {timeout:g} s: {what()}")
                if poll.poll(1000 * min(left, 1.0 if watch >= 0 else _LOOK_AGAIN)):
                    os.read(watch, 65536)
        finally:
            if watch >= 0:
                os.close(watch)

    @staticmethod
    def _holds(condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except IndexFault:
            return False  # a controller that is killed leaves it busy for a moment

    # Faults

    def node_down(self, name: str, reason: str = "a test") -> None:
        """An operator takes the node out of service: `scontrol update State=DOWN`. Jobs that run there end with NODE_FAIL, or are requeued."""
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", f"Reason={reason}")

    def node_up(self, name: str) -> None:
        """The node is in service again: `scontrol update State=RESUME`."""
        self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def node_crash(self, name: str) -> None:
        """The node dies under its jobs: what acts for slurmd there gets SIGKILL. LookupError if no job runs there."""
        if not faults.crash(self.records(JobQuery(states=(states.RUNNING,))), name):
            raise LookupError(f"no job runs on {name}")

    def preempt(self, job: Job, grace: float = 0) -> None:
        """Another job takes the nodes, as under PreemptMode=REQUEUE: the steps get SIGTERM, have ``grace`` seconds of the cluster's time, and
        the job goes back into the queue; one that may not be requeued is cancelled. What they do on SIGTERM takes real time: they have up to
        a second of that too.
        """
        if grace:
            job.send("TERM")
            self._let_end(job.record, min(grace, _HANDLERS))
            self.advance(grace)
        if job.record.request.requeue is False:
            job.cancel()
        else:
            self.run("scontrol", "requeue", str(job.id))

    def _let_end(self, record: Record, seconds: float) -> None:
        """Returns once no step of the job's present run runs any more, or after that many seconds of real time."""
        over = lambda: all(step.end_time for step in self.steps(record))  # noqa: E731
        with suppress(NotInTime):
            self.until(over, lambda: "a step runs", seconds)

    def oom(self, job: Job, node: str | None = None) -> None:
        """A step of the job takes more memory than the job has on a node (the first one): real memory, and the real limit. So ask for little
        (``mem="50M"``). ValueError for a job without a limit.
        """
        share = next((one for one in job.record.shares if node in (None, one.name)), None)
        if share is None or not share.memory:
            raise ValueError(
                f"job {job.label} has no limit of memory{f' on {node}' if node else ''}: submit it with mem="
            )
        self.run(*faults.hungry(job.id, share.name, share.memory), check=False)


def _words(options: Mapping[str, object]) -> list[str]:
    found = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found.append(f"{option}={value}")
    return found


def _toml(table: Mapping[str, Any], above: str = "") -> Iterable[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if above and (plain or not table):
        yield f"[{above}]\n"
    for name, value in plain.items():
        yield f"{json.dumps(name)} = {json.dumps(value)}\n"
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _toml(value, f"{above}.{json.dumps(name)}" if above else json.dumps(name))
