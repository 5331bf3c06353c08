"""A Kubernetes cluster as the shim command sees it: what it has, what it allows."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.control.backends.kubernetes.fakeapi import FakeServer, Request

NODE = {
    "metadata": {"name": "gpu-1", "labels": {}},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


class Cluster:
    """What the fake API server has and allows."""

    def __init__(self, server: FakeServer, path: Path) -> None:
        self.seen = server.seen
        self.kubeconfig = server.kubeconfig(path / "kubeconfig")
        self.config = path / "config.toml"
        self.forbidden: set[str] = (
            set()
        )  # "create jobs", "get pods/exec", "list nodes" (in all namespaces: "list all pods")
        self.there = {"/api/v1/namespaces/mine", "/apis/scheduling.k8s.io/v1alpha2"}
        self.refused = ""  # what admission says of pods
        self.made: list[dict[str, Any]] = []  # the doctor's pods
        self.runs = True  # they do
        self.apart = {"tcp": "", "dns": ""}  # what keeps them apart
        self.silent = threading.Event()
        self.silent.set()
        server.answer = self.answer

    def answer(self, request: Request) -> None:
        assert self.silent.wait(30)
        if request.where == "/version":
            request.json({"gitVersion": "v1.33.1"})
        elif request.where.endswith("/selfsubjectaccessreviews"):
            assert request.body is not None
            request.json({"status": {"allowed": self.may(request.body["spec"]["resourceAttributes"])}})
        elif request.where == "/api/v1/nodes":
            request.json({"items": [NODE]})
        elif request.where == "/api/v1/namespaces/mine/pods" and request.query != {"dryRun": "All"}:
            self._pods(request)
        elif request.command == "POST":
            assert request.query == {"dryRun": "All"}
            request.fail(403, "Forbidden", self.refused) if self.refused else request.json({})
        elif request.where in self.there:
            request.json({})
        else:
            request.fail(404, "NotFound")

    def _pods(self, request: Request) -> None:
        """The doctor's two pods: the first runs, the second tells what it found."""
        if request.command == "POST":
            assert request.body is not None
            self.made.append(request.body)
            request.json({})
            return
        items = []
        for pod in self.made if self.runs else ():
            calls = pod["metadata"]["name"].endswith("-b")
            state = {"terminated": {"exitCode": 0, "message": json.dumps(self.apart)}} if calls else {"running": {}}
            status = {"podIP": "10.0.0.1", "containerStatuses": [{"name": "agent", "state": state}]}
            items.append({**pod, "spec": {**pod["spec"], "nodeName": f"n{1 + calls}"}, "status": status})
        request.json({"items": items})

    def may(self, asked: dict[str, str]) -> bool:
        what = asked["resource"] + (f"/{asked['subresource']}" if asked["subresource"] else "")
        everywhere = "all " if not asked["namespace"] and what == "pods" else ""
        return f"{asked['verb']} {everywhere}{what}" not in self.forbidden

    def kubectl(self, context: str) -> None:
        """`kubectl config use-context`; "": `unset current-context`."""
        file = Path(self.kubeconfig)
        file.write_text(json.dumps({**json.loads(file.read_text()), "current-context": context}))

    def configure(self, **words: object) -> None:
        lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
        head = ["[clusters.k8s]", 'backend = "kubernetes"', f'kubeconfig = "{self.kubeconfig}"']
        self.config.write_text("\n".join([*head, *lines]) + "\n")
