"""The pure parts of the Kubernetes test cluster: what it would build, run and configure. No cluster is needed."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import socket
import subprocess
import sys
import tarfile
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from compat.cluster.kubernetes import (
    api,
    cgroups,
    control,
    existing,
    forwarder,
    images,
    network,
    node_config,
    oci,
    pki,
    programs,
    settings,
    store,
)

CLUSTER = Path(__file__).resolve().parents[2] / "compat" / "cluster" / "k8s.py"


def test_every_program_of_the_cluster_is_built_from_a_pinned_module() -> None:
    built = {name: group.name for group in programs.groups() for name in group.programs}
    wanted = {*control.DAEMONS, "kubelet", "kube-proxy", "kubectl", "containerd", "ctr", "containerd-shim-runc-v2"}
    assert wanted | {"bridge", "host-local", "loopback", "portmap"} == set(built)
    assert built["etcd"] == "etcd"


def test_a_tool_on_a_line_of_its_own_is_a_tool_too() -> None:
    assert programs.tools("module m\ntool a.b/c\n\nrequire x v1 // indirect\ntool (\n\td/e\n)\n") == ["a.b/c", "d/e"]


def test_programs_of_other_versions_are_kept_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module m\n")
    (tmp_path / "go.sum").write_text("")
    before = programs.digest(tmp_path)
    assert programs.digest(tmp_path) == before
    (tmp_path / "go.sum").write_text("x v1 h1:abc=\n")
    assert programs.digest(tmp_path) != before


def test_what_is_in_the_cache_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (group,) = (group for group in programs.groups() if group.name == "containerd")
    assert group.missing() == list(group.programs)
    assert group.folder().is_relative_to(tmp_path)
    group.folder().mkdir(parents=True)
    (group.folder() / "ctr").touch()
    assert group.missing() == [name for name in group.programs if name != "ctr"]
    assert programs.find("ctr") == group.folder() / "ctr"
    with pytest.raises(settings.ClusterError, match="kubelet is not built"):
        programs.find("kubelet")


def test_kubernetes_programs_are_told_their_version() -> None:
    flags = programs.linker_flags("require (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n")
    assert "version.gitVersion=v1.36.3" in flags
    assert "version.gitMinor=36" in flags
    assert programs.linker_flags("require x v1\n") == "-s -w"


def test_an_image_holds_what_its_index_promises(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"not looked into" * 1000)
    oci.write_image(layer, tmp_path / "image.tar", "a.test/b:1", {"Cmd": ["sh"]})
    with tarfile.open(tmp_path / "image.tar") as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    assert json.loads(content["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(content["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "a.test/b:1"
    blobs = {name.rpartition("/")[2]: data for name, data in content.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())

    def blob(descriptor: dict[str, Any]) -> bytes:
        found = blobs[descriptor["digest"].removeprefix("sha256:")]
        assert len(found) == descriptor["size"]
        return found

    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    assert config["config"] == {"Cmd": ["sh"]}
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert blob(manifest["layers"][0]) == layer.read_bytes()


def test_an_image_made_of_something_else_is_another_file() -> None:
    assert len({images.path(name) for name in images.names()}) == 3
    assert images.names()[0] == settings.IMAGE_PAUSE
    assert "python3" not in images.recipe(settings.IMAGE_PLAIN)


def test_a_node_gets_files_of_its_own_only_where_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    for name in ("content/blobs/sha256/a", "overlay/snapshots/1/fs/etc/db", "overlay/metadata.db", "meta.db"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    monkeypatch.setattr(store, "path", lambda: made)
    store.give(tmp_path / "node")
    node = tmp_path / "node"
    assert (node / "content/blobs/sha256/a").samefile(made / "content/blobs/sha256/a")
    assert (node / "overlay/snapshots/1/fs").readlink() == made / "overlay/snapshots/1/fs"
    for name in ("overlay/metadata.db", "meta.db"):
        assert (node / name).read_text() == name
        assert not (node / name).samefile(made / name)


def test_addresses_neither_overlap_nor_repeat() -> None:
    pods = [ipaddress.ip_network(settings.pod_range(node)) for node in settings.NODES]
    assert all(part.subnet_of(ipaddress.ip_network(settings.POD_RANGE)) for part in pods)  # type: ignore[arg-type]
    assert len(set(pods)) == len(pods)
    assert len({settings.BRIDGE_ADDRESS, *map(settings.node_address, settings.NODES)}) == len(settings.NODES) + 1


def test_a_node_reaches_the_pods_of_every_other_node() -> None:
    told = network.node_commands("node2")
    assert "route add 10.244.1.0/24 via 10.200.0.11" in told
    assert "route add 10.244.3.0/24 via 10.200.0.13" in told
    assert not any("10.244.2.0" in line for line in told)
    assert "route replace 10.244.2.0/24 via 10.200.0.12" in network.join_commands("node2")


TABLE = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/u\n"
MOUNTS = """\
proc /proc proc rw 0 0
cgroup /cg/memory cgroup rw,relatime,memory 0 0
cgroup /cg/cpu cgroup rw,relatime,cpuacct,cpu 0 0
cgroup /cg/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /cg/unified cgroup2 rw,relatime 0 0
"""


def test_own_control_groups_are_found_in_every_hierarchy() -> None:
    assert cgroups.own(TABLE, MOUNTS) == {
        "/cg/memory": "/cg/memory/a/b",
        "/cg/cpu": "/cg/cpu/c",
        "/cg/systemd": "/cg/systemd",
        "/cg/unified": "/cg/unified/u",
    }


def test_a_hierarchy_that_is_not_mounted_is_left_out() -> None:
    assert cgroups.own("7:freezer:/x\n", MOUNTS) == {}


def node(kind: str, status: str, heartbeat: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": kind, "status": status, "lastHeartbeatTime": heartbeat}]}}


def test_only_a_ready_node_has_a_time_of_being_ready() -> None:
    assert api.ready_since(node("Ready", "True", "2026-01-01T00:00:00Z")) == "2026-01-01T00:00:00Z"
    assert api.ready_since(node("Ready", "Unknown", "2026-01-01T00:00:00Z")) == ""
    assert api.ready_since(node("MemoryPressure", "True", "2026-01-01T00:00:00Z")) == ""
    assert api.ready_since({}) == ""


def test_names_outside_the_cluster_are_refused_at_once_and_those_inside_are_not() -> None:
    inside, outside = control.corefile().split(".:53 {")
    assert "NXDOMAIN" in outside
    assert "NXDOMAIN" not in inside
    assert "cache" not in inside
    assert "cache 30" in control.corefile(ttl=30, cache=30)


def test_no_key_is_on_a_command_line_but_by_its_file() -> None:
    for command in (control.etcd(), control.apiserver(), control.controller_manager(), control.scheduler()):
        for argument in command:
            name, _, value = argument.partition("=")
            if "key" in name and value:
                assert value.startswith(str(settings.PKI)) and value.endswith((".key", ".crt", ".pub"))


def test_the_node_configurations_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for group in programs.groups():
        group.folder().mkdir(parents=True)
        for name in group.programs:
            (group.folder() / name).touch()
    containerd = tomllib.loads(node_config.containerd("node1"))
    assert containerd["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == settings.IMAGE_PAUSE
    assert node_config.cni("node3")["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    assert node_config.kubelet("node1")["clusterDNS"] == [settings.BRIDGE_ADDRESS]
    assert next(iter(node_config.commands("node1"))) == "containerd"
    assert "--hostname-override=node2" in node_config.commands("node2")["kubelet"]


def test_certificates_name_their_owner_and_every_way_to_the_server() -> None:
    server = pki.request_config("kube-apiserver", "", "server")
    assert "IP:127.0.0.1" in server and f"IP:{settings.BRIDGE_ADDRESS}" in server
    assert "O=" not in server
    kubelet = pki.request_config(*pki.CLIENTS["node2"], "client")
    assert "O=system:nodes\nCN=system:node:node2" in kubelet
    assert "CA:TRUE" not in kubelet


def test_only_a_foreign_kubeconfig_counts_as_an_existing_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert existing.given() == ""
    monkeypatch.setenv("KUBECONFIG", str(settings.KUBECONFIG))
    assert existing.given() == ""
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/.kube/config")
    assert existing.given() == "/home/somebody/.kube/config"


@pytest.mark.parametrize("arguments", [[], ["start"], ["up", "now"]])
def test_the_command_says_how_it_is_used(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, str(CLUSTER), *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: k8s.py up|down|status\n")


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        return here, server.accept()[0]


def read_all(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as source:
        return source.read()


def test_the_forwarder_passes_on_both_directions_and_their_ends() -> None:
    here, near = connected()
    with socket.create_server(("127.0.0.1", 0)) as server, here:
        joined = threading.Thread(target=forwarder.join, args=(near, *server.getsockname()))
        joined.start()
        far, _ = server.accept()
        with far:
            here.sendall(b"question")
            here.shutdown(socket.SHUT_WR)
            assert read_all(far) == b"question"
            far.sendall(b"answer")
            far.shutdown(socket.SHUT_WR)
            assert read_all(here) == b"answer"
        joined.join(30)
        assert not joined.is_alive()


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    here, near = connected()
    with socket.socket() as silent, here:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        forwarder.join(near, *silent.getsockname())
        assert here.recv(1) == b""
