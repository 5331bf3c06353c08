"""squeue: the jobs that wait and run, from the index alone."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import elsewhere, reading
from shim.commands.job_ids import exactly, narrowed, task_by_task
from shim.commands.squeue_ask import Ask
from shim.control import site
from shim.control.outlook import Outlook
from shim.core import memo
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.model import states
from shim.core.options.query_options import read
from shim.core.render import columns, job_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.control.index.reader import Reader
    from shim.core.model.job import Job
    from shim.core.render.columns import Column

_PROGRAM = "squeue"
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_UNCUT = "lLM"  # durations are printed in full, whatever the width


def main(argv: list[str]) -> int:
    """Runs squeue; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if reading.answered(_PROGRAM, values):
        return 0
    reading.refuse(_PROGRAM, values)
    if "format" in values and "Format" in values:
        given = read(_PROGRAM, argv, {})[0]
        if "format" in given and "Format" in given:
            raise ShimError("error: -O (--Format) is incompatible with -o (--format)")
        del values["Format" if "format" in given or "Format" not in given else "format"]
    ask = Ask(values, words)
    seconds = None
    if "iterate" in values:
        seconds = reading.interval(values["iterate"])
        if seconds is None:
            raise ShimError(f"error: --iterate={values['iterate']}\n")
    while True:
        code = _show(ask, argv)
        if seconds is None:
            return code
        sys.stdout.write("\n")
        sys.stdout.flush()
        time.sleep(seconds)
        memo.renew()


class Table:
    """One listing under way: the columns, and where jobs are looked up."""

    def __init__(self, ask: Ask, clusters: Sequence[str]) -> None:
        self.ask = ask
        self._clusters = clusters
        self._records = 0  # looked at, before all conditions
        self._named: list[Job] = []  # what was found of ids
        self._outlook: Outlook | None = None
        self.header = "noheader" not in ask.values
        self.views = reading.Views(noconvert="noconvert" in ask.values)
        # Of several clusters without headers a column tells which, as in Slurm.
        self.prefixed = len(clusters) > 1 and not self.header and not {"format", "Format"} & set(ask.values)
        self.columns = self._columns()
        self._reader: Reader | None = None
        self._opened = False

    @property
    def reader(self) -> Reader | None:
        """The index, opened when it is first asked."""
        if not self._opened:
            self._opened = True
            self._reader = reading.open_index(_PROGRAM)
            if not self.ask.ids and not self.ask.step_ids:
                self._outlook = Outlook(self._clusters)
        return self._reader

    def put(self, cluster: str) -> None:
        """Prints the table of that cluster ("" for all whose jobs run from here)."""
        rows = self._steps(cluster) if self.ask.steps else self._jobs(cluster)
        prefix = self.prefix(cluster)
        if "verbose" in self.ask.values:
            reading.put([f"last_update_time={int(self.views.now)} records={self._records}"])
        self.put_header()
        reading.put([prefix + row for row in rows])

    def say_troubles(self) -> None:
        """Says which of the clusters cannot be asked; where single jobs are asked for, which of those that they are on."""
        reading.say_troubles(_PROGRAM, self._reader, self._outlook, self._named)

    def put_header(self) -> None:
        """Prints the line of headers, unless they are not wanted."""
        if self.header:
            reading.put([columns.header(self.columns)])

    def prefix(self, cluster: str) -> str:
        """What stands in front of each line of this cluster."""
        return f"{cluster[:10]:<10} " if self.prefixed else ""

    def _jobs(self, cluster: str) -> list[str]:
        ask = self.ask
        jobs = self._found(cluster)
        if "array" in ask.values:
            jobs = [task for job in jobs for task in task_by_task(job)]
        if "priority" in ask.values:
            jobs = [one for job in jobs for one in _by_partition(job)]
        order = ask.values.get("sort") or (job_order.DEFAULT_START if "start" in ask.values else job_order.DEFAULT)
        found = job_order.ordered(jobs, order, lambda job: self.views.of(job.cluster))
        return columns.rows_by(self.columns, found, lambda job: self.views.of(job.cluster))

    def _steps(self, cluster: str) -> list[str]:
        from shim.core.render.step_fields import step_order

        reader, named = self.reader, self.ask.ids or self.ask.step_ids
        jobs = [job for job in self._found(cluster) if not named or exactly(job, named)]
        items = reading.running_steps(reader, jobs)
        wanted = {one.step for one in self.ask.step_ids if one.step != "batch"}  # which only a whole job's have
        if self.ask.step_ids and None not in wanted:
            items = [item for item in items if item[1].step_id in wanted]
        self._records = len(items)
        found = sorted(items, key=step_order)
        return columns.rows_by(self.columns, found, lambda item: self.views.of(item[0].cluster))

    def _found(self, cluster: str) -> list[Job]:
        found, self._records = _found(self.ask, self.reader, cluster)
        if self.ask.ids or self.ask.step_ids:
            self._named += found
        return found

    def _columns(self) -> list[Column]:
        """The columns asked for; what is no field is named on stderr, and the listing goes on."""
        values = self.ask.values
        default, letters, names = self._fields()
        if "Format" in values:
            found, unknown = columns.parse_names(values["Format"], names())
        else:
            found, unknown = columns.parse_letters(values.get("format", default), letters, _UNCUT)
        reading.complain(_PROGRAM, [f"error: Invalid job format specification: {name}" for name in unknown])
        return found

    def _fields(self) -> tuple[str, Any, Callable[[], Any]]:
        """The format that is not asked for, the letters of -o, and a way to the names of -O."""
        values = self.ask.values
        if self.ask.steps:
            from shim.core.render.step_fields import LETTERS, NAMES

            return STEPS, LETTERS, lambda: NAMES
        from shim.core.render import job_fields

        default = START if "start" in values else LONG if "long" in values else DEFAULT
        return default, job_fields.LETTERS, job_fields.names


def _show(ask: Ask, argv: list[str]) -> int:
    """One listing; with -M one for each cluster, and a mistake in one of them does not hide the others. The exit code."""
    clusters = reading.chosen_clusters(ask.values.get("clusters"))
    if "verbose" in ask.values:
        from shim.commands import told

        reading.put(told.squeue(ask, ask.values.get("format") or (START if "start" in ask.values else None)))
    if "noheader" not in ask.values and {"iterate", "long", "verbose"} & ask.values.keys():
        reading.put([reading.date_line(time.time())])
    table = Table(ask, clusters)
    real = elsewhere.concerned(clusters, ask.ids or ask.step_ids, _PROGRAM)
    ours = bool(clusters) or any(not place.real for place in site.places())
    asked = None
    if real:
        own_header = table.header and (bool(clusters) or not ours)
        asked = elsewhere.Asked(
            _PROGRAM, argv, real, header=own_header, each=bool(clusters), dated="long" in ask.values
        )
    if clusters:
        code = elsewhere.titled(_PROGRAM, clusters, asked, table.put, header=table.header, prefix=table.prefix)
        table.say_troubles()
        return code
    problem = None
    try:
        if ours:
            table.put("")
    except ShimError as error:
        if asked is None:
            raise
        problem = error
        table.put_header()
    code = elsewhere.told(asked, problem, found=bool(ask.ids) and problem is None) if asked is not None else 0
    table.say_troubles()
    return code


def _found(ask: Ask, reader: Reader | None, cluster: str) -> tuple[list[Job], int]:
    """The jobs asked for, and of how many. ShimError with Slurm's text when the only id asked for is unknown or forgotten."""
    if ask.users == ():
        return [], 0  # only users that do not exist were named
    found = reader.jobs(ask.query(cluster)) if reader is not None else []
    known = len(found)
    named = ask.ids or ask.step_ids
    if len(ask.ids) == 1 and not found and not any(ask.values.get(name) for name in ("name", "partitions", "users")):
        raise ShimError(plain(f"slurm_load_jobs error: {INVALID_JOB_ID}"))
    if named:
        found = [part for part in (narrowed(job, named) for job in found) if part is not None]
    return [job for job in found if ask.fits(job)], known


def _by_partition(job: Job) -> list[Job]:
    """A waiting job once for each partition that it may start in."""
    if job.state != states.PENDING or "," not in job.partition:
        return [job]
    return [job.replace(partition=name) for name in job.partition.split(",")]
