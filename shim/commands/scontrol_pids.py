"""``scontrol listpids``: the processes of this user's jobs on this machine, by what their environment says.

A process that has cleared its environment is not found.
"""

from __future__ import annotations

import os

from shim.commands import reading
from shim.commands.job_ids import parse_job_id
from shim.control import paths
from shim.core.errors import ShimError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.commands.job_ids import JobId

    Found = dict[int, dict[str, str]]  # pid -> its variables, and its parent

_HEAD = "PID      JOBID    STEPID   LOCALID GLOBALID"


def listpids(words: list[str]) -> int:
    """``listpids [JOB[.STEP] [NODE]]``; the exit code."""
    if len(words) > 2:
        raise ShimError(plain("too many arguments for keyword:listpids"))
    wanted = words[0] if words and words[0] != "*" else ""
    one = parse_job_id(wanted) if wanted else None
    if wanted and one is None:
        raise ShimError(plain(f'"{wanted}" does not look like a {"stepid" if "." in wanted else "jobid"}'))
    node = words[1] if len(words) > 1 else ""
    found = {pid: own for pid, own in _processes().items() if _meant(own, one, node)}
    reading.put([_HEAD])
    if not found:
        where = f"on node {node or '(null)'}"
        none = "No job steps exist on this node."
        what = f"{'StepId' if '.' in wanted else 'JobId'}={wanted} does not exist {where}." if wanted else none
        reading.complain("", [what])
        return 1
    reading.put([_line(pid, own, found) for pid, own in sorted(found.items(), key=_order)])
    return 0


def _order(item: tuple[int, dict[str, str]]) -> tuple[int, int, int]:
    pid, own = item
    step = own.get("SLURM_STEP_ID", "")
    return int(own["SLURM_JOB_ID"]), int(step) if step.isdigit() else 1 << 32, pid


def _line(pid: int, own: dict[str, str], all_of_them: Found) -> str:
    step = own.get("SLURM_STEP_ID")
    parent = all_of_them.get(int(own["parent"]))
    first = parent is None or parent.get("SLURM_STEP_ID") != step
    local, rank = (own.get("SLURM_LOCALID", "0"), own.get("SLURM_PROCID", "0")) if first else ("-", "-")
    return f"{pid:<8} {own['SLURM_JOB_ID']:<8} {step or 'batch':<8} {local:<7} {rank:<8}"


def _meant(own: dict[str, str], one: JobId | None, node: str) -> bool:
    if node and own.get("SLURMD_NODENAME") != node:
        return False
    if one is None:
        return True
    step = own.get("SLURM_STEP_ID") or "batch"
    array = own.get("SLURM_ARRAY_JOB_ID"), own.get("SLURM_ARRAY_TASK_ID")
    is_job = array == (str(one.job_id), one.tasks) if one.tasks else own["SLURM_JOB_ID"] == str(one.job_id)
    return is_job and one.step in (None, step)


def _processes() -> Found:
    """The processes whose environment is that of a job of this state folder."""
    found: Found = {}
    here = f"{paths.HOST_VARIABLE}={paths.state_dir()}"
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            continue  # it has ended, or is somebody else's
        if here in words:
            own = dict(word.partition("=")[::2] for word in words if word.startswith("SLURM"))
            if own.get("SLURM_JOB_ID", "").isdigit():
                found[int(name)] = {**own, "parent": parent}
    return found
