"""From a run's spec to its gang: resources, identity and place of its pods. Pure but for the names of groups."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.objects import volumes
from shim.control.backends.kubernetes.objects.affinity import placement
from shim.control.backends.kubernetes.objects.bundle import Bundle, container_command
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model.job import Job
from shim.job.spec import RunSpec

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.shape import Shape


def gang_of(spec: RunSpec, settings: Settings, bundle: Bundle, shape: Shape) -> Gang:
    """The gang of a job that the scheduler has placed. Raises BackendError for one without an image."""
    job = spec.job
    image = image_of(job, settings)
    if not image:
        raise BackendError('no image: the configuration\'s "image", or --container-image, must name one')
    user = _user(job, settings)
    return Gang(
        job_id=job.job_id,
        restart=job.restarts,
        record=spec.record,
        number=spec.run,
        nodes=len(spec.nodes),
        cpus=max(share.cpus for share in job.shares),
        memory=max(share.memory for share in job.shares),
        gpus=max(len(share.gpus) for share in job.shares),
        place=placement(spec, settings, shape),
        limit=spec.limit,
        kill_wait=spec.cluster.kill_wait,
        user=user,
        groups=groups_of(job) if user is not None and user[0] == job.uid else (),
        work_dir=job.request.work_dir,
        staged=staged(job, settings),
        folders=folders_of(job, settings),
        image=image,
        command=tuple(container_command()),
        # A Job for each of many pods is nine more requests for each; a queueing system wants one to hold.
        jobless=job.array_task_id is not None and len(spec.nodes) == 1 and not settings.queue,
        digest=bundle.digest,
        passwd=user is not None,
    )


def image_of(job: Job, settings: Settings) -> str:
    """The image that the job asked for, else the partition's. BackendError for one that no kubelet pulls."""
    asked = job.request.container_image
    if not asked:
        return settings.image
    if asked.startswith(("/", "./", "../")) or asked.endswith((".sqsh", ".sif")):
        raise BackendError(f"--container-image={asked}: pods are made from images of a registry, not from files")
    return asked.removeprefix("docker://").replace("#", "/", 1)


def staged(job: Job, settings: Settings) -> bool:
    """Whether the pods get a copy of the working directory: it is not mounted there. (One that is not there is nowhere.)"""
    return not volumes.mounted(job.request.work_dir, settings) and os.path.isdir(job.request.work_dir)


def folders_of(job: Job, settings: Settings) -> tuple[str, ...]:
    """Folders of output outside of the working directory that are mounted nowhere. Those that every image has are left alone."""
    found = {os.path.dirname(path) for path in (job.stdout, job.stderr) if path and not volumes.mounted(path, settings)}
    own = job.request.work_dir.rstrip("/") + "/"
    return tuple(sorted(path for path in found - {"/", "/tmp", "/dev"} if not f"{path}/".startswith(own)))


def _user(job: Job, settings: Settings) -> tuple[int, int] | None:
    if settings.identity != "submitter":
        return None
    return (job.uid, job.gid) if job.uid else (settings.root_uid, settings.root_uid)


def groups_of(job: Job) -> tuple[int, ...]:
    """The further groups of the job's user, as this machine knows them. It may block."""
    try:
        return tuple(group for group in os.getgrouplist(job.user, job.gid) if group and group != job.gid)
    except (OSError, KeyError):
        return ()


def probe(job: Job, settings: Settings, bundle: Bundle) -> Gang:
    """A gang like that of a job which is not placed yet: what admission looks at."""
    user = _user(job, settings)
    return Gang(
        job_id=0,
        record="probe",
        nodes=job.nodes,
        cpus=max(1, job.cpus // max(1, job.nodes)),
        memory=job.request.mem_per_node or 0,
        user=user,
        groups=groups_of(job) if user is not None and user[0] == job.uid else (),
        work_dir=job.request.work_dir,
        staged=staged(job, settings),
        image=image_of(job, settings),
        command=tuple(container_command()),
        digest=bundle.digest,
        passwd=user is not None,
    )
