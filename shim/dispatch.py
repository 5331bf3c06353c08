"""Which module answers to which program name. Modules are imported when they are called, never before."""

from __future__ import annotations

from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = {
    "sbatch": "shim.commands.sbatch",
    "srun": "shim.commands.srun",
    "salloc": "shim.commands.salloc",
    "squeue": "shim.commands.squeue",
    "scancel": "shim.commands.scancel",
    "sinfo": "shim.commands.sinfo",
    "scontrol": "shim.commands.scontrol.command",
    "sacct": "shim.commands.accounting.sacct",
    "sstat": "shim.commands.sstat",
    "seff": "shim.commands.seff",
    "sprio": "shim.commands.sprio",
    "sdiag": "shim.commands.sdiag",
    "scrontab": "shim.commands.scrontab",
    "strigger": "shim.commands.strigger",
    "sshare": "shim.commands.accounting.sshare",
    "sreport": "shim.commands.accounting.sreport",
    "sacctmgr": "shim.commands.accounting.sacctmgr",
    "sbcast": "shim.commands.sbcast",
    "sattach": "shim.commands.sattach",
    "shim": "shim.admin.app",
}

_LONGEST = 110  # bytes of an interpreter's path in a first line, for old kernels


def first_line(python: str) -> str:
    """The first line of a command of ours that needs no shell, which would not pass on every variable. "" where the kernel would not take it."""
    if (
        not python.startswith("/")
        or len(python.encode("utf-8", "surrogateescape")) > _LONGEST
        or set(python) & set(" \t\n")
    ):
        return ""
    return f"#!{python} -ISXutf8\n"


def entry(program: str) -> Callable[[list[str]], int]:
    """The ``main(argv)`` of that program. ShimError for a name that is none of ours."""
    name = MODULES.get(program)
    if name is None:
        raise ShimError(f"error: unknown program name {program!r}; known are {', '.join(MODULES)}")
    module = __import__(name, fromlist=("main",))
    main: Callable[[list[str]], int] = module.main
    return main
