"""The objects of a run: what must be in them, and what must not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from shim.control.backends.kubernetes.objects import manifests, names
from shim.control.backends.kubernetes.objects.gang_spec import Gang, Placement
from shim.control.backends.kubernetes.objects.pod_template import merged
from shim.control.backends.kubernetes.objects.volumes import check, mounted
from shim.control.backends.kubernetes.settings import Settings
from shim.core.errors import ShimError

GANG = Gang(
    job_id=7,
    restart=2,
    record="uid-1",
    number=3,
    nodes=2,
    cpus=4,
    memory=2048,
    gpus=2,
    place=Placement(on=("node1", "node2")),
    limit=3600,
    kill_wait=30,
    user=(1001, 1002),
    groups=(50,),
    work_dir="/home/me/project",
    staged=True,
    image="registry.example/ml:1",
    command=("/bin/sh", "-c", "true"),
    digest="d" * 64,
    passwd=True,
)
SETTINGS = Settings(namespace="team-a", mounts=({"path": "/data", "pvc": "data"},))


def spec(gang: Gang = GANG, settings: Settings = SETTINGS) -> dict[str, Any]:
    found: dict[str, Any] = manifests.job(gang, settings)["spec"]
    return found


def pod_spec(gang: Gang = GANG, settings: Settings = SETTINGS) -> dict[str, Any]:
    found: dict[str, Any] = spec(gang, settings)["template"]["spec"]
    return found


def test_the_job_controller_never_makes_a_pod_twice() -> None:
    job = spec()
    assert job["backoffLimitPerIndex"] == 0
    assert "podFailurePolicy" not in job
    assert job["completionMode"] == "Indexed"
    assert (job["completions"], job["parallelism"]) == (2, 2)
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert "suspend" not in job  # its pods begin when the record says so
    owner = manifests.job(GANG, SETTINGS)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "slurm-7", "uid-1")
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_names_are_functions_of_the_run() -> None:
    assert names.stem(7, 0) == "slurm-7"
    assert names.stem(7, 2) == "slurm-7-r2"
    assert names.host(7, 2, 1) == "slurm-7-r2-1"
    found = {"metadata": {"labels": GANG.labels}}
    assert (names.job_of(found), names.label(found, names.RECORD)) == (7, "uid-1")
    assert (names.number_of(found, names.RUN), names.number_of(found, names.RESTART)) == (3, 2)
    assert names.job_of({"metadata": {"labels": {}}}) == -1


def test_pods_are_as_a_restricted_namespace_wants_them() -> None:
    found = pod_spec()
    container = found["containers"][0]
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["runAsUser"] == 1001
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert found["automountServiceAccountToken"] is False
    assert found["enableServiceLinks"] is False
    assert not any("hostPath" in volume for volume in found["volumes"])


def test_everything_that_is_secret_is_in_the_secret_alone() -> None:
    files = {"key": b"0123", "environment.json": b'{"TOKEN": "hidden"}'}
    secret = manifests.secret(GANG, files)
    assert {name: base64.b64decode(text) for name, text in secret["data"].items()} == files
    owner = secret["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], "blockOwnerDeletion" in owner) == ("ConfigMap", "uid-1", False)
    assert "hidden" not in json.dumps(manifests.job(GANG, SETTINGS))
    assert json.dumps(secret["metadata"]).count("hidden") == 0


def test_resources_are_requested_and_limited() -> None:
    container = pod_spec()["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "2048Mi", "nvidia.com/gpu": "2"}
    assert container["resources"]["requests"] == {"cpu": "4000m", "memory": "2048Mi", "nvidia.com/gpu": "2"}
    tenth = pod_spec(settings=SETTINGS.replace(cpu_request=10))["containers"][0]
    assert tenth["resources"]["requests"]["cpu"] == "400m"
    assert pod_spec(GANG.replace(memory=16))["containers"][0]["resources"]["limits"]["memory"] == "80Mi"
    assert "memory" not in pod_spec(GANG.replace(memory=0))["containers"][0]["resources"]["limits"]


def test_a_gang_is_spread_over_the_nodes_that_were_chosen() -> None:
    affinity = pod_spec()["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1", "node2"]}]}
    ]
    apart = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert apart["labelSelector"] == {"matchLabels": {"batch.kubernetes.io/job-name": "slurm-7-r3"}}
    assert "podAntiAffinity" not in pod_spec(GANG.replace(nodes=1))["affinity"]
    assert "podAntiAffinity" not in pod_spec(settings=SETTINGS.replace(spread=False))["affinity"]


def test_the_deadline_is_a_backstop_behind_the_agents() -> None:
    found = pod_spec()
    assert found["activeDeadlineSeconds"] > 3600 + 30
    assert found["terminationGracePeriodSeconds"] == 40
    assert "activeDeadlineSeconds" not in pod_spec(GANG.replace(limit=None))


def test_pods_find_each_other_by_name() -> None:
    found = pod_spec()
    assert found["subdomain"] == names.SERVICE
    assert found["dnsConfig"]["searches"] == ["slurm-nodes.team-a.svc.cluster.local"]
    service = manifests.service()
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_the_overlay_comes_last() -> None:
    overlay = {
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "agent", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}, {"name": "side"}],
        }
    }
    found = pod_spec(settings=SETTINGS.replace(overlay=overlay))
    assert found["hostNetwork"] is True
    assert [one["name"] for one in found["containers"]] == ["agent", "side"]
    assert [one["name"] for one in found["containers"][0]["env"]][-1] == "NCCL_DEBUG"
    assert found["containers"][0]["image"] == "registry.example/ml:1"


@pytest.mark.parametrize(
    ("base", "overlay", "result"),
    [
        ({"a": 1}, {"a": None}, {}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ([{"name": "x", "v": 1}], [{"name": "x", "v": 2}], [{"name": "x", "v": 2}]),
        ([1], [2], [1, 2]),
        (1, {"a": 2}, {"a": 2}),
    ],
)
def test_how_overlays_are_laid(base: Any, overlay: Any, result: Any) -> None:
    assert merged(base, overlay) == result


@pytest.mark.parametrize(
    ("path", "same"), [("/data", True), ("/data/x", True), ("/database", False), ("/", False), ("/home/me", False)]
)
def test_what_lies_below_a_mount_is_the_same_in_the_pods(path: str, same: bool) -> None:
    assert mounted(path, SETTINGS) is same


@pytest.mark.parametrize(
    ("mount", "says"),
    [
        ({"pvc": "a"}, "absolute"),
        ({"path": "data", "pvc": "a"}, "absolute"),
        ({"path": "/data"}, "needs one of"),
        ({"path": "/data", "pvc": "a", "nfs": "s:/x"}, "needs one of"),
        ({"path": "/data", "pvc": "a", "mode": 3}, 'unknown word "mode"'),
        ({"path": "/data", "nfs": "server"}, "server:/path is wanted"),
    ],
)
def test_mounts_that_make_no_sense_are_refused(mount: dict[str, Any], says: str) -> None:
    with pytest.raises(ShimError, match=says):
        check(Settings(mounts=(mount,)))


def test_pods_that_have_nobody_to_find_cost_the_service_nothing() -> None:
    selector = manifests.service()["spec"]["selector"]

    def selected(nodes: int) -> bool:
        labels = spec(GANG.replace(nodes=nodes))["template"]["metadata"]["labels"]
        return all(labels.get(name) == text for name, text in selector.items())

    assert (selected(1), selected(2)) == (False, True)
    assert pod_spec(GANG.replace(nodes=1))["subdomain"] == manifests.service()["metadata"]["name"]


def test_the_only_pod_of_a_run_without_a_job_is_as_a_job_would_make_it() -> None:
    gang = GANG.replace(nodes=1, jobless=True)
    made = manifests.only_pod(gang, SETTINGS)
    template = spec(gang)["template"]
    assert made["metadata"]["name"] == made["spec"]["hostname"] == "slurm-7-r3-0"
    assert made["metadata"]["labels"] == template["metadata"]["labels"]
    assert made["metadata"]["annotations"] == {**template["metadata"]["annotations"], names.INDEX: "0"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ConfigMap", "uid-1", True)
    (container,) = made["spec"]["containers"]
    (usual,) = template["spec"]["containers"]
    assert container == {**usual, "env": [*usual["env"], {"name": "JOB_COMPLETION_INDEX", "value": "0"}]}
    assert {**made["spec"], "containers": [usual]} == {**template["spec"], "hostname": "slurm-7-r3-0"}
