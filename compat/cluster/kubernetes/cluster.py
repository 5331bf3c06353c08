"""The whole cluster: up, down, and how it stands."""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial

from compat.cluster import packages
from compat.cluster.kubernetes import cgroups, control, images, network, nodes, pki, programs, store
from compat.cluster.kubernetes.api import ready_since
from compat.cluster.kubernetes.settings import FOLDER, KUBECONFIG, LOG, NODES, ClusterError
from compat.cluster.processes import Registry, start_time, wait_for

# Debian package → a program of it.
NEEDED = {
    "runc": "runc",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "iproute2": "ip",
    "openssl": "openssl",
    "gcc": "gcc",
    "libc6-dev": "gcc",
}
PROCESSES = (*NODES, *control.DAEMONS, control.FORWARDER, *map(network.holder, NODES), network.CONTROL)
READY_LIMIT = 240.0
END_LIMIT = 60.0  # a process that waits for a slow disk cannot be killed before


def registry() -> Registry:
    """The cluster's processes."""
    return Registry(FOLDER / "processes.json")


def up() -> None:
    """Bring up what does not run; returns when every node is Ready. Raises ClusterError or PackageError."""
    if os.geteuid() != 0:
        raise ClusterError("a Kubernetes on this machine needs root (or name one that is there in KUBECONFIG)")
    packages.install(NEEDED, plugins=())
    programs.ensure()
    images.ensure()
    store.ensure()
    known = registry()
    if not known.any_alive() or known.pid(network.CONTROL) is None:
        down()  # what a reboot or a kill left
    environ = control.environ()
    _make_folders()
    pki.make(control.host_port())
    network.ensure(known, environ)
    nodes.start(known, environ)
    control.start(known, environ)
    control.default_account()
    if not wait_for(is_up, READY_LIMIT, 0.1):
        waited = [name for name, state in states().items() if state not in ("running", "Ready")]
        logs = "\n".join(control.tail(LOG / f"{name}.log") for name in waited[:2])
        raise ClusterError(f"after {READY_LIMIT:.0f} s not ready: {' '.join(waited)}\n{logs}")


def _make_folders() -> None:
    # Shared with the real Slurm, whose munge refuses folders that are not open to all.
    FOLDER.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    FOLDER.parent.chmod(0o755)
    for folder in (FOLDER, LOG):
        folder.mkdir(mode=0o700, exist_ok=True)


def states() -> dict[str, str]:
    """How every process and node stands; empty when there is no cluster at all."""
    if not FOLDER.exists():
        return {}
    known = registry()
    found = {name: "running" if known.pid(name) is not None else "gone" for name in PROCESSES}
    seen = control.nodes_seen() if KUBECONFIG.exists() else []
    ready = {str(node["metadata"]["name"]) for node in seen if ready_since(node)}
    for node in NODES:
        if found[node] == "running":
            found[node] = "Ready" if node in ready and nodes.ready_file(node).exists() else "not ready"
    return found


def is_up() -> bool:
    """Whether every process runs and every node is Ready since its start."""
    found = states()
    return bool(found) and all(state in ("running", "Ready") for state in found.values())


def down() -> None:
    """End the cluster and remove its folder and control groups. Nothing happens when there is none."""
    if not FOLDER.exists():
        return
    known = registry()
    dying = {name: pid for name in PROCESSES if (pid := known.pid(name)) is not None}
    begun = {name: start_time(pid) for name, pid in dying.items()}
    # No state is kept, so nobody needs time to write it. A node's first process takes the whole node along.
    for name, pid in dying.items():
        if begun[name]:
            os.kill(pid, signal.SIGKILL)
    for name, pid in dying.items():
        if not wait_for(partial(_ended, pid, begun[name]), END_LIMIT, 0.01):
            raise ClusterError(f"{name} (process {pid}) does not end")
    cgroups.remove()
    nodes.remove_mount_points()
    shutil.rmtree(FOLDER)
    if not any(FOLDER.parent.iterdir()):
        FOLDER.parent.rmdir()


def _ended(pid: int, begun: str) -> bool:
    return start_time(pid) != begun
