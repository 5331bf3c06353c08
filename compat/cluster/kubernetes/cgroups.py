"""A control group per node in every hierarchy, below the one that `up` runs in: its limits hold for the cluster too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from compat.cluster.kubernetes.settings import FOLDER, ClusterError
from compat.cluster.processes import wait_for

RECORD = FOLDER / "cgroups.json"
ROOT = Path("/sys/fs/cgroup")
# Empty in a new group, and nobody can join before they are filled.
CPUSET = ("cpuset.cpus", "cpuset.mems")


def own(table: str, mounts: str) -> dict[str, str]:
    """Mount point → folder of the group a process is in, from the texts of /proc/PID/cgroup and /proc/PID/mounts.

    >>> own("4:memory:/a/b\\n", "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\\n")
    {'/sys/fs/cgroup/memory': '/sys/fs/cgroup/memory/a/b'}
    """
    groups: dict[str, str] = {}
    for line in table.splitlines():
        _, controllers, path = line.split(":", 2)
        groups[controllers] = path
    found: dict[str, str] = {}
    for line in mounts.splitlines():
        _, where, kind, options = line.split()[:4]
        if kind not in ("cgroup", "cgroup2"):
            continue
        have = set(options.split(","))
        for controllers, path in groups.items():
            named = set(controllers.split(",")) if controllers else set()
            if (kind == "cgroup2" and not named) or (kind == "cgroup" and named and named <= have):
                found[where] = where + path.rstrip("/")
    return found


def make(node: str) -> list[Path]:
    """Make the node's groups (they may exist), and note them for `remove`; returns their folders."""
    mine = own(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mounts").read_text())
    if not mine:
        raise ClusterError("no control groups are mounted")
    folders = [Path(parent) / f"shim-compat-{node}" for parent in mine.values()]
    _note(folders)
    for folder in folders:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as problem:
            raise ClusterError(f"no control group can be made: {problem}")
        for name in CPUSET:
            inherit(folder, name)
        if (folder / "cgroup.controllers").exists():
            delegate(folder.parent)
    return folders


def inherit(folder: Path, name: str) -> None:
    """Fill a setting of version 1 that a new group has empty from the group above."""
    if (folder / name).exists() and not (folder / name).read_text().strip():
        (folder / name).write_text((folder.parent / name).read_text())


def delegate(parent: Path) -> None:
    """Version 2: let the groups below ``parent`` have every controller that it has itself."""
    names = (parent / "cgroup.controllers").read_text().split()
    if names:
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))


def join(folders: list[Path]) -> None:
    """Move this process into the groups."""
    for folder in folders:
        (folder / "cgroup.procs").write_text(str(os.getpid()))


def _note(folders: list[Path]) -> None:
    known = set(noted()) | {str(folder) for folder in folders}
    RECORD.write_text(json.dumps(sorted(known)))


def noted() -> list[str]:
    """Every group that was made for a node and may be there still."""
    try:
        return [str(name) for name in json.loads(RECORD.read_text())]
    except FileNotFoundError:
        return []


def remove() -> None:
    """Remove the nodes' groups with all below them; their processes are dead, the kernel may take a moment to see it."""
    for name in noted():
        if not wait_for(partial(_removed, Path(name)), 20, 0.05):
            raise ClusterError(f"the control group {name} cannot be removed: processes are left in it")
    RECORD.unlink(missing_ok=True)


def _removed(top: Path) -> bool:
    for folder in _deepest_first(top):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _deepest_first(top: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)
