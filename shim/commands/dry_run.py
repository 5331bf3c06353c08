"""--test-only of sbatch and srun: when and where the job would start, or why it never could."""

from __future__ import annotations

from shim.commands.output import say
from shim.core.errors import KINDS, SUBMISSION_FAILED, ShimError, Unsupported, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def report_test_only(program: str, fields: Dict[str, Any], quiet: bool = False) -> int:
    """Asks the controller and prints its answer on stderr. ``quiet``: prints only a refusal.

    Raises ShimError with Slurm's text: ``allocation failure: …`` for what the cluster can never run.
    """
    from shim.control import client

    try:
        reply = client.call("submit", fields)
    except Unsupported:
        raise
    except ShimError as error:
        *before, last = error.lines
        failed = f"error: {SUBMISSION_FAILED[KINDS[program]]}: "
        if not last.startswith(failed):
            raise
        # Slurm prints this line for real submissions only.
        before = [line for line in before if not line.endswith("can not be satisfied")]
        raise ShimError(*before, plain(f"allocation failure: {last[len(failed) :]}"), code=error.code) from None
    if quiet:
        return 0
    from shim.core.formats.times import stamp

    where = f"nodes {reply['nodes']} in partition {reply['partition']}"
    if fields.get("components"):
        where = reply["nodes"]  # of a heterogeneous job Slurm says less
    say(
        program,
        f"Job {reply.get('job_id', 0)} to start at {stamp(reply['start'])} using {reply['processors']} processors on {where}",
    )
    return 0
