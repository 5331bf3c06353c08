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
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run
from shim.core import jsonlite
from shim.job.agent.journal import lock_name, read_journal
from shim.job.run_folder import ENVIRONMENT, KEY, SPEC, read_key
from shim.job.spec import SCRIPT, RunSpec


def folder(run: Run) -> str:
    """The run's folder, whether it exists or not."""
    return f"{paths.run_dir()}/{run.job_id}.{run.restart}"


def create(run: Run, spec: RunSpec, environment: Mapping[str, str], script: bytes | None) -> bool:
    """Makes the run's folder; one that is there already is left as it is (the same run asked for again): False then."""
    path = folder(run)
    if os.path.isdir(path):
        return False
    draft = f"{paths.run_dir()}/.{run.job_id}.{run.restart}.{os.getpid()}"
    try:
        os.mkdir(draft, 0o700)
    except OSError:
        # The first run of all, or what a start that failed has left.
        paths.ensure(paths.run_dir())
        shutil.rmtree(draft, ignore_errors=True)
        os.mkdir(draft, 0o700)
    given = {**spec.to_dict(), KEY: secrets.token_hex(32), ENVIRONMENT: dict(environment)}
    _write(f"{draft}/{SPEC}", jsonlite.dumps(given).encode("ascii"))
    if script is not None:
        _write(f"{draft}/{SCRIPT}", script, 0o700)
    os.rename(draft, path)
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
    """Whether agent ``index`` holds its lock. Where that cannot be told (no descriptor is left), it is taken to."""
    try:
        lock = os.open(f"{folder(run)}/{lock_name(index)}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


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
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)
