"""``scontrol show node`` and ``scontrol show partition``."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.sizes import show_memory
from shim.core.formats.tres import tres_text
from shim.core.model.request import INFINITE
from shim.core.render.scontrol_job import join_record, show_limit
from shim.core.render.sinfo_fields import gres_text, gres_used
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.render.node_state import NodeUse
    from shim.core.render.view import View


class Machine(Value):
    """What only the machine behind the nodes can tell. Times are seconds since the epoch, memory MiB; None = unknown."""

    arch: str = "unknown"
    system: str = "unknown"  # "Linux 6.1.0 #1 SMP"
    boot_time: float = 0
    load: float | None = None
    free_memory: int | None = None


def node_record(
    cluster: Cluster, use: NodeUse, machine: Machine, view: View, *, details: bool = False, oneliner: bool = False
) -> str:
    """A node's record, with the newline (``oneliner``: nothing) that ends it."""
    node = use.node
    load = "N/A" if machine.load is None else f"{machine.load:.2f}"
    free = "N/A" if machine.free_memory is None else str(machine.free_memory)
    features = ",".join(node.features) or "(null)"
    partitions = ",".join(one.name for one in cluster.partitions if node.name in one.nodes)
    lines = [
        f"NodeName={node.name} Arch={machine.arch} CoresPerSocket={node.cores_per_socket} ",
        f"CPUAlloc={use.cpus} CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad={load}",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={gres_text(node) or '(null)'}",
        *([f"GresUsed={gres_used(use) or '(null)'}"] if details else []),
        f"NodeAddr={node.address or node.name} NodeHostName={node.name} Version={cluster.version}",
        f"OS={machine.system} ",
        f"RealMemory={node.memory} AllocMem={use.memory} FreeMem={free} Sockets={node.sockets} Boards=1",
        f"State={use.complete} ThreadsPerCore={node.threads_per_core} TmpDisk={node.tmp_disk} Weight={node.weight}"
        " Owner=N/A MCS_label=N/A",
        f"Partitions={partitions} ",
        f"BootTime={view.stamp(machine.boot_time, 'None')} SlurmdStartTime={view.stamp(machine.boot_time, 'None')}",
        f"LastBusyTime={view.stamp(view.now if use.jobs else machine.boot_time, 'Unknown')}",
        f"CfgTRES={_configured(node)}",
        f"AllocTRES={_allocated(use)}",
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
        *([f"Comment={node.comment}"] if node.comment else []),
        *([f"Extra={node.extra}"] if node.extra else []),
        *([f"Reason={_reason(node, view)}"] if node.reason else []),
    ]
    return join_record(lines, oneliner) + ("" if oneliner else "\n")


def _reason(node: Node, view: View) -> str:
    return f"{node.reason} [{node.reason_user}@{view.stamp(node.reason_time)}]" if node.reason_user else node.reason


def _configured(node: Node) -> str:
    words = [f"cpu={node.cpus}", f"mem={show_memory(node.memory)}", f"billing={node.cpus}"]
    return ",".join(words + ([f"gres/gpu={node.gpus}"] if node.gpus else []))


def _allocated(use: NodeUse) -> str:
    gpus = sum(len(held) for held in use.gpus.values())
    words = [
        f"cpu={use.cpus}" if use.cpus else "",
        f"mem={show_memory(use.memory)}" if use.memory else "",
        f"gres/gpu={gpus}" if gpus else "",
    ]
    return ",".join(word for word in words if word)


def partition_record(cluster: Cluster, partition: Partition, *, oneliner: bool = False) -> str:
    """A partition's record, with the newline (``oneliner``: nothing) that ends it."""
    nodes = [node for node in cluster.nodes if node.name in partition.nodes]
    cpus = sum(node.cpus for node in nodes)
    most = "UNLIMITED" if partition.max_nodes is None else str(partition.max_nodes)
    default_time = "NONE" if partition.default_time is None else show_limit(partition.default_time)
    max_time = INFINITE if partition.max_time is None else partition.max_time
    over = f"{cluster.over_time}" if cluster.over_time else "NONE"
    lines = [
        f"PartitionName={partition.name}",
        f"AllowGroups={partition.allow_groups} {_allowed('Accounts', partition.allow_accounts, partition.deny_accounts)}"
        f" {_allowed('Qos', partition.allow_qos, partition.deny_qos)}",
        f"AllocNodes={partition.alloc_nodes} Default={_yes(partition.default)} QoS=N/A",
        f"DefaultTime={default_time} DisableRootJobs={_yes(partition.disable_root_jobs)} ExclusiveUser=NO GraceTime=0"
        f" Hidden={_yes(partition.hidden)}",
        f"MaxNodes={most} MaxTime={show_limit(max_time)} MinNodes={partition.min_nodes}"
        f" LLN={_yes(partition.lln)} MaxCPUsPerNode={partition.max_cpus_per_node or 'UNLIMITED'}",
        f"Nodes={hostlist.fold(partition.nodes) or '(null)'}",
        f"PriorityJobFactor=1 PriorityTier={partition.priority_tier} RootOnly={_yes(partition.root_only)} ReqResv={_yes(partition.req_resv)}"
        f" OverSubscribe={partition.oversubscribe}",
        f"OverTimeLimit={over} PreemptMode=OFF",
        f"State={partition.state} TotalCPUs={cpus} TotalNodes={len(nodes)} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        f"{_memory_default(partition)} {_memory_limit(partition)}",
        "TRES="
        + tres_text(cpus, sum(node.memory for node in nodes), len(nodes), {"gpu": sum(node.gpus for node in nodes)}),
    ]
    return join_record(lines, oneliner) + ("" if oneliner else "\n")


def _allowed(name: str, allowed: str, denied: str) -> str:
    return f"Deny{name}={denied}" if denied and allowed.upper() == "ALL" else f"Allow{name}={allowed}"


def _yes(flag: bool) -> str:
    return "YES" if flag else "NO"


def _memory_default(partition: Partition) -> str:
    if partition.def_mem_per_cpu is not None:
        return f"DefMemPerCPU={partition.def_mem_per_cpu}"
    return f"DefMemPerNode={'UNLIMITED' if partition.def_mem_per_node is None else partition.def_mem_per_node}"


def _memory_limit(partition: Partition) -> str:
    if partition.max_mem_per_cpu is not None:
        return f"MaxMemPerCPU={partition.max_mem_per_cpu}"
    return f"MaxMemPerNode={'UNLIMITED' if partition.max_mem_per_node is None else partition.max_mem_per_node}"
