"""``scontrol show config``: what of a Slurm configuration is true of this cluster, under Slurm's names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster

# Settings that are the same for every cluster here.
_FIXED = """
AccountingStorageEnforce none
AccountingStorageHost (null)
AccountingStorageType accounting_storage/none
AuthType auth/none
BatchStartTimeout 10 sec
CompleteWait 0 sec
CpuFreqDef Unknown
DisableRootJobs No
Epilog (null)
HealthCheckInterval 0 sec
JobAcctGatherFrequency 30
JobAcctGatherType jobacct_gather/linux
JobCompType jobcomp/none
JobFileAppend 0
KillOnBadExit 0
LaunchType launch/slurm
MaxStepCount 40000
MaxTasksPerNode 512
MessageTimeout 10 sec
MpiDefault none
PreemptMode OFF
PreemptType preempt/none
PriorityType priority/basic
PrivateData none
ProctrackType proctrack/linuxproc
Prolog (null)
PropagateResourceLimits ALL
SchedulerType sched/backfill
SelectType select/cons_tres
SelectTypeParameters CR_CORE_MEMORY
SrunEpilog (null)
SrunProlog (null)
SwitchType switch/none
TaskEpilog (null)
TaskPlugin task/none
TaskProlog (null)
TmpFS /tmp
TopologyPlugin topology/none
TrackWCKey No
WaitTime 0 sec
X11Parameters (null)
"""


def config_lines(cluster: Cluster, *, host: str, user: str, state_dir: str, boot: str, next_id: int) -> list[str]:
    """``Key = value`` lines in alphabetical order, without the title and the controller's line."""
    values = dict(line.split(None, 1) for line in _FIXED.strip().split("\n"))
    values.update(
        {
            "BOOT_TIME": boot,
            "ClusterName": cluster.name,
            "EnforcePartLimits": "ALL" if cluster.enforce_part_limits else "NO",
            "FirstJobId": str(cluster.first_job_id),
            "GresTypes": ",".join(sorted({gres.name for node in cluster.nodes for gres in node.gres})) or "(null)",
            "InactiveLimit": f"{cluster.inactive_limit} sec",
            "JobRequeue": str(int(cluster.requeue)),
            "KillWait": f"{cluster.kill_wait} sec",
            "Licenses": ",".join(f"{one.name}:{one.count}" for one in cluster.licenses) or "(null)",
            "MaxArraySize": str(cluster.max_array_size),
            "MaxJobCount": str(cluster.max_job_count),
            "MaxNodeCount": str(len(cluster.nodes)),
            "MinJobAge": f"{cluster.min_job_age} sec",
            "NEXT_JOB_ID": str(next_id),
            "OverTimeLimit": f"{cluster.over_time} min",
            "SLURM_VERSION": cluster.version,
            "SlurmUser": user,
            "SlurmctldHost[0]": host,
            "StateSaveLocation": state_dir,
        }
    )
    values.update(_memory("Def", cluster.def_mem_per_cpu, cluster.def_mem_per_node))
    values.update(_memory("Max", cluster.max_mem_per_cpu, cluster.max_mem_per_node))
    return [f"{name:<23} = {values[name]}" for name in sorted(values, key=str.lower)]


def _memory(which: str, per_cpu: int | None, per_node: int | None) -> dict[str, str]:
    if per_cpu is not None:
        return {f"{which}MemPerCPU": str(per_cpu)}
    return {f"{which}MemPerNode": "UNLIMITED" if per_node is None else str(per_node)}
