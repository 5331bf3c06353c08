"""A fake API server for each test that asks for one, and the real one where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.backends.kubernetes.fakeapi import FakeServer
from tests.control.backends.kubernetes.real import kubeconfig, namespace

__all__ = ["kubeconfig", "namespace", "server"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fake = FakeServer()
    yield fake
    fake.stop()
