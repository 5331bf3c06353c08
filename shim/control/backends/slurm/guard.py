"""Prevents loops: a "real" command that is a script may call our command again.

A command that passes its command line to a script sets SHIM_PASSED: its process (pid and start time; exec keeps both), its job,
and the programs tried so far. A command of ours that finds itself in that process, or below it, tries the next program. The
variable is removed for binaries. It has no meaning in a job that the script submitted, nor in salloc's shell.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "SHIM_PASSED"
_DEEPEST = 64  # processes between a script and the command that it calls


def tried(environ: Mapping[str, str]) -> list[str]:
    """The programs that led back here; [] for a call that comes from the user."""
    value = environ.get(VARIABLE)
    if not value:
        return []
    mark, *programs = value.split(":")
    caller, _, job = mark.partition("/")
    if job != environ.get("SLURM_JOB_ID", ""):
        return []  # an allocation was made since: salloc's shell
    pid = str(os.getpid())
    for _ in range(_DEEPEST):
        seen = process(pid)
        if seen is None:
            return []
        if seen[0] == caller:
            return programs
        pid = seen[1]
    return []


def value(environ: Mapping[str, str], programs: list[str]) -> str:
    """What the variable must say while the last of ``programs`` runs in this process's place."""
    seen = process(str(os.getpid()))
    return ":".join([f"{seen[0] if seen else ''}/{environ.get('SLURM_JOB_ID', '')}", *programs])


def process(pid: str) -> tuple[str, str] | None:
    """A name that no other process of this machine will have, and the parent's pid; None for one that is not there."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return f"{pid}.{fields[19].decode()}", fields[1].decode()
