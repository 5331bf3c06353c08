"""The ways to be let in by a real API server: tokens, plugins, certificates, proxies."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shim.control.backends.kubernetes.api.access import Access, ApiError

pytestmark = pytest.mark.kubernetes
LIMIT = 30.0
Change = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture
def changed(kubeconfig: str, tmp_path: Path) -> Callable[[Change], str]:
    """A kubeconfig of the real cluster with its cluster and its user changed."""
    whole = yaml.safe_load(Path(kubeconfig).read_text())

    def change(work: Change) -> str:
        config = copy.deepcopy(whole)
        work(config["clusters"][0]["cluster"], config["users"][0]["user"])
        path = tmp_path / "changed"
        path.write_text(json.dumps(config))
        return str(path)

    return change


class Proxy:
    """An HTTP proxy that knows CONNECT."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._tunnel, args=(connection,), daemon=True).start()

    def _tunnel(self, connection: socket.socket) -> None:
        with connection:
            asked = connection.recv(65536)
            self.asked.append(asked.split(b"\r\n")[0])
            host, _, port = asked.split()[1].decode().rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    for one in select.select([connection, there], [], [])[0]:
                        data = one.recv(65536)
                        if not data:
                            return
                        (there if one is connection else connection).sendall(data)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    one = Proxy()
    yield one
    one.close()


def ask(file: str, path: str = "/api/v1/namespaces/kube-system") -> Any:
    """The object, and what an exec into a pod that is not there is answered."""

    async def go() -> Any:
        access = await Access.load(file)
        try:
            found = await access.get(path)
            with pytest.raises(ApiError) as caught:
                await access.exec("kube-system", "no-such-pod", "agent", ["true"])
            return found["metadata"]["name"], caught.value.reason
        finally:
            await access.close()

    return asyncio.run(go())


def refusal(file: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask(file)
    return caught.value


def plugin(folder: Path, status: dict[str, str]) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    answer = folder / "answer"
    answer.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    return {"exec": {"apiVersion": version, "command": "cat", "args": [str(answer)], "interactiveMode": "Never"}}


def decoded(user: dict[str, Any], name: str) -> str:
    if f"{name}-data" in user:
        return base64.b64decode(user[f"{name}-data"]).decode()
    return Path(user[name]).read_text()


def test_certificates_of_a_plugin_leave_no_file(changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        if "client-certificate-data" not in user and "client-certificate" not in user:
            pytest.skip("the cluster's user has no certificate")
        certificate, key = decoded(user, "client-certificate"), decoded(user, "client-key")
        user.clear()
        user.update(plugin(tmp_path, {"clientCertificateData": certificate, "clientKeyData": key}))

    assert ask(changed(change)) == ("kube-system", "NotFound")
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("way", ["token", "tokenFile", "plugin"])
def test_the_token_of_a_service_account(
    changed: Any, kubeconfig: str, namespace: str, tmp_path: Path, way: str
) -> None:
    async def token() -> str:
        access = await Access.load(kubeconfig)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await access.post(path, {"metadata": {"name": "me"}})
        told = await access.post(f"{path}/me/token", {"spec": {"expirationSeconds": 600}})
        await access.close()
        return str(told["status"]["token"])

    secret = asyncio.run(token())

    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        user.clear()
        (tmp_path / "token").write_text(secret)
        user.update(
            {"token": {"token": secret}, "tokenFile": {"tokenFile": str(tmp_path / "token")}}.get(way)
            or plugin(tmp_path, {"token": secret})
        )

    error = refusal(changed(change))
    assert error.forbidden
    assert f"system:serviceaccount:{namespace}:me" in str(error)


def test_a_token_that_is_not_known(changed: Any) -> None:
    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        user.clear()
        user["token"] = "nonsense"

    error = refusal(changed(change))
    assert (error.status, error.reason, error.transient) == (401, "Unauthorized", False)


def test_an_authority_that_is_not_the_clusters(changed: Any) -> None:
    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        cluster.pop("certificate-authority-data", None)
        cluster.pop("certificate-authority", None)

    error = refusal(changed(change))
    assert error.status == 0
    assert "certificate verify failed" in str(error)


def test_a_server_that_is_not_verified(changed: Any) -> None:
    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        cluster.pop("certificate-authority-data", None)
        cluster.pop("certificate-authority", None)
        cluster["insecure-skip-tls-verify"] = True

    assert ask(changed(change)) == ("kube-system", "NotFound")


def test_another_name_of_the_server(changed: Any) -> None:
    def right(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        cluster["tls-server-name"] = "kubernetes.default.svc"

    def wrong(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        cluster["tls-server-name"] = "elsewhere.invalid"

    assert ask(changed(right)) == ("kube-system", "NotFound")
    assert "certificate verify failed" in str(refusal(changed(wrong)))


def test_by_way_of_a_proxy(changed: Any, proxy: Proxy) -> None:
    def change(cluster: dict[str, Any], user: dict[str, Any]) -> None:
        cluster["proxy-url"] = proxy.url

    assert ask(changed(change)) == ("kube-system", "NotFound")
    assert len(proxy.asked) == 2
    assert {line.split()[0] for line in proxy.asked} == {b"CONNECT"}
