"""Learning a job's id without standing between the user and the real command.

salloc keeps its terminal, its streams and its place in the process tree: it is exec'ed. Beside it a process of its own watches
for its command, which has SLURM_JOB_ID in its environment, tells the controller, and ends. Where that was too short to be
seen, where there is none (--no-shell), or where sbatch said nothing (-Q), it asks squeue once for the job of this session.
"""

from __future__ import annotations

import os
import time

from shim.control.backends.slurm import beside, guard, programs
from shim.control.backends.slurm.recording import LONG, Submission
from shim.core.errors import ShimError
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.routing import Place, Route

_DEEPEST = 6  # scripts between salloc as it is called and the command that it runs
_ASKING = 10.0  # seconds for squeue's answer
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
            job_id = _watched(pid, before) or asked(route.place, submission)
            if job_id is not None:
                submission.record(route.place.name, job_id, state=states.RUNNING, patience=LONG)

    beside.run(work)


def ask_later(place: Place, submission: Submission) -> None:
    """Finds out and records what became of a submission that said nothing."""

    def work() -> None:
        job_id = asked(place, submission)
        if job_id is not None:
            submission.record(place.name, job_id, state=states.PENDING, patience=LONG)

    beside.run(work)


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
    for child in _read(f"/proc/{pid}/task/{pid}/children").split():
        for entry in _read(f"/proc/{child.decode()}/environ").split(b"\0"):
            if entry.startswith(b"SLURM_JOB_ID=") and entry[13:].isdigit() and entry[13:].decode() != before:
                return int(entry[13:])
        found = _job_below(child.decode(), before, depth - 1) if depth else None
        if found is not None:
            return found
    return None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # it has just ended, or runs as somebody else


def asked(place: Place, submission: Submission) -> int | None:
    """The one job of this session that squeue shows as submitted since ``submission`` began; None if that is not clear."""
    try:
        path, _kind = programs.find("squeue", place.folder, os.environ.get("PATH", ""))
    except ShimError:
        return None
    import subprocess

    environment = {**os.environ, **({"SLURM_CONF": place.conf} if place.conf else {})}
    environment["SLURM_TIME_FORMAT"] = "%s"
    command = [path, "-h", "-t", "all", "-u", str(os.getuid()), "-O", "ArrayJobID:32,AllocSID:32,SubmitTime:32"]
    try:
        answer = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKING, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = {
        int(words[0])
        for words in (line.split() for line in answer.splitlines())
        if len(words) == 3
        and all(word.isdigit() for word in words)
        and int(words[1]) == submission.session
        and int(words[2]) >= int(submission.began)
    }
    found -= _known(place.name, found)
    return found.pop() if len(found) == 1 else None


def _known(cluster: str, job_ids: set[int]) -> set[int]:
    """Those of the ids that have a row."""
    if not job_ids:
        return set()
    from shim.control import paths
    from shim.control.index.reader import open_reader

    try:
        reader = open_reader(paths.index_path())
        rows = reader.passed_jobs(sorted(job_ids)) if reader is not None else []
    except ShimError:
        return set()
    return {job.job_id for job in rows if job.cluster == cluster}
