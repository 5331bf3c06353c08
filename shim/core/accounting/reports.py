"""The tables of sreport (22.05): ``cluster utilization``, ``user topusage``, ``job sizesbyaccount``; and the words that say what is in them."""

from __future__ import annotations

from shim.core.accounting.usage import of_job, unit_text
from shim.core.formats.integers import is_number
from shim.core.render.sacct_table import Column
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shim.core.accounting.usage import Form, Period, Ran, Utilization

    Row = dict[str, str]  # header -> text

ROOT = "root"  # the account above all others
_LINE = "-" * 80


class Report(Value):
    """A report. ``columns``: header, width (negative: of one that is wider with both time and per cent), names in ``format=`` with
    their fewest letters; those of ``usual`` are shown. ``values``, ``flags``: the words that are understood, with their fewest letters.
    """

    kind: str
    name: str
    columns: str
    usual: str
    values: str
    flags: str


_COMMON = "clusters:1 start:1 end:1 format:2"
UTILIZATION = Report(
    kind="cluster",
    name="utilization",
    columns="Cluster/9/cluster:2 TRES~Name/14/tresname:5 TRES~Count/10/trescount:5 Allocated/-8/allocated:2 Down/-8/down:1 "
    "Planned/-8/planned:7 PLND~Down/-8/planneddown:2 Idle/-8/idle:1 Over~Comm/-8/overcommitted:1 Reported/-8/reported:3",
    usual="Cluster,Allocated,Down,PLND Down,Idle,Planned,Reported",
    values=_COMMON,
    flags="all_clusters:1",
)
TOP = Report(
    kind="user",
    name="topusage",
    columns="Cluster/9/cluster:1 Login/9/login:1 Proper~Name/15/proper:1 Account/15/accounts:1 TRES~Name/14/tresname:5 "
    "Used/-8/used:1 Energy/-8/energy:1",
    usual="Cluster,Login,Proper Name,Account,Used,Energy",
    values=f"{_COMMON} accounts:1 users:1 topcount:1",
    flags="all_clusters:2 group:1",
)
SIZES = Report(
    kind="job",
    name="sizesbyaccount",
    columns="Cluster/9/cluster:1 Account/9/accounts:1",
    usual="Cluster,Account",
    values=f"{_COMMON} accounts:2 users:1 gid:2 grouping:2 jobs:1 nodes:1 partitions:2 wckeys:1",
    flags="all_clusters:2 acctasparent:5 flatview:2 printjobcount:2",
)
REPORTS = (UTILIZATION, TOP, SIZES)
_SIZES = (50, 250, 500, 1000)
INDIVIDUAL = "individual"


class Asked(Value):
    """The words of a report as they were understood; ``wrong``: lines about those that were not, which do not end it."""

    values: dict[str, tuple[str, ...]] = {}
    flags: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def asked(report: Report, words: Sequence[str]) -> Asked:
    """What ``words`` say. A word alone names a cluster."""
    values: dict[str, tuple[str, ...]] = {}
    flags: list[str] = []
    wrong: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        name = _among(report.values if equals else report.flags, key)
        if name and not equals:
            flags.append(name)
            continue
        if not equals:
            name, value = "clusters", word
        if not name:
            wrong += [f" Unknown condition: {word}", "Use keyword set to modify value"]
            continue
        values[name] = (*values.get(name, ()), *value.strip("\"'").split(","))
    return Asked(values=values, flags=tuple(flags), wrong=tuple(wrong))


def _among(table: str, word: str) -> str:
    lower = word.lower()
    for one in table.split():
        name, _, least = one.partition(":")
        if len(lower) >= int(least) and name.startswith(lower):
            return name
    return ""


def columns(report: Report, names: Sequence[str], form: Form, *, tres: bool) -> tuple[list[Column], list[str]]:
    """The columns of ``format=`` or the usual ones, and lines about names that no column has. ``tres``: resources were asked for by name."""
    known = [one.replace("~", " ").split("/") for one in report.columns.split()]
    widths = {header: _width(int(width), form) for header, width, _ in known}
    found: list[Column] = []
    wrong: list[str] = []
    for word in names:
        name, _, width = word.partition("%")
        header = next((header for header, _, table in known if _among(table, name)), "")
        if header:
            size = int(width) if is_number(width.lstrip("-"), 4) else 0
            found.append(_column(header, size or widths[header]))
        elif word:
            wrong.append(f" Unknown field '{name}'")
    if not names:
        usual = report.usual.split(",")
        if tres and "TRES Name" in widths:
            usual = [one for one in usual if one != "Energy"]
            usual.insert(usual.index("Used") if "Used" in usual else 1, "TRES Name")
        found = [_column(header, widths[header]) for header in usual]
    return found, wrong


def _width(width: int, form: Form) -> int:
    return width if width > 0 else 17 if form.wide else -width


def _column(header: str, width: int) -> Column:
    show: Callable[[Row], str] = lambda row: row.get(header, "")  # noqa: E731
    return Column(header, width, show)


def title(report: Report, over: Period, form: Form, top: int, tres: Sequence[str], *, counts: bool) -> list[str]:
    """The lines above the table; ``tres``: the resources asked for by name, ``counts``: jobs are counted, not time."""
    if report is UTILIZATION:
        lines = [f"Cluster Utilization {over}"]
    elif report is TOP:
        lines = [f"Top {top} Users {over} ({over.seconds} secs)"]
    else:
        lines = [f"Job Sizes {over} ({over.seconds} secs)"]
        lines += [f"TRES type is {tres[0]}"] if tres else []
        lines.append("Units are in number of jobs ran" if counts else f"Time reported in {unit_text(form, '')}")
    if report is not SIZES:
        lines.append(f"Usage reported in {unit_text(form, 'TRES ' if tres else 'CPU ')}")
    return [_LINE, *lines, _LINE]


def utilization(found: Sequence[Utilization], tres: Sequence[str], form: Form) -> list[Row]:
    """A row for each cluster and resource. Nodes are not told of: several jobs may share one."""
    rows: list[Row] = []
    for one in found:
        for name in tres:
            if name == "node":
                continue
            figures = one.figures(name)
            whole = figures["Reported"]
            row = {header: form.show(seconds, whole) for header, seconds in figures.items()}
            row["Reported"] = form.show(whole, one.count(name) * one.possible)
            rows.append({"Cluster": one.cluster.name, "TRES Name": name, "TRES Count": str(one.count(name)), **row})
    return rows


def top(
    ran: Mapping[str, Sequence[Ran]],
    whole: Mapping[str, Callable[[str], float]],
    tres: Sequence[str],
    form: Form,
    most: int,
    *,
    group: bool,
    proper: Callable[[str], str],
) -> list[Row]:
    """The users of each cluster, the one with most of the first resource first. ``whole``: what a cluster has reported of a resource."""
    rows: list[Row] = []
    for cluster, runs in ran.items():
        used: dict[tuple[str, str], dict[str, float]] = {}
        accounts: dict[str, list[str]] = {}
        for one in runs:
            user, account = one.job.user, one.job.request.account or ""
            own = used.setdefault((user, "" if group else account), dict.fromkeys(tres, 0.0))
            if account not in accounts.setdefault(user, []):
                accounts[user].append(account)
            for name in tres:
                own[name] += of_job(one.job, name) * one.seconds
        order = sorted(used, key=lambda who: -used[who][tres[0]])[:most]
        for user, account in order:
            shown = ",".join(accounts[user]) if group else account
            rows += [
                {
                    "Cluster": cluster,
                    "Login": user,
                    "Proper Name": proper(user),
                    "Account": shown,
                    "TRES Name": name,
                    "Used": form.show(used[user, account][name], whole[cluster](name)),
                    "Energy": form.show(0, 0),
                }
                for name in tres
            ]
    return rows


class Sizes:
    """``job sizesbyaccount``: the time, or the number, of jobs by how much of a resource they hold."""

    def __init__(self, grouping: Sequence[str], runs: Sequence[Ran], tres: str, *, counts: bool) -> None:
        self._tres = tres
        self._counts = counts
        if tuple(grouping) == (INDIVIDUAL,):
            sizes = sorted({of_job(one.job, tres) for one in runs})
            self._groups = [(size, size) for size in sizes]
        else:
            steps = sorted({int(one) for one in grouping if is_number(one, 9)}) if grouping else list(_SIZES)
            edges = [0, *[step for step in steps if step]]
            inner = [(low, edges[place + 1] - 1) for place, low in enumerate(edges[:-1])]
            self._groups = [*inner, (edges[-1], -1)]

    def columns(self, form: Form, *, named: bool) -> list[Column]:
        """A column for each size, and that of the part. ``named``: the resource was named."""
        unit = "TRES" if named else "CPUs"
        width = 20 if form.wide and not self._counts else 13
        headers = [
            f"{low} {unit}" if low == high else f">= {low} {unit}" if high < 0 else f"{low}-{high} {unit}"
            for low, high in self._groups
        ]
        return [*(_column(header, width) for header in headers), _column("% of cluster", 12)]

    def rows(
        self, ran: Mapping[str, Sequence[Ran]], account_of: Callable[[Ran], str], form: Form, *, named: bool
    ) -> list[Row]:
        """A row for each cluster and what ``account_of`` says of the jobs that ran there."""
        headers = [column.name for column in self.columns(form, named=named)[:-1]]
        rows: list[Row] = []
        for cluster, runs in ran.items():
            sums: dict[str, list[float]] = {}
            for one in runs:
                account = account_of(one)
                place = self._place(of_job(one.job, self._tres))
                if place is not None:
                    own = sums.setdefault(account, [0.0] * len(headers))
                    own[place] += 1 if self._counts else of_job(one.job, self._tres) * one.seconds
            whole = sum(sum(own) for own in sums.values())
            for account in sorted(sums):
                own = sums[account]
                shown = [f"{size:.0f}" if self._counts else form.show(size, sum(own)) for size in own]
                part = f"{100 * sum(own) / whole if whole else 0:.2f}%"
                rows.append({"Cluster": cluster, "Account": account, **dict(zip(headers, shown)), "% of cluster": part})
        return rows

    def _place(self, size: int) -> int | None:
        for place, (low, high) in enumerate(self._groups):
            if low <= size and (high < 0 or size <= high):
                return place
        return None
