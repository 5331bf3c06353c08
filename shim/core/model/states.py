"""Job states and their codes, as squeue and sacct print them; which of them are the end of a job."""

from __future__ import annotations

PENDING = "PENDING"
RUNNING = "RUNNING"
SUSPENDED = "SUSPENDED"
COMPLETED = "COMPLETED"
CANCELLED = "CANCELLED"
FAILED = "FAILED"
TIMEOUT = "TIMEOUT"
NODE_FAIL = "NODE_FAIL"
PREEMPTED = "PREEMPTED"
BOOT_FAIL = "BOOT_FAIL"
DEADLINE = "DEADLINE"
OUT_OF_MEMORY = "OUT_OF_MEMORY"
COMPLETING = "COMPLETING"
CONFIGURING = "CONFIGURING"
REQUEUED = "REQUEUED"
STOPPED = "STOPPED"

# In the order in which Slurm lists them as valid states.
CODES: dict[str, str] = {
    PENDING: "PD",
    RUNNING: "R",
    SUSPENDED: "S",
    COMPLETED: "CD",
    CANCELLED: "CA",
    FAILED: "F",
    TIMEOUT: "TO",
    NODE_FAIL: "NF",
    PREEMPTED: "PR",
    BOOT_FAIL: "BF",
    DEADLINE: "DL",
    OUT_OF_MEMORY: "OOM",
    COMPLETING: "CG",
    CONFIGURING: "CF",
    "RESIZING": "RS",
    "RESV_DEL_HOLD": "RD",
    REQUEUED: "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    STOPPED: "ST",
}

TERMINAL = frozenset(
    (
        COMPLETED,
        CANCELLED,
        FAILED,
        TIMEOUT,
        NODE_FAIL,
        PREEMPTED,
        BOOT_FAIL,
        DEADLINE,
        OUT_OF_MEMORY,
    )
)
# States that hold an allocation (squeue shows them beside PENDING).
ALLOCATED = frozenset((RUNNING, CONFIGURING, COMPLETING, SUSPENDED, STOPPED))
ACTIVE = frozenset((PENDING,)) | ALLOCATED
LAUNCH_FAILURE = 53  # the "signal" of a batch script that could not be started: ExitCode 0:53


def state_of(word: str) -> str | None:
    """The state that a name or a code stands for, in any case; None if there is none."""
    upper = word.upper()
    if upper in CODES:
        return upper
    for name, code in CODES.items():
        if code == upper:
            return name
    return None
