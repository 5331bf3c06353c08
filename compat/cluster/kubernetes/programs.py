"""The cluster's programs: built from pinned Go modules, each group once, kept in the cache.

A group is a folder with a ``go.mod`` that lists its programs as tools. The cache folder of a group carries a digest of
``go.mod`` and ``go.sum``: other versions go elsewhere, what is there is never out of date.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compat.cluster.kubernetes.settings import ClusterError, cache

SOURCES = Path(__file__).resolve().parent
# 1.27 builds an API server whose OpenAPI answers are broken: `kubectl apply` cannot validate with it.
GO = "1.26"


@dataclass(frozen=True)
class Group:
    """Programs that come out of one Go module. ``programs``: what it is called → the package it is built from."""

    name: str
    programs: dict[str, str]

    @property
    def source(self) -> Path:
        return SOURCES / self.name

    def folder(self) -> Path:
        """Where the group's programs are kept."""
        return cache() / f"{self.name}-{digest(self.source)}"

    def missing(self) -> list[str]:
        """Programs that are yet to be built."""
        return [name for name in self.programs if not (self.folder() / name).exists()]


def digest(source: Path) -> str:
    """A short digest of the module files in ``source``."""
    both = (source / "go.mod").read_bytes() + (source / "go.sum").read_bytes()
    return hashlib.sha256(both).hexdigest()[:12]


def tools(go_mod: str) -> list[str]:
    """The packages that a ``go.mod`` names as tools, in their order.

    >>> tools("go 1.26\\n\\ntool (\\n\\ta/b\\n\\tc/v3\\n)\\n")
    ['a/b', 'c/v3']
    """
    found: list[str] = []
    inside = False
    for line in go_mod.splitlines():
        words = line.split()
        if words[:1] == ["tool"] and words[1:] == ["("]:
            inside = True
        elif words[:1] == ["tool"]:
            found.append(words[1])
        elif words == [")"]:
            inside = False
        elif inside and words:
            found.append(words[0])
    return found


def program_name(package: str) -> str:
    """What a package's program is called. etcd's package is called `server`, in two ways."""
    return "etcd" if package == "go.etcd.io/etcd/server/v3" else package.rpartition("/")[2]


def groups() -> list[Group]:
    """Every group, as its ``go.mod`` has it."""
    return [
        Group(path.parent.name, {program_name(package): package for package in tools(path.read_text())})
        for path in sorted(SOURCES.glob("*/go.mod"))
    ]


def linker_flags(go_mod: str) -> str:
    """Half the size without tables for debuggers; Kubernetes' programs learn their version here or call it v0.0.0."""
    flags = ["-s", "-w"]
    version = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", go_mod, re.MULTILINE)
    if version:
        names = ("gitVersion", "gitMajor", "gitMinor")
        flags += [f"-X=k8s.io/component-base/version.{name}={value}" for name, value in zip(names, version.groups())]
    return " ".join(flags)


def ensure(only: str | None = None) -> None:
    """Build what is missing (of the program ``only``, or of all); says on standard error what takes long."""
    for group in groups():
        for name in group.missing():
            if only in (None, name):
                _build(group, name)


def find(name: str) -> Path:
    """The path of a program that is built."""
    for group in groups():
        path = group.folder() / name
        if path.exists():
            return path
    raise ClusterError(f"{name} is not built yet")


def search_path() -> str:
    """PATH for the cluster's processes: its own programs before the machine's."""
    own = [str(group.folder()) for group in groups()]
    return ":".join([*own, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])


def _build(group: Group, name: str) -> None:
    go = _go()
    folder = group.folder()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building {name} ({group.name}) …", file=sys.stderr, flush=True)
    # Under another name first: a build that is cut off leaves nothing that looks done.
    fresh = folder / f".{name}.{os.getpid()}"
    command = [go, "build", "-o", str(fresh), "-ldflags", linker_flags((group.source / "go.mod").read_text())]
    environ = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly"}
    done = subprocess.run(
        [*_gently(), *command, group.programs[name]],
        cwd=group.source,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        fresh.unlink(missing_ok=True)
        raise ClusterError(f"go build of {group.programs[name]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    fresh.chmod(0o755)
    fresh.replace(folder / name)


def _gently() -> Iterator[str]:
    """A build of minutes lets everything else on the machine go first."""
    if shutil.which("nice"):
        yield from ("nice", "-n", "10")


def _go() -> str:
    path = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if path is None:
        raise ClusterError(f"the cluster's programs are built with Go {GO}, and there is no go")
    version = subprocess.run([path, "env", "GOVERSION"], capture_output=True, text=True, cwd="/").stdout.strip()
    if not version.startswith(f"go{GO}"):
        raise ClusterError(f"the cluster's programs need Go {GO}; {path} is {version or 'broken'}")
    return path
