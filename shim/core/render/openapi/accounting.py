"""The records of ``sacct --json``: a job as accounting has it, with its steps and what they have used.

In the layout of 22.05 a job's own CPU times are 0, whatever its steps used, and ``user`` is there for a job of an association alone; here
everybody has one.
"""

from __future__ import annotations

from shim.core.formats.array_spec import ArraySpec
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
from shim.core.render.openapi.steps import STEP, Accounted, all_tres, counted, cpu_time, held, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Optional

    from shim.core.model.job import Job
    from shim.core.render.openapi.layout import Record
    from shim.core.render.sacct_rows import Row

    Measures = tuple[tuple[str, str, int], ...]


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


def _waiting_tasks(job: Job, newer: bool) -> str | None:
    """The tasks that wait. In the older layout a number with a bit for each, as wide as the whole array: ``0x2AA``."""
    if newer:
        return (job.array_tasks or "").partition("%")[0]
    if job.array_tasks is None:
        return None
    found = _tasks(job.array_tasks)
    last = _tasks(job.array_spec).last if job.array_spec else found.last
    return f"0x{sum(1 << task for task in found):0{last // 4 + 1}X}"


def _of_job(seconds: float, newer: bool) -> Record:
    return cpu_time(seconds if newer else 0.0, newer)


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
            Field("task", _waiting_tasks, lambda one: one.job, OLD),
            Field("task_id", number, lambda one: one.job.array_task_id),
            Field("task", _waiting_tasks, lambda one: one.job, NEW),
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
            Field("system", _of_job, seconds(lambda usage: usage.system)),
            Field("limit", number, lambda one: _limit(one.job)),
            Field("total", _of_job, seconds(lambda usage: usage.user + usage.system)),
            Field("user", _of_job, seconds(lambda usage: usage.user)),
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
    Field("tres", group(Field("allocated", all_tres, held), Field("requested", all_tres, counted)), itself),
    Field(
        "used_gres", text, lambda one: ",".join(facts.gres_held(share) for share in one.row.shares if share.gpus), NEW
    ),
    Field("user", plain, lambda one: one.job.user),
    Field(
        "wckey", group(Field("wckey", plain, lambda one: one.request.wckey or ""), Field("flags", plain, [])), itself
    ),
    Field("working_directory", plain, lambda one: one.request.work_dir),
)
