"""The options of scrontab (22.05): letters alone; and those of sbatch that a line ``#SCRON`` may not have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    from shim.core.options.getopt import Row

    Rows = Tuple[Row, ...]
else:
    Row = dict

# When the job runs and what becomes of it says the table; what asks sbatch for something else than a job has no meaning there.
NOT_IN_A_TABLE = frozenset(
    [
        "array",
        "autocomplete",
        "batch",
        "begin",
        "bb",
        "bbf",
        "cluster",
        "cluster-constraint",
        "clusters",
        "export-file",
        "get-user-env",
        "help",
        "hold",
        "ignore-pbs",
        "input",
        "kill-on-invalid-dep",
        "no-requeue",
        "parsable",
        "prefer",
        "propagate",
        "requeue",
        "test-only",
        "usage",
        "version",
        "wait",
        "wait-all-nodes",
        "wrap",
    ]
)


# fmt: off
def scrontab() -> Rows:
    """Those of scrontab."""
    return (
        Row(name="edit", short="e", letter_only=True, help="edit the table with $VISUAL or $EDITOR"),
        Row(name="list", short="l", letter_only=True, help="print the table"),
        Row(name="remove", short="r", letter_only=True, help="remove the table; its jobs recur no more"),
        Row(name="user", short="u", takes="=user", letter_only=True, help="the table of this user",
            support="approximated: of the user whose state folder it is; an operator may list and remove it (SHIM_STATE_DIR)"),
        Row(name="verbose", short="v", letter_only=True, help="say more",
            support="inert: there is no more to say"),
    )
# fmt: on
