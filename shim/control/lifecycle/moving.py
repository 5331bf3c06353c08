"""``shim move``: a pending job as one of another cluster. Its id, script, directory and options stay."""

from __future__ import annotations

from shim.control.lifecycle import files, submission, waiting
from shim.core import hostlist
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
