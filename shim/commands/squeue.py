"""squeue: the jobs that wait and run, from the index alone."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import output, site_view
from shim.commands.job_ids import JobId, exactly, narrowed, parse_job_id, task_by_task
from shim.control import site
from shim.control.index.query import JobQuery
from shim.control.outlook import Outlook
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.formats.lists import comma_list, split_outside_brackets
from shim.core.model import states
from shim.core.options.query_options import read
from shim.core.render import columns, job_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.commands.documents import Document
    from shim.control.index.reader import Reader
    from shim.core.model.job import Job
    from shim.core.options.query_options import Values
    from shim.core.render.columns import Column

_PROGRAM = "squeue"
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_UNCUT = "lLM"  # durations are printed in full, whatever the width


def main(argv: list[str]) -> int:
    """Runs squeue; its exit code."""
    newer = site_view.has_newer_options(argv)
    values, words = read(_PROGRAM, argv, os.environ, newer=newer)
    if site_view.print_help(_PROGRAM, values):
        return 0
    site_view.refuse_options(_PROGRAM, values, newer)
    if "format" in values and "Format" in values:
        given = read(_PROGRAM, argv, {}, newer=newer)[0]
        if "format" in given and "Format" in given:
            raise ShimError("error: -O (--Format) is incompatible with -o (--format)")
        del values["Format" if "format" in given or "Format" not in given else "format"]
    selection = Selection(values, words)
    seconds = None
    if "iterate" in values:
        seconds = site_view.parse_interval(values["iterate"])
        if seconds is None:
            raise ShimError(f"error: --iterate={values['iterate']}\n")
    if site_view.is_document(values):
        from shim.commands import documents

        document = documents.asked_for(_PROGRAM, argv, values)
        return site_view.repeat(lambda: _document(document, selection), seconds)
    return site_view.repeat(lambda: _show(selection, argv), seconds)


class Table:
    """One listing under way: the columns, and where jobs are looked up."""

    def __init__(self, selection: Selection, clusters: Sequence[str]) -> None:
        self.selection = selection
        self._clusters = clusters
        self._records = 0  # looked at, before all conditions
        self._named: list[Job] = []  # what was found of ids
        self._outlook: Outlook | None = None
        self.header = "noheader" not in selection.values
        self.views = site_view.Views(noconvert="noconvert" in selection.values)
        # Of several clusters without headers a column tells which, as in Slurm.
        self.prefixed = len(clusters) > 1 and not self.header and not {"format", "Format"} & set(selection.values)
        self.columns = self._columns()
        self._reader: Reader | None = None
        self._opened = False

    @property
    def reader(self) -> Reader | None:
        """The index, opened at its first use."""
        if not self._opened:
            self._opened = True
            self._reader = site_view.open_index(_PROGRAM)
            if not self.selection.ids and not self.selection.step_ids:
                self._outlook = Outlook(self._clusters)
        return self._reader

    def put(self, cluster: str) -> None:
        """Prints the table of that cluster ("" for all whose jobs run from here)."""
        rows = self._steps(cluster) if self.selection.steps else self._jobs(cluster)
        prefix = self.prefix(cluster)
        if "verbose" in self.selection.values:
            output.put([f"last_update_time={int(self.views.now)} records={self._records}"])
        self.put_header()
        output.put([prefix + row for row in rows])

    def say_troubles(self) -> None:
        """Says which of the clusters cannot be asked; where single jobs are asked for, which of those that they are on."""
        site_view.warn_unreachable(_PROGRAM, self._reader, self._outlook, self._named)

    def put_header(self) -> None:
        """Prints the line of headers, unless they are not wanted."""
        if self.header:
            output.put([columns.header(self.columns)])

    def prefix(self, cluster: str) -> str:
        """What stands in front of each line of this cluster."""
        return f"{cluster[:10]:<10} " if self.prefixed else ""

    def _jobs(self, cluster: str) -> list[str]:
        selection = self.selection
        jobs = self._found(cluster)
        if "array" in selection.values:
            jobs = [task for job in jobs for task in task_by_task(job)]
        if "priority" in selection.values:
            jobs = [one for job in jobs for one in _by_partition(job)]
        order = selection.values.get("sort") or (
            job_order.DEFAULT_START if "start" in selection.values else job_order.DEFAULT
        )
        found = job_order.ordered(jobs, order, lambda job: self.views.of(job.cluster))
        return columns.rows_by(self.columns, found, lambda job: self.views.of(job.cluster))

    def _steps(self, cluster: str) -> list[str]:
        from shim.core.render.step_fields import step_order

        reader, named = self.reader, self.selection.ids or self.selection.step_ids
        jobs = [job for job in self._found(cluster) if not named or exactly(job, named)]
        items = site_view.running_steps(reader, jobs)
        wanted = {one.step for one in self.selection.step_ids if one.step != "batch"}  # which only a whole job's have
        if self.selection.step_ids and None not in wanted:
            items = [item for item in items if item[1].step_id in wanted]
        self._records = len(items)
        found = sorted(items, key=step_order)
        return columns.rows_by(self.columns, found, lambda item: self.views.of(item[0].cluster))

    def _found(self, cluster: str) -> list[Job]:
        found, self._records = _found(self.selection, self.reader, cluster)
        if self.selection.ids or self.selection.step_ids:
            self._named += found
        return found

    def _columns(self) -> list[Column]:
        """The columns asked for; what is no field is named on stderr, and the listing goes on."""
        values = self.selection.values
        default, letters, names = self._fields()
        if "Format" in values:
            found, unknown = columns.parse_names(values["Format"], names())
        else:
            found, unknown = columns.parse_letters(values.get("format", default), letters, _UNCUT)
        output.say(_PROGRAM, *[f"error: Invalid job format specification: {name}" for name in unknown])
        return found

    def _fields(self) -> tuple[str, Any, Callable[[], Any]]:
        """The format that is not asked for, the letters of -o, and a way to the names of -O."""
        values = self.selection.values
        if self.selection.steps:
            from shim.core.render.step_fields import LETTERS, NAMES

            return STEPS, LETTERS, lambda: NAMES
        from shim.core.render import job_fields

        default = START if "start" in values else LONG if "long" in values else DEFAULT
        return default, job_fields.LETTERS, job_fields.names


def _document(document: Document, selection: Selection) -> int:
    """Prints the jobs; in the older layout every job that is known, as Slurm does: no option but -M selects there."""
    from shim.commands import documents
    from shim.core.render.openapi.jobs import job_record
    from shim.core.render.openapi.layout import moments

    values = selection.values
    chosen = documents.clusters(values, values.get("clusters"))
    reader = site_view.open_index(_PROGRAM)
    views = site_view.Views()
    for cluster in chosen or ("",):
        query = JobQuery(cluster=cluster, active=False, ended_since=site_view.shown_since(cluster))
        if document.newer:
            jobs, _ = _found(selection, reader, cluster)
        else:
            jobs = reader.jobs(query) if reader is not None else []
        looked_at = max((job.last_sched for job in jobs), default=0.0)
        records = [job_record(job, views.of(job.cluster), newer=document.newer) for job in jobs]
        document.put("jobs", records, more=moments(views.now, looked_at), cluster=cluster)
    return 0


def _show(selection: Selection, argv: list[str]) -> int:
    """Prints one listing, with -M one for each cluster; an error of one cluster does not hide the others. The exit code."""
    clusters = site_view.chosen_clusters(selection.values.get("clusters"))
    if "verbose" in selection.values:
        from shim.commands import verbose_options

        output.put(
            verbose_options.squeue(
                selection, selection.values.get("format") or (START if "start" in selection.values else None)
            )
        )
    if "noheader" not in selection.values and {"iterate", "long", "verbose"} & selection.values.keys():
        output.put([output.date_line(time.time())])
    table = Table(selection, clusters)
    if not clusters and not site_view.real_clusters():
        table.put("")
        table.say_troubles()
        return 0
    from shim.commands import real_slurm

    real = real_slurm.clusters_to_ask(clusters, selection.ids or selection.step_ids, _PROGRAM)
    ours = bool(clusters) or any(not ref.real for ref in site.cluster_refs())
    asked = None
    if real:
        own_header = table.header and (bool(clusters) or not ours)
        asked = real_slurm.ClusterQuery(
            _PROGRAM, argv, real, header=own_header, each=bool(clusters), dated="long" in selection.values
        )
    if clusters:
        code = real_slurm.print_by_cluster(
            _PROGRAM, clusters, asked, table.put, header=table.header, prefix=table.prefix
        )
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
    code = (
        real_slurm.print_answers(asked, problem, found=bool(selection.ids) and problem is None)
        if asked is not None
        else 0
    )
    table.say_troubles()
    return code


def _found(selection: Selection, reader: Reader | None, cluster: str) -> tuple[list[Job], int]:
    """The jobs asked for, and of how many. ShimError with Slurm's text when the only id asked for is unknown or forgotten."""
    if selection.users == ():
        return [], 0  # only users that do not exist were named
    found = reader.jobs(selection.query(cluster)) if reader is not None else []
    known = len(found)
    named = selection.ids or selection.step_ids
    if (
        len(selection.ids) == 1
        and not found
        and not any(selection.values.get(name) for name in ("name", "partitions", "users"))
    ):
        raise ShimError(plain(f"slurm_load_jobs error: {INVALID_JOB_ID}"))
    if named:
        found = [part for part in (narrowed(job, named) for job in found) if part is not None]
    return [job for job in found if selection.fits(job)], known


def _by_partition(job: Job) -> list[Job]:
    """A pending job once for each partition that it may start in."""
    if job.state != states.PENDING or "," not in job.partition:
        return [job]
    return [job.replace(partition=name) for name in job.partition.split(",")]


class Selection:
    """The jobs that a squeue selects, after its options were checked."""

    def __init__(self, values: Values, words: list[str]) -> None:
        self.values = values
        self.steps = "steps" in values
        self.said = {"jobs": "", "steps": ""}  # the ids as they were written
        self.no_job = False  # -j names none: nothing is shown
        self.ids = self._ids("jobs", words)
        self.step_ids = self._ids("steps", words)
        if words:
            from shim.core.options.help import text_for

            sys.stdout.write(text_for(_PROGRAM, "usage"))
            raise ShimError(f"error: Unrecognized option: {words[0]}")
        self.states = _states(values.get("states"))
        if "start" in values and not self.steps and not self.states:
            self.states = (states.PENDING,)
        self.users = _users(values)
        self.nodes = _nodes(values.get("nodelist"))
        # Which partitions the jobs are in matters only to those who name neither.
        self._all = bool(self.ids) or values.shows_all("partitions")
        self._unseen: dict[str, frozenset[str]] = {}

    def _ids(self, name: str, words: list[str]) -> list[JobId]:
        """The ids of ``-j`` or ``-s``. Their value is optional, so ``-j 5`` leaves the 5 among the words."""
        if name not in self.values:
            return []
        said = self.values[name] or (words.pop(0) if words else None)
        text = self.said[name] = said or ""
        found = []
        self.no_job = self.no_job or (name == "jobs" and said is not None and not split_outside_brackets(text))
        for word in split_outside_brackets(text):
            one = parse_job_id(word)
            if one is None or (name == "steps" and one.step is None):
                what = f"job_step id: {word}.??" if name == "steps" else f"job id: {word}"
                raise ShimError(f"error: Invalid {what}")
            found.append(one)
        return found

    def query(self, cluster: str) -> JobQuery:
        """The part of the selection that the index can evaluate."""
        live = self.states != ("all",) and not any(state in states.TERMINAL for state in self.states)
        named = self.ids + self.step_ids
        return JobQuery(
            cluster=cluster,
            job_ids=tuple(one.job_id for one in named),
            active=live and not named,
            ended_since=None if live and not named else site_view.shown_since(cluster),
            users=self.users or (),
            names=comma_list(self.values.get("name")),
            partitions=comma_list(self.values.get("partitions")),
        )

    def fits(self, job: Job) -> bool:
        """The conditions that the index does not know."""
        if self.no_job or self._hidden(job):
            return False
        if self.states == ("all",):
            pass
        elif self.states:
            if job.shown_state not in self.states:
                return False
        elif job.state in states.TERMINAL:
            return False
        if self.nodes and not any(share.name in self.nodes for share in job.shares if not share.planned):
            return False
        request = job.request
        for option, value in (
            ("accounts", request.account),
            ("qos", request.qos),
            ("reservation", request.reservation),
        ):
            wanted = comma_list(self.values.get(option))
            if wanted and value not in wanted:
                return False
        licenses = comma_list(self.values.get("licenses"))
        return not licenses or any(name.partition(":")[0] in licenses for name in comma_list(request.licenses))

    def _hidden(self, job: Job) -> bool:
        """Whether all partitions that the job is for are left out."""
        if self._all:
            return False
        if job.cluster not in self._unseen:
            self._unseen[job.cluster] = site_view.hidden_partitions(job.cluster)
        return bool(self._unseen[job.cluster]) and self._unseen[job.cluster].issuperset(job.partition.split(","))


def _states(text: str | None) -> tuple[str, ...]:
    """The states of ``-t``; ("all",) for all, () for the default."""
    found = []
    for word in comma_list(text):
        if word.lower() == "all":
            return ("all",)
        state = states.state_of(word)
        if state is None:
            raise ShimError(
                f"error: Invalid job state specified: {word}",
                f"error: Valid job states include: {','.join(states.CODES)}\n",
            )
        found.append(state)
    return tuple(found)


def _users(values: dict[str, str]) -> tuple[int, ...] | None:
    """Uids of ``--me`` and ``-u``; None when all are meant. Unknown ones are named on stderr."""
    if "me" in values:
        return (os.getuid(),)
    words = comma_list(values.get("users"))
    if not words:
        return None
    found = []
    for word in words:
        uid = site_view.uid_of(word)
        if uid is None:
            output.say(_PROGRAM, f"error: Invalid user: {word}\n")
        else:
            found.append(uid)
    return tuple(found)


def _nodes(text: str | None) -> frozenset[str]:
    if not text:
        return frozenset()
    from shim.core.formats import hostlist

    try:
        names = hostlist.expand(text)
    except hostlist.HostlistError:
        raise ShimError(f"error: Invalid node name {text}") from None
    if not site_view.real_clusters():  # whose nodes are not known here
        known = site_view.site_clusters()
        for name in names:
            if not any(cluster.node(name) is not None for cluster in known):
                raise ShimError(f"error: Invalid node name {name}")
    return frozenset(names)
