"""Files that name nodes: --nodefile, and what --nodelist and SLURM_HOSTFILE say by way of a file."""

from __future__ import annotations

from shim.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.scan import Context


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
