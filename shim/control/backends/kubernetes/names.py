"""What the objects of a run are called, and the labels they carry. All are functions of the run, so repeating is harmless."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run

DOMAIN = "slurm-shim.io"
MANAGER = "slurm-shim"
JOB_ID = f"{DOMAIN}/job-id"
RESTART = f"{DOMAIN}/restart"
OWNER = f"{DOMAIN}/owner"  # the index whose job it is
SUBMISSION = (
    f"{DOMAIN}/submission"  # one attempt to create the run's objects: tells ours from others' after a lost answer
)
CLUSTER = f"{DOMAIN}/cluster"
USER = f"{DOMAIN}/user"  # on Leases: a hash of the API server's name for the user
RETURNED = f"{DOMAIN}/returned"  # on Leases: their owner has come back and knows that others carry on with its jobs
MANAGED = "app.kubernetes.io/managed-by"
JOB_NAME = "batch.kubernetes.io/job-name"  # set on pods by the Job controller
LIMIT = f"{DOMAIN}/limit"  # on pods: seconds for which their job may run, and end
INDEX = "batch.kubernetes.io/job-completion-index"
HOSTNAME = "kubernetes.io/hostname"  # of nodes
QUEUE = "kueue.x-k8s.io/queue-name"
SERVICE = "slurm-nodes"  # the headless Service that gives pods of several nodes their names
GANG = f"{DOMAIN}/gang"  # on pods that have others to find: each pod that the Service selects is several writes of EndpointSlices
IDS = "slurm-job-ids"  # the ConfigMap that numbers the jobs of the namespace
CONTAINER = "agent"


def stem(run: Run) -> str:
    """``slurm-7``, after a requeue ``slurm-7-r1``: the name of the Job."""
    return f"slurm-{run.job_id}-r{run.restart}" if run.restart else f"slurm-{run.job_id}"


def kept(run: Run) -> str:
    """The Secret with what another machine needs to carry on with the run."""
    return f"{stem(run)}-kept"


def attempt(run: Run, submission: str) -> str:
    """``slurm-7-1f3a09bc``: the Secret and the PodGroup of one attempt to start the run.

    Those of the attempt before may be there for minutes after its Job is gone, and so may its pods: none must find a Secret of this one.
    """
    return f"{stem(run)}-{submission[:8]}"


def mark(run: Run, owner: str, work_dir: str) -> str:
    """The file in the working directory that says that the run has begun, where it is mounted and the state folder is not."""
    return os.path.join(work_dir, f".slurm-{run.job_id}.{run.restart}-{owner[:8]}")


def lease(owner: str) -> str:
    """The Lease of an owner: who holds it acts for the owner's jobs."""
    return f"slurm-owner-{owner}"


def host(run: Run, index: int) -> str:
    """The host name of the pod with this index: it resolves inside the job."""
    return f"{stem(run)}-{index}"


def labels(run: Run, owner: str, submission: str) -> dict[str, str]:
    """The labels of a run's objects. Ids only: nothing a user typed is in them."""
    return {
        MANAGED: MANAGER,
        OWNER: owner,
        CLUSTER: label_value(run.cluster),
        JOB_ID: str(run.job_id),
        RESTART: str(run.restart),
        SUBMISSION: submission,
    }


def selector(owner: str, cluster: str | None) -> str:
    """Selects every object of an owner's jobs: of one cluster as its configuration calls it, or (None) of all of them."""
    every = f"{MANAGED}={MANAGER},{OWNER}={owner}"
    return every if cluster is None else f"{every},{CLUSTER}={label_value(cluster)}"


def owner_of(found: Mapping[str, Any]) -> str:
    """The owner that an object names."""
    return str((found["metadata"].get("labels") or {}).get(OWNER) or "")


def submission_of(found: Mapping[str, Any]) -> str:
    """The attempt to start a run that an object is of."""
    return str((found["metadata"].get("labels") or {}).get(SUBMISSION) or "")


def restart_of(found: Mapping[str, Any]) -> int:
    """The restart of its job that an object is of; 0 if it does not say."""
    text = (found["metadata"].get("labels") or {}).get(RESTART, "")
    return int(text) if text.isdecimal() else 0


def run_of(metadata: Mapping[str, Any], cluster: str) -> Run | None:
    """The run whose object this is; None for an object without our labels."""
    found = metadata.get("labels") or {}
    try:
        return Run(cluster=cluster, job_id=int(found[JOB_ID]), restart=int(found.get(RESTART, 0)))
    except (KeyError, ValueError):
        return None


def label_value(text: str) -> str:
    """``text`` as far as a label's value may hold it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("._-")


def owner(cluster: str) -> str:
    """Names this host's index among all that use a namespace; made once. OSError if it cannot be kept."""
    folder = paths.ensure(paths.state_dir())
    for path in (f"{folder}/owner.{cluster}", f"{folder}/owner"):
        try:
            with open(path) as file:
                return file.read().strip()
        except FileNotFoundError:
            continue
    draft = _new_owner(path)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another one was quicker
    os.unlink(draft)
    with open(path) as file:
        return file.read().strip()


def begin_anew(cluster: str) -> str:
    """Another owner for the jobs of this cluster from now on: those of before are somebody else's. OSError."""
    path = f"{paths.ensure(paths.state_dir())}/owner.{cluster}"
    os.replace(_new_owner(path), path)
    return owner(cluster)


def _new_owner(path: str) -> str:
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(uuid.uuid4().hex)
    return draft
