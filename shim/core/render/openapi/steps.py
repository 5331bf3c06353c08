"""The steps in the records of ``sacct --json``: their times and ends, and what their tasks have used."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.tres import TRES_NUMBERS
from shim.core.render import sacct_table
from shim.core.render.openapi.layout import (
    NEW,
    OLD,
    Field,
    exit_code,
    group,
    itself,
    number,
    plain,
    text,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Optional

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


def seconds(pick: Callable[[Usage], float]) -> Callable[[Accounted], float]:
    """The value of a field: what ``pick`` takes of what was used."""
    return lambda one: pick(one.usage) if one.usage is not None else 0.0


def cpu_time(spent: float, newer: bool) -> Record:
    """Seconds of CPU, whole ones and the rest."""
    return {"seconds": int(spent), "microseconds": round(spent * 1_000_000) % 1_000_000}


def _tres(tres: str, amount: int, newer: bool) -> Record:
    kind, _, name = tres.partition("/")
    return {"type": kind, "name": text(name or None, newer), "id": TRES_NUMBERS[tres], "count": amount}


def counted(one: Accounted) -> dict[str, int]:
    """What the job or step was to have, by TRES."""
    found = sacct_table.tres_counts(one.row)
    return found if one.row.step is None else {"mem": 0, **found}


def held(one: Accounted) -> dict[str, int]:
    """What it has, or had; nothing before it ran."""
    return counted(one) if one.row.ran else {}


def all_tres(counts: dict[str, int], newer: bool) -> list[Record]:
    """A list of amounts, in the order of the database."""
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
    Field("total", cpu_time, seconds(lambda usage: usage.user + usage.system)),
    Field("user", cpu_time, seconds(lambda usage: usage.user)),
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
    Field("allocated", all_tres, held),
)
_STEP_TIME = (
    Field("elapsed", plain, lambda one: one.row.elapsed),
    Field("end", number, lambda one: int(one.row.end)),
    Field("start", number, lambda one: int(one.row.start)),
    Field("suspended", plain, 0),
    Field("system", cpu_time, seconds(lambda usage: usage.system)),
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
