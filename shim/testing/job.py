"""A job of a throw-away cluster, as a test looks at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from shim.control.index.query import JobQuery
from shim.core.environ.job import batch_environment
from shim.core.model import states
from shim.core.model.cluster import Cluster as Shape
from shim.core.model.job import Job as Record
from shim.core.model.job import Step

PATIENCE = 30.0  # seconds of real time that a test waits, unless it says otherwise
_LAST = 30  # lines of an output that a failure shows


class NotInTime(AssertionError):
    """What a test waited for did not happen. The text says how things stood then."""


class Finished(Protocol):
    """A command that has ended."""

    @property
    def stdout(self) -> str:
        """Its output."""


class Surroundings(Protocol):
    """The cluster, as far as a job needs it."""

    def records(self, query: JobQuery) -> list[Record]:
        """The records that fit."""

    def steps(self, record: Record) -> list[Step]:
        """The steps of its present run."""

    def shape(self, name: str) -> Shape | None:
        """The cluster of that name."""

    def until(self, condition: Callable[[], bool], what: Callable[[], str], timeout: float, *folders: Path) -> None:
        """Returns when ``condition`` holds; it is looked at whenever the jobs, or a file in one of ``folders``, have changed."""

    def run(self, *command: str) -> Finished:
        """Runs a command to its end."""


class Job:
    """One job, or a whole array. What it says of the job is read when it is asked for."""

    def __init__(
        self,
        cluster: Surroundings,
        job_id: int,
        key: int | None = None,
        before: Mapping[Path, frozenset[str]] | None = None,
    ) -> None:
        self._cluster = cluster
        self.id = job_id
        self._key = key  # of a task of an array
        folder = self.work_dir
        known = (before or {}).get(folder)  # what was there before it could have begun
        self._before = names_below(folder) if known is None else known

    def __repr__(self) -> str:
        return f"<Job {self.label} {self.state}>"

    @property
    def _all(self) -> list[Record]:
        found = self._cluster.records(JobQuery(job_ids=(self.id,), active=False))
        return [one for one in found if self._key in (None, one.key)]

    @property
    def record(self) -> Record:
        """All that is recorded of it; of an array, of its task that was looked at last."""
        found = self._all
        if not found:
            raise LookupError(f"no job {self.id}")
        return next((one for one in found if one.job_id == self.id), found[-1])

    @property
    def label(self) -> str:
        """The id as `squeue` shows it: ``7``, ``7_3`` of an array."""
        return self.record.array_label if self._key is not None else str(self.id)

    @property
    def tasks(self) -> list[Job]:
        """The tasks of an array that have started, by index; of a plain job none."""
        found = sorted((one.array_task_id, one) for one in self._all if one.array_task_id is not None)
        before = {self.work_dir: self._before}
        return [Job(self._cluster, one.job_id, one.key, before) for _index, one in found]

    @property
    def state(self) -> str:
        """``PENDING``, ``RUNNING``, ``COMPLETED``, ``TIMEOUT`` …, as `sacct` shows it.

        Of an array: ``PENDING`` or ``RUNNING`` as long as that is true of one of its tasks; then the state that they share, or ``FAILED``.
        """
        found = [one.state for one in self._all]
        for state in (states.RUNNING, states.PENDING):
            if state in found:
                return state
        return found[0] if len(set(found)) == 1 else states.FAILED

    @property
    def ended(self) -> bool:
        """Whether it, and of an array each task, has ended."""
        return all(one.state in states.TERMINAL for one in self._all)

    @property
    def reason(self) -> str:
        """Why it waits, or ended, in Slurm's word; ``None`` for no reason."""
        return self.record.reason

    @property
    def exit_code(self) -> int:
        """The exit code; 0 as long as there is none, and where a signal ended it (``signal``)."""
        return self.record.exit_status >> 8

    @property
    def signal(self) -> int:
        """The number of the signal that ended it; 0 for none."""
        return self.record.exit_status & 0x7F

    @property
    def restarts(self) -> int:
        """How often it was requeued."""
        return self.record.restarts

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that it has, or had last."""
        return [share.name for share in self.record.shares]

    @property
    def steps(self) -> list[Step]:
        """The steps of its present or last run, in the order of their start: ``step_id``, ``name``, ``state``, ``nodes``, ``tasks``, ``exit_status`` …"""
        return self._cluster.steps(self.record)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that Slurm and SkyPilot set for the script (SLURM_*, SKYPILOT_* …), beside those that it was submitted with. None before its start."""
        record = self.record
        shape = self._cluster.shape(record.cluster)
        return batch_environment(record, shape) if record.shares and shape is not None else {}

    # Files

    @property
    def work_dir(self) -> Path:
        """Where it runs."""
        return Path(self.record.request.work_dir)

    @property
    def files(self) -> list[str]:
        """What is in its directory and was not there when it was submitted, below folders too; sorted, relative to the directory."""
        return sorted(names_below(self.work_dir) - self._before)

    @property
    def output(self) -> str:
        """What it has written so far: its standard output, and its errors unless these have a file of their own."""
        return _text(self.record.stdout)

    @property
    def error(self) -> str:
        """What it has written to its standard error."""
        return _text(self.record.stderr)

    # Waiting

    def wait(self, timeout: float = PATIENCE) -> Job:
        """Returns the job once it has ended, an array when all its tasks have. NotInTime after that many seconds of real time."""
        return self._until(lambda: self.ended, "it has not ended", timeout)

    def wait_for(self, state: str, timeout: float = PATIENCE) -> Job:
        """Returns the job once it is in that state. NotInTime also if it has ended in another one."""
        return self._until(lambda: self.state == state, f"it is not {state}", timeout, final=True)

    def wait_restarted(self, times: int = 1, timeout: float = PATIENCE) -> Job:
        """Returns the job once it has been requeued that often and runs again."""
        again = lambda: self.restarts >= times and self.state == states.RUNNING  # noqa: E731
        return self._until(again, f"it was not started again {times} times", timeout, final=True)

    def wait_output(self, text: str, times: int = 1, timeout: float = PATIENCE) -> Job:
        """Returns the job once its output holds ``text``, that often. NotInTime also if it has ended without."""
        said = lambda: self.output.count(text) >= times  # noqa: E731
        return self._until(said, f"its output does not hold {text!r}", timeout, final=True)

    def _until(self, condition: Callable[[], bool], what: str, timeout: float, final: bool = False) -> Job:
        def over() -> bool:
            ended = final and self.ended  # before the look: what is written last is there by then
            return condition() or ended

        folder = Path(self.record.stdout).parent
        self._cluster.until(over, lambda: f"{what}: {self.story()}", timeout, folder)
        if not condition():
            raise NotInTime(f"{what}: {self.story()}")
        return self

    def story(self) -> str:
        """How things stand, for people: the state, its reason, the last lines of the output."""
        told = [f"job {self.label} is {self.state} ({self.reason}), {self.restarts} restarts"]
        for name, text in (("output", self.output), ("error", self.error)):
            if text and (name == "output" or self.record.stderr != self.record.stdout):
                told.append(f"its {name} ends:")
                told += [f"    {line}" for line in text.splitlines()[-_LAST:]]
        return "\n".join(told)

    # What is done to it

    def cancel(self) -> Job:
        """As `scancel`."""
        self._cluster.run("scancel", str(self.id))
        return self

    def send(self, signal: str, *options: str) -> Job:
        """As `scancel --signal=SIGNAL`, which tells the steps; with ``--batch`` the script, with ``--full`` both."""
        self._cluster.run("scancel", f"--signal={signal}", *options, str(self.id))
        return self


def names_below(folder: Path) -> frozenset[str]:
    """The files in a folder and below it, relative to it."""
    return frozenset(
        os.path.relpath(os.path.join(here, name), folder) for here, _folders, names in os.walk(folder) for name in names
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
