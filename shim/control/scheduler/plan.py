"""One pass of the scheduler: first come, first served by priority, with conservative backfill.

A job that cannot start gets a reservation at the earliest time that the limits of the running jobs promise; a job behind it
starts early only if it takes nothing from a reservation. Only the first jobs of the queue get one (Slurm's bf_max_job_test).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shim.control.scheduler.one_pass import Pass, Plan
from shim.control.scheduler.queue import Members, Want, in_order, seconds
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job, NodeShare

# A component of a heterogeneous job, its shares, and the partition that they are in.
Placed = tuple[Job, Partition, Sequence[NodeShare]]


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
    components = _components(pending)
    for job in in_order(pending, cluster):
        reason = _not_eligible(job, now)
        if job.het_job_id:
            jobs = components.pop(job.het_job_id, [])
            if len(jobs) == job.het_size and not any(_not_eligible(other, now) for other in jobs):
                one.reserve_all()
                one.plan.reasons.update(_start_together(one, jobs))
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


def _components(pending: Iterable[Job]) -> dict[int, list[Job]]:
    """The pending components of each heterogeneous job by its id, in their order."""
    found: dict[int, list[Job]] = {}
    for job in sorted(pending, key=lambda job: job.het_offset):
        if job.het_job_id:
            found.setdefault(job.het_job_id, []).append(job)
    return found


def _start_together(one: Pass, jobs: Sequence[Job]) -> dict[int, str]:
    """Starts all components of a heterogeneous job, each on nodes of its own, or lets them all wait; the reasons by key."""
    wants = [one.want(job) for job in jobs]
    if one.licenses_missing(jobs):
        return {job.key: want.standing(job) or "Licenses" for job, want in zip(jobs, wants)}
    found = _fit(one, jobs, wants, one.now)
    if found is None:
        return _wait(one, jobs, wants)
    for job, partition, shares in found:
        one.start(job, None, partition, shares)
    return {}


def _fit(one: Pass, jobs: Sequence[Job], wants: Sequence[Want], start: float) -> list[Placed] | None:
    """Every component's place at that time: the first component chooses first, then those with the fewest nodes to choose from."""
    pairs = list(zip(jobs, wants))
    choosy = sorted(pairs, key=lambda pair: sum(len(names) for _, names in pair[1].places))
    for order in [pairs] if choosy == pairs else [pairs, choosy]:
        found = _placed(one, order, start)
        if found is not None:
            return sorted(found, key=lambda placed: placed[0].het_offset)
    return None


def _placed(one: Pass, pairs: Sequence[tuple[Job, Want]], start: float) -> list[Placed] | None:
    taken: set[str] = set()
    found: list[Placed] = []
    for job, want in pairs:
        # Nodes that another component names are not for this one.
        named = {name for other, _ in pairs if other is not job for name in _required(other)}
        place = _place(one, job, want, start, taken | named)
        if place is None:
            return None
        found.append(place)
        taken.update(share.name for share in place[2])
    longest = max(seconds(job, partition) for job, partition, _ in found)
    everything = [share for _, _, shares in found for share in shares]
    return found if one.profile.room(start, start + longest).holds(everything) else None


def _place(one: Pass, job: Job, want: Want, start: float, without: set[str]) -> Placed | None:
    for partition, names in want.allowed(job):
        left = [name for name in names if name not in without]
        shares = one.fit_in(partition, left, want, start, seconds(job, partition))
        if shares is not None:
            return job, partition, shares
    return None


def _required(job: Job) -> list[str]:
    return hostlist.expand(job.request.node_list or "")


def _wait(one: Pass, jobs: Sequence[Job], wants: Sequence[Want]) -> dict[int, str]:
    """Reserves resources for all components; for none if one component can never start."""
    standing = [want.standing(job) for job, want in zip(jobs, wants)]
    if any(standing):
        return {job.key: reason or "Resources" for job, reason in zip(jobs, standing)}
    _reserve(one, jobs, wants)
    names = {partition.name for want in wants for partition in want.partitions}
    reason = one.contends(names)
    return dict.fromkeys([job.key for job in jobs], reason)


def _reserve(one: Pass, jobs: Sequence[Job], wants: Sequence[Want]) -> None:
    if not one.may_reserve:
        return
    for time in one.profile.times(sum(want.cpus for want in wants)):
        found = _fit(one, jobs, wants, time) if time > one.now else None
        if found is not None:
            for job, partition, shares in found:
                one.reserve_at(time, job, partition, shares)
            one.reserved += 1
            return
