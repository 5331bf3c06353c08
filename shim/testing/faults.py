"""Faults of a throw-away cluster, by what really brings them about; and the processes that such a cluster has."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from shim.control.backends.base import Run
from shim.control.backends.local import runs
from shim.core.model.job import Job as Record
from shim.job.agent.journal import lock_name

_MARGIN = 64  # MiB that a step may take beyond the limit before it ends by itself: the node has not noticed
_PATIENCE = 20  # seconds for the node to notice


def processes(state: str) -> list[psutil.Process]:
    """The processes of this user that belong to the cluster with that state folder, this one and those above it left out."""
    own = {os.getpid(), *(one.pid for one in psutil.Process().parents())}
    return [one for one in psutil.process_iter() if one.pid not in own and _of(one, state)]


def _of(process: psutil.Process, state: str) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False  # it has ended, or is somebody else's
    return environment.get("SHIM_HOST_STATE_DIR") == state or (
        environment.get("SHIM_SERVICE") == "controller"
        and environment.get("SHIM_STATE_DIR", "\0") == os.path.dirname(state)
    )


def end(processes: Iterable[psutil.Process], patience: float) -> None:
    """Returns when they have ended. Who has not within ``patience`` seconds is killed."""
    poll, pids = select.poll(), {}
    for process in processes:
        try:
            pids[os.pidfd_open(process.pid)] = process
        except OSError:
            continue  # it has ended
    for fd in pids:
        poll.register(fd, select.POLLIN)
    killed, until = False, time.monotonic() + patience
    while pids:
        for fd, _event in poll.poll(max(0.0, until - time.monotonic()) * 1000):
            poll.unregister(fd)
            os.close(fd)
            del pids[fd]
        if pids and time.monotonic() >= until:
            if killed:
                break  # stuck in the kernel
            killed, until = True, time.monotonic() + patience
            for process in pids.values():
                with suppress(psutil.Error):  # also where it is another process by now
                    process.kill()
    for fd in pids:
        os.close(fd)


def crash(running: Iterable[Record], node: str) -> int:
    """Kills the agents of that node; how many there were."""
    files = set()
    for job in running:
        for index, share in enumerate(job.shares):
            if share.name == node:
                run = Run(cluster=job.cluster, job_id=job.job_id, restart=job.restarts)
                files.add(_inode(f"{runs.folder(run)}/{lock_name(index)}"))
    found = [pid for pid, inode in _locks() if inode in files]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _locks() -> Iterable[tuple[int, int]]:
    """Who holds which file locked: pid, and the file's inode."""
    with open("/proc/locks") as file:
        for line in file:
            words = line.split()
            if words[1] == "FLOCK":
                yield int(words[4]), int(words[5].rpartition(":")[2])


def hungry(job_id: int, node: str, memory: int) -> list[str]:
    """The command of a step that takes more than ``memory`` MiB on that node of the job, and waits to be killed for it."""
    program = (
        f"import time; taken = bytearray(1)\n"
        f"for _ in range({memory + _MARGIN}): taken += b'x' * (1 << 20)\n"
        f"time.sleep({_PATIENCE})"
    )
    return [
        "srun",
        f"--jobid={job_id}",
        "--overlap",
        "--ntasks=1",
        "--nodes=1",
        f"--nodelist={node}",
        sys.executable,
        "-c",
        program,
    ]
