"""sacct: what became of jobs, from the index, as long as they are kept (``retention``); real Slurms are asked for theirs."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import output, site_view
from shim.commands.accounting import sacct_query
from shim.control import site
from shim.control.outlook import Outlook
from shim.core.errors import ShimError, UsageError, plain
from shim.core.formats.times import stamp
from shim.core.options.query_options import read
from shim.core.render import sacct_rows, sacct_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from shim.commands.accounting.sacct_query import Selection
    from shim.commands.real_slurm import ClusterQuery
    from shim.control.backends.slurm.questions import Question
    from shim.control.index.reader import Reader
    from shim.core.model.job import Job, Step
    from shim.core.options.query_options import Values
    from shim.core.render.sacct_rows import Row
    from shim.core.routing import ClusterRef

_PROGRAM = "sacct"
_NAMED = 10  # ids in a line of errors
# What a document says of a question that no job answers.
_NOTHING = {
    "description": "Nothing found",
    "error_number": 9003,
    "error": "Nothing found with query",
    "source": "slurmdb_jobs_get",
}


def main(argv: list[str]) -> int:
    """Runs sacct; its exit code."""
    try:
        newer = site_view.has_newer_options(argv)
        values, _ = read(_PROGRAM, argv, os.environ, newer=newer)
    except UsageError as error:
        raise ShimError(error.lines[0]) from None  # sacct does not say where help is
    if site_view.print_help(_PROGRAM, values):
        return 0
    if "helpformat" in values:
        output.put(sacct_table.help_format())
        return 0
    site_view.refuse_options(_PROGRAM, values, newer)
    chosen = site_view.chosen_clusters(_clusters(values))
    selection = sacct_query.Selection(values, chosen, time.time())
    if "verbose" in values:
        from shim.commands import verbose_options

        output.say(_PROGRAM, *verbose_options.sacct(selection))
    if site_view.is_document(values):
        return _document(selection, argv)
    if "completion" in values or "file" in values:
        raise ShimError(plain("Slurm job completion is disabled"))
    if "batch-script" in values:
        return _scripts(selection)
    real = site_view.real_clusters(chosen)
    ours = len(real) < len(chosen or site.cluster_refs())
    header = "noheader" not in values
    asked = _ask_real(argv, selection, chosen, header=header and not ours) if real else None
    reader = site_view.open_index(_PROGRAM) if ours else None
    outlook = Outlook(chosen) if ours and not selection.ids else None
    jobs = _jobs(selection, reader)
    if ours:
        _show(selection, _rows(selection, reader, jobs), header=header)
        _say_pruned(selection, reader, jobs)
    code = 0
    if asked is not None:
        from shim.commands import real_slurm

        headed = asked.questions[0] if header and not ours else None
        code = real_slurm.print_answers(
            asked,
            None,
            found=False,
            instead=lambda question: _remembered(selection, question, header=question is headed),
        )
    site_view.warn_unreachable(_PROGRAM, reader, outlook, jobs)
    return code


def _document(selection: Selection, argv: list[str]) -> int:
    """Prints the jobs that are meant in one document; in the older layout each of its runs for itself, -D or not."""
    from shim.commands import documents
    from shim.core.render.openapi.accounting import accounting_records

    document = documents.asked_for(_PROGRAM, argv, selection.values, database=True)
    sacct_table.columns(_format(selection.values))  # an unknown field is an error here too
    documents.clusters(selection.values, _clusters(selection.values))
    reader = site_view.open_index(_PROGRAM)
    outlook = Outlook(list(selection.clusters)) if not selection.ids else None
    jobs = _jobs(selection, reader)
    runs = _runs(selection, reader, jobs) if document.newer else [*_earlier(reader, jobs), *jobs]
    rows = _listed(selection, runs, reader.steps_of(jobs, every_run=True) if reader is not None else [])
    errors = [] if jobs or document.newer else [_NOTHING]
    cluster = selection.clusters[0] if selection.clusters else ""
    records = accounting_records(rows, site_view.user_name, newer=document.newer)
    document.put("jobs", records, errors=errors, cluster=cluster)
    _say_pruned(selection, reader, jobs)
    site_view.warn_unreachable(_PROGRAM, reader, outlook, jobs)
    return 0


def _ask_real(argv: list[str], selection: Selection, chosen: list[str], *, header: bool) -> ClusterQuery | None:
    """The question to the real Slurms; None where the jobs asked for are all ours."""
    from shim.commands import real_slurm

    real = real_slurm.clusters_to_ask(chosen, selection.ids, _PROGRAM)
    return real_slurm.ClusterQuery(_PROGRAM, argv, real, header=header) if real else None


def _say_pruned(selection: Selection, reader: Reader | None, jobs: list[Job]) -> None:
    """Says what may be missing: who asks for a time, or for ids, of which not everything is kept."""
    if reader is None or (selection.named and jobs):
        return
    until = reader.pruned()
    if until and selection.since <= until:
        sys.stdout.flush()
        output.say(_PROGRAM, f"note: jobs that ended up to {stamp(until)} are kept no longer (retention)")


def _clusters(values: dict[str, str]) -> str | None:
    return "all" if "allclusters" in values else values.get("clusters")


def _remembered(selection: Selection, question: Question, *, header: bool) -> int | None:
    """In place of the answer of a Slurm without accounting: its jobs that were submitted through us, as far as they are known.

    The exit code; None if it has accounting.
    """
    from shim.commands import real_slurm

    if not real_slurm.keeps_no_accounting(question):
        return None
    found = PassedJobs(selection, question.ref, site_view.open_index(_PROGRAM))
    _show(selection, _listed(selection, found.jobs, []), header=header)
    return found.told(_PROGRAM)


def _show(selection: Selection, rows: list[Row], *, header: bool) -> None:
    values = selection.values
    shown = sacct_table.columns(_format(values))
    if "parsable" in values or "parsable2" in values:
        lines = sacct_table.parsable(
            shown,
            rows,
            header=header,
            delimiter=values.get("delimiter", "|"),
            trailing="parsable2" not in values,
        )
    else:
        lines = sacct_table.table(shown, rows, header=header)
    output.put(lines)


def _format(values: Values) -> str:
    """The fields: those of -o, then those of -b and -l; without these options those of SACCT_FORMAT, or the default."""
    fields = values.each("format")
    if "brief" in values:
        fields.append(sacct_table.BRIEF)
    if "long" in values:
        fields.append(sacct_table.LONG)
    return ",".join(fields) or values.get("format") or sacct_table.DEFAULT


def _rows(selection: Selection, reader: Reader | None, jobs: list[Job]) -> list[Row]:
    """The lines of these jobs, which run from here."""
    steps = reader.steps_of(jobs, every_run=True) if reader is not None else []
    return _listed(selection, _runs(selection, reader, jobs), steps)


def _listed(selection: Selection, runs: list[Job], steps: list[tuple[Job, Step]]) -> list[Row]:
    """The lines of these runs and their steps, as far as they are asked for."""
    views = site_view.Views()
    by_cluster = {job.cluster: views.of(job.cluster) for job in runs}
    for view in by_cluster.values():
        view.units = selection.units
        view.noconvert = "noconvert" in selection.values
    recorded = {(job.key, step.restart) for job, step in steps if step.step_id == "batch"}
    scripts = [(job, sacct_rows.batch_step(job)) for job in runs if (job.key, job.restarts) not in recorded]
    steps = [*steps, *((job, step) for job, step in scripts if step is not None)]
    wanted = [(job, step) for job, step in steps if selection.steps and selection.wants_step(job, step)]
    rows = [row for row in sacct_rows.rows(runs, wanted, by_cluster, sacct_rows.used(steps)) if selection.names(row)]
    if "truncate" in selection.values:
        for row in rows:
            row.truncate(selection.since, selection.until)
    return rows


def _jobs(selection: Selection, reader: Reader | None) -> list[Job]:
    if reader is None:
        return []
    return [
        part
        for part in map(selection.narrow, reader.jobs(selection.query()))
        if part is not None and selection.fits(part)
    ]


def _runs(selection: Selection, reader: Reader | None, jobs: list[Job]) -> list[Job]:
    """The jobs; with --duplicates also the runs before a requeue, each as a job of its own."""
    return [*jobs, *_earlier(reader, jobs)] if "duplicates" in selection.values else jobs


def _earlier(reader: Reader | None, jobs: list[Job]) -> list[Job]:
    """The runs of these jobs before a requeue."""
    again = [job for job in jobs if job.restarts]
    if reader is None or not again:
        return []
    past = reader.transitions(job.key for job in again)
    return [run for job in again for run in sacct_rows.earlier_runs(job, past.get(job.key, []))]


def _scripts(selection: Selection) -> int:
    """``--batch-script``: the scripts of the jobs that -j names, as long as they are kept."""
    from shim.control import client

    if not selection.ids:
        raise ShimError("error: --batch-script needs --jobs")
    for job in _jobs(selection, site_view.open_index(_PROGRAM)):
        try:
            script = str(client.call("script", {"job_id": job.job_id})["script"])
        except client.Unreachable:
            raise
        except ShimError:
            script = "NONE\n"
        sys.stdout.write(f"Batch Script for {job.job_id}\n{'-' * 80}\n{script}\n")
    return 0


class PassedJobs:
    """The jobs that were submitted from here to a real Slurm without accounting: the index has them, and squeue of that Slurm their present state."""

    def __init__(self, selection: Selection, ref: ClusterRef, reader: Optional[Reader]) -> None:
        from shim.control.backends.slurm import remembering

        self._ref = ref
        rows = (
            reader.passed_of(ref.name, [one.job_id for one in selection.ids], selection.ended_since) if reader else []
        )
        known, self._problem = remembering.brought_up([job for job in rows if selection.means(job)], ref)
        fitting = [job for job in map(selection.narrow, known) if job is not None and selection.fits(job)]
        self.jobs = [job.replace(key=number) for number, job in enumerate(fitting)]  # by it steps are told apart

    def told(self, program: str) -> int:
        """Says on stderr what is missing; the exit code."""
        sys.stdout.flush()
        name = self._ref.name
        lines = [f"{name}: Slurm accounting storage is disabled: these are the jobs that were submitted from here"]
        gone = [str(job.job_id) for job in self.jobs if job.system_comment]
        if gone:
            ids = ",".join(gone[:_NAMED] + ["…"] * (len(gone) > _NAMED))
            lines.append(f"{name}: what became of {ids} is not known: shown as seen last")
        if self._problem:
            lines.append(f"error: {name}: {self._problem}: its jobs are shown as they were seen last")
        output.say(program, *lines)
        return 1 if self._problem else 0
