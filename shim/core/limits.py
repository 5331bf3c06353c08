"""Limits: of resources that a job takes over from its submitter (``--propagate``), and of the length of files."""

from __future__ import annotations

# Without ``RLIMIT_``, in the order in which -vv has them.
RLIMITS = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS")

LONGEST_FILE = 4 << 20  # bytes of a script (Slurm's max_script_size), and of any other file that somebody names
