"""The errors that reach a user, each with Slurm's exit code.

A command's funnel prints ``lines`` on stderr, each prefixed as Slurm prefixes it, and exits with ``code``.
"""

from __future__ import annotations


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
