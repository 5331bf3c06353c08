"""One pass of the scheduler: first come, first served by priority, with conservative backfill.

A job that cannot start gets a reservation at the earliest time that the limits of the running jobs promise; a job behind it
starts early only if it takes nothing from a reservation. Only the first jobs of the queue get one (Slurm's bf_max_job_test).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shim.control.scheduler import together
from shim.control.scheduler.one_pass import Pass, Plan
from shim.control.scheduler.queue import Members, in_order
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job


def plan(
    pending: Sequence[Job],
    cluster: Cluster,
    running: Iterable[Job],
    now: float,
    beside: Iterable[Job] = (),
    forecast: bool = True,
    members: Members = lambda uid: (),
) -> Plan:
    """A pass over the ``pending`` jobs of ``cluster``; ``running`` are all that hold shares.

    ``beside``: jobs of other clusters on the same machine: they hold their part of it.
    Held jobs, jobs whose begin time is to come and jobs with a dependency left only get their reason. A heterogeneous job has
    its turn with the first of its components, and none while one of them is not to be looked at. Without ``forecast`` what is
    expected is worked out only where the start of a job behind depends on it. ``members`` gives the groups of a user; without it
    nobody is in any.
    """
    one = Pass(cluster, running, now, members)
    for job in beside:
        one.hold(job)
    components = together.groups(pending)
    for job in in_order(pending, cluster):
        reason = _not_eligible(job, now)
        if job.het_job_id:
            jobs = components.pop(job.het_job_id, [])
            if len(jobs) == job.het_size and not any(_not_eligible(other, now) for other in jobs):
                one.reserve_all()
                one.plan.reasons.update(together.consider(one, jobs))
        elif reason is None:
            reason = one.consider(job)
        if reason is not None:
            one.plan.reasons[job.key] = reason
    if forecast:
        one.reserve_all()
    return one.plan


def _not_eligible(job: Job, now: float) -> str | None:
    """Why the scheduler does not look at the job at all."""
    if job.held:
        if "held" in job.reason:
            return job.reason  # job requeued in held state
        return "JobHeldAdmin" if job.held == "admin" else "JobHeldUser"
    if job.request.begin > now:
        return "BeginTime"
    if job.dependency:
        return job.reason if job.reason == "DependencyNeverSatisfied" else "Dependency"
    return None
