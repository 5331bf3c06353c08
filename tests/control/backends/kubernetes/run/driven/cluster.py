"""The simulated cluster with objects as the API server shows them, and agents that speak over streams."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.register import Record
from tests.control.backends.kubernetes.run.driven.agents import Agent
from tests.control.backends.kubernetes.run.simulated import Cluster
from tests.control.backends.kubernetes.run.things import Api, Container, JobObject, Machine, PodObject, Process

Object = dict[str, Any]


class RecordOf(Record):
    data: dict[str, str]
    labels: dict[str, str]


class JobOf(JobObject):
    labels: dict[str, str]


class DrivenApi(Api):
    """``logs``: by kind. ``watchers`` are told that there is something new."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, list[tuple[str, Any]]] = {"record": [], "job": [], "pod": []}
        self.watchers: list[Any] = []

    def put(self, kind: str, value: Any) -> None:
        if self.stores[kind].get(value.name) is not value:
            self.stores[kind][value.name] = value
            self._note(kind, value.name, value)

    def remove(self, kind: str, name: str) -> None:
        del self.stores[kind][name]
        self._note(kind, name, None)

    def _note(self, kind: str, name: str, value: Any) -> None:
        self.logs[kind].append((name, value))
        for one in self.watchers:
            if one.kind == kind:
                one.changed()


class DrivenCluster(Cluster):
    """``secrets``: by name."""

    def __init__(
        self,
        rng: random.Random,
        plant: frozenset[str],
        made: Callable[[Agent], None],
        check_forgotten: Callable[[Any], None],
    ) -> None:
        super().__init__(rng, plant)
        self.api: DrivenApi = DrivenApi()
        self.secrets: dict[str, Object] = {}
        self.ids: dict[str, int] = {}  # of jobs, by uid of the record
        self.made = made
        self.check_forgotten = check_forgotten  # type: ignore[method-assign]
        self._shown: dict[int, tuple[Any, Object]] = {}

    def start(self, machine: Machine, pod: PodObject) -> None:
        agent = Agent(pod, machine, self)
        machine.containers[pod.uid] = Container(agent)
        self.processes.append(agent)
        self.made(agent)
        self.api.put("pod", pod.replace(running=True))

    def kill(self, process: Process) -> None:
        super().kill(process)
        assert isinstance(process, Agent)
        process.died()

    def job_controller(self) -> None:
        super().job_controller()
        owners = {record.uid for record in self.api.records.values()}
        for name, secret in list(self.secrets.items()):
            if not any(one["uid"] in owners for one in secret["metadata"].get("ownerReferences", ())):
                del self.secrets[name]

    # As the API server shows them

    def shown(self, kind: str, value: Any) -> Object:
        """Made once for each value, and never changed by anybody."""
        found = self._shown.get(id(value))
        if found is None:
            found = self._shown[id(value)] = (value, getattr(self, f"_{kind}")(value))
        return found[1]

    @staticmethod
    def _record(record: RecordOf) -> Object:
        data = dict(record.data)
        wanted = record.wanted.to_dict()
        data.pop("wanted", None)
        if wanted:
            data["wanted"] = json.dumps(wanted)
        if record.register is not None:
            data["register"] = json.dumps(record.register.to_dict())
        metadata = {"name": record.name, "uid": record.uid, "resourceVersion": record.version, "labels": record.labels}
        return {"metadata": metadata, "data": data}

    @staticmethod
    def _job(job: JobOf) -> Object:
        conditions = [{"type": "Failed", "status": "True"}] if job.finished else []
        return {
            "metadata": {
                "name": job.name,
                "uid": job.uid,
                "labels": job.labels,
                "ownerReferences": [{"uid": job.record}],
            },
            "spec": {"completions": job.width, "suspend": job.suspended},
            "status": {"conditions": conditions},
        }

    def _pod(self, pod: PodObject) -> Object:
        labels = names.labels(self.ids[pod.record], 0, pod.record, pod.run)
        metadata: Object = {
            "name": pod.name,
            "uid": pod.uid,
            "labels": labels,
            "annotations": {names.INDEX: str(pod.index)},
        }
        if pod.job or pod.alone:
            metadata["ownerReferences"] = [{"uid": pod.job or pod.record}]
        if pod.deleting:
            metadata.update(deletionTimestamp="2026-11-22T05:00:00Z", deletionGracePeriodSeconds=5)
        status: Object = {"phase": "Pending"}
        if pod.ended:
            reason = "ContainerStatusUnknown" if pod.unknown else "Error"
            ended = {"exitCode": 1, "reason": reason, "message": "" if pod.unknown else pod.report or ""}
            status["containerStatuses"] = [
                {"name": names.CONTAINER, "containerID": "c", "state": {"terminated": ended}}
            ]
        elif pod.running:
            status["containerStatuses"] = [{"name": names.CONTAINER, "ready": True, "state": {"running": {}}}]
        return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": pod.node}, "status": status}
