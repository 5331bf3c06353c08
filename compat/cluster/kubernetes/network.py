"""Network namespaces of the cluster's own: one for the control plane, one per node, joined by a bridge in the first.

A namespace lives as long as the process that holds it: nothing is mounted or named on the host, and its interfaces are
never the host's. Nothing leads outside: pods reach each other, the control plane and the DNS server.
"""

from __future__ import annotations

import os
import subprocess

from compat.cluster.kubernetes.settings import BRIDGE_ADDRESS, LOG, NODES, ClusterError, node_address, pod_range
from compat.cluster.processes import Registry, wait_for

CONTROL = "net-control"


def holder(node: str) -> str:
    """Name of the process that holds the node's namespace."""
    return f"net-{node}"


def ensure(registry: Registry, environ: dict[str, str]) -> None:
    """Make the namespaces that are missing, and what joins them."""
    if registry.pid(CONTROL) is None:
        _hold(registry, CONTROL, environ)
        _configure(registry, CONTROL, control_commands())
    for node in NODES:
        if registry.pid(holder(node)) is None:
            _hold(registry, holder(node), environ)
            inside = registry.pid(holder(node))
            wire = f"link add {node} type veth peer name eth0 netns {inside}"
            _configure(registry, CONTROL, [wire, *join_commands(node)])
            _configure(registry, holder(node), node_commands(node))


def control_commands() -> list[str]:
    """What `ip` is told in the control plane's namespace."""
    return [
        "link set lo up",
        "link add nodes type bridge",
        f"address add {BRIDGE_ADDRESS}/24 dev nodes",
        "link set nodes up",
    ]


def join_commands(node: str) -> list[str]:
    """What `ip` is told in the control plane's namespace for a node that comes."""
    return [
        f"link set {node} master nodes up",
        f"route replace {pod_range(node)} via {node_address(node)}",
    ]


def node_commands(node: str) -> list[str]:
    """What `ip` is told in a node's namespace."""
    return [
        "link set lo up",
        f"address add {node_address(node)}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {BRIDGE_ADDRESS}",
        *(f"route add {pod_range(other)} via {node_address(other)}" for other in NODES if other != node),
    ]


def enter(pid: int) -> list[str]:
    """The start of a command line that runs the rest in the network namespace of ``pid``."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net"]


def _hold(registry: Registry, name: str, environ: dict[str, str]) -> None:
    pid = registry.start(name, ["unshare", "--net", "sleep", "infinity"], environ, LOG / "network.log")
    # The id is unshare's before it has left the host's namespace; nothing may be configured there.
    if not wait_for(lambda: _namespace(pid) not in ("", _namespace(0)), 20, 0.005):
        raise ClusterError(f"no network namespace could be made; see {LOG}/network.log")


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid or 'self'}/ns/net")
    except OSError:
        return ""


def _configure(registry: Registry, name: str, commands: list[str]) -> None:
    pid = registry.pid(name)
    if pid is None:
        raise ClusterError(f"the namespace {name} is gone")
    done = subprocess.run(
        [*enter(pid), "ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ClusterError(f"ip in {name} failed:\n{done.stderr}")
    # Of this namespace only: the host's own setting is another one.
    forward = subprocess.run([*enter(pid), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], capture_output=True)
    if forward.returncode != 0:
        raise ClusterError(f"forwarding cannot be switched on in {name}")
