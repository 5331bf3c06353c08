"""sreport: how clusters were used, by whom, by jobs of which sizes; summed up from the jobs of the index."""

from __future__ import annotations

import os
import time

from shim.commands import output, prompt, real_slurm, site_view
from shim.commands.accounting import listing
from shim.control.index.query import JobQuery
from shim.core.accounting import reports, usage
from shim.core.errors import ShimError, Unsupported, plain
from shim.core.formats import hostlist
from shim.core.formats.datetimes import WhenError, parse_when
from shim.core.options.query_options import read
from shim.core.render.sacct_rows import earlier_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.accounting.reports import Asked, Report
    from shim.core.accounting.usage import Form, Period, Ran
    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job
    from shim.core.options.query_options import Values
    from shim.core.render.sacct_table import Column

_PROGRAM = "sreport"
_VERBS = (
    ("cluster", 2), ("exit", 1), ("help", 2), ("job", 1), ("nonparsable", 2), ("parsable", 8), ("parsable2", 9), ("quiet", 4), ("quit", 4),
    ("reservation", 2), ("time", 1), ("user", 1), ("verbose", 4), ("version", 4),
)  # fmt: skip
# Every report of Slurm by its kind, with what is said where none of them is meant.
_NAMES = {
    "cluster": ("accountutilizationbyuser", "userutilizationbyaccount", "userutilizationbywckey", "utilization", "wckeyutilizationbyuser"),
    "job": ("sizesbyaccount", "sizesbyaccountandwckey", "sizesbywckey"),
    "reservation": ("utilization",),
    "user": ("topusage",),
}  # fmt: skip
_VALID = {
    "cluster": '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", and "WCKeyUtilizationByUser"',
    "job": '"SizesByAccount, SizesByAccountAndWckey, and SizesByWckey"',
    "reservation": '"Utilization"',
    "user": '"Top"',
}
_TOP = 10


class _Run:
    """One run: the options as they are, whether it is over, and whether anything was wrong."""

    def __init__(self, values: Values, argv: Sequence[str]) -> None:
        self.values = values
        self.argv = argv
        self.over = False
        self.code = 0
        self.form: Form = usage.MINUTES
        self.set_form(values.get("time"))

    def set_form(self, word: str | None) -> None:
        """``-t`` and ``time``."""
        form = usage.form_of(word) if word is not None else self.form
        if form is None:
            output.say("", f"unknown time format {word}")
            return
        self.form = form

    def wrong(self, lines: Sequence[str]) -> None:
        """Says what was not understood; the report comes all the same."""
        if lines:
            output.say("", *lines)
            self.code = 1

    @property
    def tres(self) -> list[str]:
        """The resources asked for by name. ShimError where none of them is one."""
        text = self.values.get("tres")
        if text is None:
            return []
        names = (
            list(usage.TRES) if text.lower() == "all" else [one for one in text.lower().split(",") if one in usage.TRES]
        )
        if not names:
            raise ShimError("fatal: No valid TRES given")
        return names


def main(argv: list[str]) -> int:
    """Runs sreport; its exit code."""
    if not listing.kept_clusters() and not site_view.real_clusters():
        raise listing.no_database()  # whatever was asked
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    run = _Run(values, argv)
    if words:
        return _perform(run, words)
    return prompt.converse(_PROGRAM, lambda words: _perform(run, words), lambda: run.over)


def _perform(run: _Run, words: list[str]) -> int:
    lower = words[0].lower()
    verb = next((verb for verb, least in _VERBS if len(lower) >= least and verb.startswith(lower)), "")
    if not verb:
        raise ShimError(plain(f"invalid keyword: {words[0]}"))
    if verb in ("exit", "quit"):
        run.over = True
    elif verb in ("help", "version"):
        site_view.print_help(_PROGRAM, {verb: ""})
    elif verb in _NAMES or verb == "time":
        if len(words) < 2:
            raise ShimError(plain(f"too few arguments for keyword:{verb}"))
        if verb != "time":
            return _report(run, verb, words)
        run.set_form(words[1])
    elif verb == "nonparsable":
        run.values.said = [one for one in run.values.said if one[0] not in ("parsable", "parsable2")]
    else:
        run.values[verb] = ""
        run.values.said.append((verb, ""))
    return 0


def _report(run: _Run, kind: str, words: list[str]) -> int:
    name = next((name for name in _NAMES[kind] if name.startswith(words[1].lower())), "")
    if not name:
        raise ShimError(plain(f"Not valid report {words[1]}"), plain(f"Valid {kind} reports are, {_VALID[kind]}"))
    if kind == "cluster" and "utilization".startswith(words[1].lower()):
        name = "utilization"
    report = next((one for one in reports.REPORTS if (one.kind, one.name) == (kind, name)), None)
    if report is None:
        raise Unsupported(
            f"error: {kind} {name}: not supported here: there are cluster utilization, user topusage and job sizesbyaccount"
        )
    wanted = reports.asked(report, words[2:])
    run.code = 0
    run.wrong(wanted.wrong)
    named = wanted.values.get("clusters") or tuple(filter(None, (run.values.get("cluster") or "").split(",")))
    real = site_view.real_clusters(named) if named else []
    if real:
        return real_slurm.run(_PROGRAM, real[0], run.argv)
    every = "all_clusters" in run.values or "all_clusters" in wanted.flags
    clusters = [one for one in listing.kept_clusters() if every or not named or one.name in named]
    return _print(run, report, wanted, clusters if every or named else clusters[:1])


def _print(run: _Run, report: Report, wanted: Asked, clusters: Sequence[Cluster]) -> int:
    now = time.time()
    over = usage.period(_when(run, wanted, "start", now), _when(run, wanted, "end", now), now)
    asked = run.tres
    if report is reports.SIZES and len(asked) > 1:
        raise ShimError(
            plain(" Job report only supports a single --tres type."),
            plain(" Generate a separate report for each TRES type."),
        )
    top = _top_count(run, wanted)
    shown, wrong = reports.columns(report, wanted.values.get("format", ()), run.form, tres=bool(asked))
    run.wrong(wrong)
    jobs = {cluster.name: _jobs(cluster.name, over) for cluster in clusters}
    tres = asked or ["cpu"]
    if report is reports.SIZES:
        more, rows = _sizes(run, wanted, {name: usage.ran(found, over, now) for name, found in jobs.items()}, tres[0])
        shown = [*shown, *more]
    else:
        used = [usage.Utilization(cluster, jobs[cluster.name], over, _since(cluster.name), now) for cluster in clusters]
        if report is reports.UTILIZATION:
            rows = reports.utilization(used, tres, run.form)
        else:
            runs = {name: _of_users(usage.ran(found, over, now), wanted) for name, found in jobs.items()}
            whole = {one.cluster.name: one.reported for one in used}
            rows = reports.top(runs, whole, tres, run.form, top, group="group" in wanted.flags, proper=_proper)
    header = "noheader" not in run.values
    if header:
        counts = "printjobcount" in wanted.flags
        output.put(reports.title(report, over, run.form, top, asked, counts=counts))
    listing.put(run.values, shown, rows, header=header)
    return run.code


def _when(run: _Run, wanted: Asked, name: str, now: float) -> float | None:
    texts = wanted.values.get(name)
    if not texts:
        return None
    try:
        return float(parse_when(",".join(texts), now, past=True))
    except WhenError as error:
        output.say("", str(error))
        return None


def _top_count(run: _Run, wanted: Asked) -> int:
    text = wanted.values.get("topcount", (str(_TOP),))[-1]
    if text.isascii() and text.isdigit() and int(text[:9]):
        return int(text[:9])
    output.say(_PROGRAM, f"error: Invalid value for TopCount ({text})")
    run.code = 1
    return _TOP


def _jobs(cluster: str, over: Period) -> list[Job]:
    """The cluster's jobs that may have a part in the period, each earlier run as a job of its own."""
    reader = site_view.open_index(_PROGRAM)
    if reader is None:
        return []
    jobs = reader.jobs(JobQuery(clusters=(cluster,), active=False, ended_since=over.start))
    again = [job for job in jobs if job.restarts]
    past = reader.transitions(job.key for job in again)
    return [*jobs, *(run for job in again for run in earlier_runs(job, past.get(job.key, [])))]


def _since(cluster: str) -> float:
    """From when on the cluster's jobs are kept."""
    reader = site_view.index()
    return max(reader.first_submission(cluster), reader.pruned()) if reader is not None else time.time()


def _of_users(runs: Sequence[Ran], wanted: Asked) -> list[Ran]:
    """Those of the users and accounts that are asked for."""
    users, accounts = wanted.values.get("users"), wanted.values.get("accounts")
    return [one for one in runs if (not users or one.job.user in users) and (not accounts or _account(one) in accounts)]


def _sizes(
    run: _Run, wanted: Asked, runs: dict[str, list[Ran]], tres: str
) -> tuple[list[Column], list[dict[str, str]]]:
    users = [name for name in wanted.values.get("users", ()) if _is_user(name)]
    chosen = {
        name: [one for one in found if _fits(one.job, wanted) and (not users or one.job.user in users)]
        for name, found in runs.items()
    }
    accounts = wanted.values.get("accounts", ())
    if accounts and reports.ROOT not in accounts:
        chosen = {name: [one for one in found if _account(one) in accounts] for name, found in chosen.items()}
    apart = bool(accounts) or "flatview" in wanted.flags or "acctasparent" in wanted.flags
    named = "tres" in run.values
    every = [one for found in chosen.values() for one in found]
    sizes = reports.Sizes(wanted.values.get("grouping", ()), every, tres, counts="printjobcount" in wanted.flags)

    def group(one: Ran) -> str:
        own = _account(one)
        return own if apart and (not accounts or own in accounts) else reports.ROOT

    return sizes.columns(run.form, named=named), sizes.rows(chosen, group, run.form, named=named)


def _account(one: Ran) -> str:
    return one.job.request.account or ""


def _is_user(name: str) -> bool:
    known = site_view.uid_of(name) is not None
    if not known:
        output.say(_PROGRAM, f"error: Invalid user id: {name}")
    return known


def _fits(job: Job, wanted: Asked) -> bool:
    values = wanted.values
    nodes = set(hostlist.expand(",".join(values["nodes"]))) if "nodes" in values else None
    return (
        ("jobs" not in values or str(job.job_id) in values["jobs"] or str(job.array_job_id) in values["jobs"])
        and ("partitions" not in values or job.partition in values["partitions"])
        and ("gid" not in values or str(job.gid) in values["gid"] or job.group in values["gid"])
        and ("wckeys" not in values or (job.request.wckey or "") in values["wckeys"])
        and (nodes is None or any(share.name in nodes for share in job.shares))
    )


def _proper(user: str) -> str:
    import pwd

    try:
        return pwd.getpwnam(user).pw_gecos.partition(",")[0]
    except KeyError:
        return ""
