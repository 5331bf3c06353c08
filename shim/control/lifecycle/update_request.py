"""Fields of ``scontrol update`` that change what a job asks for; each function is, or makes, the handler of a field."""

from __future__ import annotations

from shim.control.lifecycle import running
from shim.control.lifecycle.update_field import NOT_PENDING, Asked, Handler, UpdateRefused, number
from shim.core.admission.partition_rules import that_take_jobs
from shim.core.errors import (
    DEPENDENCY_PROBLEM,
    INVALID_GRES,
    INVALID_LICENSES,
    INVALID_NODE_COUNT,
    INVALID_NODE_NAME,
    INVALID_PARTITION_NAME,
    INVALID_RESERVATION,
    INVALID_TRES,
    MEMORY_NOT_SATISFIED,
    NOT_SUPPORTED,
    PARTITION_NOT_AVAILABLE,
)
from shim.core.formats import datetimes, hostlist, sizes, tres
from shim.core.formats.dependency import Dependency
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.model.node_classes import node_classes
from shim.core.placement import features

_RESIZED = (states.RUNNING, states.SUSPENDED, states.STOPPED)


def dependency(job: Job, asked: Asked) -> Job:
    try:
        text = str(Dependency.parse(asked.text)) if asked.text else ""
    except ValueError:
        raise UpdateRefused(DEPENDENCY_PROBLEM) from None
    return job.replace(dependency=text, reason="None", request=job.request.replace(dependency=text or None))


def partition(job: Job, asked: Asked) -> Job:
    for name in asked.text.split(","):
        if asked.cluster.partition(name) is None:
            raise UpdateRefused(INVALID_PARTITION_NAME)
    if job.state != states.PENDING:
        if asked.text != job.partition:
            raise UpdateRefused(NOT_PENDING)
        return job
    left = that_take_jobs(asked.text, asked.cluster)
    if not left:
        raise UpdateRefused(PARTITION_NOT_AVAILABLE)
    return job.replace(partition=left, request=job.request.replace(partition=left))


def num_nodes(job: Job, asked: Asked) -> Job:
    low, dash, high = asked.text.partition("-")
    if job.state != states.PENDING and (dash or not low):
        raise UpdateRefused(NOT_PENDING)
    least, most = number(low), number(high) if dash else number(low)
    if least < 1 or most < least:
        raise UpdateRefused(INVALID_NODE_COUNT)
    if job.state != states.PENDING:
        if least > len(job.shares):
            raise UpdateRefused(NOT_SUPPORTED)
        return _smaller(job, [share.name for share in job.shares[:least]], asked)
    return job.replace(request=job.request.replace(min_nodes=least, max_nodes=most))


def num_tasks(job: Job, asked: Asked) -> Job:
    tasks = number(asked.text)
    if tasks < 1:
        raise UpdateRefused("Task count specification invalid")
    return job.replace(request=job.request.replace(ntasks=tasks))


def num_cpus(job: Job, asked: Asked) -> Job:
    if not asked.text:
        return job
    cpus = number(asked.text.partition("-")[0])
    return job.replace(request=job.request.replace(ntasks=-(-cpus // (job.request.cpus_per_task or 1))))


def _smaller(job: Job, names: list[str], asked: Asked) -> Job:
    if job.state not in _RESIZED:
        raise UpdateRefused(NOT_PENDING)
    return running.resized(job, names, asked.now)


def nodes_of(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        try:
            names = hostlist.expand(asked.text) if asked.text else []
        except ValueError:
            raise UpdateRefused(INVALID_NODE_NAME) from None
        if job.state != states.PENDING:
            own = [share.name for share in job.shares]
            # A script's node stays.
            if not names or not set(names) <= set(own) or (job.request.kind == "batch" and own[0] not in names):
                raise UpdateRefused(INVALID_NODE_NAME)
            return _smaller(job, names, asked)
        if any(asked.cluster.node(name) is None for name in names):
            raise UpdateRefused(INVALID_NODE_NAME)
        return job.replace(request=job.request.replace(**{field: asked.text or None}))

    return change


def features_of(field: str, refusal: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        try:
            known = node_classes(asked.cluster).features.issuperset(features.parse(asked.text).names)
        except features.FeatureError:
            known = False
        if not known:
            raise UpdateRefused(refusal)
        return text(field)(job, asked)

    return change


def start_time(job: Job, asked: Asked) -> Job:
    begin = max(datetimes.parse_when(asked.text, asked.now), int(asked.now))
    return job.replace(request=job.request.replace(begin=begin), reason="None", eligible_time=0)


def deadline(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(deadline=datetimes.parse_when(asked.text, asked.now)))


def flag(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: asked.text.lower() in ("1", "yes")}))

    return change


def memory(field: str, other: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        try:
            memory = sizes.parse_memory(asked.text)
        except ValueError:
            raise UpdateRefused(MEMORY_NOT_SATISFIED) from None
        return job.replace(request=job.request.replace(**{field: memory, other: None}))

    return change


def gres(job: Job, asked: Asked) -> Job:
    cluster = asked.cluster
    known = node_classes(cluster).gres | {"gpu", *cluster.gres_types}
    try:
        found = tres.normalize_gres(asked.text)
    except ValueError:
        raise UpdateRefused(INVALID_GRES) from None
    wrong = tres.unknown_gres(found, known) if found or not asked.text else INVALID_GRES  # none is no name here
    if wrong:
        raise UpdateRefused(wrong)
    return job.replace(request=job.request.replace(gres=found or None))


def tres_per_node(job: Job, asked: Asked) -> Job:
    """As scontrol shows it: ``gres:gpu:2``, or ``gres/gpu:2``."""
    kind, name = asked.text[:5], asked.text[5:]
    if asked.text and kind not in ("gres:", "gres/"):
        raise UpdateRefused(INVALID_TRES)
    return gres(job, asked.replace(text=name))


def refused(why: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        raise UpdateRefused(why)

    return change


def requeue(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(requeue=asked.text.lower() not in ("0", "no")))


def reservation(job: Job, asked: Asked) -> Job:
    if asked.text:
        raise UpdateRefused(INVALID_RESERVATION)
    return job


def eligible(job: Job, asked: Asked) -> Job:
    return job


def text(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: asked.text or None}))

    return change


def count(field: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(**{field: number(asked.text)}))

    return change


def recorded(name: str) -> Handler:
    def change(job: Job, asked: Asked) -> Job:
        return job.replace(request=job.request.replace(extra={**job.request.extra, name: asked.text}))

    return change


def licenses(job: Job, asked: Asked) -> Job:
    has = {one.name: one.count for one in asked.cluster.licenses}
    try:
        wanted = tres.parse_licenses(asked.text) if asked.text else ()
    except ValueError:
        raise UpdateRefused(INVALID_LICENSES) from None
    if any(count > has.get(name, -1) for name, count in wanted):
        raise UpdateRefused(INVALID_LICENSES)
    if wanted and job.state != states.PENDING and not asked.admin:  # what runs may give them back
        raise UpdateRefused(NOT_PENDING)
    return job.replace(request=job.request.replace(licenses=asked.text or None))


def work_dir(job: Job, asked: Asked) -> Job:
    return job.replace(request=job.request.replace(work_dir=asked.text)) if asked.text else job
