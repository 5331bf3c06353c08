"""What a node sees of the file system and of control groups; runs in the node's namespaces before anything else."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from compat.cluster.kubernetes import cgroups
from compat.cluster.kubernetes.settings import FOLDER, node_folder

# The kubelet sets these for the whole machine. Here it finds them as it wants them, in files of the node's own.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Where the node's own folders go; `nodes` makes those that the machine lacks.
OWN_FOLDERS = {"kubelet": "/var/lib/kubelet", "var-log": "/var/log", "var-cni": "/var/lib/cni"}


def arrange(node: str) -> None:
    """Mount all of it, and give the node its host name; nothing of it shows on the host."""
    socket.sethostname(node)
    _mount("--make-rprivate", "/")
    # The kubelet wants mounts of containers to reach it; among the node's own processes they may.
    _mount("--make-rshared", "/")
    hierarchies = _hierarchies()
    subprocess.run(["umount", "-R", "-l", "/sys"], check=True)
    _mount("-t", "sysfs", "sysfs", "/sys")
    _control_groups(hierarchies)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name, target in OWN_FOLDERS.items():
        _mount("--bind", str(node_folder(node) / name), target)
    _kernel_settings(node)
    _resolver()
    join_leaf()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _hierarchies() -> list[tuple[str, str, str]]:
    """(mount point, kind, controllers) of every hierarchy of control groups."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup":
            flags = ("rw", "ro", "relatime", "nosuid", "nodev", "noexec")
            found.append((where, kind, ",".join(name for name in options.split(",") if name not in flags)))
        elif kind == "cgroup2":
            found.append((where, kind, ""))
    return found


def _control_groups(hierarchies: list[tuple[str, str, str]]) -> None:
    """Mounted again, hierarchies begin at the node's own group: it cannot see, or leave it for, those above."""
    if all(where != str(cgroups.ROOT) for where, _, _ in hierarchies):
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(cgroups.ROOT))
    for where, kind, controllers in hierarchies:
        Path(where).mkdir(parents=True, exist_ok=True)
        _mount("-t", kind, *(["-o", controllers] if controllers else []), kind, where)


def _kernel_settings(node: str) -> None:
    for name, value in KERNEL.items():
        own = node_folder(node) / name.replace("/", ".")
        own.write_text(value + "\n")
        if Path("/proc/sys", name).exists():
            _mount("--bind", str(own), f"/proc/sys/{name}")


def _resolver() -> None:
    target = Path("/etc/resolv.conf").resolve()
    if not target.exists():  # a link into /run, which is empty here
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--bind", str(FOLDER / "resolv.conf"), str(target))


def join_leaf() -> None:
    """Move into a group of the daemons: the kubelet makes others beside it."""
    here = cgroups.own(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mounts").read_text())
    leaves = [Path(top) / "daemons" for top in here.values()]
    for leaf in leaves:
        leaf.mkdir(exist_ok=True)
        for name in cgroups.CPUSET:
            cgroups.inherit(leaf, name)
    cgroups.join(leaves)
