"""squeue: the jobs that wait and run, from the index alone."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import reading
from shim.commands.job_ids import JobId, narrowed, parse_job_id, split_ids, task_by_task
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError, plain
from shim.core.model import states
from shim.core.options.query import read
from shim.core.render import columns, job_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.commands.reading import Views
    from shim.control.index.reader import Reader
    from shim.core.model.job import Job
    from shim.core.render.columns import Column

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_PROGRAM = "squeue"
_UNCUT = "lLM"  # durations are printed in full, whatever the width


class Ask:
    """What one squeue was asked, checked."""

    def __init__(self, values: dict[str, str], words: list[str]) -> None:
        self.values = values
        self.steps = "steps" in values
        self.names_clusters = False  # several clusters are listed without headers: a column says which
        self.ids = self._ids("jobs", words)
        self.step_ids = self._ids("steps", words)
        if words:
            from shim.core.options.usage import text_for

            sys.stdout.write(text_for(_PROGRAM, "usage"))
            raise ShimError(f"error: Unrecognized option: {words[0]}")
        self.states = _states(values.get("states"))
        if "start" in values and not self.steps and not self.states:
            self.states = (states.PENDING,)
        self.users = _users(values)
        self.nodes = _nodes(values.get("nodelist"))

    def _ids(self, name: str, words: list[str]) -> list[JobId]:
        """The ids of ``-j`` or ``-s``. Their value is optional, so ``-j 5`` leaves the 5 among the words."""
        if name not in self.values:
            return []
        text = self.values[name] or (words.pop(0) if words else "")
        found = []
        for word in split_ids(text):
            one = parse_job_id(word)
            if one is None:
                what = f"job_step id: {word}.??" if name == "steps" else f"job id: {word}"
                raise ShimError(f"error: Invalid {what}")
            found.append(one)
        return found

    def query(self, cluster: str) -> JobQuery:
        """What of it the index can answer."""
        live = self.states != ("all",) and not any(state in states.TERMINAL for state in self.states)
        named = self.ids + self.step_ids
        return JobQuery(
            cluster=cluster,
            job_ids=tuple(one.job_id for one in named),
            active=live and not named,
            ended_since=None if live and not named else _oldest(cluster),
            users=self.users or (),
            names=_words(self.values.get("name")),
            partitions=_words(self.values.get("partitions")),
        )

    def fits(self, job: Job) -> bool:
        """The conditions that the index does not know."""
        if self.states == ("all",):
            pass
        elif self.states:
            if job.state not in self.states:
                return False
        elif job.state in states.TERMINAL:
            return False
        if self.nodes and not any(share.name in self.nodes for share in job.shares):
            return False
        request = job.request
        for option, value in (
            ("accounts", request.account),
            ("qos", request.qos),
            ("reservation", request.reservation),
        ):
            wanted = _words(self.values.get(option))
            if wanted and value not in wanted:
                return False
        licenses = _words(self.values.get("licenses"))
        return not licenses or any(name.partition(":")[0] in licenses for name in _words(request.licenses))


def main(argv: list[str]) -> int:
    """Runs squeue; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if reading.answered(_PROGRAM, values):
        return 0
    reading.refuse(values, "json", "yaml")
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
        code = _show(ask)
        if seconds is None:
            return code
        sys.stdout.write("\n")
        sys.stdout.flush()
        time.sleep(seconds)


def _show(ask: Ask) -> int:
    """One listing; with -M one for each cluster, and a mistake in one of them does not hide the others."""
    clusters = reading.chosen_clusters(ask.values.get("clusters"))
    reader = reading.open_index(_PROGRAM)
    views = reading.Views(noconvert="noconvert" in ask.values)
    show = _show_steps if ask.steps else _show_jobs
    header = "noheader" not in ask.values
    if ("iterate" in ask.values or "long" in ask.values) and header:
        reading.put([reading.date_line(views.now)])
    if not clusters:
        show(ask, reader, "", views)
        return 0
    code = 0
    ask.names_clusters = not header and len(clusters) > 1
    for place, name in enumerate(clusters):
        if header:
            reading.put([*([""] if place else []), f"CLUSTER: {name}"])
        try:
            show(ask, reader, name, views)
        except ShimError as error:
            if len(clusters) == 1:
                raise
            code = reading.told(_PROGRAM, error)
    return code


def _jobs(ask: Ask, reader: Reader | None, cluster: str) -> list[Job]:
    """The jobs asked for. ShimError with Slurm's text when the only id asked for is unknown or forgotten."""
    if ask.users == ():
        return []  # only users that do not exist were named
    found = reader.jobs(ask.query(cluster)) if reader is not None else []
    named = ask.ids or ask.step_ids
    if len(ask.ids) == 1 and not found and not any(ask.values.get(name) for name in ("name", "partitions", "users")):
        raise ShimError(plain("slurm_load_jobs error: Invalid job id specified"))
    if named:
        found = [part for part in (narrowed(job, named) for job in found) if part is not None]
    return [job for job in found if ask.fits(job)]


def _show_jobs(ask: Ask, reader: Reader | None, cluster: str, views: Views) -> None:
    from shim.core.render import job_fields

    jobs = _jobs(ask, reader, cluster)
    if "array" in ask.values:
        jobs = [task for job in jobs for task in task_by_task(job)]
    if "priority" in ask.values:
        jobs = [one for job in jobs for one in _by_partition(job)]
    order = ask.values.get("sort") or (job_order.DEFAULT_START if "start" in ask.values else job_order.DEFAULT)
    default = START if "start" in ask.values else LONG if "long" in ask.values else DEFAULT
    shown = _columns(ask, default, job_fields.LETTERS, job_fields.names)
    sorted_jobs = job_order.ordered(jobs, order, lambda job: views.of(job.cluster))
    _put(ask, shown, columns.rows_by(shown, sorted_jobs, lambda job: views.of(job.cluster)))


def _show_steps(ask: Ask, reader: Reader | None, cluster: str, views: Views) -> None:
    from shim.core.render import step_fields

    jobs = {job.key: job for job in _jobs(ask, reader, cluster)}
    items = reader.steps_of(jobs.values(), running=True) if reader is not None else []
    wanted = {one.step for one in ask.step_ids}
    if ask.step_ids and None not in wanted:
        items = [item for item in items if item[1].step_id in wanted]
    shown = _columns(ask, STEPS, step_fields.LETTERS, lambda: step_fields.NAMES)
    found = sorted(items, key=step_fields.step_order)
    _put(ask, shown, columns.rows_by(shown, found, lambda item: views.of(item[0].cluster)))


def _put(ask: Ask, shown: Sequence[Column], rows: list[str]) -> None:
    reading.put(rows if "noheader" in ask.values else [columns.header(shown), *rows])


def _columns(ask: Ask, default: str, letters: object, names: object) -> list[Column]:
    """The columns asked for; what is no field is named on stderr, and the listing goes on."""
    values = ask.values
    if "Format" in values:
        found, unknown = columns.parse_names(values["Format"], names())  # type: ignore[operator]
    else:
        found, unknown = columns.parse_letters(values.get("format", default), letters, _UNCUT)
        if ask.names_clusters and "format" not in values:
            found[:0] = columns.parse_names("cluster:10 ", names())[0]  # type: ignore[operator]
    reading.complain(_PROGRAM, [f"error: Invalid job format specification: {name}" for name in unknown])
    return found


def _by_partition(job: Job) -> list[Job]:
    """A waiting job once for each partition that it may start in."""
    if job.state != states.PENDING or "," not in job.partition:
        return [job]
    return [job.replace(partition=name) for name in job.partition.split(",")]


def _states(text: str | None) -> tuple[str, ...]:
    """The states of ``-t``; ("all",) for all, () for the default."""
    found = []
    for word in _words(text):
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
    words = _words(values.get("users"))
    if not words:
        return None
    found = []
    for word in words:
        uid = reading.uid_of(word)
        if uid is None:
            reading.complain(_PROGRAM, [f"error: Invalid user: {word}\n"])
        else:
            found.append(uid)
    return tuple(found)


def _nodes(text: str | None) -> frozenset[str]:
    if not text:
        return frozenset()
    from shim.core import hostlist

    try:
        names = hostlist.expand(text)
    except hostlist.HostlistError:
        raise ShimError(f"error: Invalid node name {text}") from None
    known = reading.site_cluster()
    for name in names:
        if known.node(name) is None:
            raise ShimError(f"error: Invalid node name {name}")
    return frozenset(names)


def _oldest(cluster: str) -> float:
    """Since when ended jobs are still shown (MinJobAge)."""
    return time.time() - reading.site_cluster(cluster or None).min_job_age


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word) if text else ()
