"""The records of ``sacct --json``: a job as accounting has it, with its steps and what they have used.

In the layout of 22.05 a job's own CPU times are 0, whatever its steps used, and ``user`` is there for a job of an association alone; here
everybody has one.
"""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.array_spec import ArraySpec
from shim.core.formats.tres import TRES_NUMBERS
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render import sacct_table
from shim.core.render.openapi.layout import (
    NEW,
    OLD,
    Field,
    count,
    each,
    exit_code,
    group,
    itself,
    number,
    plain,
    record,
    text,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Optional

    from shim.core.model.job import Job
    from shim.core.model.usage import Spread, Usage
    from shim.core.render.openapi.layout import Kind, Record
    from shim.core.render.sacct_rows import Row

    Measures = tuple[tuple[str, str, int], ...]

# How 22.05 reads a step's CPU frequency that is not set.
_EVERY_GOVERNOR = ["Conservative", "Performance", "PowerSave", "OnDemand", "UserSpace"]
_KIB = 1024
# What is measured of tasks: the TRES, the measure, and how many of the TRES' units one of the measure's is.
_TAKEN_IN = (
    *(("cpu", "cpu", 1000), ("mem", "memory", _KIB), ("energy", "", 1), ("fs/disk", "read", 1)),
    *(("vmem", "virtual", _KIB), ("pages", "pages", 1)),
)
_GIVEN_OUT = (("energy", "", 1), ("fs/disk", "written", 1))


class Accounted:
    """A row of sacct with the rows of its steps. ``name_of``: a uid's user, None for one that is not known."""

    __slots__ = ("job", "name_of", "request", "row", "steps", "usage")

    def __init__(self, row: Row, name_of: Callable[[int], Optional[str]], steps: Iterable[Row] = ()) -> None:
        self.row = row
        self.job = row.job
        self.request = row.job.request
        self.usage = row.usage
        self.name_of = name_of
        self.steps = [Accounted(step, name_of) for step in steps]

    @property
    def is_numbered(self) -> bool:
        """Whether this is a step that an srun made."""
        return self.row.step is not None and self.row.step.step_id.isdigit()

    @property
    def killed_by(self) -> str | None:
        """Who ended it."""
        return None if self.row.cancelled_by is None else self.name_of(self.row.cancelled_by)


def accounting_records(rows: Iterable[Row], name_of: Callable[[int], Optional[str]], *, newer: bool) -> list[Record]:
    """The records of the jobs among the rows, by id and run; a row of a step whose job is not among them makes a job of that step alone."""
    runs: dict[tuple[int, int], tuple[Row, list[Row]]] = {}
    for row in rows:
        _, steps = runs.setdefault((row.job.key, row.job.restarts), (row, []))
        if row.step is not None:
            steps.append(row)
    found = sorted(runs.values(), key=lambda run: (run[0].job.job_id, run[0].job.restarts))
    return [record(JOB, Accounted(_whole(row), name_of, steps), newer) for row, steps in found]


def _whole(row: Row) -> Row:
    return row if row.step is None else type(row)(row.job, None, row.view)


def _tasks(spec: str) -> ArraySpec:
    return ArraySpec.parse(spec, max_size=1 << 32)


def _throttle(job: Job) -> int:
    """How many tasks may run at a time; of the record that has the array's own id."""
    return _tasks(job.array_spec).throttle if job.array_spec and job.job_id == job.array_job_id else 0


def _waiting_tasks(tasks: str | None, newer: bool) -> str | None:
    """The tasks that wait. In the older layout a number with a bit for each: ``0x2AA``."""
    if tasks is None or newer:
        return (tasks or "").partition("%")[0] if newer else None
    found = _tasks(tasks)
    return f"0x{sum(1 << task for task in found):0{found.last // 4 + 1}X}"


def _seconds(pick: Callable[[Usage], float]) -> Callable[[Accounted], Any]:
    return lambda one: pick(one.usage) if one.usage is not None else 0.0


def _cpu_time(seconds: float, newer: bool) -> Record:
    return {"seconds": int(seconds), "microseconds": round(seconds * 1_000_000) % 1_000_000}


def _of_job(seconds: float, newer: bool) -> Record:
    return _cpu_time(seconds if newer else 0.0, newer)


def _tres(tres: str, amount: int, newer: bool) -> Record:
    kind, _, name = tres.partition("/")
    return {"type": kind, "name": text(name or None, newer), "id": TRES_NUMBERS[tres], "count": amount}


def _counted(one: Accounted) -> dict[str, int]:
    found = sacct_table.tres_counts(one.row)
    return found if one.row.step is None else {"mem": 0, **found}


def _held(one: Accounted) -> dict[str, int]:
    return _counted(one) if one.row.ran else {}


def _all_tres(counts: dict[str, int], newer: bool) -> list[Record]:
    return [_tres(name, counts[name], newer) for name in TRES_NUMBERS if name in counts]


def _measured(one: Accounted, measures: Measures) -> list[tuple[str, int, Optional[Spread]]]:
    """What was seen of the step's tasks: TRES, factor, spread. Energy, which has no spread, goes with the others."""
    usage = one.usage
    seen = [(tres, factor, getattr(usage, name, None) if name else None) for tres, name, factor in measures]
    return [part for part in seen if part[2] is not None or part[0] == "energy"]


def _extremes(measures: Measures, side: str) -> Kind:
    """The most or the least that one task had, and which; nothing where nothing was seen."""

    def written(one: Accounted, newer: bool) -> list[Record]:
        found = _measured(one, measures)
        if one.usage is None or len(found) < 2:
            return []
        rows = [
            _tres(tres, int(getattr(spread, side) * factor) if spread is not None else 0, newer)
            for tres, factor, spread in found
        ]
        if not newer:
            first = _step_nodes(one)[0] if _step_nodes(one) else ""
            for row, (_, _, spread) in zip(rows, found):
                row["task"] = getattr(spread, f"{side}_task") if spread is not None else 0
                row["node"] = getattr(spread, f"{side}_node") if spread is not None else first
        return rows

    return written


def _sums(measures: Measures, *, of_each: bool) -> Kind:
    """What all tasks had together, or one of them on average; nothing of a step that has not ended."""

    def written(one: Accounted, newer: bool) -> list[Record]:
        if not one.row.end:
            return []
        tasks = max(one.usage.tasks, 1) if one.usage is not None and of_each else 1
        return [
            _tres(tres, int(spread.total * factor / tasks) if spread is not None else 0, newer)
            for tres, factor, spread in _measured(one, measures)
        ]

    return written


def _used(measures: Measures) -> tuple[Field, ...]:
    return (
        Field("max", _extremes(measures, "most"), itself),
        Field("min", _extremes(measures, "least"), itself),
        Field("average", _sums(measures, of_each=True), itself),
        Field("total", _sums(measures, of_each=False), itself),
    )


def _governor(one: Accounted, newer: bool) -> Any:
    if newer:
        return "0"
    return _EVERY_GOVERNOR if one.is_numbered else []


def _step_id(one: Accounted, newer: bool) -> Any:
    if newer:
        return one.row.raw_label
    return int(_id(one)) if one.is_numbered else _id(one)


def _id(one: Accounted) -> str:
    return one.row.step.step_id if one.row.step is not None else ""


def _step_nodes(one: Accounted) -> list[str]:
    return list(one.row.step.nodes) if one.row.step is not None else []


_SPENT = (
    Field("total", _cpu_time, _seconds(lambda usage: usage.user + usage.system)),
    Field("user", _cpu_time, _seconds(lambda usage: usage.user)),
)
_FREQUENCY = (
    Field("min", number, lambda one: None if one.is_numbered else 0),
    Field("max", number, lambda one: None if one.is_numbered else 0),
)
_PATHS = ("stderr", "stdin", "stdout", "stderr_expanded", "stdin_expanded", "stdout_expanded")

_STEP_NODES = (
    Field("list", plain, _step_nodes, OLD),
    Field("count", plain, lambda one: len(_step_nodes(one)) or 1),
    Field("range", plain, lambda one: hostlist.fold(_step_nodes(one))),
    Field("list", plain, _step_nodes, NEW),
)
_STEP_TRES = (
    Field("requested", group(*_used(_TAKEN_IN)), itself),
    Field("consumed", group(*_used(_GIVEN_OUT)), itself),
    Field("allocated", _all_tres, _held),
)
_STEP_TIME = (
    Field("elapsed", plain, lambda one: one.row.elapsed),
    Field("end", number, lambda one: int(one.row.end)),
    Field("start", number, lambda one: int(one.row.start)),
    Field("suspended", plain, 0),
    Field("system", _cpu_time, _seconds(lambda usage: usage.system)),
    Field("limit", number, lambda one: one.row.step.time_limit, NEW),
    *_SPENT,
)
STEP = (
    Field("nodes", group(*_STEP_NODES), itself, OLD),
    Field("tres", group(*_STEP_TRES), itself, OLD),
    Field("time", group(*_STEP_TIME), itself),
    Field("exit_code", exit_code, lambda one: one.row.status),
    Field("nodes", group(*_STEP_NODES), itself, NEW),
    Field("tasks", group(Field("count", plain, lambda one: one.row.step.tasks)), itself),
    Field("pid", text, None),
    Field(
        "CPU",
        group(Field("requested_frequency", group(*_FREQUENCY), itself), Field("governor", _governor, itself)),
        itself,
    ),
    Field("kill_request_user", text, lambda one: one.killed_by),
    Field("state", words, lambda one: [one.row.state]),
    Field(
        "statistics",
        group(
            Field("CPU", group(Field("actual_frequency", plain, 0)), itself),
            Field("energy", group(Field("consumed", number, 0)), itself),
        ),
        itself,
    ),
    Field(
        "step",
        group(
            Field("job_id", plain, lambda one: one.job.job_id, OLD),
            Field("het", group(Field("component", plain, None)), itself, OLD),
            Field("id", _step_id, itself),
            Field("name", plain, lambda one: one.row.step.name),
            *(Field(name, text, None, NEW) for name in _PATHS),
        ),
        itself,
    ),
    Field("task", group(Field("distribution", plain, lambda one: sacct_table.layout(one.row))), itself),
    Field("tres", group(*_STEP_TRES), itself, NEW),
)


def _association(one: Accounted, newer: bool) -> Record | None:
    """Whose share the job is charged to; of a job that names no account there is none."""
    account = one.request.account
    if not newer and not account:
        return None
    found = {
        "account": account or "",
        "cluster": one.job.cluster,
        "partition": text(None, newer),
        "user": one.job.user,
    }
    return {**found, "id": 0} if newer else found


def _limit(job: Job) -> int | None:
    """Minutes."""
    return INFINITE if job.time_limit is not None and job.time_limit < 0 else job.time_limit


def _memory(per_cpu: bool) -> Callable[[Accounted], int | None]:
    def found(one: Accounted) -> int | None:
        amount, of_cpus = facts.min_memory(one.job, one.row.view)
        return amount if of_cpus == per_cpu else None

    return found


def _how_started(one: Accounted, newer: bool) -> list[str]:
    """22.05 takes the mark of a start that was heard of for another one."""
    if not one.job.shares:
        return []
    return ["STARTED_ON_SCHEDULE", "START_RECEIVED"] if newer else ["CLEAR_SCHEDULING", "STARTED_ON_SCHEDULE"]


def _path(place: int, *, expanded: bool) -> Callable[[Accounted], str]:
    """Output (0), error (1) or input (2) of a batch job, as it was asked for or as it is."""

    def found(one: Accounted) -> str:
        if one.request.kind != "batch":
            return ""
        return (facts.files(one.job) if expanded else facts.files_asked(one.job))[place]

    return found


_TASKS = group(Field("tasks", plain, lambda one: _throttle(one.job)))
_LIMITS = group(Field("max", group(Field("running", _TASKS, itself)), itself))
JOB = (
    Field("account", text, lambda one: one.request.account),
    Field(
        "comment",
        group(
            Field("administrator", text, None),
            Field("job", text, lambda one: one.job.comment or None),
            Field("system", text, lambda one: one.job.system_comment or None),
        ),
        itself,
    ),
    Field("allocation_nodes", plain, lambda one: sacct_table.node_count(one.row) if one.row.ran else 0),
    Field(
        "array",
        group(
            Field("job_id", plain, lambda one: one.job.array_job_id),
            Field("limits", _LIMITS, itself),
            Field("task", _waiting_tasks, lambda one: one.job.array_tasks, OLD),
            Field("task_id", number, lambda one: one.job.array_task_id),
            Field("task", _waiting_tasks, lambda one: one.job.array_tasks, NEW),
        ),
        itself,
    ),
    Field("association", _association, itself),
    Field("block", text, None, NEW),
    Field("cluster", plain, lambda one: one.job.cluster),
    Field("constraints", plain, lambda one: one.request.constraint or ""),
    Field("container", text, lambda one: one.request.container.get("container") or None),
    Field("derived_exit_code", exit_code, lambda one: one.job.derived_status),
    Field(
        "time",
        group(
            Field("elapsed", plain, lambda one: one.row.elapsed),
            Field("eligible", plain, lambda one: int(one.job.eligible_time)),
            Field("end", plain, lambda one: int(one.row.end)),
            Field("planned", number, lambda one: sacct_table.reserved(one.row), NEW),
            Field("start", plain, lambda one: int(one.row.start)),
            Field("submission", plain, lambda one: int(one.job.submit_time)),
            Field("suspended", plain, 0),
            Field("system", _of_job, _seconds(lambda usage: usage.system)),
            Field("limit", number, lambda one: _limit(one.job)),
            Field("total", _of_job, _seconds(lambda usage: usage.user + usage.system)),
            Field("user", _of_job, _seconds(lambda usage: usage.user)),
        ),
        itself,
    ),
    Field("exit_code", exit_code, lambda one: one.row.status),
    Field("extra", text, None, NEW),
    Field("failed_node", text, None, NEW),
    Field("flags", _how_started, itself),
    Field("group", plain, lambda one: one.job.group),
    Field(
        "het",
        group(
            Field("job_id", plain, lambda one: one.job.het_job_id),
            Field("job_offset", number, lambda one: one.job.het_offset if one.job.het_job_id else None),
        ),
        itself,
    ),
    Field("job_id", plain, lambda one: one.job.job_id),
    Field("name", plain, lambda one: one.job.name),
    Field("licenses", text, lambda one: one.request.licenses, NEW),
    Field("mcs", group(Field("label", plain, "")), itself),
    Field("nodes", plain, lambda one: sacct_table.nodes(one.row)),
    Field("partition", plain, lambda one: one.job.partition),
    Field("hold", plain, lambda one: bool(one.job.held), NEW),
    Field("priority", number, lambda one: one.job.priority),
    Field("qos", plain, lambda one: one.request.qos or "normal"),
    Field("qosreq", text, lambda one: one.request.qos, NEW),
    Field(
        "required",
        group(
            Field("CPUs", plain, lambda one: one.row.cpus),
            Field("memory", plain, lambda one: facts.min_memory(one.job, one.row.view)[0], OLD),
            Field("memory_per_cpu", number, _memory(per_cpu=True), NEW),
            Field("memory_per_node", number, _memory(per_cpu=False), NEW),
        ),
        itself,
    ),
    Field("kill_request_user", text, lambda one: one.killed_by),
    Field("restart_cnt", plain, lambda one: one.job.restarts, NEW),
    Field(
        "reservation",
        group(
            Field("id", plain, 0),
            Field("name", count, 0, OLD),  # 22.05 writes a number
            Field("name", text, lambda one: one.request.reservation, NEW),
            Field("requested", text, lambda one: one.request.reservation, NEW),
        ),
        itself,
    ),
    Field("script", text, None, NEW),
    Field("segment_size", plain, 0, NEW),
    Field("stdin_expanded", plain, _path(2, expanded=True), NEW),
    Field("stdout_expanded", plain, _path(0, expanded=True), NEW),
    Field("stderr_expanded", plain, _path(1, expanded=True), NEW),
    Field("stdout", plain, _path(0, expanded=False), NEW),
    Field("stderr", plain, _path(1, expanded=False), NEW),
    Field("stdin", plain, _path(2, expanded=False), NEW),
    Field(
        "state",
        group(
            Field("current", words, lambda one: [one.row.state]),
            Field("reason", plain, lambda one: sacct_table.reason(one.job)),
        ),
        itself,
    ),
    Field("steps", each(group(*STEP)), lambda one: one.steps),
    Field("submit_line", plain, lambda one: one.job.submit_line, NEW),
    Field("tres", group(Field("allocated", _all_tres, _held), Field("requested", _all_tres, _counted)), itself),
    Field(
        "used_gres", text, lambda one: ",".join(facts.gres_held(share) for share in one.row.shares if share.gpus), NEW
    ),
    Field("user", plain, lambda one: one.job.user),
    Field(
        "wckey", group(Field("wckey", plain, lambda one: one.request.wckey or ""), Field("flags", plain, [])), itself
    ),
    Field("working_directory", plain, lambda one: one.request.work_dir),
)
