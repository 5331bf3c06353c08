"""A controller of real Slurm without nodes' daemons, for as long as it is asked: what sbatch makes of a header.

Held jobs need nothing else, so the cluster can be large: 528 nodes with GPUs of two types, features, licences, several
partitions. It has a temporary folder and ports of its own, and the munge of the cluster of ``slurm.py``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.cluster import slurm
from compat.cluster.packages import program
from compat.cluster.processes import end_process, wait_for

FIRST_JOB_ID = 700001
NODES = ("a[0001-0512]", "h[001-016]")
MEMORY = 4_000_000
TYPES = ("a100", "v100")
PARTITIONS = ("main", "short", "long", "Short")
# Partitions with limits, for what is refused because of them.
LIMITED = """\
PartitionName=tiny Nodes=a[0001-0008] MaxTime=60 MaxNodes=2 MaxMemPerNode=1000
PartitionName=wide Nodes=a[0001-0100] MaxTime=120 MaxNodes=50 MinNodes=4
PartitionName=high Nodes=a[0001-0008] PriorityTier=10 MaxTime=30 MaxNodes=4
PartitionName=few Nodes=a[0001-0004]
PartitionName=some Nodes=a[0005-0008] MaxTime=60
PartitionName=cpus Nodes=a[0001-0008] MaxCPUsPerNode=4 MaxTime=60
PartitionName=percpu Nodes=ALL MaxMemPerCPU=1000 MaxTime=60
PartitionName=group Nodes=ALL AllowGroups=nosuchgroup MaxTime=60 MaxNodes=2
PartitionName=account Nodes=ALL AllowAccounts=phys MaxMemPerNode=1000 MaxTime=60 MaxNodes=2
PartitionName=denied Nodes=ALL DenyAccounts=phys MaxTime=60 MaxNodes=2
PartitionName=qos Nodes=ALL AllowQos=high MaxTime=60 MaxNodes=2
PartitionName=root Nodes=ALL RootOnly=YES MaxTime=60 MaxNodes=2
PartitionName=reserved Nodes=ALL ReqResv=YES MaxTime=60 MaxNodes=2
PartitionName=down Nodes=ALL MaxTime=60 MaxNodes=2 State=DOWN
PartitionName=drain Nodes=ALL MaxTime=60 MaxNodes=2 State=DRAIN
PartitionName=inactive Nodes=ALL MaxTime=60 MaxNodes=2 State=INACTIVE
PartitionName=elsewhere Nodes=ALL AllocNodes=a0001 MaxTime=60
PartitionName=empty MaxTime=60 MaxNodes=2
PartitionName=deft Nodes=a[0001-0020] DefaultTime=30 MaxTime=90 MaxNodes=10
PartitionName=small Nodes=h[001-002] MaxTime=20 MinNodes=2 MaxNodes=2
PartitionName=downsmall Nodes=a[0001-0004] MaxTime=30 MaxNodes=3 State=DOWN
PartitionName=downfree Nodes=ALL State=DOWN
PartitionName=excl Nodes=a[0001-0008] OverSubscribe=EXCLUSIVE MaxTime=100
PartitionName=mem Nodes=a[0001-0100] MaxMemPerNode=2000
"""

_SETTINGS = """\
ClusterName=headers
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmdTimeout=0
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
MaxJobCount=50000
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=20,sched_interval=600,bf_interval=600
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,nvme
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
Licenses=matlab:1000,ansys:1000
"""


def slurm_conf(folder: Path, host: str, port: int, enforce: str) -> str:
    """slurm.conf of the controller; also the shape that our commands are given. ``enforce``: EnforcePartLimits."""
    gres = ",".join([*(f"gpu:{kind}:8" for kind in TYPES), "nvme:4000"])
    node = (
        f"NodeAddr=127.0.0.1 Sockets=2 RealMemory={MEMORY} TmpDisk={MEMORY} Gres={gres} Feature=fast,big State=UNKNOWN"
    )
    lines = [
        f"SlurmctldHost={host}(127.0.0.1)",
        f"AuthInfo=socket={slurm.FOLDER}/munge/socket",
        f"SlurmctldPort={port}",
        f"SlurmdPort={port + 1}",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"StateSaveLocation={folder}/state",
        f"FirstJobId={FIRST_JOB_ID}",
        f"EnforcePartLimits={enforce}",
        f"NodeName={NODES[0]} CoresPerSocket=128 ThreadsPerCore=1 {node}",
        f"NodeName={NODES[1]} CoresPerSocket=64 ThreadsPerCore=2 {node}",
        *(
            f"PartitionName={name} Nodes=ALL MaxTime=INFINITE State=UP" + (" Default=YES" if name == "main" else "")
            for name in PARTITIONS
        ),
    ]
    return _SETTINGS + "\n".join(lines) + "\n" + LIMITED


def gres_conf() -> str:
    """gres.conf: counted, without device files."""
    names = ",".join(NODES)
    lines = [f"NodeName={names} Name=gpu Type={kind} Count=8" for kind in TYPES]
    return "\n".join(["AutoDetect=off", *lines, f"NodeName={names} Name=nvme Count=4000 Flags=CountOnly"]) + "\n"


def write_conf(folder: Path, host: str = "localhost", port: int = 1, enforce: str = "NO") -> Path:
    """Write both files into ``folder``; the path of slurm.conf."""
    conf = folder / "slurm.conf"
    conf.write_text(slurm_conf(folder, host, port, enforce))
    (folder / "gres.conf").write_text(gres_conf())
    return conf


@contextmanager
def controller(enforce: str = "NO") -> Iterator[Path]:
    """A running controller with that EnforcePartLimits: the path of its slurm.conf. Needs the cluster of slurm.py; raises slurm.ClusterError."""
    with tempfile.TemporaryDirectory(prefix="shim-compat-controller-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "state").mkdir()
        conf = write_conf(folder, socket.gethostname().partition(".")[0], _free_port(), enforce)
        daemon = program("slurmctld")
        if daemon is None:
            raise slurm.ClusterError("slurmctld is not installed")
        with (folder / "out").open("wb") as sink:
            process = subprocess.Popen(
                [daemon, "-D", "-f", str(conf)],
                env={**slurm.environ(), "SLURM_CONF": str(conf)},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd="/",
                start_new_session=True,
            )
        try:
            if not wait_for(lambda: _answers(conf) or process.poll() is not None, 40) or process.poll() is not None:
                said = (folder / "slurmctld.log").read_text(errors="replace")[-1500:]
                raise slurm.ClusterError(f"the controller does not answer; its log ends with:\n{said}")
            yield conf
        finally:
            end_process(process.pid, 20)
            process.wait()


def _answers(conf: Path) -> bool:
    done = subprocess.run(
        ["scontrol", "ping"],
        env={**os.environ, "SLURM_CONF": str(conf)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    return done.returncode == 0


def _free_port() -> int:
    """A port nobody listens on now; above the cluster's and below those that the kernel hands out."""
    for port in range(27200, 28200, 2):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise slurm.ClusterError("no free port from 27200")
