"""The titles under which ``--help`` lists options, in Slurm's order."""

from __future__ import annotations

from shim.core.options.help_texts import of_slurm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence, Set, Tuple

_HELP = ("help", "usage")
# Which options stand under which title; all others under the first one.
_SECTIONS = (
    ("Parallel run options:", ""),
    (
        "Constraint options:",
        "cluster-constraint constraint contiguous exclude mem mincpus no-allocate nodefile nodelist prefer reservation tmp",
    ),
    (
        "Consumable resources related options:",
        "exact exclusive mem-per-cpu oom-kill-step resources resv-ports tres-per-task",
    ),
    (
        "Affinity/Multi-core options:",
        "accel-bind cores-per-socket cpu-bind extra-node-info hint mem-bind ntasks-per-core ntasks-per-socket sockets-per-node"
        " threads-per-core tres-bind",
    ),
    (
        "GPU scheduling options:",
        "cpus-per-gpu gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task mem-per-gpu ntasks-per-gpu"
        " ntasks-per-tres",
    ),
)
_PLUGINS = "Options provided by plugins:"


def sections(command: str, fields: Sequence[str]) -> List[Tuple[str, Set[str]]]:
    """The titles of ``--help`` with the options under each: Slurm's for the commands that submit, two for the others."""
    rest = set(fields) - {*_HELP, "version"}
    last = [("Help options:", set(_HELP)), ("Other options:", {"version"})]
    if command not in ("sbatch", "srun", "salloc"):
        return [("Options:", rest), ("Help options:", {*_HELP, "version"})]
    titled = [(title, set(names.split()) & rest) for title, names in _SECTIONS]
    plugins = rest - set(of_slurm())
    titled[0] = (titled[0][0], rest - plugins - set().union(*(names for _, names in titled)))
    return titled + last[:1] + ([(_PLUGINS, plugins)] if plugins else []) + last[1:]
