"""``shim move``: a pending job as one of another cluster, with its script, directory and options; or on its way to a real Slurm."""

from __future__ import annotations

from shim.control.lifecycle import files, submission, waiting
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest


def fitted(request: JobRequest, to: Cluster) -> tuple[JobRequest, list[str]]:
    """The request as far as it can be asked of the other cluster, and what was given up."""
    notes: list[str] = []
    names = request.partition.split(",") if request.partition else []
    known = [name for name in names if to.partition(name) is not None]
    if names != known:
        default = to.default_partition.name if to.default_partition is not None else "no"
        gone = ",".join(name for name in names if name not in known)
        notes.append(f"--partition={gone}: not on {to.name}" + ("" if known else f"; its {default} partition is used"))
        request = request.replace(partition=",".join(known) or None)
    for field, option in (("node_list", "nodelist"), ("exclude", "exclude")):
        wanted = getattr(request, field)
        if wanted and not all(to.node(name) is not None for name in hostlist.expand(wanted)):
            notes.append(f"--{option}={wanted}: given up, {to.name} has other nodes")
            request = request.replace(**{field: None})
    return request, notes


def moved(job: Job, request: JobRequest, to: Cluster, now: float) -> Job:
    """The pending job on the other cluster, asking for what ``fitted`` left. It waits as if submitted there; holds stay."""
    there = job.replace(
        cluster=to.name,
        request=request,
        partition=submission.partition_text(request, to),
        reason="None",
        start_time=0,
        eligible_time=0,
        last_sched=0,
    )
    return waiting.looked_at(files.named(submission.shaped(there, to)), now)


# A job on its way to a real Slurm carries these among the texts of its request.
_MARK, _HELD, _LEFT = "moving", "moving-held", "moved"


def held_for(job: Job, to: str, mark: str, now: float) -> Job:
    """The job held for its way to the cluster ``to``; ``mark`` names it on both sides."""
    extra = {**job.request.extra, _MARK: f"{to} {mark}", _HELD: job.held}
    return waiting.hold(job.replace(request=job.request.replace(extra=extra)), now, by="admin")


def leaving(job: Job) -> tuple[str, str] | None:
    """The cluster that the job is moving to, and the mark of the move; None for a job that stays."""
    to, _, mark = job.request.extra.get(_MARK, "").partition(" ")
    return (to, mark) if mark else None


def was_held(job: Job) -> bool:
    """Whether a job on its way was held before."""
    return bool(job.request.extra.get(_HELD))


def as_submitted(job: Job) -> JobRequest:
    """The request to say again on the other Slurm: without marks; of an array what is left of it."""
    extra = {name: text for name, text in job.request.extra.items() if name not in (_MARK, _HELD, _LEFT)}
    request = job.request.replace(extra=extra, hold=bool(job.held and (leaving(job) is None or was_held(job))))
    return request.replace(array=job.array_tasks) if job.array_tasks is not None else request


def left(job: Job, to: str, there: int, now: float) -> Job:
    """The job as it is remembered when it has left."""
    held = "held" if was_held(job) else "free"
    extra = {**as_submitted(job).extra, _LEFT: f"{to} {there} {held}"}
    return job.replace(request=job.request.replace(extra=extra), comment=f"moved to {to} as job {there}", held="")


def left_for(job: Job) -> tuple[str, int, bool] | None:
    """The cluster that the job has moved to, its id there, and whether it stays held; None for a job that has not moved."""
    words = job.request.extra.get(_LEFT, "").split()
    return (words[0], int(words[1]), words[2] == "held") if len(words) == 3 else None


def stays(job: Job, now: float) -> Job:
    """The job as it was before it was held for its way."""
    held = job.request.extra.get(_HELD, "")
    back = job.replace(request=job.request.replace(extra=as_submitted(job).extra), held="", reason="None")
    if held:
        return waiting.hold(back, now, by=held)
    return waiting.looked_at(back.replace(priority=waiting.priority_of(back)), now)
