"""What tests have left behind when all of them are over: processes, and temporary folders."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from shim.job.agent import cgroup

_PATIENCE = 15.0  # seconds in which what is ending may end


class Leftovers:
    """``base``: the folder below which all tests have theirs. From now on temporary files go to a folder of this session."""

    def __init__(self, base: Path) -> None:
        self._base = str(base)
        # Not below ``base``: other users must be able to go there, and the address of a socket is short.
        self._temporary = Path(tempfile.mkdtemp(prefix="shim-tests-", dir="/tmp"))
        self._temporary.chmod(0o1777)
        self._before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._temporary)

    def found(self) -> list[str]:
        """A line for each, once what is ending has had time for it. Ends and removes them."""
        end = time.monotonic() + _PATIENCE
        while (processes := self._processes()) and time.monotonic() < end:
            time.sleep(0.1)
        lines = [f"process {process.pid}: {_told(process, self._base)}" for process in processes]
        _kill(processes)
        lines += [f"{path}" for path in sorted(self._temporary.iterdir())]
        _end_groups()
        shutil.rmtree(self._temporary, ignore_errors=True)
        tempfile.tempdir = None
        if self._before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = self._before
        return lines

    def _processes(self) -> list[psutil.Process]:
        """Children of this process, and those that know a folder of a test: by their environment, command line or directory."""
        children = [one for one in psutil.Process().children(recursive=True) if _runs(one)]
        return [*children, *(one for one in knowing(self._base, str(self._temporary)) if one not in children)]


def killed(folder: str) -> int:
    """Kills the processes that know the folder; how many there were."""
    found = knowing(folder)
    _kill(found)
    return len(found)


def knowing(*folders: str) -> list[psutil.Process]:
    own = psutil.Process()
    return [one for one in psutil.process_iter() if one != own and _knows(one, folders) and _runs(one)]


def _knows(process: psutil.Process, folders: Sequence[str]) -> bool:
    try:
        told = [process.cwd(), *process.cmdline(), *process.environ().values()]
    except (psutil.Error, OSError):
        return False  # it has ended, or is somebody else's
    return any(folder in one for one in told for folder in folders)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end_groups() -> None:
    """Ends the control groups whose agents were killed: in use the next controller does it."""
    try:
        base = cgroup.find()
    except OSError:
        return
    for name in os.listdir(base):
        if name.startswith(cgroup.MARK) and not cgroup.lives(name.rpartition("-")[2]):
            cgroup.end(f"{base}/{name}")


def _told(process: psutil.Process, base: str) -> str:
    """Its command line, and the folder of the test that it is from."""
    try:
        line = " ".join(process.cmdline())
        told = next((one for one in (process.cwd(), *process.environ().values()) if base in one), "")
    except psutil.Error:
        return "it has just ended"
    return f"{line[:200]} ({told})"


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            pass  # it has ended
