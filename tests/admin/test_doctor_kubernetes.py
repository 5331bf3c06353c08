"""The doctor's look at a Kubernetes cluster."""

from __future__ import annotations

import io
import os

import pytest

from shim.admin.doctor import kubernetes, machine, permissions, pods
from shim.control.backends.base import Run
from shim.control.backends.kubernetes.cluster import pinned_context
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.bundle import bundle
from shim.control.backends.kubernetes.objects.gang_spec import code_name
from shim.control.backends.kubernetes.run import run_folders
from tests.admin.fake_cluster import Cluster


def found() -> tuple[bool, list[str]]:
    out = io.StringIO()
    return machine.report(out), out.getvalue().splitlines()


def test_a_cluster_with_all_that_is_needed(cluster: Cluster) -> None:
    fine, lines = found()
    assert fine
    assert "  ok  1 nodes gpu-1 with 4 GPUs" in lines
    tried = len(permissions.NEEDED)
    assert f"  ok  namespace mine allows all that jobs need ({tried} permissions tried)" in lines
    assert "  ok  jobs of several nodes start together by the cluster's own PodGroup" in lines
    assert "  ok  a pod of partition debug would be accepted (dry run)" in lines
    assert any(line.startswith("note  no mounts") for line in lines)


@pytest.mark.parametrize(
    ("forbidden", "line"),
    [
        ("create jobs", "FAIL  may not create jobs: no job can run"),
        ("delete jobs", "FAIL  may not delete jobs: no job can be cancelled, and all leave their objects"),
        ("get pods/log", "note  may not get pods/log: the output of a job that ended while nobody followed it"),
        ("create services", "FAIL  may not create services: pods have no host names; an administrator may make the Service slurm-nodes"),
        ("list all pods", "note  may not list pods of all namespaces: what others use is not seen, jobs try and are taken back"),
    ],
)  # fmt: skip
def test_a_permission_that_is_missing(cluster: Cluster, forbidden: str, line: str) -> None:
    cluster.forbidden = {forbidden}
    fine, lines = found()
    assert line in lines
    assert fine == line.startswith("note")


def test_what_an_administrator_has_made_need_not_be_allowed(cluster: Cluster) -> None:
    cluster.forbidden = {"create services", "create configmaps"}
    base = "/api/v1/namespaces/mine"
    code = code_name(bundle().digest)
    cluster.there |= {f"{base}/services/{names.SERVICE}", f"{base}/configmaps/{code}"}
    lines = found()[1]
    assert not any("create services" in line for line in lines)
    assert any("may not create configmaps" in line for line in lines)  # the numbers of jobs have no ConfigMap yet
    cluster.there.add(f"{base}/configmaps/{names.IDS}")
    fine, lines = found()
    assert fine
    assert not any("may not create" in line for line in lines)


def test_nodes_that_may_not_be_listed(cluster: Cluster) -> None:
    cluster.forbidden = {"list nodes"}
    fine, lines = found()
    assert not fine
    assert any(line.startswith("FAIL  may not list nodes: describe them") for line in lines)
    cluster.configure(image="img:1", nodes=2, cpus=4, memory="1G", node_names="n[1-2]")
    fine, lines = found()
    assert fine
    assert any(line.startswith("  ok  2 nodes as configured: n[1-2]") for line in lines)


def test_no_such_namespace(cluster: Cluster) -> None:
    cluster.configure(namespace="other")
    fine, lines = found()
    assert not fine
    assert 'FAIL  there is no namespace "other"' in lines


def test_pods_that_admission_refuses(cluster: Cluster) -> None:
    cluster.refused = 'pods "slurm-0-probe" is forbidden: violates PodSecurity "restricted:latest"'
    fine, lines = found()
    assert not fine
    assert f"FAIL  a pod of partition debug would be refused: {cluster.refused}" in lines


def test_a_quota_that_is_used_up_is_no_failure(cluster: Cluster) -> None:
    cluster.refused = (
        'pods "slurm-0-probe" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    fine, lines = found()
    assert fine
    assert f"note  a quota is used up at present: {cluster.refused}" in lines
    assert not any("would be accepted" in line for line in lines)


def test_claims_and_images_that_are_not_there(cluster: Cluster) -> None:
    cluster.configure()
    cluster.config.write_text(cluster.config.read_text() + 'mounts = [{ path = "/home", pvc = "home" }]\n')
    fine, lines = found()
    assert not fine
    assert any("has no image" in line for line in lines)
    assert "FAIL  /home: there is no PersistentVolumeClaim home: no pod would start" in lines


def test_a_cluster_without_pod_groups_or_asked_not_to_use_them(cluster: Cluster) -> None:
    cluster.configure(image="img:1", gang="suspend")
    assert "  ok  jobs of several nodes start together by suspension (as configured)" in found()[1]
    cluster.there.remove("/apis/scheduling.k8s.io/v1alpha2")
    assert "  ok  jobs of several nodes start together by suspension (the cluster has no PodGroup)" in found()[1]


def test_what_cannot_be_asked(cluster: Cluster) -> None:
    cluster.configure(context="nowhere")
    fine, lines = found()
    assert not fine
    assert any('has no context "nowhere"' in line for line in lines)
    cluster.config.write_text(cluster.config.read_text().replace('context = "nowhere"', 'mounts = [{ path = "home" }]'))
    assert any("needs an absolute" in line for line in found()[1])


def test_a_server_that_never_answers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "_PATIENCE", 0.5)
    cluster.silent.clear()
    fine, lines = found()
    cluster.silent.set()
    assert not fine
    assert any("does not answer" in line for line in lines)


def test_jobs_that_are_not_where_kubectl_is(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned_context.note("k8s", pinned_context.Place(kubeconfig=cluster.kubeconfig, context="here", namespace="mine"))
    assert not any("kubectl" in line for line in found()[1])
    run_folders.ensure(Run(cluster="k8s", job_id=7))
    assert not any("kubectl" in line for line in found()[1])
    cluster.kubectl("there")
    fine, lines = found()
    assert fine
    stays = 'note  cluster k8s stays in context "here", namespace "mine" until its jobs there have ended; kubectl'
    assert f'{stays} is now in context "there", namespace "default"' in lines
    assert any(line.startswith("  ok  cluster k8s") and line.endswith(", namespace mine") for line in lines)
    cluster.kubectl("")
    assert f"{stays} names no current context" in found()[1]
    cluster.config.write_text(cluster.config.read_text().replace(f'kubeconfig = "{cluster.kubeconfig}"', ""))
    monkeypatch.setenv("KUBECONFIG", os.path.join(os.path.dirname(cluster.kubeconfig), "none"))
    assert f"{stays} finds no kubeconfig" in found()[1]
    cluster.configure(image="img:1", namespace="other")
    assert any(line.startswith("FAIL  cluster k8s: its jobs are in context") for line in found()[1])


def test_pods_that_reach_each_other(cluster: Cluster) -> None:
    fine, lines = found()
    assert fine
    assert "  ok  a pod on n2 and one on n1 reach each other on TCP port 6818, and find names" in lines
    listens, calls = cluster.made
    assert calls["spec"]["containers"][0]["command"][-2:] == ["10.0.0.1", "kubernetes.default.svc.cluster.local"]
    for pod in (listens, calls):
        assert (pod["spec"]["volumes"], pod["spec"]["restartPolicy"]) == ([], "Never")
        assert pod["spec"]["activeDeadlineSeconds"] == 120
        assert f"DELETE /api/v1/namespaces/mine/pods/{pod['metadata']['name']}" in [
            f"{one.command} {one.where}" for one in cluster.seen
        ]


@pytest.mark.parametrize(
    ("apart", "words"),
    [
        ({"tcp": "timed out", "dns": ""}, "the one does not reach the other on TCP port 6818 (timed out)"),
        ({"tcp": "", "dns": "no answer"}, "names are not found, by the DNS on UDP port 53 (no answer)"),
    ],
)
def test_pods_that_cannot_meet(cluster: Cluster, apart: dict[str, str], words: str) -> None:
    cluster.apart = apart
    fine, lines = found()
    assert not fine
    assert any(line.startswith("FAIL") and words in line for line in lines)


def test_pods_that_do_not_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.runs = False
    monkeypatch.setattr(pods, "PATIENCE", 1.0)
    fine, lines = found()
    assert fine
    assert "note  whether pods reach each other is not known: two of them did not run within 1 s" in lines


def test_no_pods_are_made_where_that_is_not_allowed(cluster: Cluster) -> None:
    cluster.forbidden = {"create pods"}
    found()
    assert cluster.made == []
