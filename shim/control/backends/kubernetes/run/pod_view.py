"""What a pod's status, and a Job, say in the backend's terms. Pure.

``containerStatuses[].state`` is looked at and not the phase: it is a second ahead, and phases stay Running on dead nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.core.value import Value


class Ended(Value):
    """How a pod's agent ended. ``message``: what it wrote to /dev/termination-log. ``known``: a kubelet has seen it end."""

    code: int
    reason: str = ""
    message: str = ""
    known: bool = False


class PodView(Value):
    """One pod of a run.

    ``obstacle``: why it does not start, as a reason of one word, and ``detail`` in the cluster's words. ``silent``: its node
    has stopped reporting. ``leaving``: it is being deleted, and has ``grace`` seconds for that. ``made``: there is, or was, a container of it.
    """

    name: str
    uid: str
    index: int
    version: str = ""  # resourceVersion
    node: str = ""  # empty: not bound
    unschedulable: str = ""
    obstacle: str = ""
    detail: str = ""
    made: bool = False
    running: bool = False
    started_at: str = ""
    ended: Ended | None = None
    silent: bool = False
    leaving: bool = False
    grace: int = 0
    disruption: str = ""  # why it is taken away, and who says so in ``takes``
    takes: str = ""
    nominated: str = ""  # the node from which others are being sent away for it
    _nested = {"ended": Ended}

    @property
    def over(self) -> bool:
        """Nothing of it runs any more."""
        return self.ended is not None


# Waiting reasons that pass by themselves while a container is made.
_UNDER_WAY = ("ContainerCreating", "PodInitializing", "")


def look(pod: Mapping[str, Any]) -> PodView:
    """The view of a pod object."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    taken = conditions.get("DisruptionTarget") or {}
    container = _container(status)
    state = container.get("state") or {}
    waiting, running, ended = state.get("waiting") or {}, state.get("running"), state.get("terminated")
    view = PodView(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        index=_index(metadata),
        version=metadata.get("resourceVersion", ""),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        made=bool(container.get("containerID") or container.get("lastState")),
        running=running is not None,
        started_at=str((running or ended or {}).get("startedAt") or ""),
        silent=running is not None and ready.get("status") in ("False", "Unknown") and _silent(status, ready),
        leaving="deletionTimestamp" in metadata,
        grace=int(metadata.get("deletionGracePeriodSeconds") or 0),
        disruption=str(taken.get("reason") or ""),
        takes=str(taken.get("message") or ""),
        nominated=str(status.get("nominatedNodeName") or ""),
    )
    if ended is not None:
        return view.replace(ended=_ended(ended))
    if status.get("phase") in ("Failed", "Succeeded"):  # evicted before a container was made, or its status was lost
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
        return view.replace(
            ended=Ended(code=0 if status["phase"] == "Succeeded" else 137, reason=reason, message=""), detail=message
        )
    if not view.node and scheduled.get("status") == "False":
        return view.replace(unschedulable=str(scheduled.get("message") or scheduled.get("reason") or "Unschedulable"))
    if waiting.get("reason") and waiting["reason"] not in _UNDER_WAY:
        return view.replace(obstacle=str(waiting["reason"]), detail=str(waiting.get("message") or ""))
    return view


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found = status.get("containerStatuses") or ()
    return next((one for one in found if one.get("name") == names.CONTAINER), {})


def _ended(state: Mapping[str, Any]) -> Ended:
    return Ended(
        code=int(state.get("exitCode") or 0),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
        known=state.get("reason") != "ContainerStatusUnknown",
    )


def _index(metadata: Mapping[str, Any]) -> int:
    found = (metadata.get("annotations") or {}).get(names.INDEX) or (metadata.get("labels") or {}).get(names.INDEX)
    return int(found) if found is not None else -1


def _silent(status: Mapping[str, Any], ready: Mapping[str, Any]) -> bool:
    # The node controller sets Ready=False on the pods of a node that is gone, and leaves the container's own state alone.
    containers = status.get("containerStatuses") or ()
    return all(one.get("ready") for one in containers) and ready.get("reason") != "ContainersNotReady"


# Jobs


def queued(job: Mapping[str, Any]) -> bool:
    """Whether a queueing system lets the Job go, and takes it back."""
    return names.QUEUE in (job["metadata"].get("labels") or {})


def suspended(job: Mapping[str, Any]) -> bool:
    """Whether no pods of the Job are to be there."""
    return bool(job.get("spec", {}).get("suspend"))


def finished(job: Mapping[str, Any]) -> bool:
    """Whether the Job makes no pods any more."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in conditions)
