"""What is done when a job is submitted: its files are kept as they are now, and the API server is asked what it would refuse."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable

from shim.control.backends.base import BackendError, Progress
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.threads import beside
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects import manifests, volumes
from shim.control.backends.kubernetes.objects.gang_builder import image_of, staged
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.run.output import begin
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.submit import staging
from shim.core.model.job import Job

KNOWN = 60.0  # seconds
_NAMED = 5  # links in a note
MOST_STAGED = 256 * 1024  # bytes that go into the Secret, which every pod reads, beside script and environment


async def keep_files(job: Job, spool: str, settings: Settings, progress: Progress | None = None) -> list[str]:
    """Keeps in ``spool`` what the job's pods need of this machine; notes for the user. BackendError: no image, no such mount, too large."""
    notes = await beside(lambda: check_asked(job, settings))
    return [*notes, *await beside(lambda: _packed(job, spool, settings, progress or Progress()))]


def check_asked(job: Job, settings: Settings) -> list[str]:
    """What is said of the job before it is submitted: what it would lose. BackendError: no image, or a mount, that pods can have.

    It looks for the working directory, and may block.
    """
    if not image_of(job, settings):
        raise BackendError('no image: "image" in the configuration, or --container-image, must name one')
    volumes.check_asked(job.request.container_mounts or "", settings)
    if job.request.kind != "batch" or not staged(job, settings):
        return []
    folder = job.request.work_dir
    if not settings.files_limit or folder.rstrip("/") in ("", "/tmp"):
        return [
            f"note: the pods get a copy of {folder}: what the job writes there, beside its output files, is lost with them;"
            f' to keep it, mount the folder (in the configuration: mounts = [{{ path = "{folder}", pvc = "…" }}])'
        ]
    return [
        f"note: the pods get a copy of {folder}; files that the job makes or changes there come back at its end, at most"
        f" {settings.files_limit} MiB from each node; elsewhere they are lost, and so is what nobody has fetched"
        f" {settings.files_wait} s later"
    ]


def check_described(job: Job) -> None:
    """What a job may ask for where only the configuration describes the nodes: the cluster chooses them. Raises BackendError."""
    wanted = job.request.constraint or ""
    if "*" in wanted and not job.request.node_list:
        raise BackendError(
            f"--constraint={wanted}: nodes that the configuration describes cannot be counted by their features"
        )


class DryRuns:
    """Asks what admission says of a job like the one that is submitted. What it has let pass is not asked again for a while."""

    _reached = False

    def __init__(self, site: Site) -> None:
        self._site = site
        self._passed: dict[str, float] = {}

    async def ask_reach(self) -> None:
        """Raises BackendError if pods/exec is not allowed: by it a job's first pod asks for leave to begin."""
        if self._reached:
            return
        for verb in ("create", "get"):  # "get" is what API servers before 1.35 ask for
            if await self._site.access.can(verb, "pods", namespace=self._site.namespace, subresource="exec"):
                self._reached = True
                return
        raise BackendError(
            f"no job could start: that needs pods/exec, which namespace {self._site.namespace} does not allow you"
        )

    async def ask(self, gang: Gang, settings: Settings) -> None:
        """Raises BackendError with what admission says. A quota that is used up now is no refusal."""
        shape = json.dumps(manifests.job(gang, settings), sort_keys=True)
        now = asyncio.get_running_loop().time()
        if self._passed.get(shape, 0.0) < now:
            await _dry_run(self._site, gang, settings)
            self._passed = {one: until for one, until in self._passed.items() if until > now}
            self._passed[shape] = now + KNOWN


async def _dry_run(site: Site, gang: Gang, settings: Settings) -> None:
    query = {"dryRun": "All"}
    try:
        await asyncio.gather(
            site.access.post(site.objects.jobs, manifests.job(gang, settings), query),
            site.access.post(site.objects.pods, manifests.pod(gang, settings), query),
        )
    except ApiError as error:
        later = error.transient or error.conflict or "exceeded quota" in error.message
        # Who may create Jobs need not be allowed to create pods: then admission is not asked.
        if not later and 'cannot create resource "pods"' not in error.message:
            raise BackendError(error.message) from error


def _packed(job: Job, spool: str, settings: Settings, progress: Progress) -> list[str]:
    """Keeps the working directory for the pods, if they do not have it; a note where that is not done."""
    if not staged(job, settings):
        return []
    folder, target = job.request.work_dir, os.path.join(spool, staging.NAME)
    if folder in ("/", "/tmp", "/root", "/home", os.path.expanduser("~")):
        staging.pack_nothing(target)
        return [f"{folder} is not copied into the pods: the job begins in an empty folder"]
    abroad = staging.pack(folder, target, settings.stage_limit, progress)
    if not abroad:
        return []
    names = ", ".join(abroad[:_NAMED]) + (", ..." if len(abroad) > _NAMED else "")
    return [f"links that lead out of {folder} are not copied into the pods: {names}"]


def kept_files(path: str) -> tuple[dict[str, bytes], str]:
    """What of the job's working directory, in the file there, goes into its Secret, else the file that its leader must be given."""
    if os.path.getsize(path) > MOST_STAGED:
        return {}, path
    with open(path, "rb") as file:
        return {staging.NAME: file.read()}, ""


def streamed(job: Job, settings: Settings) -> tuple[tuple[str, str], ...]:
    """The job's streams, and the files that they go to, which the pods do not share; a file of both is its standard output."""
    if job.request.kind != "batch":
        return ()
    found = {job.stderr: "stderr", job.stdout: "stdout"}
    own = [path for path in found if path not in ("", "/dev/null") and not volumes.mounted(path, settings)]
    return tuple(sorted(((found[path], path) for path in own), reverse=True))


_LOOK_AGAIN = 0.05  # seconds between two looks for the folder of an output file


def outputs(
    job: Job, settings: Settings, patience: float = 0, pause: Callable[[float], None] = time.sleep
) -> tuple[tuple[str, str, int], ...]:
    """The job's output files that the pods do not share, made here as Slurm makes them at the start. BackendError. It may block:
    also for the folder of one, which its submitter may make only now, ``patience`` seconds in all.
    """
    found: list[tuple[str, str, int]] = []
    append = job.request.open_mode == "a" or job.restarts > 0
    for stream, path in streamed(job, settings):
        while patience > 0 and not os.path.isdir(os.path.dirname(path)):
            pause(_LOOK_AGAIN)
            patience -= _LOOK_AGAIN
        try:
            found.append((stream, path, begin(path, append, job.request.umask)))
        except OSError as error:
            raise BackendError(f"could not open {stream} file {path}: {error.strerror}") from error
    return tuple(found)
