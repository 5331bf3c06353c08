"""The clusters of this site, resolved once and kept: what sinfo, scontrol and the controller share.

Hot path. The resolved clusters are kept with ``marshal`` in the state folder under a stamp of everything they depend on: inode,
time and size of each configuration file (slurm.conf too), the SHIM_* variables, the boot. A stamp that differs means that all is read again.
"""

from __future__ import annotations

import marshal
import os

from shim.control import kept_cluster, paths
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from shim.core.model.cluster import Cluster

_VERSION = 4  # of the kept form
_NOT_CONFIGURATION = (
    "SHIM_STATE_DIR",
    "SHIM_HOST_STATE_DIR",
    "SHIM_RUN_DIR",
    "SHIM_PYTHON",
    "SHIM_CONTROLLER_IDLE",
    "SHIM_TEST_CRASH",
    "SHIM_SERVICE",
)


def clusters() -> tuple[Cluster, ...]:
    """All clusters, the default one first. Raises ConfigError for a configuration that cannot be used."""
    return tuple(kept_cluster.unpack(data) for data in _resolved())


def backends() -> dict[str, str]:
    """The names of all clusters, the default one first, each with its backend. Cheaper than the clusters themselves."""
    return {data["rest"]["name"]: data["rest"].get("backend", "local") for data in _resolved()}


def _resolved() -> list[dict[str, Any]]:
    wanted = stamp(os.environ)
    kept = _kept(wanted)
    if kept is None:
        more, kept = _resolve()
        _keep((wanted, [_file_stamp(path) for path in more], kept))
    return kept


def cluster(name: str | None = None) -> Cluster:
    """The cluster of that name, or the default one. Raises ShimError with Slurm's text for an unknown name."""
    found = clusters()
    if name is None:
        return found[0]
    for one in found:
        if one.name == name:
            return one
    raise unknown(name, found[0])


def unknown(name: str, default: Cluster) -> ShimError:
    """Slurm's text for ``-M`` with a name that is no cluster; without accounting there is no database of clusters to ask."""
    return ShimError(
        f"error: No cluster '{name}' known by database."
        if default.accounting
        else "error: Problem talking to database",
        f"error: '{name}' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.",
    )


def stamp(environ: Mapping[str, str]) -> tuple[Any, ...]:
    """Everything the resolved configuration depends on."""
    seen: list[Any] = [_VERSION]
    seen.extend(_file_stamp(path) for path in files(environ))
    seen.extend(
        (name, environ[name]) for name in sorted(environ) if name.startswith("SHIM_") and name not in _NOT_CONFIGURATION
    )
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            seen.append(file.read())
    except OSError:
        seen.append("")
    return tuple(seen)


def _file_stamp(path: str) -> tuple[Any, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return (path, 0, 0, 0)
    return (path, found.st_ino, found.st_mtime_ns, found.st_size)


def files(environ: Mapping[str, str]) -> list[str]:
    """The configuration files in the order of reading, whether they exist or not."""
    found = [] if environ.get("SHIM_NO_SYSTEM_CONFIG") else ["/etc/shim/config.toml"]
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    found.append(os.path.join(home, "shim", "config.toml"))
    if environ.get("SHIM_CONFIG"):
        found.append(environ["SHIM_CONFIG"])
    return found


def _path() -> str:
    return os.path.join(paths.state_dir(), "site.cache")


def _kept(wanted: tuple[Any, ...]) -> list[dict[str, Any]] | None:
    try:
        with open(_path(), "rb") as file:
            kept = marshal.load(file)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    if not isinstance(kept, tuple) or len(kept) != 3 or kept[0] != wanted:
        return None
    _stamp, more, clusters_ = kept
    if any(_file_stamp(one[0]) != one for one in more):
        return None
    return clusters_  # type: ignore[no-any-return]


def _resolve() -> tuple[list[str], list[dict[str, Any]]]:
    """The further files that the clusters depend on, and the clusters."""
    from shim.control import config, machine, shape, slurm_conf
    from shim.job.agent import isolation

    settings = config.load()
    mode, _why = isolation.probe()
    found = [kept_cluster.pack(one) for one in shape.clusters(settings, machine.this_machine(), mode)]
    confs = [words["slurm_conf"].value for words in settings.clusters.values() if "slurm_conf" in words]
    return [path for conf in confs if conf for path in slurm_conf.files(conf)], found


def _keep(kept: tuple[Any, ...]) -> None:
    path = _path()
    mine = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            marshal.dump(kept, file)
        os.replace(mine, path)
    except OSError:
        pass  # a read-only or full home: it is resolved again next time
