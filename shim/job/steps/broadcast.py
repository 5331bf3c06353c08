"""Sends a file to the nodes of a run, through its leader."""

from __future__ import annotations

import os
from functools import partial

from shim.core.errors import ShimError
from shim.job.address import read_address
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.run_folder import read_key
from shim.job.session import open_session
from shim.job.wire import CAST, CHUNK, STDIN, WINDOW

_EXCLUDED = "/lib,/usr/lib,/lib64,/usr/lib64"  # BcastExclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from shim.core.model.request import StepRequest

    Errors = Optional[list[tuple[str, int]]]


class Sender:
    """One file on its way to the nodes; ``fd`` None: a folder is made there."""

    def __init__(self, run_dir: str, message: dict[str, Any], fd: int | None) -> None:
        self._loop = Loop()
        self._message = message
        self._fd = fd
        self._room = WINDOW
        self._over = fd is None
        self._errors: Errors = None
        self._lost = ""
        try:
            self._link = SessionLink(open_session(self._loop, read_address(run_dir), read_key(run_dir), "command"))
        except (OSError, ValueError):
            self._loop.close()
            raise
        self._link.on_message = self._told
        self._link.on_close = self._gone

    def run(self) -> Errors:
        """Which nodes could not write it, with their errno; None: the job has no such step. OSError: no leader answers (any more)."""
        try:
            self._link.send({"do": "broadcast", **self._message})
            self._send()
            self._loop.run()
            self._link.close()
        finally:
            self._loop.close()
        if self._lost:
            raise OSError(self._lost)
        return self._errors

    def _send(self) -> None:
        while self._room > 0 and not self._over and self._fd is not None:
            data = os.read(self._fd, min(CHUNK, self._room))
            self._room -= len(data)
            self._over = not data
            self._link.send_data(CAST, 0, STDIN, data)

    def _told(self, message: dict[str, Any]) -> None:
        do = message["do"]
        if do == "credit":
            self._room += int(message["bytes"])
            self._send()
        elif do == "broadcast":
            told = message["errors"]
            self._errors = None if told is None else [(str(node), int(error)) for node, error in told]
        elif do == "done":
            self._loop.stop()

    def _gone(self, why: str) -> None:
        self._lost = why or "no answer"
        self._loop.stop()


def send(run_dir: str, source: str, path: str, **how: Any) -> Errors:
    """The file ``source`` to ``path`` (``%N``: a node's name) of each node. ``how``: ``mode``, ``times`` (of access and of change, or None),
    ``force``, and ``step`` for its nodes alone. See ``Sender.run``; OSError too for a source that cannot be read.
    """
    fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return Sender(run_dir, {"path": path, **how}, fd).run()
    finally:
        os.close(fd)


def make_folder(run_dir: str, path: str, **how: Any) -> Errors:
    """A folder on each node, as ``send`` a file."""
    return Sender(run_dir, {"path": path, "folder": True, "mode": 0o700, **how}, None).run()


def excluded(text: str | None) -> tuple[list[str], list[str]]:
    """The folders whose libraries are not sent along, of ``--exclude`` or ``--bcast-exclude``; and what is wrong with these, to be said."""
    if text is not None and text.upper() == "NONE":
        return [], []
    folders, wrong = [], []
    for path in (text or _EXCLUDED).split(","):
        if path.startswith("/"):
            folders.append(path)
        elif path:
            wrong.append(f"error: Ignoring non-absolute excluded path: '{path}'")
    return folders, wrong


def libraries_of(path: str, without: list[str]) -> list[str] | None:
    """The shared libraries of a program, as ldd tells them, but those below ``without``; None where it is none."""
    import subprocess

    try:
        done = subprocess.run(["ldd", path], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    found = []
    for line in os.fsdecode(done.stdout).splitlines():
        words = line.split()
        place = words[2] if words[1:2] == ["=>"] and len(words) > 2 else words[0] if words else ""
        if place.startswith("/") and not any(place.startswith(folder.rstrip("/") + "/") for folder in without):
            found.append(place)
    return found


class Program:
    """A program that srun sends to the nodes before its step starts there (``--bcast``). ``path`` is what it is called there, ``%N`` a node's
    name; ``folder`` holds its libraries, "" for none. ShimError with srun's words.
    """

    def __init__(self, request: StepRequest, step_id: str) -> None:
        self._request = request
        self._work_dir = request.work_dir or os.getcwd()
        self.source = self._found(request.argv[0])
        wanted = request.bcast or self._work_dir + "/"
        if wanted.endswith("/"):
            wanted += f"slurm_bcast_{step_id}_%N"
        self.path = os.path.join(self._work_dir, wanted)
        self.folder = f"{self.path}_libs" if request.send_libs else ""

    def send(self, run_dir: str, step: int) -> list[str]:
        """Sends it, with its libraries; what is to be said beside it."""
        folders, told = excluded(self._request.bcast_exclude)
        libraries = libraries_of(self.source, folders) if self.folder else []
        if libraries is None:
            told.append(
                f"error: Cannot autodetect libraries for '{self.source}' with ldd command; still sending the file but ignoring send_libs"
            )
            libraries, self.folder = [], ""
        self._checked(lambda: self._sent(run_dir, self.source, self.path, step))
        if self.folder:
            self._checked(lambda: make_folder(run_dir, self.folder, force=True, step=str(step)))
        for library in libraries:
            self._checked(partial(self._sent, run_dir, library, f"{self.folder}/{os.path.basename(library)}", step))
        return told

    def _sent(self, run_dir: str, source: str, path: str, step: int) -> Errors:
        found = os.stat(source)
        times = (found.st_atime, found.st_mtime)
        return send(run_dir, source, path, mode=found.st_mode & 0o7777, times=times, force=True, step=str(step))

    def _checked(self, sent: Callable[[], Errors]) -> None:
        failed = f"fatal: Failed to broadcast '{self.source}'. Step launch aborted."
        try:
            errors = sent()
        except (OSError, ValueError) as error:
            raise ShimError(f"error: {error}", failed) from None
        if errors is None or errors:
            lines = [f"error: REQUEST_FILE_BCAST({node}): {os.strerror(number)}" for node, number in errors or ()]
            raise ShimError(*lines, failed)

    def _found(self, name: str) -> str:
        if "/" in name:
            places = [os.path.join(self._work_dir, name)]
        else:
            places = [os.path.join(folder, name) for folder in os.environ.get("PATH", "").split(":") if folder]
        for place in places:
            if os.path.isfile(place) and os.access(place, os.X_OK):
                return place
        raise ShimError(f"fatal: Can not execute {name}")
