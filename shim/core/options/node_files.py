"""Files that name nodes: --nodefile, and what --nodelist and SLURM_HOSTFILE say by way of a file."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.sources import Settings
    from shim.core.options.value_parsing import Context


def read_nodefile(path: str, context: Context) -> str:
    """The node names of a file as one list, in order; ``#`` begins a comment. UsageError if it cannot be read."""
    try:
        content = context.read(path)
    except IsADirectoryError:
        content = ""
    except OSError as error:
        raise UsageError(
            f"error: slurm_allocate_resources error opening file {path}, {error.strerror or 'Invalid argument'}"
        ) from None
    except ValueError:
        raise UsageError(f"error: slurm_allocate_resources error opening file {path}, Invalid argument") from None
    names = [word for line in content.split("\n") for word in line.partition("#")[0].split()]
    if not names:
        raise UsageError("error: Hostlist is empty!")
    return ",".join(names)


def from_nodefile(settings: Settings) -> Settings:
    """The settings with the nodes of --nodefile as those of --nodelist."""
    wrong = "error: Invalid --nodefile node file"
    path = settings.get("nodefile")
    if not path:
        raise UsageError(wrong)
    try:
        return settings.changed({"nodelist": read_nodefile(path, settings.context)})
    except UsageError as error:
        raise UsageError(*error.lines, wrong) from None


def from_hostfile(settings: Settings, path: str) -> Settings:
    """The settings with the nodes of SLURM_HOSTFILE: its lines are those of the tasks, one each, of as many as are asked for."""
    wrong = "error: Failure getting NodeNames from hostfile"
    try:
        names = read_nodefile(path, settings.context).split(",")
    except ShimError as error:
        raise ShimError(*error.lines, wrong) from None
    nodes = settings.get("nodes")
    submission = settings.command != "srun"
    tasks = settings.get("ntasks", nodes[submission] if nodes else len(names))
    if tasks > len(names):
        raise ShimError("error: Too few NodeNames in Slurm Hostfile", wrong)
    del names[tasks:]
    found = {"nodelist": ",".join(names), "distribution": "arbitrary"}
    if submission:
        return settings.changed(found)
    if nodes and ("ntasks" not in settings or nodes[1] == 0 or nodes[1] >= len(set(names))):
        settings = settings.without("nodes")
    return settings.changed({**found, "ntasks": tasks})


def of_file(path: str, settings: Settings) -> str:
    """The nodes that a file names; ShimError if it cannot be read."""
    try:
        return read_nodefile(path, settings.context)
    except ShimError as error:
        raise ShimError(*error.lines) from None
