"""The pod template of a run: resources, identity, place, volumes, and the partition's overlay on top. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.gang_spec import Gang, Placement, code_name
from shim.control.backends.kubernetes.objects.volumes import Volumes
from shim.control.backends.kubernetes.settings import Settings

_AGENT = 64  # MiB for the agent: it has 17, each exec into its pod 10
_LITTLE = 1024  # MiB
_LAST = 300  # seconds that files may take on their way back
_AFTER_LIMIT = 900  # seconds by which a pod may outlive the job's limit: its image is pulled in them


def template(gang: Gang, settings: Settings, labels: Mapping[str, str]) -> dict[str, Any]:
    """The pod template, the partition's overlay merged in."""
    annotations = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", **settings.annotations}
    if settings.autoscale:
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
        annotations["karpenter.sh/do-not-disrupt"] = "true"
    if gang.limit is not None:
        annotations[names.LIMIT] = str(gang.limit + gang.kill_wait)
    own = {"sidecar.istio.io/inject": "false", **({names.GANG: "true"} if gang.nodes > 1 else {})}
    made = {
        "metadata": {"labels": {**labels, **own}, "annotations": annotations},
        "spec": _pod_spec(gang, settings),
    }
    result: dict[str, Any] = merged(made, settings.overlay)
    return result


def _pod_spec(gang: Gang, settings: Settings) -> dict[str, Any]:
    volumes = Volumes(gang.ticket, code_name(gang.digest), settings, gang.memory)
    volumes.add_work(gang.work_dir if gang.staged else "")
    volumes.add_folders(gang.folders)
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
        spec["activeDeadlineSeconds"] = gang.limit + gang.kill_wait + max(_AFTER_LIMIT, settings.files_wait + _LAST)
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
        spec["schedulingGroup"] = {"podGroupName": gang.ticket}
    return spec


def _memory(asked: int) -> int:
    """MiB of a container whose job has asked for so many. The agent and what reaches it from outside count, too: a job that has little
    gets that in addition, and is held to what it asked for by the agent. Of much nobody misses it, and it may be all that a node has.
    """
    return asked + _AGENT if asked < _LITTLE else asked


def _container(gang: Gang, settings: Settings, mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def downward(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    limits = {"cpu": str(gang.cpus)}
    requests = {"cpu": f"{gang.cpus * 10 * settings.cpu_request}m"}
    if gang.memory:
        limits["memory"] = requests["memory"] = f"{_memory(gang.memory)}Mi"
    if gang.place.tmp_disk:
        requests["ephemeral-storage"] = f"{gang.place.tmp_disk}Mi"
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
    affinity: dict[str, Any] = {}
    terms = _node_terms(gang.place, settings)
    if terms:
        required = {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    apart = []
    if gang.place.alone:
        # Of whatever namespace. The others stay away, too: the scheduler asks for it both ways.
        apart.append(_no_pods({names.MANAGED: names.MANAGER}, namespaceSelector={}))
    elif gang.nodes > 1 and settings.spread:
        apart.append(_no_pods({names.JOB_NAME: gang.stem}))
    if apart:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": apart}
    return affinity


def _no_pods(labels: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """No pod of these labels is on the same node."""
    return {"topologyKey": names.HOSTNAME, "labelSelector": {"matchLabels": dict(labels)}, **more}


def _node_terms(place: Placement, settings: Settings) -> list[list[dict[str, Any]]]:
    """What the labels of a node must say: all of one of the lists. [] where any node will do."""
    every: list[dict[str, Any]] = []
    for operator, hosts in (("In", place.on), ("NotIn", place.not_on)):
        if hosts:
            every.append({"key": names.HOSTNAME, "operator": operator, "values": list(hosts)})
    every += _labelled(settings.gpu_types.get(place.gpu_type) or {})
    terms = []
    for choice in place.choices or ((),):
        own = [term for name in choice for term in _labelled(settings.node_features.get(name) or {})]
        terms.append([*every, *own])
    return [] if [] in terms else terms


def _labelled(labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": label, "operator": "In", "values": value if isinstance(value, list) else [str(value)]}
        for label, value in labels.items()
    ]


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
