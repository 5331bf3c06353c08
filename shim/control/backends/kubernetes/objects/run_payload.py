"""From a run's spec to what is made of it: the gang, and the files of its Secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shim.control import site
from shim.control.backends.base import Run
from shim.control.backends.kubernetes.objects.bundle import Bundle
from shim.control.backends.kubernetes.objects.gang_builder import gang_of
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.objects.pod_files import files, gpu_environment, inside, passwd
from shim.control.backends.kubernetes.run import run_folders, stage_out
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.submit import staging, submit_checks
from shim.core import jsonlite
from shim.job.pod.places import ROOT, Places
from shim.job.spec import RunSpec

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.shape import Shape

_GRAMMAR = "SHIM_GRAMMAR"  # where commands in pods look for it


class Made:
    """``stage``: the archive that the leader must be given because the Secret has no room for it; "" for none."""

    def __init__(self, gang: Gang, contents: dict[str, bytes], stage: str) -> None:
        self.gang = gang
        self.contents = contents
        self.stage = stage


def made(
    spec: RunSpec,
    settings: Settings,
    bundle: Bundle,
    shape: Shape,
    environment: Mapping[str, str],
    script: bytes | None,
    key: bytes,
    spool: str,
    groups: tuple[int, ...] | None = None,
) -> Made:
    """What the cluster is given for the run that ``spec`` names. Reads the copy of the working directory in ``spool``. BackendError, OSError.

    ``groups``: of the user of a job that was submitted on another machine.
    """
    gang = gang_of(spec, settings, bundle, shape)
    # A copy that was made at submission counts, whatever has become of the folder since.
    copied = os.path.exists(os.path.join(spool, staging.NAME))
    staged = copied or (gang.staged and groups is None)  # a folder of that name here is another one
    gang = gang.replace(pod_group=shape.pod_groups and gang.nodes > 1, staged=staged)
    if groups is not None and gang.user is not None and gang.user[0] == spec.job.uid:
        gang = gang.replace(groups=tuple(group for group in groups if group and group != gang.user[1]))
    # What the pods' image is, so that a step that asks for another one is told so.
    spec = spec.replace(job=spec.job.replace(request=spec.job.request.replace(container_image=gang.image)))
    given = inside(spec, settings, staged=gang.staged, named=shape.names_nodes)
    own = {**gpu_environment(given), "SHIM_RUN_DIR": run_dir(spec), **_grammar()}
    contents = files(given, {**environment, **own}, script, key)
    if gang.user is not None and gang.passwd:
        contents.update(passwd(spec, gang.user))
    stage = ""
    if gang.staged:
        run = Run(cluster=spec.cluster.name, job_id=spec.job.job_id, restart=spec.job.restarts)
        packed = os.path.join(spool, staging.NAME)
        archive, stage = submit_checks.kept_files(
            stage_out.copy_for(spec.job, run.cluster, packed, run_folders.ensure(run))
        )
        contents.update(archive)
    return Made(gang, contents, stage)


def _grammar() -> dict[str, str]:
    """Which options the site's commands have: the ones in the pods cannot read its configuration."""
    found = site.grammar()
    return {} if found is None else {_GRAMMAR: jsonlite.dumps(found.to_dict())}


def run_dir(spec: RunSpec) -> str:
    """The run's folder in its pods."""
    return Places(ROOT, "").run_dir(spec.name)
