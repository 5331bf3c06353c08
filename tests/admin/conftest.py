"""What the tests of the shim command share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.fake_cluster import Cluster
from tests.control.backends.kubernetes.fakeapi import FakeServer


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    server = FakeServer()
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Cluster(server, tmp_path)
    made.configure(image="img:1")
    monkeypatch.setenv("SHIM_CONFIG", str(made.config))
    yield made
    server.stop()
