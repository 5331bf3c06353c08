"""A user who is no administrator: a namespace with the `restricted` Pod Security level enforced, the Role that our documentation
gives and nothing else, and one folder of the machine, as a PersistentVolumeClaim.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes import programs
from compat.cluster.kubernetes.settings import ClusterError

ROLE = Path(__file__).resolve().parents[3] / "docs" / "kubernetes-role.yaml"
CLAIM = "shared"
"""Name of the claim to the folder."""
USER = "person"
_LEVEL = {"pod-security.kubernetes.io/enforce": "restricted"}
_DURATION = "8h"


class Tenant:
    """Makes the namespace, the user and the volume; ``kubeconfig`` is then the user's. ``close`` removes all of it.

    ``admin``: kubeconfig of one who may do this. ``folder``: what the claim is for; all nodes must see it. ``place``: where the user's
    kubeconfig is written. ``nodes``: the user may also list nodes and pods of the cluster, by the documented ClusterRole.
    """

    def __init__(self, admin: str, namespace: str, folder: Path, place: Path, *, nodes: bool = False) -> None:
        self._admin = admin
        self.namespace = namespace
        self.kubeconfig = place / "kubeconfig"
        self._binding = f"slurm-shim-{namespace}" if nodes else ""
        user = f"system:serviceaccount:{namespace}:{USER}"
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": _LEVEL}})
        self._apply(volume(namespace, folder))
        self._apply(claim(namespace))
        self._kubectl("-n", namespace, "create", "serviceaccount", USER)
        self._kubectl("-n", namespace, "apply", "-f", str(ROLE))
        self._kubectl(
            "-n", namespace, "create", "rolebinding", f"slurm-shim-{USER}", "--role=slurm-shim", f"--user={user}"
        )
        if nodes:
            self._kubectl(
                "create", "clusterrolebinding", self._binding, "--clusterrole=slurm-shim-nodes", f"--user={user}"
            )
        token = self._kubectl("-n", namespace, "create", "token", USER, f"--duration={_DURATION}").strip()
        with open(os.open(self.kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._config(token), file)

    def close(self) -> None:
        """Nothing of it is left when the namespace is gone, which takes some seconds."""
        if self._binding:
            self._kubectl("delete", "clusterrolebinding", self._binding)
        self._kubectl("delete", "namespace", self.namespace, "--wait=false")
        self._kubectl("delete", "persistentvolume", self.namespace, "--wait=false")

    def _config(self, token: str) -> dict[str, Any]:
        seen = json.loads(self._kubectl("config", "view", "--minify", "--raw", "--flatten", "-o", "json"))
        context = {"cluster": seen["clusters"][0]["name"], "user": USER, "namespace": self.namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": seen["clusters"],
            "users": [{"name": USER, "user": {"token": token}}],
            "contexts": [{"name": USER, "context": context}],
            "current-context": USER,
        }

    def _apply(self, manifest: dict[str, Any]) -> None:
        self._kubectl("apply", "-f", "-", given=json.dumps(manifest))

    def _kubectl(self, *words: str, given: str = "") -> str:
        return kubectl(self._admin, *words, given=given)


def kubectl(kubeconfig: str, *words: str, given: str = "") -> str:
    """What kubectl prints; ClusterError with its words if it fails."""
    done = subprocess.run(
        [str(programs.find("kubectl")), "--kubeconfig", kubeconfig, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise ClusterError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def volume(namespace: str, folder: Path) -> dict[str, Any]:
    """The folder as a volume for the namespace's claim alone; it is never emptied."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    }


def claim(namespace: str) -> dict[str, Any]:
    """The claim that pods mount."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
