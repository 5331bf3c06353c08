"""The resource limits that a job takes over from its submitter (``--propagate``), without ``RLIMIT_``."""

from __future__ import annotations

RLIMITS = (
    "CPU",
    "FSIZE",
    "DATA",
    "STACK",
    "CORE",
    "RSS",
    "NPROC",
    "NOFILE",
    "MEMLOCK",
    "AS",
)  # in the order in which -vv has them

# What --cpu-freq may name beside frequencies.
GOVERNORS = ("Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace")
