"""A fake API server for each test that asks for one, and the real one where there is one."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator

import pytest

from compat.cluster.kubernetes import existing
from compat.cluster.kubernetes.settings import KUBECONFIG
from shim.control.backends.kubernetes.access import Access
from tests.control.backends.kubernetes.fakeapi import FakeServer


@pytest.fixture
def kubeconfig() -> str:
    """A real cluster's, for tests marked ``kubernetes``: they need SHIM_TEST_KUBERNETES=1, and fail then if there is none."""
    if not os.environ.get("SHIM_TEST_KUBERNETES"):
        pytest.skip("asks a real Kubernetes: compat/cluster/k8s.py up, then SHIM_TEST_KUBERNETES=1")
    path = existing.given() or str(KUBECONFIG)
    if not os.path.exists(path):
        pytest.fail("no real Kubernetes: compat/cluster/k8s.py up (as root)")
    return path


@pytest.fixture
def namespace(kubeconfig: str) -> Iterator[str]:
    """A namespace of the real cluster's for one test."""
    name = f"shim-test-{secrets.token_hex(4)}"

    async def make() -> None:
        access = await Access.load(kubeconfig)
        await access.post("/api/v1/namespaces", {"metadata": {"name": name}})
        await access.close()

    async def remove() -> None:
        access = await Access.load(kubeconfig)
        for pod in (await access.get(f"/api/v1/namespaces/{name}/pods"))["items"]:
            await access.delete(f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}", grace=0)
        await access.delete(f"/api/v1/namespaces/{name}")
        await access.close()

    asyncio.run(make())
    yield name
    asyncio.run(remove())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fake = FakeServer()
    yield fake
    fake.stop()
