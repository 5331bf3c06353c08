"""sacct's formats: ``-o name%width``, aligned columns with a line of dashes, or fields with a delimiter (-p, -P)."""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.formats.integers import is_number
from shim.core.render.sacct_fields import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.core.render.sacct_fields import Show
    from shim.core.render.sacct_rows import Row

DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,"
    "maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state,exitcode,"
    "avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,"
    "avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,"
    "tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,"
    "tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot"
)
_PER_LINE = 4  # names in a line of --helpformat


class Column:
    """A field with the width it is printed in; negative: left-justified."""

    __slots__ = ("name", "show", "width")

    def __init__(self, name: str, width: int, show: Show) -> None:
        self.name = name
        self.width = width
        self.show = show

    def aligned(self, text: str, mark: str = "+") -> str:
        """``text`` in the column's width; ``mark`` stands where something was cut off."""
        width = abs(self.width)
        if len(text) > width:
            text = text[: width - len(mark)] + mark
        return text.ljust(width) if self.width < 0 else text.rjust(width)


def columns(text: str) -> list[Column]:
    """The columns of a ``-o`` text; an empty name ends it, as in Slurm. ShimError for an unknown name."""
    found: list[Column] = []
    for word in text.split(","):
        name, percent, width = word.partition("%")
        if not name:
            break
        if name.lower() == "all":
            found += [Column(field, *FIELDS[field]) for field in FIELDS]
            continue
        column = _column(name)
        if percent:
            column.width = _width(width) or column.width
        found.append(column)
    return found


def _column(name: str) -> Column:
    """The first field whose name begins so."""
    lower = name.lower()
    for field, (width, show) in FIELDS.items():
        if field.lower().startswith(lower):
            return Column(field, width, show)
    raise ShimError(f'error: Invalid field requested: "{name}"')


def _width(text: str) -> int:
    digits = text[1:] if text.startswith("-") else text
    size = min(int(digits), 4096) if is_number(digits, 9) else 0
    return -size if text.startswith("-") else size


def table(shown: Sequence[Column], rows: Iterable[Row], *, header: bool) -> list[str]:
    """Aligned columns, each with a blank behind it."""
    lines = []
    if header:
        lines.append("".join(f"{column.aligned(column.name, '')} " for column in shown))
        lines.append("".join(f"{'-' * abs(column.width)} " for column in shown))
    lines.extend("".join([f"{column.aligned(column.show(row))} " for column in shown]) for row in rows)
    return lines


def parsable(
    shown: Sequence[Column], rows: Iterable[Row], *, header: bool, delimiter: str, trailing: bool
) -> list[str]:
    """Fields in full with a delimiter between them; ``trailing``: behind the last one too."""
    end = delimiter if trailing else ""
    lines = [delimiter.join(column.name for column in shown) + end] if header else []
    lines.extend(delimiter.join([column.show(row) for column in shown]) + end for row in rows)
    return lines


def help_format() -> list[str]:
    """The names of all fields, four in a line."""
    names = list(FIELDS)
    return [
        " ".join(f"{name:<19}" for name in names[start : start + _PER_LINE])
        for start in range(0, len(names), _PER_LINE)
    ]
