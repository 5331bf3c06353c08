"""Pending jobs: hold and release, begin times, dependencies, and why a job is not looked at by the scheduler."""

from __future__ import annotations

from shim.control.lifecycle.transitions import move
from shim.core.model import states
from shim.core.model.job import SPECIAL_EXIT, Job
from shim.core.model.request import INFINITE, JobRequest

REQUEUED_HELD = "job requeued in held state"
NEVER = "DependencyNeverSatisfied"
_OWN_REASONS = frozenset(("JobHeldUser", "JobHeldAdmin", "BeginTime", "Dependency", NEVER, REQUEUED_HELD))

# Slurm's priority/basic counts down from here: earlier jobs go first.
FIRST_PRIORITY = 4294901760


def priority_of(job: Job) -> int:
    """0 for a held job; else what an operator gave it, or earlier first, less ``--nice``."""
    if job.held:
        return 0
    if job.request.priority is not None:
        return job.request.priority
    return max(1, FIRST_PRIORITY - (job.array_job_id or job.job_id) - job.request.nice)


def eligible(job: Job, now: float) -> bool:
    """Whether the scheduler may look at the job: pending, not held, begun, no dependency left."""
    return job.state == states.PENDING and not job.held and not job.dependency and job.request.begin <= now


def looked_at(job: Job, now: float) -> Job:
    """The pending job with its reason, unless the scheduler decides on the reason."""
    reason = _reason(job, now)
    if reason is None:
        if job.eligible_time and job.reason not in _OWN_REASONS:
            return job
        return job.replace(
            reason="None" if job.reason in _OWN_REASONS else job.reason,
            eligible_time=job.eligible_time or max(float(int(now)), float(job.request.begin)),
            start_time=0,
        )
    begins = float(job.request.begin) if job.request.begin > now else 0.0
    return job.replace(reason=reason, eligible_time=begins if reason == "BeginTime" else 0, start_time=begins)


def _reason(job: Job, now: float) -> str | None:
    if job.held:
        if job.reason == REQUEUED_HELD:
            return REQUEUED_HELD
        return "JobHeldAdmin" if job.held == "admin" else "JobHeldUser"
    if job.request.begin > now:
        return "BeginTime"
    if job.dependency:
        return NEVER if job.reason == NEVER else "Dependency"
    return None


def hold(job: Job, now: float, by: str = "user") -> Job:
    """``scontrol hold``: silently accepted for a running job, which it does not touch."""
    if job.state != states.PENDING:
        return job
    reason = (
        REQUEUED_HELD if job.held and job.reason == REQUEUED_HELD else "None"
    )  # who is held anyway keeps its reason
    return looked_at(job.replace(held=by, priority=0, reason=reason), now)


def release(job: Job, now: float) -> Job:
    """``scontrol release``: the job's own priority again. Nothing happens to a job that is not held."""
    if job.state != states.PENDING or not job.held:
        return job
    free = job.replace(held="", reason="None", request=_free(job))
    return looked_at(free.replace(priority=priority_of(free)), now)


def _free(job: Job) -> JobRequest:
    """The request without what an operator, or requeuehold, made of it."""
    extra = {name: text for name, text in job.request.extra.items() if name != SPECIAL_EXIT}
    return job.request.replace(priority=None, extra=extra)


def with_priority(job: Job, priority: int) -> Job:
    """The job with a priority that an operator gave it; ``--nice`` does not count beside that."""
    return job.replace(priority=priority, request=job.request.replace(priority=priority, nice=0))


def judged(job: Job, verdict: str, remaining: str, now: float) -> Job:
    """The job after its dependency was judged: ``satisfied``, ``waiting`` or ``never``; ``remaining``: what is left of it.

    A dependency that can never be satisfied leaves the job pending for ever, unless it asked to be cancelled then.
    """
    if verdict == "satisfied":
        return looked_at(job.replace(dependency=""), now)
    if verdict == "never":
        doomed = job.replace(dependency=remaining, reason=NEVER)
        if job.request.kill_on_invalid_dep:
            return move(doomed, states.CANCELLED, start_time=now, end_time=now)
        return looked_at(doomed, now)
    return looked_at(job.replace(dependency=remaining, reason="Dependency"), now)


def missed(job: Job, now: float) -> Job:
    """A pending job whose ``--deadline`` has passed, or leaves it too little time, ends in DEADLINE, with exit code 0:1."""
    return move(job, states.DEADLINE, reason="DeadLine", start_time=now, end_time=now, exit_status=1)


def starts_too_late(job: Job, now: float) -> bool:
    """Whether a job that starts now would not have the time that it wants until its ``--deadline``."""
    return bool(job.request.deadline) and int(now) > _last_start(job)


def _last_start(job: Job) -> int:
    """The last second in which the job can start. Without any limit it wants a minute, if the user did not ask for that."""
    request, limit = job.request, job.time_limit
    if request.time_min is not None:
        least = request.time_min
    elif limit is not None and limit != INFINITE:
        least = limit
    else:
        least = 1 if request.time_limit is None else 0
    return request.deadline - 60 * least


def wakes_at(job: Job, now: float) -> float | None:
    """When time alone will next change this pending job: its begin time, its deadline or the last start before that; None if
    never."""
    deadline = job.request.deadline
    times = [float(when) for when in (job.request.begin, deadline, deadline and _last_start(job) + 1) if when > now]
    return min(times) if times else None
