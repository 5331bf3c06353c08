"""The resource limits that a job takes over from its submitter (``--propagate``), without ``RLIMIT_``; and other limits."""

from __future__ import annotations

# In the order in which -vv has them.
RLIMITS = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS")

LONGEST_FILE = 4 << 20  # bytes of a script (Slurm's max_script_size), and of any other file that somebody names

# What --cpu-freq may name beside frequencies.
GOVERNORS = ("Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace")
