"""Learning a job's id without standing between the user and the real command.

salloc keeps its terminal, its streams and its place in the process tree: it is exec'ed. Beside it a process of its own watches
for its command, which has SLURM_JOB_ID in its environment, tells the controller, and ends. Where that was too short to be
seen, where there is none (--no-shell), or where sbatch said nothing (-Q), it asks squeue for the jobs of this session.
"""

from __future__ import annotations

import os
import time

from shim.control.backends.slurm import beside, guard, programs
from shim.control.backends.slurm.recording import LONG, Submission, complain
from shim.core.errors import ShimError
from shim.core.model import states
from shim.job import rawfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.routing import ClusterRef, Route

_DEEPEST = 6  # scripts between salloc as it is called and the command that it runs
_ASKING = 10.0  # seconds for squeue's answer
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before each time that squeue is asked, as long as that helps
_SKEW = 300  # seconds that clocks of a login node and of slurmctld may differ: munge takes no more
_WIDTHS = (32, 32, 32, 8, 256)
_FORMAT = "ArrayJobID:32,AllocSID:32,SubmitTime:32,BatchFlag:8,Name:256"
# Seconds since the start -> seconds between looks.
_PACE = ((1.0, 0.002), (10.0, 0.01), (60.0, 0.1), (float("inf"), 0.5))


def salloc(route: Route, argv: Sequence[str]) -> None:
    """Watches this process, which is about to become salloc."""
    if route.in_job:
        return
    pid, session, before = os.getpid(), os.getsid(0), os.environ.get("SLURM_JOB_ID", "")

    def work() -> None:
        submission = Submission("salloc", argv, session)
        os.chdir("/")
        if submission.makes_job:
            job_id = _watched(pid, before)
            if job_id is not None:
                submission.record(route.ref.name, job_id, state=states.RUNNING, patience=LONG)
            else:
                find(route.ref, submission, states.RUNNING)

    beside.run(work)


def ask_later(ref: ClusterRef, submission: Submission) -> None:
    """Finds out and records what became of a submission that said nothing."""
    beside.run(lambda: find(ref, submission, states.PENDING))


def _watched(pid: int, before: str) -> int | None:
    """The job id in the environment of what that process starts; None if it ends without."""
    began = time.monotonic()
    name = guard.process(str(pid))
    while name is not None and (seen := guard.process(str(pid))) is not None and seen[0] == name[0]:
        found = _job_below(str(pid), before, _DEEPEST)
        if found is not None:
            return found
        age = time.monotonic() - began
        time.sleep(next(pause for limit, pause in _PACE if age < limit))
    return None


def _job_below(pid: str, before: str, depth: int) -> int | None:
    for child in rawfile.read_if_there(f"/proc/{pid}/task/{pid}/children").split():
        for entry in rawfile.read_if_there(f"/proc/{child.decode()}/environ").split(b"\0"):
            if entry.startswith(b"SLURM_JOB_ID=") and entry[13:].isdigit() and entry[13:].decode() != before:
                return int(entry[13:])
        found = _job_below(child.decode(), before, depth - 1) if depth else None
        if found is not None:
            return found
    return None


def find(ref: ClusterRef, submission: Submission, state: str) -> int | None:
    """Records the job that came of ``submission``; its id. What is not found is noted in the controller's log.

    A salloc that has failed has no job: where squeue answers and shows none, that is believed.
    """
    why = ""
    for pause in _PAUSES:
        time.sleep(pause)
        found, why = asked(ref, submission)
        for job_id in found:
            if submission.record(ref.name, job_id, state=state, patience=LONG, claim=True):
                return job_id
        if not why and submission.program == "salloc":
            return None
    complain(f"no row for {submission.line!r} on {ref.name}: {why or 'squeue shows no job of it'}")
    return None


def asked(ref: ClusterRef, submission: Submission) -> tuple[list[int], str]:
    """The jobs of this session that may have come of ``submission``, the likeliest first, and why it is not known.

    A job of the same name, newest first; where clocks agree, also one of another name.
    """
    try:
        path, _kind = programs.find("squeue", ref.folder, os.environ.get("PATH", ""))
    except ShimError as error:
        return [], str(error)
    import subprocess

    environment = {**os.environ, **({"SLURM_CONF": ref.conf} if ref.conf else {})}
    environment["SLURM_TIME_FORMAT"] = "%s"
    command = [path, "-h", "-t", "all", "-u", str(os.getuid()), "-O", _FORMAT]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKING, check=False
        )
    except OSError as error:
        return [], f"{path}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return [], f"squeue gave no answer within {_ASKING:g} s"
    if done.returncode != 0:
        return [], f"squeue ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
    return _likely(done.stdout.decode(errors="surrogateescape"), submission), ""


def _likely(answer: str, submission: Submission) -> list[int]:
    rated: dict[int, tuple[bool, int]] = {}
    for line in answer.splitlines():
        fields, begin = [], 0
        for width in _WIDTHS:
            fields.append(line[begin : begin + width].strip())
            begin += width
        job_id, session, submitted, batch, name = fields
        if not (job_id.isdigit() and session.isdigit() and submitted.isdigit()) or int(session) != submission.session:
            continue
        named = name == submission.request.name
        early = int(submission.began) - int(submitted)
        if (batch == "1") == (submission.program == "sbatch") and early <= (_SKEW if named else 0):
            rated[int(job_id)] = (named and early <= 0, int(job_id))
    return sorted(rated, key=lambda job_id: rated[job_id], reverse=True)
