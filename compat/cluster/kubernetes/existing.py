"""A cluster that somebody else brought up: named by KUBECONFIG, asked whether it answers, never changed."""

from __future__ import annotations

import os
import shutil
import subprocess

from compat.cluster.kubernetes import programs
from compat.cluster.kubernetes.settings import KUBECONFIG, ClusterError


def given() -> str:
    """What KUBECONFIG names; "" when it is not set or names the cluster that these commands bring up."""
    named = os.environ.get("KUBECONFIG", "")
    return "" if not named or os.path.realpath(named) == str(KUBECONFIG) else named


def nodes(kubeconfig: str) -> list[str]:
    """The nodes' names; "?" where they may not be listed. Raises ClusterError when the cluster does not answer."""
    version = _kubectl(kubeconfig, "get", "--raw", "/version")
    if version.returncode != 0:
        raise ClusterError(f"the cluster of KUBECONFIG={kubeconfig} does not answer: {version.stderr.strip()}")
    listed = _kubectl(kubeconfig, "get", "nodes", "--output", "name")
    return [line.partition("/")[2] for line in listed.stdout.split()] if listed.returncode == 0 else ["?"]


def kubectl() -> str:
    """The path of kubectl: the machine's, else our own, which is built if need be."""
    path = shutil.which("kubectl")
    if path is None:
        programs.ensure("kubectl")
        path = str(programs.find("kubectl"))
    return path


def _kubectl(kubeconfig: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "KUBECONFIG": kubeconfig}
    command = [kubectl(), "--request-timeout=15s", *arguments]
    return subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
