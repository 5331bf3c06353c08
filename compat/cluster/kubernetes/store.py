"""containerd's own store with the images unpacked, made once and given to every node by links.

Nodes that import the images themselves write gigabytes before the first pod; links take a moment and no space. It is safe
because unpacked layers and stored blobs are never written again: containers have layers of their own above them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compat.cluster.kubernetes import images, programs
from compat.cluster.kubernetes.settings import ClusterError, cache
from compat.cluster.processes import wait_for

# What is below these does not change once it was written; the databases beside them do.
BLOBS = "blobs"
SNAPSHOTS = "snapshots"
LAYER = "fs"


def path() -> Path:
    """The store in the cache, for these images and this containerd."""
    made_of = [programs.find("containerd").parent.name, *(images.path(name).name for name in images.names())]
    return cache() / f"store-{hashlib.sha256(' '.join(made_of).encode()).hexdigest()[:12]}"


def ensure() -> None:
    """Make the store when it is missing."""
    if path().exists():
        return
    print("unpacking the images …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="store-", dir=cache()) as work:
        _fill(Path(work))
        (Path(work) / "root").rename(path())


def give(target: Path) -> None:
    """Make ``target`` a containerd store of its own with the images in it."""
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    top = path()
    for folder, below, files in os.walk(top):
        own = fresh / Path(folder).relative_to(top)
        own.mkdir(mode=0o700)
        if own.parent.name == SNAPSHOTS and LAYER in below:
            # Thousands of folders, for the kernel to look up once and for `down` not to remove.
            (own / LAYER).symlink_to(Path(folder) / LAYER)
            below.remove(LAYER)
        for name in files:
            _give_file(Path(folder) / name, own / name)
    fresh.rename(target)


def _give_file(source: Path, target: Path) -> None:
    if BLOBS in source.parts:
        try:
            target.hardlink_to(source)
            return
        except OSError:
            pass  # on another file system; a copy does as well
    shutil.copy2(source, target)


def _fill(work: Path) -> None:
    socket = work / "socket"
    config = work / "config.toml"
    cri = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
    config.write_text(
        f"version = 3\nroot = '{work}/root'\nstate = '{work}/state'\ndisabled_plugins = {cri}\n"
        f"[grpc]\naddress = '{socket}'\n[debug]\nlevel = 'warn'\n"
    )
    log = work / "log"
    with log.open("wb") as sink:
        # In a mount namespace: layers are mounted while they are unpacked.
        command = ["unshare", "--mount", str(programs.find("containerd")), "--config", str(config)]
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd="/")
    try:
        if not wait_for(lambda: socket.exists() or daemon.poll() is not None, 60):
            raise ClusterError("containerd does not answer")
        ctr = [str(programs.find("ctr")), "--address", str(socket), "--namespace", "k8s.io", "images", "import"]
        for name in images.names():
            done = subprocess.run([*ctr, str(images.path(name))], capture_output=True, text=True)
            if done.returncode != 0:
                said = done.stderr[-1000:] + log.read_text(errors="replace")[-1000:]
                raise ClusterError(f"{name} cannot be unpacked:\n{said}")
    finally:
        daemon.terminate()
        daemon.wait()
