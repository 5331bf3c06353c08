"""Where the configuration comes from: files, SHIM_* variables, a real Slurm that the machine is set up for. Hot path."""

from __future__ import annotations

import os
import sys

from shim.control import paths
from shim.control.backends.slurm import programs
from shim.core import memo, routing
from shim.core.errors import ShimError

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
    "SHIM_SUCCESSION",
    "SHIM_PASSED",
)


def configured() -> bool:
    """Whether anything is configured at all."""
    return memo.once("configured", _configured)


def _configured() -> bool:
    words = (*_NOT_CONFIGURATION, "SHIM_NO_SYSTEM_CONFIG", "SHIM_CONFIG")
    return any(name.startswith("SHIM_") and name not in words for name in os.environ) or any(
        any(file_stamp(path)[1:]) for path in files(os.environ)
    )


def implied(environ: Mapping[str, str]) -> str:
    """The folder of a real Slurm that is the default where nothing is configured; "" for none.

    Not in a job of ours: where nothing is configured that is this machine's, and its SLURM_CONF is of our making.
    """
    return "" if routing.own_job(environ) else programs.implied(environ)


def implied_here() -> str:
    """What is ``implied`` for this process."""
    return memo.once("implied", lambda: implied(os.environ))


def stamp() -> tuple[Any, ...]:
    """Everything the resolved configuration depends on. ShimError for a file that root must not go by, though it is named."""
    environ = os.environ
    _refuse_others(environ)
    seen: list[Any] = [implied_here()]
    seen.extend([file_stamp(path) for path in files(environ)])
    seen.extend([(name, environ[name]) for name in sorted(environ) if is_configuration(name)])
    try:
        file = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
        seen.append(os.read(file, 64))
        os.close(file)
    except OSError:
        seen.append(b"")
    return tuple(seen)


def stated(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where the configuration of ``environ`` comes from, with absolute paths: what a command tells the controller."""
    found = {name: value for name, value in environ.items() if is_configuration(name)}
    found[_HOME] = os.path.dirname(os.path.dirname(users_file(environ)))
    if found.get("SHIM_CONFIG"):
        found["SHIM_CONFIG"] = os.path.abspath(found["SHIM_CONFIG"])
    return found


def kubeconfig(environ: Mapping[str, str]) -> str:
    """``$KUBECONFIG`` with absolute paths: a controller has another working directory, and may have been started without the variable."""
    files = environ.get("KUBECONFIG", "").split(os.pathsep)
    return os.pathsep.join([os.path.abspath(os.path.expanduser(file)) for file in files if file])


def adopt(environ: MutableMapping[str, str], other: Mapping[str, str]) -> None:
    """Makes what another process has ``stated`` count in ``environ``."""
    for name in [name for name in environ if is_configuration(name)]:
        del environ[name]
    environ.update({name: value for name, value in other.items() if name == _HOME or is_configuration(name)})


def is_configuration(name: str) -> bool:
    """Whether the variable of that name is a part of the configuration."""
    return name.startswith("SHIM_") and name not in _NOT_CONFIGURATION


def file_stamp(path: str) -> tuple[Any, ...]:
    """``inode_stamp`` of a file of the configuration: zeros also where it is not to be read."""
    found = inode_stamp(path)
    return (path, 0, 0, 0) if any(found[1:]) and unread(path, os.environ) else found


def inode_stamp(path: str) -> tuple[Any, ...]:
    """By which a file is known to be the same as before: path, inode, time, size; zeros where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return (path, 0, 0, 0)
    return (path, found.st_ino, found.st_mtime_ns, found.st_size)


def files(environ: Mapping[str, str]) -> list[str]:
    """The configuration files in the order of reading, whether they exist or not, and ``unread`` ones too."""
    found = [] if environ.get("SHIM_NO_SYSTEM_CONFIG") else ["/etc/shim/config.toml"]
    found.append(users_file(environ))
    if environ.get("SHIM_CONFIG"):
        found.append(environ["SHIM_CONFIG"])
    return found


def users_file(environ: Mapping[str, str]) -> str:
    """The user's own configuration file, whether it exists or not."""
    home = environ.get(_HOME, "")
    if not home.startswith("/"):  # the XDG rules: a relative path is to be ignored
        home = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(home, "shim", "config.toml")


def unread(path: str, environ: Mapping[str, str]) -> str:
    """Why that configuration file is taken for one that is not there, in words; "" for one that is read.

    It names programs to run. HOME and XDG_CONFIG_HOME may be another user's (``sudo``), who then would run them as us; whoever
    names a file in SHIM_CONFIG has chosen it.
    """
    if path != users_file(environ) or path == environ.get("SHIM_CONFIG"):
        return ""
    why = memo.once(f"unsafe {path}", lambda: paths.unsafe(os.path.abspath(path)) if os.path.lexists(path) else "")
    return f"{path} is not read: {why}, who could have put programs there" if why else ""


def warn(program: str) -> None:
    """Says on stderr that there is a configuration file of the user's that is not read, and why."""
    why = unread(users_file(os.environ), os.environ)
    if why and sys.stderr is not None:
        try:
            sys.stderr.write(f"{program}: warning: {why}\n")
        except OSError:
            pass  # stderr is closed or full: there is nowhere left to say it


def _refuse_others(environ: Mapping[str, str]) -> None:
    """ShimError where root is to go by a file (SHIM_CONFIG) that somebody else could have written: a variable survives ``su`` and ``sudo -E``."""
    path = environ.get("SHIM_CONFIG")
    why = paths.unsafe(os.path.abspath(path)) if path and os.geteuid() == 0 else ""
    if why:
        raise ShimError(
            f"error: SHIM_CONFIG names {path}, which root does not go by: {why}, who could have put programs there"
        )
