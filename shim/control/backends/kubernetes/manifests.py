"""The objects of a run, as plain dicts: Job, Secret, and the namespace's Service. Pure.

The Job never makes a pod twice (``backoffLimitPerIndex: 0``, no podFailurePolicy) and ends with its first pod; everything
secret, and everything a user typed, is in the Secret alone.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.gangs import Gang, code_name
from shim.control.backends.kubernetes.pod_template import template
from shim.control.backends.kubernetes.settings import Settings
from shim.job.pod.places import PORT, ROOT, Places

KEPT_RECORD, KEPT_KEY = "record.json", "key"
_BACKSTOP = 14 * 24 * 3600  # seconds after which an ended Job that nobody fetched is removed


def job(gang: Gang, settings: Settings) -> dict[str, Any]:
    """The suspended Job."""
    labels = {**settings.labels, **names.labels(gang.run, gang.owner, gang.submission)}
    metadata: dict[str, Any] = {"name": names.stem(gang.run), "labels": dict(labels)}
    if settings.queue:
        metadata["labels"][names.QUEUE] = settings.queue
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": gang.nodes,
            "parallelism": gang.nodes,
            "backoffLimitPerIndex": 0,
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            "suspend": True,
            "ttlSecondsAfterFinished": _BACKSTOP,
            "template": template(gang, settings, labels),
        },
    }


def pod(gang: Gang, settings: Settings) -> dict[str, Any]:
    """One pod of the gang by itself: what a server-side dry run is asked about, as admission looks at pods and not at Jobs."""
    made = template(gang, settings, {**settings.labels, **names.labels(gang.run, gang.owner, gang.submission)})
    metadata = {**made["metadata"], "name": f"{names.stem(gang.run)}-probe"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def secret(gang: Gang, uid: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The run's ticket: ``files`` as the pods see them. It goes with the Job, whose uid it names."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names.attempt(gang.run, gang.submission),
            "labels": names.labels(gang.run, gang.owner, gang.submission),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": names.stem(gang.run), "uid": uid, "controller": False}
            ],
        },
        "immutable": True,
        "data": {name: base64.b64encode(content).decode("ascii") for name, content in files.items()},
    }


def kept(run: Run, job: Mapping[str, Any], record: str, key: bytes) -> dict[str, Any]:
    """What another machine needs to carry on with a run that has begun, here gone: the job's record and its key. ``job``: the Job's metadata."""
    labels = {name: value for name, value in (job.get("labels") or {}).items() if name.startswith(names.DOMAIN)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": names.stem(run), "uid": job["uid"], "controller": False}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names.kept(run),
            "labels": {names.MANAGED: names.MANAGER, **labels},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "data": {
            KEPT_RECORD: base64.b64encode(record.encode()).decode("ascii"),
            KEPT_KEY: base64.b64encode(key.hex().encode()).decode("ascii"),
        },
    }


def service() -> dict[str, Any]:
    """The headless Service that gives the pods of gangs their names; a pod alone knows its own without it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.SERVICE, "labels": {names.MANAGED: names.MANAGER}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.MANAGED: names.MANAGER, names.GANG: "true"},
            "ports": [{"name": "agent", "port": PORT}],
        },
    }


def pod_group(gang: Gang, uid: str) -> dict[str, Any]:
    """The native gang: the scheduler places all pods or none."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": names.attempt(gang.run, gang.submission),
            "labels": names.labels(gang.run, gang.owner, gang.submission),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": names.stem(gang.run), "uid": uid}],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": gang.nodes}}},
    }


def agent_code(digest: str, content: bytes) -> dict[str, Any]:
    """The immutable ConfigMap with the agent's code, named by its digest."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": code_name(digest), "labels": {names.MANAGED: names.MANAGER}},
        "immutable": True,
        "binaryData": {os.path.basename(Places(ROOT, "").agent_zip): base64.b64encode(content).decode("ascii")},
    }
