"""The Kubernetes objects of a script."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import pytest

from shim.admin import explain
from shim.control.backends.base import Run
from shim.control.backends.kubernetes.cluster import pinned_context
from shim.control.backends.kubernetes.run import run_folders
from shim.core.errors import ShimError
from tests.admin.fake_cluster import Cluster


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "train.sh").write_text("#!/bin/bash\n#SBATCH -t 10 -o out.txt\necho secret-word\n")
    monkeypatch.chdir(made)
    return made


@pytest.fixture(autouse=True)
def described(cluster: Cluster) -> None:
    cluster.forbidden = {"list nodes"}
    cluster.configure(image="img:1", nodes=2, cpus=4, memory="1G", node_names="n[1-2]")


def objects(*argv: str) -> tuple[str, dict[str, Any]]:
    out = io.StringIO()
    assert explain.report(["-o", "yaml", *argv, "train.sh"], out)
    text = out.getvalue()
    return text, {one["kind"]: one for one in importlib.import_module("yaml").safe_load_all(text)}


def test_what_would_be_sent(folder: Path) -> None:
    text, found = objects("-N2", "--ntasks-per-node=2", "--mem=100M")
    assert list(found) == ["Job", "Secret", "PodGroup"]
    job, secret = found["Job"], found["Secret"]
    assert job["metadata"]["name"] == "slurm-0"
    assert job["metadata"]["namespace"] == secret["metadata"]["namespace"] == "mine"
    assert (job["spec"]["completions"], "suspend" in job["spec"]) == (2, False)
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "img:1"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "164Mi"}
    assert "Service slurm-nodes, ConfigMap slurm-agent-" in text
    assert "\n        - |\n" in text  # programs can be read


def test_it_would_be_sent_where_the_jobs_are(folder: Path, cluster: Cluster) -> None:
    pinned_context.note("k8s", pinned_context.Place(kubeconfig=cluster.kubeconfig, context="here", namespace="kept"))
    run_folders.ensure(Run(cluster="k8s", job_id=7))
    cluster.kubectl("there")
    assert objects()[1]["Job"]["metadata"]["namespace"] == "kept"


def test_the_contents_of_the_secret_are_told_by_size_alone(folder: Path) -> None:
    text, found = objects()
    secret = found["Secret"]
    assert "data" not in secret
    assert {"key", "spec.json", "environment.json", "slurm_script", "stage.tar.gz"} <= set(secret["stringData"])
    assert secret["stringData"]["slurm_script"] == f"({(folder / 'train.sh').stat().st_size} bytes)"
    assert "secret-word" not in text
    assert "PodGroup" not in found


def test_options_of_sbatch_come_behind(folder: Path) -> None:
    (folder / "train.sh").write_text("#!/bin/bash\n")
    found = objects("-o", "other.txt", "-t", "5")[1]
    assert found["Job"]["spec"]["template"]["spec"]["activeDeadlineSeconds"] >= 300


def test_nothing_is_made(folder: Path, cluster: Cluster) -> None:
    objects()
    assert {request.where.rpartition("/")[2] for request in cluster.seen if request.command != "GET"} <= {
        "selfsubjectaccessreviews"
    }


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("-N3",), "PartitionNodeLimit"),
        (("--gres=gpu:1",), "Requested node configuration is not available"),
        (("--bcast=x",), "bcast"),
    ],
)
def test_what_sbatch_would_refuse(folder: Path, argv: tuple[str, ...], text: str) -> None:
    with pytest.raises(ShimError) as problem:
        objects(*argv)
    assert text in " ".join(problem.value.lines)


def test_a_cluster_that_is_none(folder: Path, cluster: Cluster) -> None:
    cluster.config.write_text('[clusters.here]\nbackend = "local"\n')
    with pytest.raises(ShimError, match="has no manifests"):
        objects()


def test_a_directory_that_is_too_large(folder: Path, cluster: Cluster) -> None:
    cluster.configure(image="img:1", nodes=2, cpus=4, memory="1G", stage_limit=1)
    (folder / "big.bin").write_bytes(bytes(2 << 20))
    with pytest.raises(ShimError, match=r"big\.bin \(2\.0 MiB\)"):
        objects()


def test_no_such_context(folder: Path, cluster: Cluster) -> None:
    cluster.configure(image="img:1", nodes=2, context="nowhere")
    with pytest.raises(ShimError, match="no context"):
        objects()
