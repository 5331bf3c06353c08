"""What a node's programs are told: containerd, its network plugins, kubelet, kube-proxy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes import programs
from compat.cluster.kubernetes.settings import (
    BRIDGE_ADDRESS,
    DOMAIN,
    FOLDER,
    IMAGE_PAUSE,
    PKI,
    POD_RANGE,
    node_address,
    node_folder,
    pod_range,
)

SOCKET = "/run/containerd/containerd.sock"
# Not used here, or in need of something this kind of machine lacks.
DISABLED = (
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.nri.v1.nri",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
)


def containerd(node: str) -> str:
    """containerd's configuration (TOML)."""
    folder = node_folder(node)
    images = "plugins.'io.containerd.cri.v1.images'"
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""\
version = 3
root = '{folder}/containerd'
state = '/run/containerd'
disabled_plugins = {json.dumps(DISABLED)}

[debug]
level = 'warn'

[grpc]
address = '{SOCKET}'

[plugins.'io.containerd.grpc.v1.cri']
disable_tcp_service = true

[{images}]
snapshotter = 'overlayfs'

[{images}.pinned_images]
sandbox = '{IMAGE_PAUSE}'

[{runtime}]
# The machine may not let root lower what the kernel thinks of a process.
restrict_oom_score_adj = true
disable_hugetlb_controller = true
disable_apparmor = true

[{runtime}.cni]
bin_dirs = ['{programs.find("bridge").parent}']
conf_dir = '{folder}/cni'

[{runtime}.containerd]
default_runtime_name = 'runc'

[{runtime}.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[{runtime}.containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def cni(node: str) -> dict[str, Any]:
    """The pods' network: a bridge in the node, addresses of the node's range, no translation between nodes."""
    # Addresses are forgotten with the node's /run, as the pods that had them are.
    ipam = {"type": "host-local", "ranges": [[{"subnet": pod_range(node)}]], "dataDir": "/run/cni-addresses"}
    bridge = {"type": "bridge", "bridge": "pods", "isDefaultGateway": True, "ipMasq": False, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{**bridge, "ipam": ipam}, ports]}


def kubelet(node: str) -> dict[str, Any]:
    """The kubelet's configuration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "clusterDNS": [BRIDGE_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(FOLDER / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        # The disk is the machine's own and shared: how full it is says nothing about the node.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 200,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "readOnlyPort": 0,
    }


def write(node: str) -> None:
    """Write the node's configuration files."""
    folder = node_folder(node)
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    _write(folder / "containerd.toml", containerd(node))
    _write(folder / "cni" / "10-pods.conflist", json.dumps(cni(node)))
    _write(folder / "kubelet.json", json.dumps(kubelet(node)))


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def commands(node: str) -> dict[str, list[str]]:
    """Command lines of the node's daemons, in the order of their start."""
    folder = node_folder(node)
    return {
        "containerd": [str(programs.find("containerd")), "--config", f"{folder}/containerd.toml"],
        "kubelet": [
            str(programs.find("kubelet")),
            f"--config={folder}/kubelet.json",
            f"--kubeconfig={FOLDER}/{node}.kubeconfig",
            f"--hostname-override={node}",
            f"--node-ip={node_address(node)}",
        ],
        # Only for pods that talk to ClusterIP services. Limits of connection tracking are the machine's: left alone.
        "kube-proxy": [
            str(programs.find("kube-proxy")),
            f"--kubeconfig={FOLDER}/proxy.kubeconfig",
            f"--hostname-override={node}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={POD_RANGE}",
            "--oom-score-adj=0",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ],
    }
