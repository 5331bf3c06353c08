"""Where the state of this user on this host lives. Strings; writers call ``ensure`` before they create anything.

Homes are shared between hosts and SQLite is not, so the folder has one part per host. Inside a job the host's name may
be a virtual node's (``node1``), therefore each task is given the folder itself in ``SHIM_HOST_STATE_DIR``, which wins over
everything else; and one that clears its environment (``env -i``, ``su -``) finds the machine's own name in ``/etc/hosts``.
"""

from __future__ import annotations

import os

HOST_VARIABLE = "SHIM_HOST_STATE_DIR"
_HOSTS = "/etc/hosts"
_NODE_OF = b"# a virtual node of "


def state_dir() -> str:
    """``$SHIM_HOST_STATE_DIR``; else the host's part of ``$SHIM_STATE_DIR``, or of shim's folder among the user's."""
    exact = os.environ.get(HOST_VARIABLE)
    if exact:
        return exact
    base = os.environ.get("SHIM_STATE_DIR")
    if not base:
        xdg = os.environ.get("XDG_STATE_HOME")
        # The XDG rules: a relative path is to be ignored.
        base = f"{xdg}/shim" if xdg and xdg.startswith("/") else os.path.expanduser("~/.local/state/shim")
    return f"{os.path.abspath(base)}/{machine()}"


def machine() -> str:
    """The name of this machine, whatever a virtual node is called."""
    try:
        file = os.open(_HOSTS, os.O_RDONLY | os.O_CLOEXEC)
        first = os.read(file, 256).partition(b"\n")[0]
        os.close(file)
    except OSError:
        first = b""
    if first.startswith(_NODE_OF):
        return os.fsdecode(first[len(_NODE_OF) :])
    return os.uname().nodename or "localhost"


def hosts_head() -> str:
    """The first line of the ``/etc/hosts`` of virtual nodes: there ``machine`` finds its name."""
    return os.fsdecode(_NODE_OF) + machine()


def index_path() -> str:
    """The SQLite index of all jobs."""
    return state_dir() + "/index.db"


def run_dir() -> str:
    """What lives as long as a job runs: the agents' sockets, journals and locks."""
    return state_dir() + "/run"


def spool_dir() -> str:
    """Scripts and environments of jobs, one folder per index key."""
    return state_dir() + "/spool"


def job_spool(key: int) -> str:
    """The folder of one job's script and environment."""
    return f"{spool_dir()}/{key}"


def socket_path() -> str:
    """The controller's socket. May be longer than a socket address can be: see the client for how it is reached."""
    return state_dir() + "/controller.sock"


def log_path() -> str:
    """The controller's log, also where commands leave the traceback of an internal error."""
    return state_dir() + "/controller.log"


def ensure(folder: str) -> str:
    """Creates ``folder`` and what is missing above it, readable by nobody else; returns it. OSError if that fails."""
    os.makedirs(os.path.dirname(folder) or "/", mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    return folder
