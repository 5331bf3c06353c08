"""What becomes of each option of the commands that look or act on jobs. What stands in no table is honoured."""

from __future__ import annotations

from shim.core.options.fates import APPROXIMATED, HONOURED, INERT, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

_TEXT_ONLY = "output is text"
_FEDERATION = {
    "federation": "no federation of clusters; -M and the default listing name clusters",
    "local": "no federation of clusters",
}
_SIBLING = {"sibling": "no federation of clusters"}

QUERY: Dict[str, Dict[str, Dict[str, str]]] = {
    "squeue": {
        INERT: {
            **_FEDERATION,
            **_SIBLING,
            "array-unique": "an array's waiting tasks are on one line unless -r is given",
        },
        REFUSED: {"json": _TEXT_ONLY, "yaml": _TEXT_ONLY},
    },
    "scancel": {
        INERT: {
            "ctld": "every signal goes through the controller",
            "hurry": "no burst buffers whose files would be waited for",
        },
    },
    "sinfo": {
        INERT: {
            **_FEDERATION,
            "noconvert": "no amount is shortened, as by Slurm's own sinfo",
            "responding": "every node responds",
        },
        REFUSED: {"json": _TEXT_ONLY, "yaml": _TEXT_ONLY},
    },
    "scontrol": {
        APPROXIMATED: {"quiet": "errors are not told; that something is not there is"},
        INERT: {
            **_FEDERATION,
            **_SIBLING,
            "future": "no nodes are kept for later (State=FUTURE)",
            "verbose": "there is no more to tell",
        },
        REFUSED: {"uid": "a command acts as who gives it"},
    },
    "sacct": {
        INERT: {**_FEDERATION, "use-local-uid": "users are looked up on this machine anyway"},
        REFUSED: {"env-vars": "a job's variables are told to nobody", "json": _TEXT_ONLY, "yaml": _TEXT_ONLY},
    },
}
# Where what is honoured needs a word.
QUERY_NOTES = {
    ("sacct", "completion"): "as by a Slurm without a job completion log: `Slurm job completion is disabled`",
    ("sacct", "file"): "as by a Slurm without a job completion log: `Slurm job completion is disabled`",
    ("scancel", "sibling"): "as by a Slurm without a federation: `Not a valid federated job`",
    ("sinfo", "reservation"): "there are none, but on a real Slurm",
    ("squeue", "reservation"): "there are none: no job has one",
}
# The commands of Slurm that are not here, and what becomes of them.
ABSENT = {
    "sacctmgr": "no accounting database: accounts, users and QOS are known to nobody (`sacct` reads the job index)",
    "sattach": "not there: `srun` shows its step's output, a batch job's is in its file",
    "sbcast": "not there: nodes on one machine share its files; pods get the working directory (docs/kubernetes.md)",
    "scrontab": "not there: cron calls `sbatch`",
    "sdiag": "not there: `shim controller` and the controller's log tell how it is",
    "sprio": "not there: `squeue -o %Q` and `scontrol show job` show priorities",
    "sreport": "not there, as it reads the accounting database: `sacct -P` lists jobs with their times and sizes",
    "sshare": "not there: no shares are kept, the queue is in the order of submission and priority",
    "sstat": "not there: what a step has used is told when it ends, by `sacct`",
    "strigger": "not there: no events of nodes that a program could be started by",
    "sview": "not there: no graphical interface",
}


def query_fate(command: str, field: str) -> Tuple[str, str]:
    """What becomes of the option ``field`` of that command, and the reason; none is needed for what is honoured."""
    for fate, names in QUERY[command].items():
        if field in names:
            return fate, names[field]
    return HONOURED, QUERY_NOTES.get((command, field), "")
