"""A task's environment in a pod: what the submitter's machine says, made true inside the image.

The submitter's variables count, as everywhere in Slurm. But folders of the other machine are not here, and what the image
says of itself (where its programs and libraries are) must not get lost.
"""

from __future__ import annotations

import os

from shim.job.pod.places import PRIVATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LISTS = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH", "PKG_CONFIG_PATH")
_FOLDERS = ("TMPDIR", "TEMP", "TMP", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_OF_THE_AGENT = (*PRIVATE, "HOME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "TERM")


class Adapter:
    """``image``: the container's own environment as it was given (an interpreter adds to it). ``home``: a folder to be made for a HOME that is not there."""

    def __init__(self, image: Mapping[str, str], home: str) -> None:
        self._image = {name: value for name, value in image.items() if name not in _OF_THE_AGENT}
        self._home = home

    def adapt(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment to start a task with; doing it twice changes nothing more."""
        result = dict(environment)
        whole = "PATH" in result  # an srun --export=NONE starts its tasks with next to nothing
        for name, value in self._image.items():
            if name not in result:
                if whole:
                    result[name] = value
            elif name in LISTS:
                result[name] = joined(result[name], value)
        for name in _FOLDERS:
            if name in result and name not in self._image and not os.path.isdir(result[name]):
                del result[name]
        shell = result.get("SHELL")
        if shell is not None and not os.path.exists(shell):
            result["SHELL"] = "/bin/sh"
        if "HOME" in result and not _usable(result["HOME"]):
            result["HOME"] = self._made_home()
        return result

    def _made_home(self) -> str:
        try:
            os.makedirs(self._home, 0o700, exist_ok=True)
        except OSError:
            return "/tmp"
        return self._home


def joined(theirs: str, image: str) -> str:
    """Two search paths: entries of the submitter's that the image does not have, where they are, then the image's.

    Where both have a folder (/usr/bin) it keeps the image's place: /opt/conda/bin before it in the image stays before it.
    """
    own = image.split(":")
    known = set(own)
    first = [folder for folder in theirs.split(":") if folder not in known and folder and os.path.isdir(folder)]
    return ":".join([*first, *own])


def _usable(home: str) -> bool:
    return os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)
