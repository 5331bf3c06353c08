"""What pods' statuses say: the shapes that a real API server shows."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.backends.kubernetes.run.pod_view import look


def pod(
    node: str = "node1", *, conditions: Any = (), phase: str = "Running", index: str = "0", **state: Any
) -> dict[str, Any]:
    """A pod object; ``state``: of the container ``agent``."""
    containers = [{"name": "agent", "ready": "running" in state, "state": state}] if state else []
    return {
        "metadata": {
            "name": "slurm-7-0-abcde",
            "uid": "u1",
            "resourceVersion": "5",
            "annotations": {"batch.kubernetes.io/job-completion-index": index},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": list(conditions), "containerStatuses": containers},
    }


def test_a_pod_that_fits_nowhere_says_why() -> None:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    view = look(pod("", phase="Pending", conditions=[condition]))
    assert (view.node, view.unschedulable, view.running, view.over) == ("", message, False, False)


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError", "InvalidImageName"]
)
def test_a_container_that_cannot_be_made_is_an_obstacle(reason: str) -> None:
    view = look(pod(phase="Pending", waiting={"reason": reason, "message": "no such image"}))
    assert (view.obstacle, view.detail) == (reason, "no such image")


def test_one_that_is_being_made_is_none() -> None:
    assert look(pod(phase="Pending", waiting={"reason": "ContainerCreating"})).obstacle == ""


def test_a_running_one_is_on_its_node() -> None:
    view = look(pod("node2", index="3", running={"startedAt": "2026-11-20T10:00:00Z"}))
    assert (view.running, view.node, view.index, view.silent, view.uid, view.version) == (
        True,
        "node2",
        3,
        False,
        "u1",
        "5",
    )


def test_the_end_is_seen_though_the_phase_still_says_running() -> None:
    view = look(pod(terminated={"exitCode": 3, "reason": "Error", "message": "{}"}))
    assert view.over and view.ended is not None
    assert (view.ended.code, view.ended.reason, view.ended.message) == (3, "Error", "{}")


def test_a_pod_on_a_node_that_is_gone_is_silent() -> None:
    condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    view = look(pod(running={}, conditions=[condition]))
    assert view.running and view.silent and not view.over


def test_a_pod_that_was_evicted_has_ended() -> None:
    found = pod(phase="Failed")
    found["status"]["reason"] = "Evicted"
    view = look(found)
    assert view.ended is not None
    assert (view.ended.code, view.ended.reason) == (137, "Evicted")


def test_one_that_is_being_deleted_is_leaving() -> None:
    found = pod(running={})
    found["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert look(found).leaving
