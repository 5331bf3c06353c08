"""What srun says of a program of several tasks that is linked with an MPI library.

With ``--mpi=none`` its tasks do not find each other: each of them is rank 0 of 1, without a word.
"""

from __future__ import annotations

import os

from shim.job.steps.elf import needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.core.model.request import StepRequest
    from shim.job.steps.parts import Asked

_LIBRARY = "libmpi"  # libmpi.so (Open MPI, Intel), libmpich.so, libmpi_mpifh.so, libmpifort.so
_MOST = 8  # programs of a --multi-prog file that are looked at


def warning(asked: Iterable[Asked]) -> str:
    """The line about the first such program, "" if there is none."""
    for one in asked:
        for name in list(dict.fromkeys(_programs(one.request)))[:_MOST]:
            path = _path(name, one.request.work_dir or ".", one.environment.get("PATH", ""))
            library = _library(path) if path else ""
            if library:
                return (
                    f"{name} is linked with {library}, and --mpi=none gives its tasks nothing to find each other by: "
                    "each may be rank 0 of 1. srun --mpi=pmi2 starts programs of MPICH, Intel MPI and MVAPICH; mpirun and mpiexec "
                    "start those of every MPI on the job's nodes."
                )
    return ""


def _programs(request: StepRequest) -> list[str]:
    lines = [argv for _ranks, argv in request.multi_prog] if request.multi_prog else [request.argv]
    return [argv[0] for argv in lines if argv]


def _path(name: str, directory: str, search: str) -> str:
    """The file that execvp would take; "" for none."""
    folders = [""] if "/" in name else search.split(":")
    for folder in folders:
        path = os.path.join(directory, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _library(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""  # it may be run and not read
    try:
        names = needed(lambda offset, size: os.pread(fd, size, offset))
    except (OSError, OverflowError):
        return ""  # damaged: an offset that no file has
    finally:
        os.close(fd)
    return next((name for name in names if name.startswith(_LIBRARY)), "")
