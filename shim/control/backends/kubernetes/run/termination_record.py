"""What is known of a run's end when nobody heard its leader: the record that it left, or how its container ended. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shim.control.backends.kubernetes.run.pod_view import Ended, PodView
from shim.core.model import states
from shim.job.pod.ending import UNBEGUN

NO_PYTHON = 127


def lines(leader: PodView, now: float) -> list[dict[str, Any]]:
    """The journal lines that follow from the end of the leader's pod; empty if it says nothing: the run is lost."""
    ended = leader.ended
    if ended is None:
        return []
    record = _record(ended.message)
    if record is not None:
        began = record.get("started")
        begin = [{"kind": "started", "at": began}] if began else []
        return [*begin, *(step for step in record.get("steps", ()) if isinstance(step, dict)), record["ended"]]
    if ended.reason == "OOMKilled":
        return [{"kind": "ended", "at": now, "state": states.OUT_OF_MEMORY, "status": 125, "reason": "OutOfMemory"}]
    if ended.reason == "DeadlineExceeded":
        return [{"kind": "ended", "at": now, "state": states.TIMEOUT, "status": 0, "reason": "TimeLimit"}]
    if never_began(leader) or (not_startable(leader) and leader.leaving):
        return [{"kind": "ended", "at": now, "state": states.NODE_FAIL, "status": 0, "reason": "None"}]
    if ended.code == NO_PYTHON or not_startable(leader):
        return [
            {"kind": "waits", "at": now, "reason": "JobLaunchFailure", "detail": _one_line(ended)},
            {"kind": "ended", "at": now, "state": states.BOOT_FAIL, "status": 0, "reason": "JobLaunchFailure"},
        ]
    return []


def not_startable(pod: PodView) -> bool:
    """Whether the pod's container could not be started. One whose pod is deleted while it is being made ends like this, too."""
    return pod.ended is not None and pod.ended.reason in ("StartError", "ContainerCannotRun")


def never_began(pod: PodView) -> bool:
    """Whether the pod was taken down (deleted, evicted) before it had a container, or before there was an agent in it."""
    if pod.ended is None:
        return False
    unmade = pod.ended.reason == "ContainerStatusUnknown" and not pod.made
    return unmade or pod.ended.message.strip() == UNBEGUN


def lost_sight(pod: PodView) -> bool:
    """Whether the kubelet does not know how the pod's process ended: its machine or its container runtime began anew."""
    return pod.ended is not None and pod.ended.reason in ("ContainerStatusUnknown", "Unknown")


def is_told(leader: PodView) -> bool:
    """Whether the leader has left a record of its own."""
    return leader.ended is not None and _record(leader.ended.message) is not None


def nonces(leader: PodView) -> tuple[str, ...]:
    """Those with which the leader's process has asked whether it may begin."""
    found = _record(leader.ended.message) if leader.ended is not None else None
    told = found.get("nonces") if found is not None else None
    return tuple(str(one) for one in told) if isinstance(told, list) else ()


def why(leader: PodView) -> str:
    """Why the leader ended, in its own words; "" where it has not said."""
    found = _record(leader.ended.message) if leader.ended is not None else None
    return str(found.get("why") or "") if found is not None else ""


def _record(message: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(message)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("ended"), dict) else None


def _one_line(ended: Ended) -> str:
    return " ".join((ended.message or ended.reason).split())[:400]
