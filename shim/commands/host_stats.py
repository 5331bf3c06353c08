"""Figures of this machine from /proc, for sinfo and ``scontrol show node``."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster
    from shim.core.render.scontrol_node import Machine


def machine(cluster: Cluster) -> Machine:
    """What this machine tells of the nodes of a cluster that is here; nothing of the nodes of others."""
    from shim.core.render.scontrol_node import Machine

    if cluster.backend != "local":
        return Machine()
    system = os.uname()
    return Machine(
        arch=system.machine,
        system=f"{system.sysname} {system.release} {system.version.partition(' (')[0]}",
        boot_time=boot_time(),
        load=os.getloadavg()[0],
        free_memory=free_memory(),
    )


def free_memory() -> int | None:
    """This machine's free memory in MiB, as slurmd counts it; None if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemFree:"):
                    return int(line.split()[1]) // 1024
    except OSError:
        pass
    return None


def boot_time() -> float:
    """When this machine started, seconds since the epoch; 0 if unknown."""
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("btime "):
                    return float(line.split()[1])
    except OSError:
        pass
    return 0
