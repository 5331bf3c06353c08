"""What is made of the end of a leader's pod that nobody heard."""

from __future__ import annotations

import json

import pytest

from shim.control.backends.kubernetes.run import termination_record
from shim.control.backends.kubernetes.run.pod_view import Ended, PodView
from shim.job.pod.ending import UNBEGUN

NOW = 1_000.0


def leader(code: int, reason: str = "Error", message: str = "") -> PodView:
    return PodView(name="slurm-7-0-x", uid="u", index=0, ended=Ended(code=code, reason=reason, message=message))


def test_the_record_is_the_journals_end() -> None:
    ended = {"n": 5, "at": 20.0, "kind": "ended", "state": "FAILED", "status": 768}
    step = {"n": 4, "at": 19.0, "kind": "step-end", "step": "0", "status": 0, "state": "COMPLETED"}
    message = json.dumps({"started": 10.0, "ended": ended, "steps": [step], "left_out": 0})
    assert termination_record.lines(leader(3, message=message), NOW) == [{"kind": "started", "at": 10.0}, step, ended]


def test_a_run_that_never_started_has_no_start() -> None:
    ended = {"n": 2, "at": 20.0, "kind": "ended", "state": "CANCELLED", "status": 0}
    message = json.dumps({"started": None, "ended": ended, "steps": []})
    assert termination_record.lines(leader(1, message=message), NOW) == [ended]


@pytest.mark.parametrize(
    ("view", "states"),
    [
        (leader(137, "OOMKilled"), ["OUT_OF_MEMORY"]),
        (leader(1, "OOMKilled", "garbage"), ["OUT_OF_MEMORY"]),
        (leader(137, "DeadlineExceeded"), ["TIMEOUT"]),
        (leader(127, message="no python3"), [None, "BOOT_FAIL"]),
        (leader(128, "StartError", "no such file"), [None, "BOOT_FAIL"]),
        (leader(128, "StartError", "no such file").replace(leaving=True), ["NODE_FAIL"]),
        (leader(137, "ContainerStatusUnknown"), ["NODE_FAIL"]),
        (leader(137, "ContainerStatusUnknown").replace(made=True), []),
        (leader(143, message=f"{UNBEGUN}\n"), ["NODE_FAIL"]),
        (leader(137), []),
        (leader(143), []),
        (leader(0, "Completed", "[]"), []),
    ],
)
def test_without_a_record_the_container_tells(view: PodView, states: list[str | None]) -> None:
    assert [line.get("state") for line in termination_record.lines(view, NOW)] == states
