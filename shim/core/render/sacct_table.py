"""Every field of sacct (22.05): its width, negative for left-justified, and what it shows of a row; and the tables of ``-o``.

A figure that was never measured is empty: the memory of a step, say, that ended before the first sample.
"""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.formats import hostlist
from shim.core.formats.integers import is_number
from shim.core.formats.sizes import show_memory
from shim.core.formats.times import show_clock
from shim.core.formats.tres import GPUS
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.sacct_rows import exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from shim.core.model.job import Job
    from shim.core.model.usage import Usage
    from shim.core.render.sacct_rows import Row

    Show = Callable[[Row], str]
    Field = tuple[int, Callable[[Any], str]]  # width, and what is shown of a row


def _job(show: Callable[[Job], str]) -> Show:
    """A field that only the line of the job itself has."""
    return lambda row: show(row.job) if row.step is None else ""


def _both(job: str, step: str) -> Show:
    """A constant: one for jobs, one for steps."""
    return lambda row: job if row.step is None else step


def _cpu(show: Callable[[Usage], float]) -> Show:
    """Seconds of CPU."""
    return lambda row: _show_seconds(show(row.usage) if row.usage is not None else 0.0)


def _used(name: str) -> Show:
    """What a step that has ended has used; a job has none. Empty too for what is never recorded (``BlockID``)."""

    def shown(row: Row) -> str:
        if row.step is None or row.usage is None:
            return ""
        from shim.core.render import usage  # few listings have such a field

        show = usage.FIELDS.get(name)
        return "" if show is None else show(row.usage, usage.Sizes(row.view.units, raw=row.view.noconvert, in_mib=True))

    return shown


def _show_seconds(seconds: float) -> str:
    """``01:02.345`` for what is less than an hour and no whole number of seconds."""
    milliseconds = int(seconds * 1000) % 1000
    if seconds >= 3600 or not milliseconds:
        return show_clock(int(seconds))
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}.{milliseconds:03d}"


def _state(row: Row) -> str:
    by = row.cancelled_by
    return f"{row.state} by {by}" if row.state == states.CANCELLED and by is not None else row.state


def _stamp(row: Row, epoch: float) -> str:
    return row.view.stamp(epoch, "Unknown")


def _submit(row: Row) -> str:
    return _stamp(row, row.job.submit_time if row.step is None else row.step.start_time)


def _eligible(row: Row) -> str:
    return _stamp(row, row.job.eligible_time if row.step is None else row.step.start_time)


def reserved(row: Row) -> int:
    """Seconds that the job has waited since it could have started."""
    eligible = row.job.eligible_time
    if not eligible:
        return 0
    return max(0, int(row.start if row.ran and row.start else row.end or row.view.now) - int(eligible))


def nodes(row: Row) -> str:
    """The nodes, folded; ``None assigned`` of a job without any."""
    if row.step is not None:
        return hostlist.fold(row.step.nodes)
    return facts.nodelist(row.job) or "None assigned"


def node_count(row: Row) -> int:
    """The number of nodes; of a job that waits the number that it needs."""
    return row.job.nodes if row.step is None else len(row.step.nodes) or 1


def _memory(row: Row) -> int:
    """MiB: of a step what its nodes' shares have."""
    if row.step is None:
        return facts.memory_total(row.job, row.view)
    return sum(share.memory for share in row.shares)


def tres_counts(row: Row) -> dict[str, int]:
    """What is counted of a job or a step, by its name, in the order of the names; memory in MiB, billing of jobs only."""
    found = {"billing": row.cpus} if row.step is None else {}
    found["cpu"] = row.cpus
    found[GPUS] = sum(len(share.gpus) for share in row.shares) if row.ran else facts.gpu_total(row.job)
    found["mem"] = _memory(row)
    found["node"] = node_count(row)
    return {name: amount for name, amount in found.items() if amount or name not in (GPUS, "mem")}


def _tres(row: Row) -> str:
    """``billing=4,cpu=4,gres/gpu=2,mem=4000M,node=2``."""
    units = row.view.units
    return ",".join(
        f"{name}={show_size(amount, units) if name == 'mem' else amount}" for name, amount in tres_counts(row).items()
    )


def show_size(mib: int, units: str = "") -> str:
    """A size in the largest unit in which it is a whole number, or in ``units``."""
    if not mib or not units:
        return show_memory(mib)
    from shim.core.render.usage import UNITS

    amount = mib / 1024.0 ** (UNITS.index(units) - 1)
    return f"{int(amount)}{units}" if amount == int(amount) else f"{amount:.2f}{units}"


def _limit(job: Job, unlimited: str, show: Callable[[int], str]) -> str:
    if job.request.time_limit is None and not job.shares:
        return "Partition_Limit"
    if job.time_limit is None or job.time_limit == INFINITE or job.time_limit < 0:
        return unlimited
    return show(job.time_limit)


def reason(job: Job) -> str:
    """Why a job waits, or waited until it was cancelled. For a job that ran the state says enough."""
    return "None" if job.shares else job.reason


def layout(row: Row) -> str:
    """How a step's tasks lie on its nodes; "" of a job."""
    if row.step is None:
        return ""
    return "Block" if row.step.step_id.isdigit() else "Unknown"


def _frequency(row: Row) -> str:
    return "0" if row.step is not None and not row.step.step_id.isdigit() else "Unknown"


_SHOWN: dict[str, Show] = {
    "Account": lambda row: row.job.request.account or "",
    "AllocCPUS": lambda row: str(row.cpus),
    "AllocNodes": lambda row: str(node_count(row) if row.ran else 0),
    "AllocTRES": lambda row: _tres(row) if row.ran else "",
    "AssocID": _both("0", ""),
    "AveCPUFreq": _both("", "0"),
    "Cluster": lambda row: row.job.cluster,
    "Comment": _job(lambda job: job.comment),
    "Constraints": _job(lambda job: job.request.constraint or ""),
    "ConsumedEnergy": _both("", "0"),
    "ConsumedEnergyRaw": _both("", "0"),
    "CPUTime": lambda row: show_clock(row.elapsed * row.cpus),
    "CPUTimeRAW": lambda row: str(row.elapsed * row.cpus),
    "DBIndex": lambda row: str(row.job.key),
    "DerivedExitCode": _job(lambda job: exit_code(job.derived_status)),
    "Elapsed": lambda row: show_clock(row.elapsed),
    "ElapsedRaw": lambda row: str(row.elapsed),
    "Eligible": _eligible,
    "End": lambda row: _stamp(row, row.end),
    "ExitCode": lambda row: exit_code(row.status),
    "Flags": _job(lambda job: "SchedMain,StartRecieved" if job.shares else ""),
    "GID": _job(lambda job: str(job.gid)),
    "Group": _job(lambda job: job.group),
    "JobID": lambda row: row.label,
    "JobIDRaw": lambda row: row.raw_label,
    "JobName": lambda row: row.job.name if row.step is None else row.step.name,
    "Layout": layout,
    "NCPUS": lambda row: str(row.cpus),
    "NNodes": lambda row: str(node_count(row)),
    "NodeList": nodes,
    "NTasks": lambda row: "" if row.step is None else str(row.step.tasks),
    "Partition": _job(lambda job: job.partition),
    "Priority": _job(lambda job: str(job.priority)),
    "QOS": _job(lambda job: job.request.qos or "normal"),
    "QOSRAW": _job(lambda job: "1"),
    "Reason": _job(reason),
    "ReqCPUFreq": _frequency,
    "ReqCPUFreqGov": _frequency,
    "ReqCPUFreqMax": _frequency,
    "ReqCPUFreqMin": _frequency,
    "ReqCPUS": lambda row: str(row.cpus),
    "ReqMem": lambda row: show_size(_memory(row), row.view.units) if row.step is None else "",
    "ReqNodes": lambda row: str(node_count(row)),
    "ReqTRES": lambda row: _tres(row) if row.step is None else "",
    "Reservation": _job(lambda job: job.request.reservation or ""),
    "Reserved": lambda row: show_clock(reserved(row)) if row.step is None else "",
    "ResvCPU": lambda row: show_clock(reserved(row) * row.cpus) if row.step is None else "",
    "ResvCPURAW": lambda row: str(reserved(row) * row.cpus) if row.step is None else "",
    "Start": lambda row: _stamp(row, row.start),
    "State": _state,
    "Submit": _submit,
    "SubmitLine": _job(lambda job: job.submit_line),
    "Suspended": lambda row: "00:00:00",
    "SystemComment": _job(lambda job: job.system_comment),
    "SystemCPU": _cpu(lambda usage: usage.system),
    "Timelimit": _job(lambda job: _limit(job, "UNLIMITED", lambda minutes: show_clock(minutes * 60))),
    "TimelimitRaw": _job(lambda job: _limit(job, "UNLIMITED", str)),
    "TotalCPU": _cpu(lambda usage: usage.user + usage.system),
    "UID": _job(lambda job: str(job.uid)),
    "User": _job(lambda job: job.user),
    "UserCPU": _cpu(lambda usage: usage.user),
    "WCKey": _job(lambda job: job.request.wckey or ""),
    "WCKeyID": _both("0", ""),
    "WorkDir": _job(lambda job: job.request.work_dir),
}
_WIDTHS = """
Account 10 AdminComment 15 AllocCPUS 10 AllocNodes 10 AllocTRES 10 AssocID 7 AveCPU 10 AveCPUFreq 10 AveDiskRead 14
AveDiskWrite 14 AvePages 10 AveRSS 10 AveVMSize 10 BlockID 16 Cluster 10 Comment 14 Constraints 19 ConsumedEnergy 14
ConsumedEnergyRaw 17 Container 19 CPUTime 10 CPUTimeRAW 10 DBIndex -21 DerivedExitCode 15 Elapsed 10 ElapsedRaw 10
Eligible 19 End 19 ExitCode 8 Flags 19 GID 6 Group 9 JobID -12 JobIDRaw -12 JobName 10 Layout 9 MaxDiskRead 12
MaxDiskReadNode 15 MaxDiskReadTask 15 MaxDiskWrite 12 MaxDiskWriteNode 16 MaxDiskWriteTask 16 MaxPages 8 MaxPagesNode 12
MaxPagesTask 14 MaxRSS 10 MaxRSSNode 10 MaxRSSTask 10 MaxVMSize 10 MaxVMSizeNode 14 MaxVMSizeTask 14 McsLabel 12
MinCPU 10 MinCPUNode 10 MinCPUTask 10 NCPUS 10 NNodes 8 NodeList 15 NTasks 8 Partition 10 Priority 10 QOS 10 QOSRAW 6
Reason 22 ReqCPUFreq 10 ReqCPUFreqGov 13 ReqCPUFreqMax 13 ReqCPUFreqMin 13 ReqCPUS 8 ReqMem 10 ReqNodes 8 ReqTRES 10
Reservation 20 ReservationId 8 Reserved 10 ResvCPU 10 ResvCPURAW 10 Start 19 State 10 Submit 19 SubmitLine 20
Suspended 10 SystemComment 15 SystemCPU 10 Timelimit 10 TimelimitRaw 10 TotalCPU 10 TRESUsageInAve 14 TRESUsageInMax 14
TRESUsageInMaxNode 18 TRESUsageInMaxTask 18 TRESUsageInMin 14 TRESUsageInMinNode 18 TRESUsageInMinTask 18
TRESUsageInTot 14 TRESUsageOutAve 15 TRESUsageOutMax 15 TRESUsageOutMaxNode 19 TRESUsageOutMaxTask 19 TRESUsageOutMin 15
TRESUsageOutMinNode 19 TRESUsageOutMinTask 19 TRESUsageOutTot 15 UID 6 User 9 UserCPU 10 WCKey 10 WCKeyID 10 WorkDir 20
"""


def _fields() -> dict[str, tuple[int, Show]]:
    words = _WIDTHS.split()
    return {name: (int(width), _SHOWN.get(name) or _used(name)) for name, width in zip(words[::2], words[1::2])}


# Name -> (width, show), in the order of --helpformat, in which abbreviations are looked up.
FIELDS = _fields()

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

    def __init__(self, name: str, width: int, show: Callable[[Any], str]) -> None:
        self.name = name
        self.width = width
        self.show = show

    def aligned(self, text: str, mark: str = "+") -> str:
        """``text`` in the column's width; ``mark`` stands where something was cut off."""
        width = abs(self.width)
        if len(text) > width:
            text = text[: width - len(mark)] + mark
        return text.ljust(width) if self.width < 0 else text.rjust(width)


def columns(text: str, fields: Mapping[str, Field] = FIELDS, every: str = "all") -> list[Column]:
    """The columns of a ``-o`` text; an empty name ends it, as in Slurm. ShimError for an unknown name. ``every``: the name of all of them."""
    found: list[Column] = []
    for word in text.split(","):
        name, percent, width = word.partition("%")
        if not name:
            break
        if name.lower() == every:
            found += [Column(field, *fields[field]) for field in fields]
            continue
        column = _column(name, fields)
        if percent:
            column.width = _width(width) or column.width
        found.append(column)
    return found


def _column(name: str, fields: Mapping[str, Field]) -> Column:
    """The first field whose name begins so."""
    lower = name.lower()
    for field, (width, show) in fields.items():
        if field.lower().startswith(lower):
            return Column(field, width, show)
    raise ShimError(f'error: Invalid field requested: "{name}"')


def _width(text: str) -> int:
    digits = text[1:] if text.startswith("-") else text
    size = min(int(digits), 4096) if is_number(digits, 9) else 0
    return -size if text.startswith("-") else size


def table(shown: Sequence[Column], rows: Iterable[Any], *, header: bool) -> list[str]:
    """Aligned columns, each with a blank behind it."""
    lines = []
    if header:
        lines.append("".join(f"{column.aligned(column.name, '')} " for column in shown))
        lines.append("".join(f"{'-' * abs(column.width)} " for column in shown))
    lines.extend("".join([f"{column.aligned(column.show(row))} " for column in shown]) for row in rows)
    return lines


def parsable(
    shown: Sequence[Column], rows: Iterable[Any], *, header: bool, delimiter: str, trailing: bool
) -> list[str]:
    """Fields in full with a delimiter between them; ``trailing``: behind the last one too."""
    end = delimiter if trailing else ""
    lines = [delimiter.join(column.name for column in shown) + end] if header else []
    lines.extend(delimiter.join([column.show(row) for column in shown]) + end for row in rows)
    return lines


def help_format(fields: Iterable[str] = FIELDS, width: int = 19) -> list[str]:
    """The names of all fields, four in a line, each in that width."""
    names = list(fields)
    return [
        " ".join(f"{name:<{width}}" for name in names[start : start + _PER_LINE])
        for start in range(0, len(names), _PER_LINE)
    ]
