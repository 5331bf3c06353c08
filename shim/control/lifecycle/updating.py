"""``scontrol update`` of a job: which fields may be changed when and by whom, with Slurm's texts for the rest."""

from __future__ import annotations

from collections.abc import Mapping

from shim.control.lifecycle import running, submission, tasks, waiting
from shim.control.lifecycle import update_request as asks
from shim.control.lifecycle.update_field import NO_PRIORITY, NOT_PENDING, Asked, Handler, UpdateRefused, number
from shim.core.admission.partition_limits import BAD_TIME_MIN
from shim.core.admission.refusals import BAD_PREFERENCE
from shim.core.errors import (
    ACCESS_DENIED,
    ALREADY_FINISHED,
    INVALID_FEATURE,
    INVALID_TIME_LIMIT,
    JOB_HELD,
    NOT_SUPPORTED,
)
from shim.core.formats import datetimes, times
from shim.core.formats.integers import leading_int
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import INFINITE

__all__ = ["NOT_PENDING", "UpdateRefused", "updated"]


def updated(job: Job, fields: Mapping[str, str], cluster: Cluster, *, admin: bool, now: float, own: bool = True) -> Job:
    """The job with all of ``fields`` changed. Raises UpdateRefused (then nothing is changed). ``own``: whether its user asks.

    Names are scontrol's, in any case. A pending job's size, limit and reason follow from what it asks for then.
    """
    if job.state in states.TERMINAL or job.state == states.COMPLETING:
        raise UpdateRefused(ALREADY_FINISHED)
    for name, text in fields.items():
        word = name.lower()
        handler = _HANDLERS.get(word)
        if handler is None:
            raise UpdateRefused(f"Update of this parameter is not supported: {name}={text}")
        if job.state != states.PENDING and word not in _WHILE_RUNNING:
            raise UpdateRefused(NOT_PENDING)
        if word in _DENIED and not admin:
            raise UpdateRefused(ACCESS_DENIED)
        try:
            job = handler(job, Asked(text=text, cluster=cluster, admin=admin, now=now, own=own))
        except ValueError:
            raise UpdateRefused(f"Invalid {name} value") from None
    if job.state != states.PENDING:
        return job
    return waiting.looked_at(submission.shaped(job, cluster), now)


def _time_limit(job: Job, asked: Asked) -> Job:
    minutes = _minutes(job.time_limit, asked.text)
    if job.state == states.PENDING:
        return job.replace(request=job.request.replace(time_limit=minutes))
    return _limited(job, minutes, asked)


def _limited(job: Job, minutes: int, asked: Asked) -> Job:
    """The running job with another limit, which only an operator may raise."""
    old = job.time_limit
    raised = minutes == INFINITE or (old is not None and old >= 0 and minutes > old)
    if raised and old != INFINITE and not asked.admin:
        raise UpdateRefused(ACCESS_DENIED)
    return running.limited(job, minutes)


def _minutes(old: int | None, text: str) -> int:
    """The limit that ``30``, ``+30`` or ``-30`` make of the old one."""
    sign, rest = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    try:
        minutes = times.parse_minutes(rest)
    except ValueError:
        raise UpdateRefused("Invalid TimeLimit value") from None
    if not sign:
        return minutes
    if old is None or old < 0 or minutes < 0:
        return INFINITE  # what has no limit keeps none; Slurm, that counts in 32 bits, would leave it some minutes
    if sign == "-" and minutes > old:
        raise UpdateRefused(INVALID_TIME_LIMIT)
    return old + minutes if sign == "+" else old - minutes


def _time_min(job: Job, asked: Asked) -> Job:
    least, limit = _minutes(None, asked.text), job.request.time_limit
    if limit is not None and limit >= 0 and not 0 <= least <= limit:
        raise UpdateRefused(BAD_TIME_MIN)
    return job.replace(request=job.request.replace(time_min=least))


def _nice(job: Job, asked: Asked) -> Job:
    nice = number(asked.text or "100")
    if nice < 0 and not asked.admin:
        raise UpdateRefused(ACCESS_DENIED)
    if job.request.priority is not None:
        return job  # an operator's word stands
    return job.replace(request=job.request.replace(nice=nice))


def _priority(job: Job, asked: Asked) -> Job:
    priority = int(asked.text)
    if not 0 <= priority < _MOST_PRIORITY:
        raise ValueError(asked.text)
    if priority and job.state != states.PENDING and not asked.admin:
        raise UpdateRefused(NO_PRIORITY)
    if priority == 0:
        return waiting.hold(job, asked.now, asked.holder)
    if job.held:
        raise UpdateRefused(JOB_HELD)
    if not asked.admin:
        raise UpdateRefused(ACCESS_DENIED)
    return waiting.with_priority(job, priority)


def _throttle(job: Job, asked: Asked) -> Job:
    return tasks.throttled(job, number(asked.text))


def _comment(job: Job, asked: Asked) -> Job:
    return job.replace(comment=asked.text, request=job.request.replace(comment=asked.text))


def _end_time(job: Job, asked: Asked) -> Job:
    """The limit that ends the job then, in whole minutes."""
    if job.state == states.PENDING:
        raise UpdateRefused("Job is not running")
    end = datetimes.parse_when(asked.text, asked.now)
    return _limited(job, max(0, int(end - job.start_time + 59) // 60), asked)


def _switches(job: Job, asked: Asked) -> Job:
    """Changed, the wait counts in whole minutes; without one it stays, and a job that had none does not wait.

    The count is read as C does: what is no number asks for no switch, and no time is looked for behind it.
    """
    number, rest = leading_int(asked.text)
    count = (number or 0) % (1 << 32)
    at, wait = rest[:1], rest[1:]
    if at != "@":
        _, at, wait = (job.request.switches or "0@0").partition("@")
        return job.replace(request=job.request.replace(switches=f"{count}{at}{wait}"))
    try:
        minutes = times.parse_minutes(wait)
    except ValueError:
        minutes = INFINITE
    return job.replace(request=job.request.replace(switches=str(count) if minutes < 0 else f"{count}@{minutes}"))


_HANDLERS: dict[str, Handler] = {
    "timelimit": _time_limit,
    "timemin": _time_min,
    "jobname": asks.text("name"),
    "name": asks.text("name"),
    "nice": _nice,
    "priority": _priority,
    "dependency": asks.dependency,
    "partition": asks.partition,
    "numnodes": asks.num_nodes,
    "numtasks": asks.num_tasks,
    "numcpus": asks.num_cpus,
    "mincpusnode": asks.count("min_cpus"),
    "minmemorynode": asks.memory("mem_per_node", "mem_per_cpu"),
    "minmemorycpu": asks.memory("mem_per_cpu", "mem_per_node"),
    "mintmpdisknode": asks.count("tmp_disk"),
    "reqnodelist": asks.nodes_of("node_list"),
    "nodelist": asks.nodes_of("node_list"),
    "excnodelist": asks.nodes_of("exclude"),
    "features": asks.features_of("constraint", INVALID_FEATURE),
    "prefer": asks.features_of("prefer", BAD_PREFERENCE),
    "gres": asks.gres,
    "trespernode": asks.tres_per_node,
    "burstbuffer": asks.refused(NOT_SUPPORTED),
    "clusters": asks.refused("Unspecified error"),
    "clusterfeatures": asks.refused("Unspecified error"),
    "starttime": asks.start_time,
    "eligibletime": asks.eligible,
    "endtime": _end_time,
    "comment": _comment,
    "account": asks.text("account"),
    "qos": asks.text("qos"),
    "wckey": asks.text("wckey"),
    "requeue": asks.requeue,
    "stdout": asks.text("stdout"),
    "workdir": asks.work_dir,
    "mailtype": asks.text("mail_type"),
    "mailuser": asks.text("mail_user"),
    "arraytaskthrottle": _throttle,
    "switches": _switches,
    "licenses": asks.licenses,
    "reservation": asks.reservation,
    "deadline": asks.deadline,
    "contiguous": asks.flag("contiguous"),
    "oversubscribe": asks.flag("oversubscribe"),
    "shared": asks.flag("oversubscribe"),
    "reboot": asks.recorded("reboot"),
    "admincomment": asks.recorded("admin_comment"),
    "sitefactor": asks.recorded("site_factor"),
}
_MOST_PRIORITY = (1 << 32) - 2
_DENIED = frozenset(
    ("deadline", "contiguous", "oversubscribe", "shared", "reboot", "admincomment", "sitefactor"),
)
# Fields of a running job that can be changed, or whose handler says why not.
_WHILE_RUNNING = frozenset(
    (
        "timelimit",
        "jobname",
        "name",
        "comment",
        "numnodes",
        "priority",
        "reqnodelist",
        "nodelist",
        "endtime",
        "mailtype",
        "mailuser",
        "admincomment",
        "sitefactor",
        "reservation",
        "qos",
        "requeue",
        "nice",
        "timemin",
        "arraytaskthrottle",
        "partition",
        "switches",
        "licenses",
        "reboot",
        "burstbuffer",
        "clusters",
        "clusterfeatures",
    )
)
