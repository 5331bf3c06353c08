"""Where the cluster lives and what it consists of: names, addresses, folders. Nothing here does anything."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path("/var/lib/shim-compat/kubernetes")
"""Everything of a running cluster: state, keys, logs. ``down`` removes it."""

KUBECONFIG = FOLDER / "kubeconfig"
PKI = FOLDER / "pki"
LOG = FOLDER / "log"

NODES = ("node1", "node2", "node3")
GPUS = 4
"""nvidia.com/gpu of each node. There are no such cards: only requests and placement are real."""

BRIDGE_ADDRESS = "10.200.0.1"
"""The control plane in its own network namespace: API server, DNS server, and the nodes' default route."""

API_PORT = 6443
HOST_PORT = 26900
"""First choice for the port on 127.0.0.1 where the host reaches the API server."""

POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"
DOMAIN = "cluster.local"

IMAGE_PAUSE = "shim-compat.local/pause:1"
IMAGE_PYTHON = "shim-compat.local/python:1"
IMAGE_PLAIN = "shim-compat.local/plain:1"


class ClusterError(Exception):
    """The cluster could not be brought up; the text says what was tried and what the log ends with."""


def cache() -> Path:
    """Where programs and images are kept between clusters, outside the checkout."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "shim-compat" / "kubernetes"


def node_number(node: str) -> int:
    """1 for the first node."""
    return NODES.index(node) + 1


def node_address(node: str) -> str:
    """The node's address on the bridge."""
    return f"10.200.0.{10 + node_number(node)}"


def pod_range(node: str) -> str:
    """The addresses of the node's pods."""
    return f"10.244.{node_number(node)}.0/24"


def node_folder(node: str) -> Path:
    """The node's own files: containerd's and the kubelet's state, logs."""
    return FOLDER / "nodes" / node
