"""``shim move JOB CLUSTER``: a pending job goes to another cluster and runs there, once."""

from __future__ import annotations

from typing import TextIO

from shim.control import client, site
from shim.core.errors import ShimError


def report(job: str, cluster: str, out: TextIO) -> None:
    """Moves the job and tells what became of it. Raises ShimError where it cannot be moved: then it is where it was."""
    if not job.isascii() or not job.isdigit():
        raise ShimError(f"error: invalid job id {job}: the id of a job or of a whole array is wanted")
    known = site.backends()
    if cluster not in known:
        raise ShimError(f"error: no cluster {cluster} is configured; there are: {', '.join(known)}")
    reply = client.call("move", {"job_id": int(job), "cluster": cluster})
    tell(job, reply, out)


def tell(job: str, reply: dict[str, object], out: TextIO) -> None:
    """Where the job is now, and what it no longer asks for."""
    named = "" if str(reply["job_id"]) == job else f" as job {reply['job_id']}"
    out.write(f"job {job} is on cluster {reply['cluster']}{named}\n")
    notes = reply["notes"]
    assert isinstance(notes, list)
    for note in notes:
        out.write(f"  {note}\n")
