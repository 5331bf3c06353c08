"""Every field of sstat (22.05): its width, negative for left-justified, and what it shows of a step that runs."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.render import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.core.model.usage import Usage
    from shim.core.render.usage import Sizes

    Show = Callable[["Row"], str]

DEFAULT = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,"
    "consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,"
    "avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,"
    "tresusageinmintask,tresusageintot,tresusageoutave,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,"
    "tresusageoutmin,tresusageoutminnode,tresusageoutmintask,tresusageouttot"
)
PIDS = "jobid,nodelist,pids"


class Row:
    """A line: a step, or with ``pids`` what it has on one node."""

    __slots__ = ("label", "nodes", "ntasks", "pids", "sizes", "usage")

    def __init__(
        self, label: str, nodes: Sequence[str], ntasks: int, pids: Sequence[int], used: Usage, sizes: Sizes
    ) -> None:
        self.label = label
        self.nodes = nodes
        self.ntasks = ntasks
        self.pids = pids
        self.usage = used
        self.sizes = sizes


def _used(show: usage.Show) -> Show:
    return lambda row: show(row.usage, row.sizes)


def _frequency(row: Row) -> str:
    return "0" if row.label.endswith(".batch") else "Unknown"


_SHOWN: dict[str, Show] = {
    "AveCPUFreq": lambda row: "0",
    "ConsumedEnergy": lambda row: "0",
    "ConsumedEnergyRaw": lambda row: "0",
    "JobID": lambda row: row.label,
    "Nodelist": lambda row: hostlist.fold(row.nodes),
    "NTasks": lambda row: str(row.ntasks),
    "Pids": lambda row: ",".join(map(str, row.pids)),
    "ReqCPUFreq": _frequency,
    "ReqCPUFreqMin": _frequency,
    "ReqCPUFreqMax": _frequency,
    "ReqCPUFreqGov": _frequency,
    **{name: _used(show) for name, show in usage.FIELDS.items()},
}
_WIDTHS = """
AveCPU 10 AveCPUFreq 10 AveDiskRead 12 AveDiskWrite 12 AvePages 10 AveRSS 10 AveVMSize 10 ConsumedEnergy 14
ConsumedEnergyRaw 17 JobID -12 MaxDiskRead 12 MaxDiskReadNode 15 MaxDiskReadTask 15 MaxDiskWrite 12 MaxDiskWriteNode 16
MaxDiskWriteTask 16 MaxPages 8 MaxPagesNode 12 MaxPagesTask 14 MaxRSS 10 MaxRSSNode 10 MaxRSSTask 10 MaxVMSize 10
MaxVMSizeNode 14 MaxVMSizeTask 14 MinCPU 10 MinCPUNode 10 MinCPUTask 10 Nodelist 20 NTasks 8 Pids 20 ReqCPUFreq 10
ReqCPUFreqMin 13 ReqCPUFreqMax 13 ReqCPUFreqGov 13 TRESUsageInAve 14 TRESUsageInMax 14 TRESUsageInMaxNode 18
TRESUsageInMaxTask 18 TRESUsageInMin 14 TRESUsageInMinNode 18 TRESUsageInMinTask 18 TRESUsageInTot 14 TRESUsageOutAve 15
TRESUsageOutMax 15 TRESUsageOutMaxNode 19 TRESUsageOutMaxTask 19 TRESUsageOutMin 15 TRESUsageOutMinNode 19
TRESUsageOutMinTask 19 TRESUsageOutTot 15
"""
_words = _WIDTHS.split()
# Name -> (width, show), in the order of --helpformat, in which abbreviations are looked up.
FIELDS: dict[str, tuple[int, Show]] = {
    name: (int(width), _SHOWN[name]) for name, width in zip(_words[::2], _words[1::2])
}
