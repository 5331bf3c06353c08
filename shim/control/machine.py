"""What this machine has: CPUs, memory, GPUs. Plain /proc and /sys: commands come here when the configuration has changed, in an
interpreter without packages, and a container's share (CPUs of the affinity mask, the cgroup's memory) counts here, which psutil leaves out.
"""

from __future__ import annotations

import os

from shim.core.value import Value


class Machine(Value):
    """CPUs that this process may use, memory in MiB, number of NVIDIA GPUs, temporary disk in MiB."""

    cpus: int
    sockets: int = 1
    memory: int = 1
    gpus: int = 0
    tmp_disk: int = 0


def this_machine() -> Machine:
    """Reads the machine. CPUs are those of the affinity mask (a container's share), memory the smaller of RAM and cgroup."""
    cpus = len(os.sched_getaffinity(0))
    sockets = _sockets()
    return Machine(
        cpus=cpus,
        sockets=sockets if cpus % sockets == 0 else 1,
        memory=_memory(),
        gpus=_gpus(),
        tmp_disk=_tmp_disk(),
    )


def _memory() -> int:
    total = 1
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                total = int(line.split()[1]) // 1024
                break
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            text = file.read().strip()
        if text != "max":
            total = min(total, int(text) // (1024 * 1024))
    except (OSError, ValueError):
        pass  # no cgroup limit to read: the machine's memory stands
    return max(1, total)


def _tmp_disk() -> int:
    try:
        found = os.statvfs("/tmp")
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize // (1024 * 1024)


def _sockets() -> int:
    packages = set()
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id") as file:
                packages.add(file.read())
        except OSError:
            return 1
    return len(packages) or 1


def _gpus() -> int:
    try:
        return sum(1 for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit())
    except OSError:
        return 0
