"""What a job may ask for, as its cluster is."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes import trying, volumes
from shim.control.backends.kubernetes.settings import Settings
from shim.core.layout.step import NodeUse, StepError, step_layout
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest, StepRequest

SETTINGS = Settings(mounts=({"path": "/home", "pvc": "home"}, {"path": "/data", "host_path": "/data"}))


@pytest.mark.parametrize(
    "mounts", ["", "/home", "/home:/home", "/home/u/x:/home/u/x:ro", "/home:/home,/data/set:/data/set", "/data/:/data/"]
)
def test_mounts_that_the_pods_have_anyway(mounts: str) -> None:
    volumes.check_asked(mounts, SETTINGS)


@pytest.mark.parametrize("mounts", ["/scratch", "/home:/h", "/scratch:/scratch", "/home:/home,/x:/x", "/homes:/homes"])
def test_mounts_that_would_be_needed(mounts: str) -> None:
    with pytest.raises(BackendError, match="--container-mounts="):
        volumes.check_asked(mounts, SETTINGS)


def job(**request: Any) -> Job:
    share = NodeShare(name="n1", cpus=2)
    return Job(
        cluster="c", job_id=1, submit_time=0.0, uid=1, shares=(share,), nodes=1, cpus=2, request=JobRequest(**request)
    )


@pytest.mark.parametrize("constraint", [None, "", "a", "a&b"])
def test_features_that_described_nodes_can_be_chosen_by(constraint: str | None) -> None:
    trying.check_described(job(constraint=constraint))


@pytest.mark.parametrize("constraint", ["a|b", "[a|b]", "a*1&b*2", "(a|b)&c"])
def test_features_that_only_real_nodes_can_be_chosen_by(constraint: str) -> None:
    with pytest.raises(BackendError, match="joined by & only"):
        trying.check_described(job(constraint=constraint))
    trying.check_described(job(constraint=constraint, node_list="n1"))


@pytest.mark.parametrize("asked", [None, "img:1"])
def test_a_step_with_the_image_of_its_job(asked: str | None) -> None:
    layout = step_layout(StepRequest(container_image=asked), job(container_image="img:1"), [NodeUse()])
    assert layout is not None


def test_a_step_with_another_image() -> None:
    with pytest.raises(StepError, match="its pods have the image img:1"):
        step_layout(StepRequest(container_image="img:2"), job(container_image="img:1"), [NodeUse()])
