"""Real controllers for tests: started as commands start them, ended by pid, nothing left behind."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shim.control import client, paths
from shim.control.alive import alive
from shim.core.model.request import JobRequest
from tests import leftovers
from tests.support import wait_until


def pid() -> int | None:
    """The controller that holds the lock of this test's state folder."""
    path = paths.state_dir() + "/controller.lock"
    try:
        lock = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return int(wait_until(lambda: os.pread(lock, 20, 0).strip(), "a pid in the lock"))
    finally:
        os.close(lock)


def kill() -> bool:
    """Kills the controller with -9; whether there was one."""
    found = pid()
    if found is None or not is_controller(found):
        return False
    try:
        os.kill(found, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def is_controller(number: int) -> bool:
    """Whether the process is a controller: the pid in a lock that was only just taken may be the last holder's."""
    try:
        return b"shim.control.controller.main" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def ended_afterwards() -> Iterator[None]:
    """Ends the controller of the test's state folder, and all that it has started: a leader with news would start the next one."""
    folder = os.path.dirname(paths.state_dir())  # as the environment has it
    try:
        yield
    finally:
        while (found := pid()) is not None:
            if is_controller(found):
                try:
                    os.kill(found, signal.SIGTERM)
                except ProcessLookupError:
                    pass
            wait_until(lambda gone=found: pid() != gone, "the controller ended")
        wait_until(lambda: not leftovers.killed(folder), "everything that knows the state folder ended")


def begun() -> int:
    """How many controllers have begun here."""
    try:
        return Path(paths.log_path()).read_text().count(" begins\n")
    except FileNotFoundError:
        return 0


def log() -> str:
    """The controllers' log: shown when a test fails."""
    return Path(paths.log_path()).read_text()


def submission(script: str, **request: Any) -> dict[str, Any]:
    """The fields of a submission of ``script``, as sbatch sends them."""
    request.setdefault("name", "job")
    request.setdefault("stdout", "/dev/null")
    return {
        "request": JobRequest(**request).to_dict(),
        "environment": {"PATH": "/usr/bin:/bin"},
        "script": "#!/bin/sh\n" + script,
    }


def submit(script: str, **request: Any) -> int:
    """Submits; the job id."""
    return int(client.call("submit", submission(script, **request))["job_id"])


__all__ = ["alive", "begun", "ended_afterwards", "kill", "log", "pid", "submission", "submit"]
