"""The errors that reach a user, each with Slurm's exit code, and the texts that Slurm has for several of them.

A command's entry point prints ``lines`` on stderr, each prefixed as Slurm prefixes it, and exits with ``code``.
"""

from __future__ import annotations

# Slurm's texts (slurm_strerror) that more than one place says.
ACCESS_DENIED = "Access/permission denied"
ALREADY_DONE = "Job/step already completing or completed"
ALREADY_FINISHED = "Job has already finished"
BATCH_ONLY = "Only batch jobs are accepted or processed"
DEPENDENCY_PROBLEM = "Job dependency problem"
DISABLED = "Requested operation is presently disabled"
INVALID_ARRAY = "Invalid job array specification"
INVALID_FEATURE = "Invalid feature specification"
INVALID_GRES = "Invalid generic resource (gres) specification"
INVALID_JOB_ID = "Invalid job id specified"
INVALID_LICENSES = "Invalid license specification"
INVALID_NODE_COUNT = "Node count specification invalid"
INVALID_NODE_NAME = "Invalid node name specified"
INVALID_PARTITION_NAME = "Invalid partition name specified"
INVALID_RESERVATION = "Requested reservation is invalid"
INVALID_TIME_LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"
INVALID_TRES = "Invalid Trackable RESource (TRES) specification"
INVALID_USER_ID = "Invalid user id"
JOB_HELD = "Job is in held state, pending scheduler release"
MEMORY_NOT_AVAILABLE = "Memory required by task is not available"
MEMORY_NOT_SATISFIED = "Memory specification can not be satisfied"
NODE_CONFIG_UNAVAILABLE = "Requested node configuration is not available"
NODES_BUSY = "Requested nodes are busy"
NOT_SUPPORTED = "Requested operation not supported on this system"
PARTITION_NOT_AVAILABLE = "Required partition not available (inactive or drain)"
PARTITION_CONFIG_UNAVAILABLE = "Requested partition configuration not available now"
PATHNAME_TOO_LONG = "Pathname of a file, directory or other parameter too long"
TOO_MANY_CPUS = "More processors requested than permitted"

# What a refused submission begins with, by the kind of the request.
SUBMISSION_FAILED = {
    "batch": "Batch job submission failed",
    "alloc": "Job submit/allocate failed",
    "run": "Unable to allocate resources",
}
KINDS = {"sbatch": "batch", "salloc": "alloc", "srun": "run"}  # of requests, by the command that makes them


class ShimError(Exception):
    """A refusal for the user. ``lines``: the text as Slurm prints it after ``PROGRAM: ``; one item per line.

    A line (``error: …``, ``fatal: …`` or any text) is printed as ``sbatch: `` + line; one that starts
    with a NUL character is printed without the program's name (Slurm's ``Try "sbatch --help"``).
    """

    code = 1

    def __init__(self, *lines: str, code: int | None = None) -> None:
        super().__init__(*lines)
        self.lines = lines
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return "\n".join(self.lines).replace("\0", "")


class UsageError(ShimError):
    """The command line does not follow the grammar (sbatch, srun, salloc: 255; the query commands: 1)."""

    code = 255


class RequestError(ShimError):
    """The cluster refuses the request (rc 1)."""


class Unsupported(ShimError):
    """An option of Slurm that is known and not honoured here: refused by name."""


def submission_failed(kind: str, why: str, *before: str) -> RequestError:
    """The refusal of a submission, as the command of a request of that kind prints it; ``before``: error lines that precede it."""
    return RequestError(*(f"error: {line}" for line in (*before, f"{SUBMISSION_FAILED[kind]}: {why}")))


def no_step(job_id: int, why: str) -> str:
    """The error line of a step that is refused."""
    return f"error: Unable to create step for job {job_id}: {why}"


def fewer_nodes(tasks: int, nodes: int | None) -> str:
    """The warning for a request of more nodes than tasks."""
    return f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"


def tasks_per_node_ignored(per_node: int, tasks: int, nodes: int) -> str:
    """The warning for a --ntasks-per-node that the numbers of tasks and nodes contradict."""
    return (
        f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the requested tasks "
        f"{tasks} with the number of requested nodes {nodes}. Ignoring --ntasks-per-node."
    )


def missing_package(error: ModuleNotFoundError, python: str) -> ShimError:
    """What a checkout that was never set up lacks, and the remedy; ``error`` is raised again if the module is our own."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "shim"):
        raise error
    return ShimError(
        f"error: the Python package {package} is not installed for {python}",
        "error: run ./dev setup in the checkout, or install this package with pip (SHIM_PYTHON names another Python)",
    )


def plain(line: str) -> str:
    """Marks ``line`` to be printed without the program's name in front."""
    return "\0" + line
