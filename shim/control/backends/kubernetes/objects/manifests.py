"""The objects of a run, as plain dicts: Job, Secret, and the namespace's Service. Pure.

The Job never makes a pod twice (``backoffLimitPerIndex: 0``, no podFailurePolicy) and ends with its first pod; everything
secret, and everything a user typed, is in the Secret alone.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.gang_spec import Gang, code_name
from shim.control.backends.kubernetes.objects.pod_template import template
from shim.control.backends.kubernetes.settings import Settings
from shim.job.pod.places import INDEX, PORT, ROOT, Places

_BACKSTOP = 14 * 24 * 3600  # seconds after which an ended Job that nobody fetched is removed


def job(gang: Gang, settings: Settings) -> dict[str, Any]:
    """The Job, owned by the record. It may be made at any time, and more than once: the record decides whether its pods begin."""
    labels = {**settings.labels, **gang.labels}
    metadata: dict[str, Any] = {"name": gang.stem, "labels": dict(labels), "ownerReferences": [_owner(gang)]}
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
            "ttlSecondsAfterFinished": _BACKSTOP,
            "template": template(gang, settings, labels),
        },
    }


def only_pod(gang: Gang, settings: Settings) -> dict[str, Any]:
    """The pod of a run that has no Job: as a Job would make it, owned by the record. Under its name it is made once."""
    made = template(gang, settings, {**settings.labels, **gang.labels})
    name, metadata, spec = names.host(gang.job_id, gang.number, 0), made["metadata"], made["spec"]
    index = {"name": INDEX, "value": "0"}
    containers = [
        {**one, "env": [*one.get("env", ()), index]} if one.get("name") == names.CONTAINER else one
        for one in spec["containers"]
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": name,
            "annotations": {**metadata.get("annotations", {}), names.INDEX: "0"},
            # Whoever drains a node asks whether somebody looks after a pod.
            "ownerReferences": [{**_owner(gang), "controller": True}],
        },
        "spec": {**spec, "hostname": name, "containers": containers},
    }


def pod(gang: Gang, settings: Settings) -> dict[str, Any]:
    """One pod of the gang by itself: what a server-side dry run is asked about, as admission looks at pods and not at Jobs."""
    made = template(gang, settings, {**settings.labels, **gang.labels})
    metadata = {**made["metadata"], "name": f"{gang.stem}-probe"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def secret(gang: Gang, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The run's ticket: ``files`` as the pods see them."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": gang.ticket,
            "labels": {**gang.labels, names.KIND: names.RUN_KIND},
            "ownerReferences": [_owner(gang)],
        },
        "immutable": True,
        "data": {name: base64.b64encode(content).decode("ascii") for name, content in files.items()},
    }


def _owner(gang: Gang) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": names.record(gang.job_id), "uid": gang.record}


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


def pod_group(gang: Gang) -> dict[str, Any]:
    """The native gang: the scheduler places all pods or none."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": gang.ticket,
            "labels": gang.labels,
            "ownerReferences": [_owner(gang)],
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
