"""``scontrol update`` of a job: which fields may be changed when and by whom, with Slurm's texts for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shim.control.lifecycle import running, submission, tasks, waiting
from shim.core import hostlist, sizes, times, tres, when
from shim.core.dependency import Dependency
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import INFINITE
from shim.core.value import Value

DENIED = "Access/permission denied"
NOT_PENDING = "Job is no longer pending execution"
HELD = "Job is in held state, pending scheduler release"
NO_PRIORITY = "Changes to job priority are not persistent, change nice instead"
FINISHED = "Job/step already completing or completed"


class UpdateRefused(Exception):
    """Slurm's text for a change that is not allowed; the rest of the update is not made either."""


class Asked(Value):
    """One change: the text, and who asks when."""

    text: str
    cluster: Cluster
    admin: bool
    now: float


Handler = Callable[[Job, Asked], Job]


def updated(job: Job, fields: Mapping[str, str], cluster: Cluster, *, admin: bool, now: float) -> Job:
    """The job with all of ``fields`` changed. Raises UpdateRefused (then nothing is changed).

    Names are scontrol's, in any case. A pending job's size, limit and reason follow from what it asks for then.
    """
    if job.state in states.TERMINAL or job.state == states.COMPLETING:
        raise UpdateRefused(FINISHED)
    for name, text in fields.items():
        word = name.lower()
        handler = _HANDLERS.get(word)
        if handler is None:
            raise UpdateRefused(f"Update of this parameter is not supported: {name}={text}")
        if word in _DENIED and not admin:
            raise UpdateRefused(DENIED)
        if job.state != states.PENDING and word not in _WHILE_RUNNING:
            raise UpdateRefused(NOT_PENDING)
        try:
            job = handler(job, Asked(text=text, cluster=cluster, admin=admin, now=now))
        except ValueError:
            raise UpdateRefused(f"Invalid {name} value") from None
    if job.state != states.PENDING:
        return job
    return waiting.looked_at(submission.shaped(job, cluster), now)


def _time_limit(job: Job, asked: Asked) -> Job:
    minutes = _minutes(job.time_limit, asked.text)
    if job.state == states.PENDING:
        return job.replace(request=job.request.replace(time_limit=minutes))
    old = job.time_limit
    raised = minutes == INFINITE or (old is not None and old >= 0 and minutes > old)
    if raised and old != INFINITE and not asked.admin:
        raise UpdateRefused(DENIED)
    return running.limited(job, minutes)


def _minutes(old: int | None, text: str) -> int:
    sign, rest = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    try:
        minutes = times.parse_minutes(rest)
    except ValueError:
        raise UpdateRefused("Invalid TimeLimit value") from None
    if not sign:
        return minutes
    if old is None or old < 0:
        raise UpdateRefused("Invalid TimeLimit value")
    changed = old + minutes if sign == "+" else old - minutes
    if changed < 1:
        raise UpdateRefused("Invalid TimeLimit value")
    return changed


def _nice(job: Job, asked: Asked) -> Job:
    nice = _number(asked.text or "100")
    if nice < 0 and not asked.admin:
        raise UpdateRefused(DENIED)
    return job.replace(request=job.request.replace(nice=nice))


def _priority(job: Job, asked: Asked) -> Job:
    if job.state != states.PENDING:
        raise UpdateRefused(NO_PRIORITY)
    if _number(asked.text) == 0:
        return waiting.hold(job, asked.now)
    if job.held and not asked.admin:
        raise UpdateRefused(HELD)
    if not asked.admin:
        raise UpdateRefused(DENIED)
    return waiting.release(job, asked.now)


def _dependency(job: Job, asked: Asked) -> Job:
    try:
        text = str(Dependency.parse(asked.text)) if asked.text else ""
    except ValueError:
        raise UpdateRefused("Job dependency problem") from None
    return job.replace(dependency=text, reason="None", request=job.request.replace(dependency=text or None))


def _partition(job: Job, asked: Asked) -> Job:
    for name in asked.text.split(","):
        if asked.cluster.partition(name) is None:
            raise UpdateRefused("Invalid partition name specified")
    return job.replace(partition=asked.text, request=job.request.replace(partition=asked.text))


def _num_nodes(job: Job, asked: Asked) -> Job:
    low, dash, high = asked.text.partition("-")
    least, most = _number(low), _number(high) if dash else _number(low)
    if job.state != states.PENDING or least < 1 or most < least:
        raise UpdateRefused("Node count specification invalid")
    return job.replace(request=job.request.replace(min_nodes=least, max_nodes=most))


def _num_cpus(job: Job, asked: Asked) -> Job:
    cpus = _number(asked.text.partition("-")[0])
    return job.replace(request=job.request.replace(ntasks=-(-cpus // (job.request.cpus_per_task or 1))))


def _nodes_of(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        if job.state != states.PENDING:
            raise UpdateRefused("Invalid node name specified")
        try:
            names = hostlist.expand(asked.text) if asked.text else []
        except ValueError:
            raise UpdateRefused("Invalid node name specified") from None
        if any(asked.cluster.node(name) is None for name in names):
            raise UpdateRefused("Invalid node name specified")
        return job.replace(request=job.request.replace(**{field: asked.text or None}))

    return change


def _start_time(job: Job, asked: Asked) -> Job:
    begin = when.parse_when(asked.text, asked.now)
    return job.replace(request=job.request.replace(begin=begin), reason="None", eligible_time=0)


def _deadline(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(deadline=when.parse_when(asked.text, asked.now)))


def _flag(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: asked.text.lower() in ("1", "yes")}))

    return change


def _memory(field: str, other: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        try:
            memory = sizes.parse_memory(asked.text)
        except ValueError:
            raise UpdateRefused("Memory specification can not be satisfied") from None
        return job.replace(request=job.request.replace(**{field: memory, other: None}))

    return change


def _gres(job: Job, asked: Asked) -> Job:
    try:
        text = tres.normalize_gres(asked.text)
    except ValueError:
        raise UpdateRefused("Invalid generic resource (gres) specification") from None
    return job.replace(request=job.request.replace(gres=text or None))


def _requeue(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(requeue=asked.text.lower() not in ("0", "no")))


def _throttle(job: Job, asked: Asked) -> Job:
    return tasks.throttled(job, _number(asked.text))


def _comment(job: Job, asked: Asked) -> Job:
    return job.replace(comment=asked.text, request=job.request.replace(comment=asked.text))


def _end_time(job: Job, asked: Asked) -> Job:
    raise UpdateRefused("Job is not running" if job.state == states.PENDING else DENIED)


def _reservation(job: Job, asked: Asked) -> Job:
    if asked.text:
        raise UpdateRefused("Requested reservation is invalid")
    return job


def _eligible(job: Job, asked: Asked) -> Job:
    return job


def _text(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: asked.text or None}))

    return change


def _count(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: _number(asked.text)}))

    return change


def _recorded(name: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(extra={**job.request.extra, name: asked.text}))

    return change


def _licenses(job: Job, asked: Asked) -> Job:
    try:
        tres.parse_licenses(asked.text)
    except ValueError:
        raise UpdateRefused("Invalid license specification") from None
    return job.replace(request=job.request.replace(licenses=asked.text or None))


def _work_dir(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(work_dir=asked.text)) if asked.text else job


def _number(text: str) -> int:
    number = int(text)
    if abs(number) >= 1 << 31:
        raise ValueError(text)
    return number


_HANDLERS: dict[str, Handler] = {
    "timelimit": _time_limit,
    "timemin": lambda job, asked: job.replace(request=job.request.replace(time_min=_minutes(None, asked.text))),
    "jobname": _text("name"),
    "name": _text("name"),
    "nice": _nice,
    "priority": _priority,
    "dependency": _dependency,
    "partition": _partition,
    "numnodes": _num_nodes,
    "numtasks": _count("ntasks"),
    "numcpus": _num_cpus,
    "mincpusnode": _count("min_cpus"),
    "minmemorynode": _memory("mem_per_node", "mem_per_cpu"),
    "minmemorycpu": _memory("mem_per_cpu", "mem_per_node"),
    "mintmpdisknode": _count("tmp_disk"),
    "reqnodelist": _nodes_of("node_list"),
    "nodelist": _nodes_of("node_list"),
    "excnodelist": _nodes_of("exclude"),
    "features": _text("constraint"),
    "gres": _gres,
    "trespernode": _gres,
    "starttime": _start_time,
    "eligibletime": _eligible,
    "endtime": _end_time,
    "comment": _comment,
    "account": _text("account"),
    "qos": _text("qos"),
    "wckey": _text("wckey"),
    "requeue": _requeue,
    "stdout": _text("stdout"),
    "workdir": _work_dir,
    "mailtype": _text("mail_type"),
    "mailuser": _text("mail_user"),
    "arraytaskthrottle": _throttle,
    "switches": _text("switches"),
    "licenses": _licenses,
    "reservation": _reservation,
    "deadline": _deadline,
    "contiguous": _flag("contiguous"),
    "oversubscribe": _flag("oversubscribe"),
    "shared": _flag("oversubscribe"),
    "reboot": _recorded("reboot"),
    "admincomment": _recorded("admin_comment"),
    "sitefactor": _recorded("site_factor"),
}
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
        "reservation",
        "wckey",
        "account",
        "qos",
        "requeue",
    )
)
