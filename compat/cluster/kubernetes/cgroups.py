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


def folders(node: str) -> list[Path]:
    """Where the node's groups are, or will be, seen from the group this process is in."""
    mine = own(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mounts").read_text())
    if not mine or str(ROOT) in mine:
        # With version 2 only, a group that has processes cannot give controllers to those below it; not tried yet.
        raise ClusterError("control groups of version 1 are not mounted: name a cluster that is there in KUBECONFIG")
    return [Path(parent) / f"shim-compat-{node}" for parent in mine.values()]


def make(node: str) -> None:
    """Make the node's groups (they may exist), and note them for `remove`."""
    wanted = folders(node)
    RECORD.write_text(json.dumps(sorted({*noted(), *map(str, wanted)})))
    for folder in wanted:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as problem:
            raise ClusterError(f"no control group can be made: {problem}")
        for name in CPUSET:
            inherit(folder, name)


def inherit(folder: Path, name: str) -> None:
    """Fill a setting of version 1 that a new group has empty from the group above."""
    if (folder / name).exists() and not (folder / name).read_text().strip():
        (folder / name).write_text((folder.parent / name).read_text())


def join(groups: list[Path]) -> None:
    """Move this process into the groups."""
    for folder in groups:
        (folder / "cgroup.procs").write_text(str(os.getpid()))


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
