"""The files of a batch job: StdIn, StdOut, StdErr as scontrol shows them and as the script gets them."""

from __future__ import annotations

from shim.core.environ import filenames
from shim.core.model.job import Job


def named(job: Job) -> Job:
    """The job with its file names expanded, as far as they are known: ``%N`` is once the job has nodes."""
    if job.request.kind != "batch":
        return job
    stdout, stderr, stdin = filenames.job_files(job)
    return job.replace(stdout=stdout, stderr=stderr, stdin=stdin)
