"""Figures of this machine from /proc, for sinfo and ``scontrol show node``."""

from __future__ import annotations


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
