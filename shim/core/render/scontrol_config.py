"""``scontrol show config``: every line that Slurm prints, in its order, with what is true of this cluster."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.core.model.cluster import Cluster

# The lines in Slurm's order: those with a value are the same for every cluster here.
_LINES = """
AccountingStorageBackupHost (null)
AccountingStorageEnforce none
AccountingStorageHost localhost
AccountingStorageExternalHost (null)
AccountingStorageParameters (null)
AccountingStoragePort 0
AccountingStorageTRES
AccountingStorageType
AccountingStorageUser (null)
AccountingStoreFlags (null)
AcctGatherEnergyType acct_gather_energy/none
AcctGatherFilesystemType acct_gather_filesystem/none
AcctGatherInterconnectType acct_gather_interconnect/none
AcctGatherNodeFreq 0 sec
AcctGatherProfileType acct_gather_profile/none
AllowSpecResourcesUsage No
AuthAltTypes (null)
AuthAltParameters (null)
AuthInfo (null)
AuthType auth/none
BatchStartTimeout 10 sec
BcastExclude /lib,/usr/lib,/lib64,/usr/lib64
BcastParameters (null)
BOOT_TIME
BurstBufferType (null)
CliFilterPlugins (null)
ClusterName
CommunicationParameters (null)
CompleteWait 0 sec
CoreSpecPlugin core_spec/none
CpuFreqDef Unknown
CpuFreqGovernors OnDemand,Performance,UserSpace
CredType cred/none
DebugFlags (null)
DefMemPerNode
DependencyParameters (null)
DisableRootJobs No
EioTimeout 60
EnforcePartLimits
Epilog (null)
EpilogMsgTime 2000 usec
EpilogSlurmctld (null)
ExtSensorsType ext_sensors/none
ExtSensorsFreq 0 sec
FederationParameters (null)
FirstJobId
GetEnvTimeout 2 sec
GresTypes
GpuFreqDef high,memory=high
GroupUpdateForce 1
GroupUpdateTime 600 sec
HASH_VAL Match
HealthCheckInterval 0 sec
HealthCheckNodeState ANY
HealthCheckProgram (null)
InactiveLimit
InteractiveStepOptions --interactive --preserve-env --pty $SHELL
JobAcctGatherFrequency 30
JobAcctGatherType jobacct_gather/linux
JobAcctGatherParams (null)
JobCompHost localhost
JobCompLoc (null)
JobCompPort 0
JobCompType jobcomp/none
JobCompUser (null)
JobContainerType job_container/none
JobCredentialPrivateKey (null)
JobCredentialPublicCertificate (null)
JobDefaults (null)
JobFileAppend 0
JobRequeue
JobSubmitPlugins (null)
KillOnBadExit 0
KillWait
LaunchParameters (null)
LaunchType launch/slurm
Licenses
LogTimeFormat iso8601
MailDomain
MailProg
MaxArraySize
MaxDBDMsgs 0
MaxJobCount
MaxJobId
MaxMemPerNode
MaxNodeCount
MaxStepCount 40000
MaxTasksPerNode 512
MCSPlugin mcs/none
MCSParameters (null)
MessageTimeout 10 sec
MinJobAge
MpiDefault
MpiParams (null)
MULTIPLE_SLURMD Yes
NEXT_JOB_ID
NodeFeaturesPlugins (null)
OverTimeLimit
PluginDir (null)
PlugStackConfig (null)
PowerParameters (null)
PowerPlugin
PreemptMode OFF
PreemptType preempt/none
PreemptExemptTime 00:00:00
PrEpParameters (null)
PrEpPlugins prep/script
PriorityParameters (null)
PrioritySiteFactorParameters (null)
PrioritySiteFactorPlugin (null)
PriorityType priority/basic
PrivateData none
ProctrackType proctrack/linuxproc
Prolog (null)
PrologEpilogTimeout 65534
PrologSlurmctld (null)
PrologFlags (null)
PropagatePrioProcess 0
PropagateResourceLimits ALL
PropagateResourceLimitsExcept (null)
RebootProgram (null)
ReconfigFlags (null)
RequeueExit (null)
RequeueExitHold (null)
ResumeFailProgram (null)
ResumeProgram (null)
ResumeRate 300 nodes/min
ResumeTimeout 60 sec
ResvEpilog (null)
ResvOverRun 0 min
ResvProlog (null)
ReturnToService 0
RoutePlugin route/default
SchedulerParameters (null)
SchedulerTimeSlice 30 sec
SchedulerType sched/backfill
ScronParameters (null)
SelectType select/cons_tres
SelectTypeParameters
SlurmUser
SlurmctldAddr (null)
SlurmctldDebug info
SlurmctldHost[0]
SlurmctldLogFile
SlurmctldPort 0
SlurmctldSyslogDebug (null)
SlurmctldPrimaryOffProg (null)
SlurmctldPrimaryOnProg (null)
SlurmctldTimeout 120 sec
SlurmctldParameters (null)
SlurmdDebug info
SlurmdLogFile (null)
SlurmdParameters (null)
SlurmdPidFile (null)
SlurmdPort 0
SlurmdSpoolDir
SlurmdSyslogDebug (null)
SlurmdTimeout 300 sec
SlurmdUser
SlurmSchedLogFile (null)
SlurmSchedLogLevel 0
SlurmctldPidFile
SlurmctldPlugstack (null)
SLURM_CONF
SLURM_VERSION
SrunEpilog (null)
SrunPortRange 0-0
SrunProlog (null)
StateSaveLocation
SuspendExcNodes (null)
SuspendExcParts (null)
SuspendProgram (null)
SuspendRate 60 nodes/min
SuspendTime INFINITE
SuspendTimeout 30 sec
SwitchParameters (null)
SwitchType switch/none
TaskEpilog (null)
TaskPlugin task/none
TaskPluginParam (null type)
TaskProlog (null)
TCPTimeout 2 sec
TmpFS /tmp
TopologyParam (null)
TopologyPlugin topology/none
TrackWCKey No
TreeWidth 50
UsePam No
UnkillableStepProgram (null)
UnkillableStepTimeout 60 sec
VSizeFactor 0 percent
WaitTime 0 sec
X11Parameters (null)
"""
_ACCOUNTING = "accounting_storage/slurmdbd"  # what tools look for to know that sacct answers
_HIGHEST_ID = 67043328  # of Slurm's job ids, where the cluster's have no such bound


def config_lines(
    cluster: Cluster,
    words: Mapping[str, str],
    *,
    host: str,
    user: str,
    state_dir: str,
    boot: str,
    next_id: int,
    conf: str,
) -> list[str]:
    """``Key = value`` lines, without the title and the controller's line. ``words``: those that words of the configuration set;
    ``conf``: the slurm.conf that jobs here are given to see."""
    values = {
        **words,
        **_of_cluster(cluster),
        "BOOT_TIME": boot,
        "NEXT_JOB_ID": str(next_id),
        "SLURM_CONF": conf or "(null)",
        "SlurmUser": user,
        "SlurmctldHost[0]": host,
        "SlurmctldLogFile": f"{state_dir}/controller.log",
        "SlurmctldPidFile": f"{state_dir}/controller.lock",
        "SlurmdSpoolDir": f"{state_dir}/spool",
        "SlurmdUser": user,
        "StateSaveLocation": state_dir,
    }
    lines = []
    for line in _LINES.strip().split("\n"):
        name, _, value = line.partition(" ")
        lines.append(f"{values.get(name + ':', name):<23} = {values.get(name, value)}")
    return lines


def _of_cluster(cluster: Cluster) -> dict[str, str]:
    limit = "ALL" if cluster.enforce_in_all else "ANY"
    names = sorted({gres.name for node in cluster.nodes for gres in node.gres}.union(cluster.gres_types))
    end = cluster.id_ranges[1] if len(cluster.id_ranges) > 1 else _HIGHEST_ID
    return {
        "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages",
        "AccountingStorageType": _ACCOUNTING if cluster.accounting else "accounting_storage/none",
        "ClusterName": cluster.name,
        "EnforcePartLimits": limit if cluster.enforce_part_limits else "NO",
        "GresTypes": ",".join(names) or "(null)",
        "InactiveLimit": f"{cluster.inactive_limit} sec",
        "MaxJobId": str(min(end, _HIGHEST_ID)),
        "MaxNodeCount": str(len(cluster.nodes)),
        "OverTimeLimit": f"{cluster.over_time} min",
        "SLURM_VERSION": cluster.version,
        "SelectTypeParameters": "CR_CORE_MEMORY" if cluster.counts_memory else "CR_CORE",
        **_memory("Def", cluster.def_mem_per_cpu, cluster.def_mem_per_node),
        **_memory("Max", cluster.max_mem_per_cpu, cluster.max_mem_per_node),
    }


def _memory(which: str, per_cpu: int | None, per_node: int | None) -> dict[str, str]:
    """The value, and the name that the line has: a default is given for each CPU or for each node."""
    name = f"{which}MemPerNode"
    if per_cpu is not None:
        return {name: str(per_cpu), f"{name}:": f"{which}MemPerCPU"}
    return {name: "UNLIMITED" if per_node is None else str(per_node), f"{name}:": name}
