"""The states of jobs that our sbatch submitted to a real Slurm without accounting: the present state, else the last known one.

One squeue asks that Slurm about all jobs that have not ended. The index keeps the answer, because slurmctld forgets ended
jobs (MinJobAge).
"""

from __future__ import annotations

from time import time

from shim.control.backends.slurm import beside
from shim.control.backends.slurm.questions import Question, answered
from shim.core.errors import INVALID_JOB_ID
from shim.core.model import slurm_job_snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.job import Job
    from shim.core.routing import ClusterRef

MOST = 1000  # jobs asked about at a time: those that were submitted last
_AT_ONCE = 200  # rows in one message


def brought_up(rows: Sequence[Job], ref: ClusterRef) -> tuple[list[Job], str]:
    """These rows of one cluster as far as can be known now, tasks of arrays among them; and why nothing could be asked, "" if it
    could, or had not to be.

    What is new is told to the controller by a process beside.
    """
    now = time()
    wanted = sorted(
        (job for job in rows if slurm_job_snapshots.worth_asking(job, now)), key=lambda job: job.submit_time
    )[-MOST:]
    changed: list[Job] = []
    problem = ""
    if wanted:
        question = _asked(wanted, ref)
        if question.code == 0 or INVALID_JOB_ID.encode() in question.err:
            changed = slurm_job_snapshots.apply(
                wanted, slurm_job_snapshots.parse_squeue(question.out.decode(errors="replace")), now
            )
        else:
            said = question.err.decode(errors="replace").strip()
            problem = question.problem or said or f"squeue ended with {question.code}"
    if changed:
        beside.run(lambda: _keep(changed))
    known = {job.job_id: job for job in rows}
    known.update({job.job_id: job for job in changed})
    return [slurm_job_snapshots.as_recorded(job) for job in known.values()], problem


def _asked(wanted: Sequence[Job], ref: ClusterRef) -> Question:
    # By the array's own id all its tasks are shown, whichever of them have rows.
    ids = sorted({job.array_job_id or job.job_id for job in wanted})
    words = [
        "--noheader",
        "--states=all",
        f"--jobs={','.join(map(str, ids))}",
        f"--Format={slurm_job_snapshots.FORMAT}",
    ]
    question = Question(ref, "squeue", words, slurm_job_snapshots.ENVIRONMENT)
    answered([question])
    return question


def _keep(changed: Sequence[Job]) -> None:
    from shim.control.backends.slurm.recording import LONG, tell

    for begin in range(0, len(changed), _AT_ONCE):
        tell("seen", {"jobs": [job.to_dict() for job in changed[begin : begin + _AT_ONCE]]}, LONG, start=True)
