"""Where state lives, as far as commands ask, inside a pod: the run's folder."""

from __future__ import annotations

import os

from .run import folder

HOST_VARIABLE = "SHIM_RUN_DIR"  # names the folder in the environment of what runs here


def state_dir() -> str:
    """The run's folder."""
    return folder()


def owner() -> int:
    """Whose the run is."""
    return os.getuid()


def anothers() -> None:
    """The run's folder is believed: what runs here is the run."""


def machine() -> str:
    """The name of the pod."""
    return os.uname().nodename


def index_path() -> str:
    """There is no index; what stands for it is the run's folder."""
    return folder()


def log_path() -> str:
    """Where commands leave the traceback of an internal error."""
    return f"{folder()}/commands.log"


def ensure(path: str) -> str:
    """Creates ``path`` where it is missing; returns it. OSError."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path
