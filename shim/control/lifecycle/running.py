"""From the start of a job to its end, and back into the queue."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import ceil
from typing import Any

from shim.control.lifecycle import files, submission, waiting
from shim.control.lifecycle.transitions import move
from shim.core.formats import cron
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import SPECIAL_EXIT, Job, NodeShare
from shim.core.model.request import INFINITE, JobRequest
from shim.core.model.usage import Usage
from shim.core.placement.resolve import resolve

# A requeued job waits this long where the cluster does not say (``requeue_delay``); Slurm waits 120 s, twice its bf_interval.
REQUEUE_DELAY = 1.0

_NONE: Mapping[str, Sequence[int]] = {}
_REASONS = {states.TIMEOUT: "TimeLimit", states.OUT_OF_MEMORY: "OutOfMemory", states.NODE_FAIL: "NodeDown"}


def starting(job: Job, shares: Sequence[NodeShare], cluster: Cluster, partition: str, now: float) -> Job:
    """The job with its nodes, CONFIGURING until its agents have met."""
    limit = job.time_limit
    if limit is None:
        limit = submission.default_limit(cluster.partition(partition))
    if job.request.deadline:
        left = (job.request.deadline - int(now)) // 60
        limit = max(1, left if limit == INFINITE else min(limit, left))  # --time-min let it start
    granted = move(
        job,
        states.CONFIGURING,
        reason="None",
        system_comment="",
        shares=tuple(shares),
        partition=partition,
        nodes=len(shares),
        cpus=sum(share.cpus for share in shares),
        # Room for more tasks than one a node is no wish for them (--exclusive, --mincpus, --cpus-per-gpu).
        tasks=len(shares) if resolve(job.request).ntasks is None else sum(share.tasks for share in shares),
        time_limit=limit,
        last_sched=now,
        journal=0,
    )
    return _from(files.named(granted), now)


def limit_seconds(job: Job, cluster: Cluster) -> int | None:
    """How long the job may run; None without a limit (also for a limit that Slurm shows as INVALID)."""
    if job.time_limit is None or job.time_limit < 0:
        return None
    return (job.time_limit + cluster.over_time) * 60


def _from(job: Job, at: float) -> Job:
    """The job counted from ``at``: start, and the end that its limit sets."""
    unlimited = job.time_limit is None or job.time_limit < 0
    return job.replace(start_time=at, end_time=0 if unlimited else at + (job.time_limit or 0) * 60)


def started(job: Job, at: float) -> Job:
    """The barrier opened: the job runs, and its limit counts from here."""
    if job.state == states.CONFIGURING:
        return _from(move(job, states.RUNNING, reason="None", system_comment=""), at)
    return job  # it is being ended already


def placed(job: Job, nodes: Sequence[str], free: Mapping[str, Sequence[int]] = _NONE, *, planned: bool = False) -> Job:
    """The job with the names of the nodes that the cluster chose for it, in the order of its shares.

    ``planned``: others are still being sent away from them. ``free``: of these nodes the GPUs that no other job has: an index of the node that was planned may be another job's here.
    """
    if len(nodes) != len(job.shares):
        return job
    shares = []
    for share, name in zip(job.shares, nodes):
        gpus = tuple(free.get(name, ())[: len(share.gpus)])
        moved = share.name != name and len(gpus) == len(share.gpus)
        shares.append(share.replace(name=name, planned=planned, gpus=gpus if moved else share.gpus))
    return job.replace(shares=tuple(shares))


def not_started(job: Job, reason: str, now: float, why: str = "") -> Job:
    """The backend could not start the run, and never will. ``why``: for `scontrol show job` and `shim why`."""
    return move(
        job,
        states.FAILED,
        reason=reason,
        exit_status=states.LAUNCH_FAILURE,
        end_time=now,
        system_comment=why or job.system_comment,
    )


def waits_again(job: Job, cluster: Cluster, now: float, pause: float = 0.0, why: str = "") -> Job:
    """The run was not started, or was taken back before its start: the job waits again, for ``pause`` seconds at least. ``why``: what
    stood in the way, for `scontrol show job`.
    """
    if job.state != states.CONFIGURING:
        return not_started(job, "JobLaunchFailure", now)
    again = move(
        job, states.PENDING, shares=(), system_comment=why, partition=submission.partition_text(job.request, cluster)
    )
    begin = _begin_at(again, now + max(pause, REQUEUE_DELAY))
    again = submission.shaped(again.replace(request=begin), cluster)
    return waiting.looked_at(again.replace(start_time=0, end_time=0, eligible_time=0), now)


def ending(job: Job, state: str = "") -> Job:
    """The job's processes are being ended: COMPLETING until nothing of it is left. ``state``: what it will end as, if known."""
    reason = _REASONS.get(state, "None")
    return job.replace(reason=reason) if job.state == states.COMPLETING else move(job, states.COMPLETING, reason=reason)


def ended(job: Job, event: Mapping[str, Any], cluster: Cluster) -> Job:
    """After the journal's last line: the end, or back into the queue if that was ordered or a node was lost.

    ``final`` in the event: the job has ended by it, and is not put back into the queue.
    """
    at = float(event.get("at", 0))
    state = str(event.get("state"))
    if state not in states.TERMINAL and state != states.REQUEUED:
        state = states.FAILED
    again = state in (states.NODE_FAIL, states.PREEMPTED) and may_requeue(job, cluster) and not event.get("final")
    if state == states.REQUEUED or again:
        waits = requeued(job, cluster, at)
        said = _preempted(event) if state == states.PREEMPTED else str(event.get("detail") or "")
        return waits.replace(system_comment=said)
    return recurring(_over(job, event, state, at), cluster, at)


def preempted(job: Job, event: Mapping[str, Any]) -> Job:
    """The end of a run that made way for another job, whatever becomes of its job."""
    return _over(job, event, states.PREEMPTED, float(event.get("at", 0)))


def _preempted(event: Mapping[str, Any]) -> str:
    return f"preempted: {event['detail']}" if event.get("detail") else "preempted"


def _over(job: Job, event: Mapping[str, Any], state: str, at: float) -> Job:
    status = int(event.get("status") or 0)
    reason = str(event.get("reason") or "") or _REASONS.get(state) or _failure(state, status)
    uid = event.get("uid")
    return move(
        job,
        state,
        reason=reason,
        system_comment=str(event.get("detail") or job.system_comment),
        exit_status=status,
        derived_status=int(event.get("derived") or 0),
        cancelled_by=int(uid) if uid is not None else job.cancelled_by,
        end_time=at,
        usage=usage(event),
        script_status=int(event["script"]) if "script" in event else None,
    )


def usage(event: Mapping[str, Any]) -> Usage | None:
    """What was used, as far as a journal's line says."""
    told = event.get("usage")
    return Usage.from_dict(told) if isinstance(told, dict) else None


def _failure(state: str, status: int) -> str:
    if state != states.FAILED:
        return "None"
    return "JobLaunchFailure" if status & 0x7F else "NonZeroExitCode"


def lost(job: Job, ordered: str, cluster: Cluster, now: float, detail: str = "") -> Job:
    """The run's leader died without a word. ``ordered``: the end that was asked for already (empty: none). ``detail``: what is to be said of it."""
    return ended(job, {"at": now, "state": ordered or states.NODE_FAIL, "status": 0, "detail": detail}, cluster)


def may_requeue(job: Job, cluster: Cluster) -> bool:
    """Whether the job may run again: a batch job that allows it, or does not say where the cluster does."""
    if job.request.kind != "batch":
        return False
    return cluster.requeue if job.request.requeue is None else job.request.requeue


def recurring(job: Job, cluster: Cluster, now: float) -> Job:
    """A job of scrontab that has ended waits for its next time, with the exit code of this one; unless it was cancelled. Any other job as it is."""
    if not job.request.cron or job.state not in states.TERMINAL or job.state == states.CANCELLED:
        return job
    again = requeued(job, cluster, now)
    return again.replace(
        exit_status=job.exit_status, derived_status=job.derived_status, system_comment=job.system_comment
    )


def requeued(job: Job, cluster: Cluster, now: float) -> Job:
    """Pending again with one restart more; not before the delay is over, one of scrontab not before its next time, and held if it was asked to be."""
    delay = float(cluster.settings.get("requeue_delay") or REQUEUE_DELAY)
    begin = cron.parse(job.request.cron).after(now) if job.request.cron else now + delay
    back = move(
        job,
        states.PENDING,
        restarts=job.restarts + 1,
        system_comment="",
        reason=waiting.REQUEUED_HELD if job.held else "None",
        request=_begin_at(job, begin),
        partition=submission.partition_text(job.request, cluster),
        shares=(),
        dependency="",
        submit_time=float(int(now)),
        eligible_time=0,
        start_time=0,
        end_time=0,
        suspend_time=0,
        resize_time=0,
        exit_status=0,
        derived_status=0,
        cancelled_by=None,
        usage=None,
        script_status=None,
        journal=0,
    )
    return waiting.looked_at(files.named(submission.shaped(back, cluster)), now)


def special_exit(request: JobRequest, *, wanted: bool) -> JobRequest:
    """The request of a job that is requeued in held state, with or without the mark of a special exit (Job.shown_state)."""
    extra = {name: text for name, text in request.extra.items() if name != SPECIAL_EXIT}
    return request.replace(extra={**extra, SPECIAL_EXIT: "1"} if wanted else extra)


def _begin_at(job: Job, when: float) -> Any:
    return job.request.replace(begin=ceil(when))


def suspended(job: Job, now: float) -> Job:
    """``scontrol suspend``: nothing happens to a job that is suspended already."""
    return job if job.state == states.SUSPENDED else move(job, states.SUSPENDED, suspend_time=now)


def resumed(job: Job, now: float) -> Job:
    """``scontrol resume``: the time it stood still does not count against the limit."""
    pause = max(0.0, now - job.suspend_time) if job.suspend_time else 0.0
    return move(job, states.RUNNING, end_time=job.end_time + pause if job.end_time else 0)


def cancelled(job: Job, uid: int, now: float) -> Job:
    """A pending job is cancelled: it ends at once and has no exit status."""
    return move(job, states.CANCELLED, cancelled_by=uid, start_time=now, end_time=now, system_comment="")


def limited(job: Job, minutes: int) -> Job:
    """A running job with another time limit (minutes or INFINITE)."""
    return _from(job.replace(time_limit=minutes), job.start_time) if minutes != INFINITE else _unlimited(job)


def resized(job: Job, nodes: Container[str], at: float) -> Job:
    """A running job that has these of its nodes left. What it asked for stays: when it runs again it gets that."""
    left = tuple(share for share in job.shares if share.name in nodes)
    if not left or left == job.shares:
        return job
    told = resolve(job.request).ntasks is not None
    tasks = job.tasks if told else len(left)  # who says no number has one for each node
    cpus = sum(share.cpus for share in left)
    return job.replace(shares=left, nodes=len(left), cpus=cpus, tasks=tasks, resize_time=at)


def _unlimited(job: Job) -> Job:
    return job.replace(time_limit=INFINITE, end_time=0)
