"""What was handed in with a job, in files beside the index: script, environment, and what only its start needs.

Written before the row is committed: a row that is there has its files. Lost power may take them, ``kill -9`` may not.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from shim.control import paths
from shim.core import jsonlite
from shim.core.value import Value
from shim.job import rawfile


class Submission(Value):
    """``environment`` as it was handed in; ``keep``: an allocation that outlives its connection; ``rlimits`` of the shell."""

    environment: dict[str, str] = {}
    rlimits: dict[str, tuple[int, int]] = {}
    keep: bool = False
    token: str = ""
    has_script: bool = False


def write(key: int, submission: Submission, script: bytes | None) -> None:
    """Keeps both for the job with this key. OSError if they cannot be written."""
    folder = paths.job_spool(key)
    paths.ensure(paths.spool_dir())
    paths.ensure(folder)
    if script is not None:
        rawfile.write(f"{folder}/script", script)
    rawfile.write(f"{folder}/submission.json", jsonlite.dumps(submission.to_dict()).encode("ascii"))


def read(key: int) -> Submission:
    """What was handed in. OSError or ValueError if it is gone or damaged."""
    data: dict[str, Any] = jsonlite.loads(rawfile.read(f"{paths.job_spool(key)}/submission.json").decode("ascii"))
    return Submission.from_dict(data)


def script(key: int) -> bytes | None:
    """The batch script's copy; None for a job without one."""
    try:
        return rawfile.read(f"{paths.job_spool(key)}/script")
    except FileNotFoundError:
        return None


def outlived(needed: set[int], newest: int) -> list[str]:
    """The folders of jobs up to key ``newest`` that are not among ``needed``."""
    try:
        names = os.listdir(paths.spool_dir())
    except FileNotFoundError:
        return []
    keys = [int(name) for name in names if name.isascii() and name.isdigit()]
    return [paths.job_spool(key) for key in keys if key <= newest and key not in needed]


def remove(folders: list[str]) -> None:
    """Removes folders that are needed no more; what cannot be removed now is tried another time."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
