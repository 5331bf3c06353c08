"""The real cluster of tests marked ``kubernetes``, and a namespace of it for each."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator

import pytest

from compat.cluster.kubernetes import existing
from compat.cluster.kubernetes.settings import KUBECONFIG
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError


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
            try:
                await access.delete(f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}", grace=0)
            except ApiError as error:
                if not error.missing:  # it was going anyway
                    raise
        await access.delete(f"/api/v1/namespaces/{name}")
        await access.close()

    asyncio.run(make())
    yield name
    asyncio.run(remove())
