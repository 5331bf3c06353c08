"""The few requests to the API server that bringing a cluster up takes, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes.settings import PKI


class Api:
    """The API server at ``host:port``, as the owner of the certificate ``name``."""

    def __init__(self, host: str, port: int, name: str) -> None:
        self.host = host
        self.port = port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.load_verify_locations(PKI / "ca.crt")
        self.context.load_cert_chain(PKI / f"{name}.crt", PKI / f"{name}.key")

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and answer of one request; status 0 when nobody answers. A PATCH is a merge patch."""
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=10, context=self.context)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            return 0, str(problem)
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text.decode(errors="replace")

    def ready(self) -> bool:
        """Whether the API server says that it is ready."""
        return self.ask("GET", "/readyz")[0] == 200


def ready_since(node: dict[str, Any]) -> str:
    """Time of the last heartbeat (RFC 3339) of a node that is Ready; "" of one that is not.

    A Ready that is stored from before outlives the kubelet: only the time tells.
    """
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return str(condition.get("lastHeartbeatTime", ""))
    return ""


def gpu_patch(count: int) -> dict[str, Any]:
    """The merge patch of a node's status that gives it GPUs."""
    amount = {"nvidia.com/gpu": str(count)}
    return {"status": {"capacity": amount, "allocatable": amount}}


def server_of(path: Path) -> str:
    """The server's address in a kubeconfig of ours; "" when there is none."""
    try:
        return str(json.loads(path.read_text())["clusters"][0]["cluster"]["server"])
    except (FileNotFoundError, ValueError):
        return ""
