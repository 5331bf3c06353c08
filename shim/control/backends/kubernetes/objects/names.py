"""What objects are called, and the labels they carry. All are functions of job and run, so repeating is harmless."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from shim.control import paths

DOMAIN = "slurm-shim.io"
MANAGER = "slurm-shim"
JOB_ID = f"{DOMAIN}/job-id"
RESTART = f"{DOMAIN}/restart"  # SLURM_RESTART_COUNT
RECORD = f"{DOMAIN}/record"  # uid of the record whose run it is of
RUN = f"{DOMAIN}/run"  # the run's number in that record
KIND = f"{DOMAIN}/kind"  # of ConfigMaps and Secrets
RECORD_KIND, PAYLOAD_KIND, RUN_KIND = "record", "payload", "run"
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


def record(job_id: int) -> str:
    """``slurm-7``: the ConfigMap that is the job's record."""
    return f"slurm-{job_id}"


def payload(job_id: int) -> str:
    """The Secret with what the job's runs need."""
    return f"slurm-{job_id}-payload"


def stem(job_id: int, number: int) -> str:
    """``slurm-7``, of a later run ``slurm-7-r1``: the name of the run's Job. ``number``: the run's in the job's record."""
    return f"slurm-{job_id}-r{number}" if number else f"slurm-{job_id}"


def ticket(job_id: int, number: int) -> str:
    """The Secret that a run's pods mount, and the run's PodGroup."""
    return f"{stem(job_id, number)}-run"


LEASE = "slurm-controller"  # who holds it orders the jobs of the namespace


def host(job_id: int, number: int, index: int) -> str:
    """The host name of the pod with this index: it resolves inside the job."""
    return f"{stem(job_id, number)}-{index}"


def labels(job_id: int, restart: int, record_uid: str, number: int) -> dict[str, str]:
    """The labels of a run's objects. Ids only: nothing a user typed is in them."""
    return {
        MANAGED: MANAGER,
        JOB_ID: str(job_id),
        RESTART: str(restart),
        RECORD: record_uid,
        RUN: str(number),
    }


def selector() -> str:
    """Selects every object of the namespace's jobs."""
    return f"{MANAGED}={MANAGER}"


def label(found: Mapping[str, Any], name: str) -> str:
    """What a label of an object says; "" for none."""
    return str((found["metadata"].get("labels") or {}).get(name) or "")


def number_of(found: Mapping[str, Any], name: str, default: int = -1) -> int:
    """What a label of an object says in digits."""
    text = label(found, name)
    return int(text) if text.isdecimal() else default


def job_of(found: Mapping[str, Any]) -> int:
    """The job whose object this is; -1 for an object without our labels."""
    return number_of(found, JOB_ID)


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


def _new_owner(path: str) -> str:
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(uuid.uuid4().hex)
    return draft
