"""sstat: what the steps of running jobs use at this moment, asked of each job's first node."""

from __future__ import annotations

import os
import sys

from shim.commands import job_leader, output, site_view, verbose_options
from shim.commands.job_ids import JobId, parse_job_id
from shim.core.errors import ShimError, UsageError
from shim.core.formats import hostlist
from shim.core.formats.lists import comma_list
from shim.core.model.usage import Usage
from shim.core.options.query_options import read
from shim.core.render import sacct_table, sstat_fields
from shim.core.render.sstat_fields import Row
from shim.core.render.usage import Sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.core.options.query_options import Values
    from shim.core.render.sacct_table import Column

_PROGRAM = "sstat"


def main(argv: list[str]) -> int:
    """Runs sstat; its exit code."""
    try:
        values, words = read(_PROGRAM, argv, os.environ)
    except UsageError as error:
        raise ShimError(error.lines[0]) from None  # sstat does not say where help is
    if site_view.print_help(_PROGRAM, values):
        return 0
    if "helpformat" in values:
        output.put(sacct_table.help_format(sstat_fields.FIELDS))
        return 0
    wanted = _ids([values.get("jobs", ""), *words])
    default = sstat_fields.PIDS if "pidformat" in values else sstat_fields.DEFAULT
    shown = sacct_table.columns(values.get("format") or default, sstat_fields.FIELDS, every="")
    if len(values.get("verbose", "")) > 1:
        output.say(_PROGRAM, *verbose_options.sstat(wanted))
    job_leader.hand_on(_PROGRAM, argv, [one.job_id for one in wanted])
    table = _Table(values, shown)
    for one in wanted:
        lines = _steps(table, one)
        if lines:
            sys.stdout.flush()
            output.say(_PROGRAM, *lines)
    return 0


def _ids(texts: Sequence[str]) -> list[JobId]:
    """The jobs and steps that are named. ShimError with Slurm's words."""
    found = []
    for word in comma_list(",".join(texts)):
        word = word.strip()
        if word == "0":
            found.append(JobId(job_id=0))
            continue
        one = parse_job_id(word)
        if one is None:
            job, dot, _ = word.partition(".")
            if dot and parse_job_id(job) is not None:
                raise ShimError(f"fatal: Bad step specified: {job}")
            raise ShimError(f"fatal: Bad job/step specified: {word}")
        found.append(one)
    if not found:
        raise ShimError("error: You didn't give me any jobs to stat.")
    return found


class _Table:
    """The table as it is printed, job by job; the header is there at once."""

    def __init__(self, values: Values, shown: Sequence[Column]) -> None:
        self.all_steps = "allsteps" in values
        self._told = len(values.get("verbose", "")) > 1
        self._by_node = "pidformat" in values
        self._sizes = Sizes(raw="noconvert" in values)
        self._shown = shown
        self._parsable = "parsable" in values or "parsable2" in values
        self._trailing = "parsable2" not in values
        self._put([], header="noheader" not in values)

    def show(self, job_id: int, step: dict[str, Any]) -> None:
        """The line, or with -i the lines, of a step."""
        label = f"{job_id}.{step['step']}"
        if self._told:
            sys.stdout.flush()
            nodes = hostlist.fold(step["nodes"])
            asked = f"slurm_job_step_stat: getting pid information of job StepId={label} on nodes {nodes}"
            output.say(_PROGRAM, f"debug:  requesting info for StepId={label}", f"debug:  {asked}")
        used = Usage.from_dict(step["usage"])
        parts = step["pids"] if self._by_node else [(None, [pid for _, pids in step["pids"] for pid in pids])]
        rows = [
            Row(label, [node] if node else step["nodes"], step["ntasks"], pids, used, self._sizes)
            for node, pids in parts
        ]
        self._put(rows, header=False)

    def _put(self, rows: list[Row], header: bool) -> None:
        if self._parsable:
            lines = sacct_table.parsable(self._shown, rows, header=header, delimiter="|", trailing=self._trailing)
        else:
            lines = sacct_table.table(self._shown, rows, header=header)
        output.put(lines)


def _steps(table: _Table, wanted: JobId) -> list[str]:
    """Shows the steps that are meant; what is to be said instead."""
    job = job_leader.find(_PROGRAM, wanted) if wanted.job_id else None
    if job is None and wanted.job_id:
        return [f"error: couldn't get steps for job {wanted.job_id}"]
    job_id = job.job_id if job is not None else 0
    steps = []
    if job is not None and job_leader.runs(job):
        try:
            steps = job_leader.ask(job_id, {"do": "usage"})
        except ShimError:
            steps = []  # it has ended meanwhile
    if wanted.step is not None:
        steps = [step for step in steps if step["step"] == wanted.step]
        if not steps:
            return [f"error: StepId={job_id}.{wanted.step} not found running."]
    elif not steps:
        return [f"error: No steps running for job {job_id}"]
    elif not table.all_steps:
        steps = [step for step in steps if step["step"].isdigit()][:1]
    for step in steps:
        table.show(job_id, step)
    return []
