"""The settings of the real Slurm that answers for the suite: slurm.conf, gres.conf, cgroup.conf.

Four nodes of 8 CPUs, 16000 MB and 4 GPUs on one host; no accounting database. What differs from Slurm's defaults
does so to be quick (no delay before scheduling, a short KillWait, a requeued job may start after seconds instead of
two minutes) or because the nodes exist on paper only (config_overrides, no cgroups, /dev/null for GPUs).
"""

from __future__ import annotations

from pathlib import Path

NODES = ("node1", "node2", "node3", "node4")
CPUS = 8
MEMORY = 16000
GPUS = 4
KILL_WAIT = 2
# Large enough to be recognised in any text, so that normalising ids touches no other number.
FIRST_JOB_ID = 700001


def slurm_conf(folder: Path, host: str, ports: list[int]) -> str:
    """slurm.conf: ``ports`` are the controller's and one for each node."""
    controller, *node_ports = ports
    lines = [
        "ClusterName=compat",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CryptoType=crypto/munge",
        # Credentials that expire early: a requeued job waits for that long.
        f"AuthInfo=socket={folder}/munge/socket,cred_expire=6",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        f"SlurmctldPort={controller}",
        f"SlurmctldPidFile={folder}/run/slurmctld.pid",
        f"SlurmdPidFile={folder}/run/slurmd-%n.pid",
        f"SlurmctldLogFile={folder}/log/slurmctld.log",
        f"SlurmdLogFile={folder}/log/slurmd-%n.log",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "MailProg=/bin/true",
        "AccountingStorageType=accounting_storage/none",
        "JobCompType=jobcomp/none",
        "JobAcctGatherType=jobacct_gather/none",
        f"FirstJobId={FIRST_JOB_ID}",
        f"KillWait={KILL_WAIT}",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1",
        "SelectType=select/cons_tres",
        # Memory is no resource to share out unless a job asks for it: the same rule as on the virtual nodes.
        "SelectTypeParameters=CR_Core",
        "GresTypes=gpu",
    ]
    lines += [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} Sockets=2 CoresPerSocket={CPUS // 2}"
        f" ThreadsPerCore=1 RealMemory={MEMORY} Gres=gpu:{GPUS} State=UNKNOWN"
        for name, port in zip(NODES, node_ports, strict=True)
    ]
    lines += [
        "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=gpu Nodes=node[3-4] MaxTime=02:00:00 DefaultTime=00:30:00 State=UP",
    ]
    return "\n".join(lines) + "\n"


def gres_conf(folder: Path) -> str:
    """gres.conf: the same devices stand for the GPUs of every node."""
    return f"NodeName=node[1-{len(NODES)}] Name=gpu File={folder}/gpu/card[0-{GPUS - 1}]\n"


# Nothing uses cgroups here, but slurmd loads a plugin for them and finds none by itself without systemd.
CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
