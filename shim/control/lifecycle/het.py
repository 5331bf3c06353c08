"""Heterogeneous jobs: several records, one for each component, that start together and end together.

The components have consecutive ids. The first one leads: the run is its run, with the nodes of all components, and the script
runs on its first node. What happens to the run happens to every component that has not ended. scancel of a component's own id,
or its own time limit, ends that component alone; the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shim.control.lifecycle import running, submission
from shim.control.lifecycle.submission import Submitter
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

NOT_ALONE = "Operation not permitted on individual component of heterogeneous job"
NOT_LEADER = "Job not heterogeneous job leader"

_TERMINATED = 15  # a raw wait status


def submitted(
    requests: Sequence[JobRequest], cluster: Cluster, submitter: Submitter, first_id: int, now: float
) -> list[Job]:
    """The pending jobs of one submission: a plain job, or the components of a heterogeneous one, the leader first."""
    jobs = [
        submission.submitted(request, cluster, submitter, first_id + offset, now)
        for offset, request in enumerate(requests)
    ]
    if len(jobs) == 1:
        return jobs
    # Mail is for the job as a whole: only what the leader asks for counts.
    silent = [jobs[0], *(job.replace(request=job.request.replace(mail_type=None, mail_user=None)) for job in jobs[1:])]
    return [
        job.replace(het_job_id=first_id, het_offset=offset, het_size=len(jobs)) for offset, job in enumerate(silent)
    ]


def follows(job: Job) -> bool:
    """Whether the job is a component that has no run of its own."""
    return job.het_offset > 0


def like_leader(job: Job, leader: Job, now: float) -> Job:
    """A component that runs, as its leader is now: stopped, suspended, going on, or being ended."""
    if job.state not in states.ALLOCATED or job.state == leader.state:
        return job
    if leader.state == states.COMPLETING:
        return running.ending(job)
    if leader.state == states.SUSPENDED:
        return running.suspended(job, now)
    if leader.state == states.RUNNING and job.state == states.SUSPENDED:
        return running.resumed(job, now)
    return job.replace(state=leader.state) if leader.state in (states.RUNNING, states.STOPPED) else job


def end_of(job: Job, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The journal's ``ended`` of the leader's run as it counts for one component.

    The leader's time limit is its own: Slurm calls the others failed by the signal that ended the script.
    """
    if not job.het_job_id or event.get("state") != states.TIMEOUT:
        return event
    if not job.het_offset:
        return {**event, "status": _TERMINATED}
    return {**event, "state": states.FAILED, "status": _TERMINATED, "reason": ""}
