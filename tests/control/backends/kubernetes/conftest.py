"""A fake API server or a cluster in memory for each test that asks for one, and the real one where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.cluster import watches
from tests.control.backends.kubernetes.fakeapi import FakeServer
from tests.control.backends.kubernetes.fakecluster import FakeCluster
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.real import kubeconfig, namespace

__all__ = ["kubeconfig", "namespace", "server"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fake = FakeServer()
    yield fake
    fake.stop()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster that every backend of the test finds."""
    found = FakeCluster()

    async def load(*_where: str | None) -> Access:
        return found.access

    monkeypatch.setattr(watches, "Reflector", FakeReflector)
    monkeypatch.setattr(Access, "load", load)
    return found
