"""What becomes of each option on each backend, and why. ``shim explain`` and docs/support.md read it.

honoured      it does what it does on Slurm
approximated  it is read, checked and shown; the reason says what is missing
inert         it has nothing to act on here, so having no effect is right
refused       the command ends with an error that names it: running without it would be another job

The rows say it (``getopt.Row``: ``support``, ``kubernetes``).
"""

from __future__ import annotations

from shim.core.errors import ACCESS_DENIED, KINDS, Unsupported, submission_failed
from shim.core.options.getopt import IGNORED
from shim.core.options.submit_options import row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from shim.core.options.getopt import Option, Row
    from shim.core.options.sources import Settings

HONOURED = "honoured"
APPROXIMATED = "approximated"
INERT = "inert"
REFUSED = "refused"
OUTCOMES = (HONOURED, APPROXIMATED, INERT, REFUSED)

BACKENDS = ("local", "kubernetes", "slurm")
_HET_BACKENDS = ("local", "slurm")  # where the components of a heterogeneous job start together
_PASSED_ON = "passed on as it is"


def support_of_row(row: Row, backend: str = "local") -> Tuple[str, str]:
    """What becomes of the option there, and the reason; no reason is needed for what is honoured."""
    if backend == "slurm" and row.get("kind") != IGNORED:
        return HONOURED, _PASSED_ON
    said = (row.get("kubernetes") if backend == "kubernetes" else None) or row.get("support", HONOURED)
    outcome, _, reason = said.partition(": ")
    return outcome, reason


def support_of(option: Option, backend: str = "local") -> Tuple[str, str]:
    """``support_of_row`` of an option under whichever of its spellings."""
    return support_of_row(option.row if option.field == option.long else row_of(option.field), backend)


def refuse_unsupported(settings: Settings, backend: str = "local") -> None:
    """Raises Unsupported, naming the option, if something is asked for that cannot be had."""
    for name in settings.sources:
        if settings.get(name) == "" and not settings.given(name):
            continue  # an empty variable asks for nothing
        outcome, reason = support_of_row(settings.row(name), backend)
        if name == "reboot" and settings.context.uid:
            kind = KINDS[settings.command]
            raise submission_failed(kind, ACCESS_DENIED, "rebooting of nodes is only allowed for admins")
        if outcome == REFUSED:
            raise Unsupported(f"error: --{name} is not supported here: {reason}")
    if settings.command != "srun" and settings.get("resv-ports"):
        raise Unsupported("error: --resv-ports is not supported here: no ports are set aside (MpiParams)")
    mpi = settings.get("mpi")
    if mpi not in (None, "none", "pmi2"):
        raise Unsupported(
            f"error: --mpi={mpi} is not supported here: there is no PMIx server; --mpi=pmi2 and --mpi=none are"
        )


def approximations(settings: Settings, backend: str = "local") -> List[str]:
    """A line for stderr (``-v``) for each option asked for that does less here than on Slurm."""
    lines = [f"--{name} is {support_of_row(settings.row(name))[1]}" for name in dict.fromkeys(settings.ignored)]
    for name in settings.sources:
        outcome, reason = support_of_row(settings.row(name), backend)
        if outcome == APPROXIMATED:
            lines.append(f"--{name} is approximated here: {reason}")
    return lines


def refuse_het(components: int, backend: str = "local") -> None:
    """Raises Unsupported for a job of several components where the backend starts jobs of one only."""
    if components > 1 and backend not in _HET_BACKENDS:
        raise Unsupported(f"error: heterogeneous jobs are not supported on the {backend} backend")
