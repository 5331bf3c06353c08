"""``shim move JOB CLUSTER``: a pending job goes to another cluster and runs there, once."""

from __future__ import annotations

from typing import Any, TextIO

from shim.control import client, paths, site
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError


def report(job: str, cluster: str, out: TextIO) -> None:
    """Moves the job and tells what became of it. Raises ShimError where it cannot be moved: then it is where it was."""
    if not job.isascii() or not job.isdigit():
        raise ShimError(f"error: invalid job id {job}: the id of a job or of a whole array is wanted")
    places = {place.name: place for place in site.places()}
    if cluster not in places:
        raise ShimError(f"error: no cluster {cluster} is configured; there are: {', '.join(places)}")
    _check_ours(int(job))
    if places[cluster].real:
        from shim.admin import move_out

        tell(job, move_out.move(int(job), places[cluster]), out)
        return
    client.call("stay", {"job_id": int(job)})  # one on its way to a real Slurm turns back
    tell(job, client.call("move", {"job_id": int(job), "cluster": cluster}), out)


def _check_ours(job_id: int) -> None:
    """ShimError for a job that a real Slurm runs: what it has of the script and the environment is not told."""
    reader = open_reader(paths.index_path())
    if reader is None or reader.job(None, job_id) is not None:
        return
    for job in reader.passed_jobs((job_id,)):
        raise ShimError(
            f"error: job {job_id} is on {job.cluster}, a real Slurm: jobs are moved to one, not away from it",
            f"error: to run it elsewhere, cancel it and submit it again: {job.submit_line}",
        )


def tell(job: str, reply: dict[str, Any], out: TextIO) -> None:
    """Where the job is now, and what it no longer asks for."""
    named = "" if str(reply["job_id"]) == job else f" as job {reply['job_id']}"
    out.write(f"job {job} is on cluster {reply['cluster']}{named}\n")
    for note in reply["notes"]:
        out.write(f"  {note}\n")
