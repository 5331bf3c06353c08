"""A Kubernetes API server that takes connections and says nothing: who looks at its cluster is told, everything else is shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.fake_cluster import Cluster
from tests.control.backends.kubernetes.fakeapi import FakeServer, Request, pods
from tests.control.backends.slurm.fake import OURS
from tests.control.controller import processes
from tests.support import wait_until

SILENT = "warning: k8s: no answer from the API server within 1 s; it is shown as it was seen last"


class Watched(Cluster):
    """The cluster that the shim command sees, with collections that can be watched: nothing ever happens in them."""

    def answer(self, request: Request) -> None:
        if "watch" in request.query:
            request.stream()
            request.rfile.read(1)
        elif "/leases" in request.where or request.where.endswith("/selfsubjectreviews"):
            assert self.silent.wait(30)
            request.json(request.body) if request.body else request.fail(404, "NotFound")
        elif "limit" in request.query and request.where != "/api/v1/nodes":
            request.json(pods(5))
        else:
            super().answer(request)


@pytest.fixture
def cluster(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = FakeServer()
    found = Watched(server, tmp_path)
    found.configure(timeout=1, image="x")
    text = found.config.read_text()
    found.config.write_text(f'default = "local"\n[clusters.local]\n{text}[clusters.k8s.partitions.pods]\n')
    monkeypatch.setenv("SHIM_CONFIG", str(found.config))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    try:
        with processes.ended_afterwards():
            yield found
    finally:
        found.silent.set()
        server.stop()


def said(*words: str) -> tuple[list[str], list[str]]:
    """The lines on stdout and stderr of one of our commands, which does its work."""
    done = subprocess.run([OURS / words[0], *words[1:]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    return done.stdout.splitlines(), done.stderr.splitlines()


def _as_seen_last(words: tuple[str, ...], shown: str) -> bool:
    out, err = said(*words)
    return (out[0].startswith(shown), err) == (True, [f"{words[0]}: {SILENT}"])


def test_silence_is_said_and_hides_nothing(cluster: Watched) -> None:
    job = said("sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap", "true")[0][0]
    wait_until(lambda: said("sinfo", "-hp", "pods", "-o", "%N") == (["gpu-1"], []), "the cluster as it is")
    cluster.silent.clear()
    for words, shown in (
        (("squeue", "-ho", "%i"), job),
        (("sacct", "-Po", "jobid"), "JobID"),
        (("sinfo", "-hp", "pods", "-o", "%N"), "gpu-1"),
        (("scontrol", "show", "jobs"), f"JobId={job} JobName=wrap"),
        (("scontrol", "-o", "show", "node", "gpu-1"), "NodeName=gpu-1"),
    ):
        wait_until(lambda: _as_seen_last(words, shown), f"the silence is said by {words[0]}")  # noqa: B023
    # What is on this machine is nobody else's.
    assert said("squeue", "-hj", job, "-o", "%i") == ([job], [])
    assert said("scontrol", "hold", job) == ([], [])
    assert said("sinfo", "-hM", "local", "-o", "%R")[1] == []
    assert said("scancel", job) == ([], [])
    cluster.silent.set()
    wait_until(lambda: not said("sinfo")[1], "it is heard again")
