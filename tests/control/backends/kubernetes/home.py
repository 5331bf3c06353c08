"""A user's machine beside the real cluster: its configuration, its commands, its controller."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.cluster.kubernetes import existing
from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from tests.control.controller import processes
from tests.support import wait_until

COMMANDS = Path(__file__).parents[4] / "bin"
LIMIT = 120.0  # seconds; only ends a test that has failed
CONFIG = """\
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
identity = "image"
cpu_request = 1
kill_wait = 5
"""


def until(condition: Callable[[], bool], what: str) -> None:
    """Returns when it is so. A look is a process or two, which take time from the pods."""
    wait_until(condition, what, LIMIT, pause=0.3)


class Home:
    """``configure`` comes before the first command."""

    def __init__(self, folder: Path, kubeconfig: str, namespace: str) -> None:
        self.folder = folder
        self.kubeconfig, self.namespace = kubeconfig, namespace

    def configure(self, more: str = "") -> None:
        words = {"kubeconfig": self.kubeconfig, "namespace": self.namespace, "image": IMAGE_PYTHON}
        (self.folder / "shim.toml").write_text(CONFIG.format(**words) + more)

    def run(self, command: str, *words: str) -> str:
        """What one of our commands prints."""
        done = subprocess.run(
            [str(COMMANDS / command), *words],
            cwd=self.folder / "work", env=os.environ, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, script: str, *words: str) -> str:
        """The job's id."""
        path = self.folder / "work" / "job.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        return self.run("sbatch", "--parsable", *words, str(path)).strip()

    def shown(self, job: str, fields: str = "%T") -> str:
        """As squeue has it."""
        return self.run("squeue", "-h", "-t", "all", "-j", job, "-o", fields).strip()

    def kubectl(self, *words: str) -> str:
        """What kubectl prints, as an administrator."""
        command = [existing.kubectl(), "--kubeconfig", self.kubeconfig, "-n", self.namespace, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self, job: str) -> list[dict[str, Any]]:
        """The job's pods."""
        found = json.loads(self.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={job}", "-o", "json"))
        pods: list[dict[str, Any]] = found["items"]
        return pods


@pytest.fixture
def home(tmp_path: Path, kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    made = Home(tmp_path, kubeconfig, namespace)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("SHIM_CONFIG", str(tmp_path / "shim.toml"))
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "state"))
    with processes.ended_afterwards():
        yield made
