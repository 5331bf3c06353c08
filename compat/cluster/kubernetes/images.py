"""The images of the cluster, made on this machine: pause, Debian with Python, Debian without.

Kept in the cache under a digest of what they are made of; made again when that changes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes.oci import write_image
from compat.cluster.kubernetes.settings import IMAGE_PAUSE, IMAGE_PLAIN, IMAGE_PYTHON, ClusterError, cache

SUITE = "bookworm"
PACKAGES = {IMAGE_PYTHON: "python3,procps,iproute2,netcat-openbsd", IMAGE_PLAIN: "procps"}

# A third of the size, and no program reads them.
UNWANTED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")

# First process of every pod: holds the namespaces, buries orphans, ends when told.
PAUSE = """\
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int s) { (void)s; _exit(0); }
static void bury(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
  struct sigaction a = {.sa_handler = bury, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
  sigaction(SIGCHLD, &a, 0);
  a.sa_handler = end; sigaction(SIGTERM, &a, 0); sigaction(SIGINT, &a, 0);
  for (;;) pause();
}
"""

SHELL: dict[str, Any] = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]}


def recipe(image: str) -> str:
    """What the image is made of, as a text that changes whenever it would come out differently."""
    return PAUSE if image == IMAGE_PAUSE else f"debootstrap minbase {SUITE} {PACKAGES[image]} {SHELL} {UNWANTED}"


def path(image: str) -> Path:
    """The image's tar file in the cache."""
    short = image.rpartition("/")[2].partition(":")[0]
    return cache() / f"image-{short}-{hashlib.sha256(recipe(image).encode()).hexdigest()[:12]}.tar"


def names() -> list[str]:
    """Every image; the one that no pod starts without first."""
    return [IMAGE_PAUSE, *PACKAGES]


def ensure() -> None:
    """Make the images that are missing; says on standard error what takes long."""
    for image in names():
        if not path(image).exists():
            print(f"making {image} …", file=sys.stderr, flush=True)
            cache().mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="image-", dir=cache()) as work:
                _make(image, Path(work))


def _make(image: str, work: Path) -> None:
    root = work / "root"
    if image == IMAGE_PAUSE:
        root.mkdir()
        (work / "pause.c").write_text(PAUSE)
        _run("gcc", "-Os", "-static", "-o", str(root / "pause"), str(work / "pause.c"))
        config: dict[str, Any] = {"Entrypoint": ["/pause"], "User": "65535:65535"}
    else:
        # In a mount namespace: what debootstrap mounts in the tree never shows on the host.
        options = ["--variant=minbase", f"--include={PACKAGES[image]}"]
        _run("unshare", "--mount", "debootstrap", *options, SUITE, str(root))
        for name in UNWANTED:
            shutil.rmtree(root / name)
        config = SHELL
    root.chmod(0o755)
    layer = work / "layer.tar"
    # Devices and kernel file systems come from the container's runtime.
    hidden = [f"--exclude=./{name}/*" for name in ("dev", "proc", "sys", "run", "tmp")]
    _run("tar", "--numeric-owner", "--sort=name", *hidden, "-C", str(root), "-cf", str(layer), ".")
    write_image(layer, path(image), image, config)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
