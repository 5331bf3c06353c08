"""The first node of a running job, for commands that ask it or act through it: sstat, sattach, sbcast."""

from __future__ import annotations

import os

from shim.commands import site_view
from shim.commands.job_ids import narrowed
from shim.control import client
from shim.control.index.query import JobQuery
from shim.core.errors import ALREADY_DONE, INVALID_JOB_ID, ShimError, plain
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.commands.job_ids import JobId
    from shim.core.model.job import Job

PATIENCE = 30.0  # seconds that a leader has for an answer
_RUNNING = (states.RUNNING, states.SUSPENDED, states.STOPPED, states.COMPLETING)


def hand_on(program: str, argv: Sequence[str], job_ids: Sequence[int]) -> None:
    """Becomes the real command where one of these jobs is a real Slurm's; else returns."""
    from shim.core import routing

    if routing.own_job(os.environ) and os.environ.get("SLURM_JOB_ID", "") in map(str, job_ids):
        return
    places = site_view.real_clusters()
    if not places:
        return
    from shim.commands import real_slurm

    for place in real_slurm.owners_of(job_ids, places, program).values():
        if place is not None:
            real_slurm.become(program, place, argv)


def find(program: str, wanted: JobId) -> Job | None:
    """The newest job that is meant; of an array's id the task that was started last."""
    reader = site_view.open_index(program)
    if reader is None:
        return None
    query = JobQuery(job_ids=(wanted.job_id,), active=False)
    found = [job for job in reader.jobs(query) if narrowed(job, [wanted]) is not None]
    running = [job for job in found if runs(job)]
    return (running or found)[-1] if found else None


def runs(job: Job) -> bool:
    """Whether it has nodes on which its script, or an allocation, is there."""
    return job.state in _RUNNING


def run_folder(job_id: int) -> str:
    """The run folder by which the leader of a running job is reached. ShimError with Slurm's words where it is not."""
    own = os.environ.get("SHIM_RUN_DIR", "")
    if os.path.basename(own).partition(".")[0] == str(job_id):
        return own
    return str(client.call("reach", {"job_id": job_id})["run_dir"])


def ask(job_id: int, message: dict[str, Any]) -> list[dict[str, Any]]:
    """What the leader of that job answers. ShimError where there is none (any more)."""
    from shim.job import command
    from shim.job.run_folder import read_key

    try:
        folder = run_folder(job_id)
        return command.ask(folder, read_key(folder), message, PATIENCE)
    except (OSError, ValueError):
        raise ShimError(plain(ALREADY_DONE)) from None


def why(error: ShimError) -> str:
    """Slurm's own words of such an error."""
    return error.lines[-1].rpartition(": ")[2] if error.lines else INVALID_JOB_ID
