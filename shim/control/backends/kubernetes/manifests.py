"""The objects of a run, as plain dicts: Job, Secret, and the namespace's Service. Pure.

The Job never makes a pod twice (``backoffLimitPerIndex: 0``, no podFailurePolicy) and ends with its first pod; everything
secret, and everything a user typed, is in the Secret alone.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.volumes import Volumes
from shim.core.value import Value
from shim.job.pod.places import PORT, ROOT, Places

_AFTER_LIMIT = 900  # seconds by which a pod may outlive the job's limit: its image is pulled in them
_BACKSTOP = 14 * 24 * 3600  # seconds after which an ended Job that nobody fetched is removed


class Gang(Value):
    """What the pods of one run have in common. ``cpus``, ``memory`` (MiB) and ``gpus`` are those of its largest node."""

    run: Run
    owner: str
    submission: str
    nodes: int
    cpus: int
    memory: int = 0
    gpus: int = 0
    gpu_type: str = ""
    on: tuple[str, ...] = ()  # host name labels of the nodes that it may run on; empty: all
    not_on: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    limit: int | None = None  # seconds
    kill_wait: int = 30
    user: tuple[int, int] | None = None  # uid and gid; None: the image's or the platform's
    groups: tuple[int, ...] = ()
    work_dir: str = ""
    staged: bool = False
    image: str = ""
    command: tuple[str, ...] = ()
    digest: str = ""
    pod_group: bool = False
    passwd: bool = False  # the Secret has passwd and group
    _nested = {"run": Run}


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


def template(gang: Gang, settings: Settings, labels: Mapping[str, str]) -> dict[str, Any]:
    """The pod template, the partition's overlay merged in."""
    annotations = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", **settings.annotations}
    if settings.autoscale:
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
        annotations["karpenter.sh/do-not-disrupt"] = "true"
    made = {
        "metadata": {"labels": {**labels, "sidecar.istio.io/inject": "false"}, "annotations": annotations},
        "spec": _pod_spec(gang, settings),
    }
    result: dict[str, Any] = merged(made, settings.overlay)
    return result


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
            "name": names.stem(gang.run),
            "labels": names.labels(gang.run, gang.owner, gang.submission),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": names.stem(gang.run), "uid": uid, "controller": False}
            ],
        },
        "immutable": True,
        "data": {name: base64.b64encode(content).decode("ascii") for name, content in files.items()},
    }


def service() -> dict[str, Any]:
    """The headless Service that gives all pods of the namespace their names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.SERVICE, "labels": {names.MANAGED: names.MANAGER}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.MANAGED: names.MANAGER},
            "ports": [{"name": "agent", "port": PORT}],
        },
    }


def pod_group(gang: Gang, uid: str) -> dict[str, Any]:
    """The native gang: the scheduler places all pods or none."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": names.stem(gang.run),
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


def code_name(digest: str) -> str:
    """The name of the ConfigMap with this digest's code."""
    return f"slurm-agent-{digest[:12]}"


def _pod_spec(gang: Gang, settings: Settings) -> dict[str, Any]:
    volumes = Volumes(gang.run, code_name(gang.digest), settings, gang.memory)
    volumes.add_work(gang.work_dir if gang.staged else "")
    if gang.passwd:
        volumes.add_identity()
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "subdomain": names.SERVICE,
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(settings.service_account),
        "terminationGracePeriodSeconds": gang.kill_wait + 10,
        "securityContext": _pod_security(gang, settings),
        "containers": [_container(gang, settings, volumes.mounts)],
        "volumes": volumes.volumes,
        "affinity": _affinity(gang, settings),
        "dnsConfig": {"searches": [f"{names.SERVICE}.{settings.namespace}.svc.{settings.cluster_domain}"]},
    }
    if gang.limit is not None:
        spec["activeDeadlineSeconds"] = gang.limit + gang.kill_wait + _AFTER_LIMIT
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [dict(one) for one in settings.tolerations]
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    for word, key in ((settings.priority_class, "priorityClassName"), (settings.service_account, "serviceAccountName")):
        if word:
            spec[key] = word
    if settings.runtime_class:
        spec["runtimeClassName"] = settings.runtime_class
    if gang.pod_group:
        spec["schedulingGroup"] = {"podGroupName": names.stem(gang.run)}
    return spec


def _container(gang: Gang, settings: Settings, mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def downward(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    limits = {"cpu": str(gang.cpus)}
    requests = {"cpu": f"{gang.cpus * 10 * settings.cpu_request}m"}
    if gang.memory:
        limits["memory"] = requests["memory"] = f"{gang.memory}Mi"
    if gang.gpus:
        limits[settings.gpu_resource] = requests[settings.gpu_resource] = str(gang.gpus)
    return {
        "name": names.CONTAINER,
        "image": gang.image or settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": list(gang.command),
        "env": [
            {"name": "SHIM_AGENT_DIGEST", "value": gang.digest},
            {"name": "SHIM_POD_UID", "valueFrom": downward("metadata.uid")},
            {"name": "SHIM_POD_IP", "valueFrom": downward("status.podIP")},
            {"name": "SHIM_NODE_NAME", "valueFrom": downward("spec.nodeName")},
        ],
        "resources": {"limits": limits, "requests": requests},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [dict(one) for one in mounts],
    }


def _pod_security(gang: Gang, settings: Settings) -> dict[str, Any]:
    context: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if gang.user is not None:
        context.update(runAsNonRoot=True, runAsUser=gang.user[0], runAsGroup=gang.user[1])
        if gang.groups:
            context["supplementalGroups"] = list(gang.groups)
    elif settings.identity == "platform":
        context["runAsNonRoot"] = True
    return context


def _affinity(gang: Gang, settings: Settings) -> dict[str, Any]:
    terms: list[dict[str, Any]] = []
    if gang.on:
        terms.append({"key": "kubernetes.io/hostname", "operator": "In", "values": list(gang.on)})
    if gang.not_on:
        terms.append({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(gang.not_on)})
    for table, wanted in ((settings.gpu_types, (gang.gpu_type,)), (settings.node_features, gang.features)):
        for name in wanted:
            for label, value in (table.get(name) or {}).items():
                terms.append(
                    {"key": label, "operator": "In", "values": value if isinstance(value, list) else [str(value)]}
                )
    affinity: dict[str, Any] = {}
    if terms:
        required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if gang.nodes > 1 and settings.spread:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {names.JOB_NAME: names.stem(gang.run)}},
                }
            ]
        }
    return affinity


def merged(base: Any, overlay: Any) -> Any:
    """``overlay`` laid over ``base``: tables word by word, lists of named things by name, other lists appended, null removes."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        result = dict(base)
        for key, value in overlay.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result[key], value) if key in result else value
        return result
    if isinstance(base, list) and isinstance(overlay, list):
        return _merged_lists(base, overlay)
    return overlay


def _merged_lists(base: list[Any], overlay: list[Any]) -> list[Any]:
    result = list(base)
    places_ = {one["name"]: place for place, one in enumerate(base) if isinstance(one, dict) and "name" in one}
    for one in overlay:
        name = one.get("name") if isinstance(one, dict) else None
        if name in places_:
            result[places_[name]] = merged(result[places_[name]], one)
        else:
            result.append(one)
    return result


def size(manifest: Mapping[str, Any]) -> int:
    """How many bytes the object is as JSON."""
    return len(json.dumps(manifest, separators=(",", ":")))
