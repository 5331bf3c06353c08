"""The control plane: etcd, API server, controller manager, scheduler, DNS server, and the way in from the host."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes import network, programs
from compat.cluster.kubernetes.api import Api, server_of
from compat.cluster.kubernetes.settings import (
    API_PORT,
    BRIDGE_ADDRESS,
    DOMAIN,
    FOLDER,
    HOST_PORT,
    KUBECONFIG,
    LOG,
    PKI,
    SERVICE_RANGE,
    ClusterError,
    cache,
)
from compat.cluster.processes import Registry, wait_for

ETCD_PORT = 2379
# Native gangs: off by default in this version.
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
# The defaults delay what a cluster of this size does by seconds.
HASTE = ["--kube-api-qps=500", "--kube-api-burst=1000", "--leader-elect=false"]
FORWARDER = "forwarder"
READY_LIMIT = 180.0
DAEMONS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")


def etcd() -> list[str]:
    """Reachable in its own namespace only. Its data need not outlive a power cut."""
    url = f"http://127.0.0.1:{ETCD_PORT}"
    peer = f"http://127.0.0.1:{ETCD_PORT + 1}"
    return [
        f"--data-dir={FOLDER}/etcd",
        "--name=etcd",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=etcd={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def apiserver() -> list[str]:
    """Its certificate is good for the bridge, the first service address, and the forwarder on 127.0.0.1."""
    return [
        f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
        f"--advertise-address={BRIDGE_ADDRESS}",
        f"--bind-address={BRIDGE_ADDRESS}",
        f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        "--kubelet-preferred-address-types=InternalIP",
        f"--client-ca-file={PKI}/ca.crt",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        f"--kubelet-client-certificate={PKI}/apiserver-kubelet.crt",
        f"--kubelet-client-key={PKI}/apiserver-kubelet.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={PKI}/service-accounts.pub",
        f"--service-account-signing-key-file={PKI}/service-accounts.key",
        f"--cert-dir={FOLDER}/apiserver",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        GATES,
    ]


def controller_manager() -> list[str]:
    """Every controller under its own service account: its own certificate allows little."""
    config = FOLDER / "controller-manager.kubeconfig"
    return [
        f"--kubeconfig={config}",
        "--bind-address=127.0.0.1",
        f"--root-ca-file={PKI}/ca.crt",
        f"--service-account-private-key-file={PKI}/service-accounts.key",
        "--use-service-account-credentials",
        f"--cert-dir={FOLDER}/controller-manager",
        GATES,  # without them nobody takes the finalizer off a deleted PodGroup
        *HASTE,
    ]


def scheduler() -> list[str]:
    """With gangs."""
    config = FOLDER / "scheduler.kubeconfig"
    return [f"--kubeconfig={config}", "--bind-address=127.0.0.1", f"--cert-dir={FOLDER}/scheduler", GATES, *HASTE]


def corefile(ttl: int = 5, cache: int = 0) -> str:
    """The DNS server's configuration: services and pods, and NXDOMAIN at once for every other name.

    Two blocks, because `template` would answer for the cluster's names too. Clusters at large have ttl 30 and cache
    30: with these an early question for a name is answered "no such name" for half a minute.
    """
    keep = [f"    cache {cache}"] if cache else []
    return "\n".join(
        [
            f"{DOMAIN}:53 {{",
            f"    bind {BRIDGE_ADDRESS}",
            "    errors",
            "    reload 2s 1s",
            *keep,
            f"    kubernetes {DOMAIN} {{",
            f"        kubeconfig {FOLDER}/coredns.kubeconfig",
            f"        ttl {ttl}",
            "    }",
            "}",
            ".:53 {",
            f"    bind {BRIDGE_ADDRESS}",
            "    template ANY ANY {",
            "        rcode NXDOMAIN",
            "    }",
            "}",
            "",
        ]
    )


def start(registry: Registry, environ: dict[str, str]) -> None:
    """Start what does not run, and wait until the API server is ready."""
    commands = {
        "etcd": etcd(),
        "kube-apiserver": apiserver(),
        "kube-controller-manager": controller_manager(),
        "kube-scheduler": scheduler(),
        "coredns": ["-conf", str(FOLDER / "Corefile")],
    }
    if not (FOLDER / "Corefile").exists():
        (FOLDER / "Corefile").write_text(corefile())
    for name in ("etcd", "kube-apiserver"):
        _start(registry, name, commands[name], environ)
    _forward(registry, environ)
    api = from_host()
    # One that ends has a reason that waiting does not change.
    wait_for(lambda: api.ready() or registry.pid("kube-apiserver") is None, READY_LIMIT, 0.1)
    if registry.pid("kube-apiserver") is None or not api.ready():
        raise ClusterError(f"the API server does not get ready; {tail(LOG / 'kube-apiserver.log')}")
    # Started before, these would wait out their own delays between attempts.
    for name in DAEMONS[2:]:
        _start(registry, name, commands[name], environ)


def _start(registry: Registry, name: str, arguments: list[str], environ: dict[str, str]) -> None:
    inside = registry.pid(network.CONTROL)
    if inside is None:
        raise ClusterError("the control plane's network namespace is gone")
    command = [*network.enter(inside), str(programs.find(name)), *arguments]
    registry.start(name, command, environ, LOG / f"{name}.log")


def from_host() -> Api:
    """The API server as the host's administrator sees it."""
    host, _, port = server_of(KUBECONFIG).removeprefix("https://").rpartition(":")
    return Api(host, int(port), "admin")


def host_port() -> int:
    """The port on 127.0.0.1 that the kubeconfig names; a free one when there is none yet."""
    known = server_of(KUBECONFIG).rpartition(":")[2]
    if known:
        return int(known)
    for port in range(HOST_PORT, HOST_PORT + 1000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ClusterError(f"no free port from {HOST_PORT}")


def _forward(registry: Registry, environ: dict[str, str]) -> None:
    inside = registry.pid(network.CONTROL)
    if inside is None or registry.pid(FORWARDER) is not None:
        return
    script = Path(__file__).with_name("forwarder.py")
    command = [sys.executable, "-I", str(script), str(inside), str(host_port()), BRIDGE_ADDRESS, str(API_PORT)]
    registry.start(FORWARDER, command, environ, LOG / "forwarder.log")


def default_account() -> None:
    """Make the service account that every pod needs, before its controller comes round to it."""
    account = {"metadata": {"name": "default"}}
    from_host().ask("POST", "/api/v1/namespaces/default/serviceaccounts", account)


def nodes_seen() -> list[dict[str, Any]]:
    """The nodes as the API server has them; none when it does not answer."""
    status, answer = from_host().ask("GET", "/api/v1/nodes")
    return list(answer["items"]) if status == 200 else []


def tail(path: Path) -> str:
    """The end of a log, for an error message."""
    text = path.read_text(errors="replace")[-1500:] if path.exists() else "(no log)"
    return f"{path} ends with:\n{text}"


def environ() -> dict[str, str]:
    """Environment of the cluster's processes."""
    place = {"HOME": "/root", "XDG_CACHE_HOME": str(cache().parents[1])}
    return {"PATH": programs.search_path(), "LANG": "C.UTF-8", **place}
