"""A new job from a request: what sbatch, salloc and srun hand in becomes a pending record."""

from __future__ import annotations

from shim.control.lifecycle import files, waiting
from shim.core.admission.partition_rules import apply_partition_rules, that_take_jobs
from shim.core.errors import submission_failed
from shim.core.formats import cron
from shim.core.formats.array_spec import ArraySpec
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job
from shim.core.model.request import INFINITE, JobRequest
from shim.core.placement.pending_estimate import pending_estimate
from shim.core.value import Value

_ANY_SIZE = 1 << 31  # the cluster's limit is checked before a job is made


class Submitter(Value):
    """Who submits, from where."""

    uid: int
    gid: int = 0
    user: str = ""
    group: str = ""
    host: str = ""
    line: str = ""  # the command line, for SubmitLine
    sid: int = 0
    operator: bool = False  # whose --priority counts


def submitted(request: JobRequest, cluster: Cluster, submitter: Submitter, job_id: int, now: float) -> Job:
    """The pending job. An array is one record until its tasks start. Times are whole seconds, as Slurm's are."""
    second = float(int(now))
    if request.qos and not cluster.accounting:
        request = request.replace(qos=None)
    if request.cron:
        request = request.replace(begin=_first_time(request, now))
    if request.priority is not None and not submitter.operator:
        request = request.replace(priority=None)
    if "," in (request.partition or ""):  # Slurm forgets those that take no jobs now
        request = request.replace(partition=that_take_jobs(request.partition or "", cluster) or request.partition)
    partition = None if "," in partition_text(request, cluster) else cluster.partition(partition_text(request, cluster))
    if partition is not None:
        request = apply_partition_rules(request, cluster, partition)
    array = request.array or None
    job = Job(
        cluster=cluster.name,
        job_id=job_id,
        array_job_id=job_id if array else 0,
        array_tasks=str(ArraySpec.parse(array, _ANY_SIZE)) if array else None,
        array_spec=array,
        uid=submitter.uid,
        gid=submitter.gid,
        user=submitter.user,
        group=submitter.group,
        submit_host=submitter.host,
        submit_line=submitter.line,
        alloc_sid=submitter.sid,
        request=request,
        held="user" if request.hold or request.priority == 0 else "",
        partition=partition_text(request, cluster),
        submit_time=second,
        dependency=request.dependency or "",
        comment=request.comment or "",
    )
    return waiting.looked_at(files.named(shaped(job, cluster)), now)


def _first_time(request: JobRequest, now: float) -> int:
    try:
        return cron.parse(request.cron).after(now)
    except cron.CronError:
        raise submission_failed(request.kind, f"{request.cron!r} is no schedule") from None


def shaped(job: Job, cluster: Cluster) -> Job:
    """The pending job with what follows from its request and partition: size, limit, priority. Also after an update."""
    wanted = pending_estimate(job.request, cluster)
    return job.replace(
        nodes=wanted.nodes,
        cpus=wanted.cpus,
        tasks=wanted.tasks,
        time_limit=time_limit(job.request, cluster, job.partition),
        priority=waiting.priority_of(job),
    )


def partition_text(request: JobRequest, cluster: Cluster) -> str:
    """The partition asked for (may be a comma list), else the default one."""
    if request.partition:
        return request.partition
    default = cluster.default_partition
    return default.name if default else ""


def time_limit(request: JobRequest, cluster: Cluster, partition: str) -> int | None:
    """Minutes, INFINITE, or None for a job without a limit of its own that waits for one of several partitions."""
    if request.time_limit is not None:
        return request.time_limit
    if "," in partition:
        return None
    return default_limit(cluster.partition(partition))


def default_limit(partition: Partition | None) -> int:
    """What a job gets that asks for no limit: DefaultTime, else MaxTime, else no limit."""
    if partition is None:
        return INFINITE
    for limit in (partition.default_time, partition.max_time):
        if limit is not None:
            return limit
    return INFINITE
