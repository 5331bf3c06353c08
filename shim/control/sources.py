"""Where the configuration comes from: files, SHIM_* variables, a real Slurm that the machine is set up for. Hot path."""

from __future__ import annotations

import os

from shim.control.backends.slurm import programs
from shim.core import routing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import Any

_HOME = "XDG_CONFIG_HOME"
_NOT_CONFIGURATION = (
    "SHIM_STATE_DIR",
    "SHIM_GRAMMAR",
    "SHIM_HOST_STATE_DIR",
    "SHIM_RUN_DIR",
    "SHIM_PYTHON",
    "SHIM_CONTROLLER_IDLE",
    "SHIM_TEST_CLIENTS",
    "SHIM_TEST_CRASH",
    "SHIM_TEST_KUBERNETES",
    "SHIM_TEST_SLURM",
    "SHIM_SERVICE",
    "SHIM_PASSED",
)


def configured() -> bool:
    """Whether anything is configured at all."""
    words = (*_NOT_CONFIGURATION, "SHIM_NO_SYSTEM_CONFIG", "SHIM_CONFIG")
    return any(name.startswith("SHIM_") and name not in words for name in os.environ) or any(
        os.path.exists(path) for path in files(os.environ)
    )


def implied(environ: Mapping[str, str]) -> str:
    """The folder of a real Slurm that is the default where nothing is configured; "" for none.

    Not in a job of ours: where nothing is configured that is this machine's, and its SLURM_CONF is of our making.
    """
    return "" if routing.own_job(environ) else programs.implied(environ)


def stamp(environ: Mapping[str, str]) -> tuple[Any, ...]:
    """Everything the resolved configuration depends on."""
    seen: list[Any] = [implied(environ)]
    seen.extend(file_stamp(path) for path in files(environ))
    seen.extend((name, environ[name]) for name in sorted(environ) if is_configuration(name))
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            seen.append(file.read())
    except OSError:
        seen.append("")
    return tuple(seen)


def stated(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where the configuration of ``environ`` comes from, with absolute paths: what a command tells the controller."""
    found = {name: value for name, value in environ.items() if is_configuration(name)}
    *_others, home = files({**environ, "SHIM_CONFIG": ""})
    found[_HOME] = os.path.dirname(os.path.dirname(home))
    if found.get("SHIM_CONFIG"):
        found["SHIM_CONFIG"] = os.path.abspath(found["SHIM_CONFIG"])
    return found


def adopt(environ: MutableMapping[str, str], other: Mapping[str, str]) -> None:
    """Makes what another process has ``stated`` count in ``environ``."""
    for name in [name for name in environ if is_configuration(name)]:
        del environ[name]
    environ.update({name: value for name, value in other.items() if name == _HOME or is_configuration(name)})


def is_configuration(name: str) -> bool:
    """Whether the variable of that name is a part of the configuration."""
    return name.startswith("SHIM_") and name not in _NOT_CONFIGURATION


def file_stamp(path: str) -> tuple[Any, ...]:
    """By which a file is known to be the same as before: path, inode, time, size; zeros where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return (path, 0, 0, 0)
    return (path, found.st_ino, found.st_mtime_ns, found.st_size)


def files(environ: Mapping[str, str]) -> list[str]:
    """The configuration files in the order of reading, whether they exist or not."""
    found = [] if environ.get("SHIM_NO_SYSTEM_CONFIG") else ["/etc/shim/config.toml"]
    home = environ.get(_HOME, "")
    if not home.startswith("/"):  # the XDG rules: a relative path is to be ignored
        home = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    found.append(os.path.join(home, "shim", "config.toml"))
    if environ.get("SHIM_CONFIG"):
        found.append(environ["SHIM_CONFIG"])
    return found
