"""The nodes as the host sees them: start, stop, and whether they are ready."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from compat.cluster.kubernetes import cgroups, network, node_config, node_files, store
from compat.cluster.kubernetes.settings import BRIDGE_ADDRESS, DOMAIN, FOLDER, LOG, NODES, ClusterError, node_folder
from compat.cluster.processes import Registry

MADE = FOLDER / "made-folders"
CHECKOUT = Path(__file__).resolve().parents[3]


def ready_file(node: str) -> Path:
    """There once the node's kubelet is Ready and its GPUs are listed; removed before the node is started."""
    return node_folder(node) / "ready"


def start(registry: Registry, environ: dict[str, str]) -> None:
    """Start the nodes that do not run. Each finds the API server by itself."""
    resolv = FOLDER / "resolv.conf"
    resolv.write_text(f"search {DOMAIN}\nnameserver {BRIDGE_ADDRESS}\n")
    _make_mount_points()
    for node in NODES:
        if registry.pid(node) is None:
            _start(registry, node, environ)


def _start(registry: Registry, node: str, environ: dict[str, str]) -> None:
    inside = registry.pid(network.holder(node))
    if inside is None:
        raise ClusterError(f"the network namespace of {node} is gone")
    folder = node_folder(node)
    # What a node that was killed left running is gone with its namespaces; its pods are told apart by the API server.
    for name in ("kubelet", "var-log", "var-cni", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not (folder / "containerd").exists():
        store.give(folder / "containerd")
    ready_file(node).unlink(missing_ok=True)
    node_config.write(node)
    cgroups.make(node)
    # Joins the groups first: the group it is in when it gets a cgroup namespace becomes the root of the node's view.
    command = [sys.executable, "-m", "compat.cluster.kubernetes.node_enter", node, str(inside)]
    registry.start(node, command, {**environ, "PYTHONPATH": str(CHECKOUT)}, LOG / f"{node}.log")


def _make_mount_points() -> None:
    """Folders of the machine that every node covers with its own; noted, to be removed with the cluster."""
    for name in node_files.OWN_FOLDERS.values():
        if not os.path.isdir(name):
            with MADE.open("a") as record:
                record.write(name + "\n")
            os.makedirs(name)


def remove_mount_points() -> None:
    """Remove what was made, unless somebody has put something there."""
    for name in MADE.read_text().splitlines() if MADE.exists() else []:
        if os.path.isdir(name) and not os.listdir(name):
            os.rmdir(name)
