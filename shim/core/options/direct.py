"""The options of srun and salloc: variables, then the command line. What is left is the command to run."""

from __future__ import annotations

from shim.core.options.merge import COMMAND_LINE, Settings, first_pass, put_environment, put_hostfile
from shim.core.options.support import refuse_het
from shim.core.options.verify import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping, Sequence, Tuple

    from shim.core.options.values import Context


def settle(
    command: str, argv: Sequence[str], environ: Mapping[str, str], context: Context
) -> Tuple[Settings, List[str], List[str]]:
    """The verified options of ``command`` (srun, salloc), the words to run, and warnings for stderr.

    Raises ShimError with Slurm's text and code, Unsupported for a heterogeneous job, Shown for ``--help`` and the like.
    """
    found, words = first_pass(command, argv, context)
    if ":" in words:
        raise refuse_het()
    settings = Settings(command, context)
    put_environment(settings, environ)
    settings.put_all(found, COMMAND_LINE)
    put_hostfile(settings, environ)
    notes = verify(settings)
    if "propagate" in settings:
        from shim.core.options.words import limits_to_pass

        limits_to_pass(settings.get("propagate"))
    return settings, words, notes
