"""The resource limits that a job takes over from its submitter (``--propagate``), without ``RLIMIT_``."""

from __future__ import annotations

RLIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")

# What --cpu-freq may name beside frequencies.
GOVERNORS = ("Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace")
