"""What `shim adopt` tells, whatever the controller answers."""

from __future__ import annotations

import io
from typing import Any

import pytest

from shim.admin import adopt
from shim.control import client
from shim.core.errors import ShimError
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

JOB = Job(cluster="k8s", job_id=7, request=JobRequest(name="train"), stdout="/state/slurm-7.out").to_dict()
TAKEN = "cluster k8s: job 7 (train) is carried on with here, its output: /state/slurm-7.out\n"
WAITS = "cluster k8s: machine abcdefgh has jobs; they are taken over if nothing is heard of it for 300 s\n"
OWNER = "abcdefghijkl"


def told(monkeypatch: pytest.MonkeyPatch, *replies: dict[str, Any], wait: bool = True) -> tuple[str, list[float], str]:
    """What is printed for these answers, the pauses, and the error."""
    left = list(replies)
    pauses: list[float] = []
    out = io.StringIO()
    monkeypatch.setattr(client, "call", lambda op, fields: {"jobs": [], "waits": [], "notes": [], **left.pop(0)})
    try:
        adopt.report("", out, wait=wait, sleep=pauses.append)
    except ShimError as error:
        return out.getvalue(), pauses, str(error)
    assert not left
    return out.getvalue(), pauses, ""


def test_it_waits_until_a_machine_was_silent_for_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [{"waits": [["k8s", OWNER, seconds]]} for seconds in (300.0, 200.0, 0.2)]
    assert told(monkeypatch, *replies, {"jobs": [JOB]}) == (WAITS + TAKEN, [5.0, 5.0, 0.5], "")


def test_a_machine_that_is_there_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [{"waits": [["k8s", OWNER, 300.0]]}, {"waits": [["k8s", OWNER, 300.5]]}]
    text = WAITS + "cluster k8s: machine abcdefgh is there: its jobs stay its own\n"
    assert told(monkeypatch, *replies)[::2] == (text, "jobs of machines that may still be there were left alone")


def test_without_waiting_what_can_be_had_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = {"jobs": [JOB], "waits": [["k8s", OWNER, 300.0]], "notes": ["a note"]}
    text, pauses, error = told(monkeypatch, reply, wait=False)
    assert (text, pauses) == (f"{TAKEN}a note\n{WAITS}", [])
    assert error


def test_where_there_is_nothing_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, {}) == ("no job of another machine of yours was found\n", [], "")


def test_a_job_that_never_began_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {**JOB, "state": "CANCELLED", "system_comment": "too early"}
    assert told(monkeypatch, {"jobs": [job]})[0] == "cluster k8s: job 7 (train) is CANCELLED: too early\n"
