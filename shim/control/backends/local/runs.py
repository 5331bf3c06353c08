"""Run folders: what a run's agents are given, and what they left.

A folder is made complete under another name and then renamed, so one that is there is whole. Names are those of
``RunSpec.name``; ids are never used twice under one state folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run
from shim.core import jsonlite
from shim.job import rawfile
from shim.job.address import SOCKET
from shim.job.agent.journal import lock_name, read_journal
from shim.job.run_folder import ENVIRONMENT, JOURNAL, KEY, SPEC, read_key
from shim.job.spec import SCRIPT, RunSpec


def folder(run: Run) -> str:
    """The run's folder, whether it exists or not."""
    return f"{paths.run_dir()}/{run.job_id}.{run.restart}"


def create(run: Run, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, used: str = "") -> bool:
    """Makes the run's folder; one that is there already is left as it is (the same run asked for again): False then.

    ``used``: a folder that was put away. It is made the new one where nothing in it speaks against that, else removed: a new
    file costs the disk's file system ten times what an old one does.
    """
    path = folder(run)
    if os.path.isdir(path):
        if used:
            clear([used])
        return False
    draft = f"{paths.run_dir()}/.{run.job_id}.{run.restart}.{os.getpid()}"
    if not (used and _emptied(used, draft)):
        _make(draft)
    given = {**spec.to_dict(), KEY: secrets.token_hex(32), ENVIRONMENT: dict(environment)}
    _write(f"{draft}/{SPEC}", jsonlite.dumps(given).encode("ascii"))
    if script is not None:
        _write(f"{draft}/{SCRIPT}", script, 0o700)
    elif used and os.path.lexists(f"{draft}/{SCRIPT}"):
        os.unlink(f"{draft}/{SCRIPT}")
    os.rename(draft, path)
    return True


def _make(draft: str) -> None:
    try:
        os.mkdir(draft, 0o700)
    except OSError:
        # The first run of all, or what a start that failed has left.
        paths.ensure(paths.run_dir())
        shutil.rmtree(draft, ignore_errors=True)
        os.mkdir(draft, 0o700)


def _emptied(used: str, draft: str) -> bool:
    """Makes a folder that was put away a draft: its journal empty, nothing in it but what ``create`` writes over and a leader's socket.

    False: it was not fit for that, and is removed.
    """
    try:
        if set(os.listdir(used)) - {SPEC, SCRIPT, JOURNAL, SOCKET}:
            raise OSError("somebody else's files")
        os.rename(used, draft)
        journal = os.open(f"{draft}/{JOURNAL}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if _free(journal):
                os.ftruncate(journal, 0)
            else:
                os.unlink(f"{draft}/{JOURNAL}")  # its leader has not let go of it: this run would seem to have one
        finally:
            os.close(journal)
    except OSError:
        clear([used, draft])
        return False
    return True


def existing() -> list[Run]:
    """The runs whose folders are there; half-made drafts of a controller that was killed are removed."""
    found = []
    try:
        names = os.listdir(paths.run_dir())
    except FileNotFoundError:
        return []
    for name in names:
        job, _, restart = name.partition(".")
        if name.startswith("."):
            shutil.rmtree(f"{paths.run_dir()}/{name}", ignore_errors=True)
        elif job.isdigit() and restart.isdigit():
            try:
                with open(f"{paths.run_dir()}/{name}/{SPEC}") as file:
                    cluster = json.load(file)["cluster"]["name"]
                found.append(Run(cluster=cluster, job_id=int(job), restart=int(restart)))
            except OSError:
                continue  # it is being removed
    return found


def alive(run: Run, index: int = 0) -> bool:
    """Whether agent ``index`` holds its lock. True where that cannot be determined (no file descriptor is left)."""
    try:
        lock = os.open(f"{folder(run)}/{lock_name(index)}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _free(lock)
    finally:
        os.close(lock)


def _free(lock: int) -> bool:
    """Whether nobody holds that file's lock; it is held by the descriptor then."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def journal(run: Run, after: int = 0) -> list[dict[str, Any]]:
    """The journal's lines after number ``after``; a line that a kill or a full disk cut short is no line."""
    return [line for line in read_journal(f"{folder(run)}/journal") if line["n"] > after]


def key(run: Run) -> bytes:
    """The run's secret. OSError or ValueError if the folder is gone or damaged."""
    return read_key(folder(run))


def remove(run: Run) -> None:
    """Removes the run's folder, under another name first, so that nobody finds half of one."""
    gone = put_away(run)
    if gone:
        clear([gone])


def withdraw(run: Run) -> bool:
    """Takes a run back that nobody may have begun; False: its first agent has begun, or is about to, or that cannot be told.

    Under the agent's lock: one that was asked for and comes later finds no folder, or another one.
    """
    try:
        lock = os.open(f"{folder(run)}/{JOURNAL}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # no room for a file: who watches the run finds out
    try:
        if not _free(lock) or os.fstat(lock).st_size:
            return False
        gone = put_away(run)
    except OSError:
        return False
    finally:
        os.close(lock)
    clear([gone])
    return True


def put_away(run: Run) -> str:
    """Takes the run's folder away from under its name: it is none any more. Where it is now, to be cleared; empty if there was none."""
    gone = (
        f"{paths.run_dir()}/.gone.{run.job_id}.{run.restart}.{time.monotonic_ns()}"  # ids come again with a new index
    )
    try:
        os.rename(folder(run), gone)
    except FileNotFoundError:
        return ""
    return gone


def clear(folders: Sequence[str]) -> None:
    """Removes folders that were put away. What is left when the controller is killed before is removed by the next one."""
    for gone in folders:
        try:
            for name in os.listdir(gone):
                os.unlink(f"{gone}/{name}")
            os.rmdir(gone)
        except OSError:
            shutil.rmtree(gone, ignore_errors=True)  # folders in it: somebody else's


def _write(path: str, content: bytes, mode: int = 0o600) -> None:
    file = _opened(path, mode)
    try:
        rawfile.write_all(file, content)
        os.ftruncate(file, len(content))
    finally:
        os.close(file)


def _opened(path: str, mode: int) -> int:
    """The file to be written; an earlier run's if that is as it was made. A job may have linked its script elsewhere, or linked it to
    something else: that is not ours to write over.
    """
    try:
        found = os.lstat(path)
        if found.st_nlink == 1 and found.st_mode == stat.S_IFREG | mode:
            return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.unlink(path)
    except FileNotFoundError:
        pass
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
