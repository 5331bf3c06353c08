"""Keys and certificates of one cluster, and the kubeconfig files made from them. Keys are readable by root only."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes.settings import (
    API_PORT,
    BRIDGE_ADDRESS,
    DOMAIN,
    FIRST_SERVICE,
    FOLDER,
    KUBECONFIG,
    NODES,
    PKI,
    ClusterError,
)

MASTERS = "system:masters"
# file name → (common name, group): how the API server, or a kubelet, knows the owner of the certificate.
CLIENTS = {
    "admin": ("admin", MASTERS),
    "apiserver-kubelet": ("apiserver-kubelet", MASTERS),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "coredns": ("coredns", MASTERS),
    **{node: (f"system:node:{node}", "system:nodes") for node in NODES},
}
SERVER_NAMES = (
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    f"DNS:kubernetes.default.svc.{DOMAIN}",
    "IP:127.0.0.1",
    f"IP:{BRIDGE_ADDRESS}",
    f"IP:{FIRST_SERVICE}",
)


def request_config(common_name: str, group: str, kind: str) -> str:
    """openssl's configuration for one certificate; ``kind`` is ``ca``, ``server`` or ``client``."""
    extensions = {
        "ca": "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash",
        "server": f"extendedKeyUsage=serverAuth\nsubjectAltName={','.join(SERVER_NAMES)}",
        "client": "extendedKeyUsage=clientAuth",
    }
    owner = [f"O={group}"] if group else []
    owner.append(f"CN={common_name}")
    return "\n".join(
        ["[req]", "prompt=no", "distinguished_name=owner", "x509_extensions=use", "[owner]", *owner]
        + ["[use]", extensions[kind], ""]
    )


def make(host_port: int) -> None:
    """Make what is missing of the keys, certificates and kubeconfigs; the host reaches the API at ``host_port``."""
    PKI.mkdir(mode=0o700, exist_ok=True)
    _certificate("ca", "shim-compat", "", "ca")
    _certificate("apiserver", "kube-apiserver", "", "server")
    _key("service-accounts")
    _openssl("pkey", "-in", f"{PKI}/service-accounts.key", "-pubout", "-out", f"{PKI}/service-accounts.pub")
    inside = f"https://{BRIDGE_ADDRESS}:{API_PORT}"
    for name, (common_name, group) in CLIENTS.items():
        _certificate(name, common_name, group, "client")
        _write(FOLDER / f"{name}.kubeconfig", kubeconfig(inside, name))
    _write(KUBECONFIG, kubeconfig(f"https://127.0.0.1:{host_port}", "admin"))


def kubeconfig(server: str, name: str) -> dict[str, Any]:
    """A kubeconfig (JSON is YAML) for the owner of the certificate ``name``, complete in one file."""

    def data(file: str) -> str:
        return base64.b64encode((PKI / file).read_bytes()).decode()

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "shim-compat", "cluster": {"server": server, "certificate-authority-data": data("ca.crt")}}
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": data(f"{name}.crt"),
                    "client-key-data": data(f"{name}.key"),
                },
            }
        ],
        "contexts": [
            {"name": "shim-compat", "context": {"cluster": "shim-compat", "user": name, "namespace": "default"}}
        ],
        "current-context": "shim-compat",
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    if not path.exists():
        fresh = path.with_name(path.name + ".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(value))
        fresh.replace(path)


def _key(name: str) -> None:
    key = PKI / f"{name}.key"
    if not key.exists():
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(key))


def _certificate(name: str, common_name: str, group: str, kind: str) -> None:
    made = PKI / f"{name}.crt"
    if made.exists():
        return
    _key(name)
    config = PKI / f"{name}.conf"
    config.write_text(request_config(common_name, group, kind))
    signer = [] if kind == "ca" else ["-CA", str(PKI / "ca.crt"), "-CAkey", str(PKI / "ca.key")]
    key = ["-key", str(PKI / f"{name}.key")]
    _openssl("req", "-x509", "-new", "-days", "3650", "-config", str(config), *key, *signer, "-out", str(made))


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"openssl {arguments[0]} failed:\n{done.stderr[-2000:]}")
