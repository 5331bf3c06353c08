"""What this host keeps of a run: the folder by which srun here reaches its leader. A cache: all of it follows from the cluster's objects."""

from __future__ import annotations

import contextlib
import os
import shutil

from shim.control import paths
from shim.control.backends.base import Run


def folder_of(cluster: str) -> str:
    """Where the run folders of a cluster are."""
    return os.path.join(paths.state_dir(), "pods", cluster)


def path_of(run: Run) -> str:
    """The folder of a run."""
    return os.path.join(folder_of(run.cluster), f"{run.job_id}.{run.restart}")


def ensure(run: Run, key: bytes | None = None) -> str:
    """The run's folder, made if it is not there; with the run's key once that is known. OSError."""
    path = path_of(run)
    paths.ensure(folder_of(run.cluster))
    os.makedirs(path, mode=0o700, exist_ok=True)
    if key is not None:
        write(os.path.join(path, "key"), key.hex())
    return path


def remove(cluster: str, job_id: int, before: int | None = None) -> None:
    """Removes the folders of a job's runs, or of those before a restart."""
    for run in known(cluster):
        if run.job_id == job_id and (before is None or run.restart < before):
            shutil.rmtree(path_of(run), ignore_errors=True)


def known(cluster: str) -> list[Run]:
    """The runs of the cluster that this host has folders of."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder_of(cluster)):
            job_id, _, restart = name.partition(".")
            if job_id.isdigit() and restart.isdigit():
                found.append(Run(cluster=cluster, job_id=int(job_id), restart=int(restart)))
    return found


def write(path: str, text: str) -> None:
    """Writes a file of ours: whole or not at all. OSError."""
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    os.replace(draft, path)
