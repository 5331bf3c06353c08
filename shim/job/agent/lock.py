"""The lock of an agent: what makes starting one twice harmless, and what tells everybody else that it lives."""

from __future__ import annotations

import fcntl
import os
import time

from shim.job.agent.journal import lock_name


def take_lock(run_dir: str, index: int, patience: float = 0.0) -> int | None:
    """The descriptor that holds agent ``index``'s lock; None: somebody else holds it, or the run was taken back meanwhile.

    Trying the lock is also how others see whether the agent lives, so one that is taken is tried again for ``patience`` seconds.
    """
    path = os.path.join(run_dir, lock_name(index))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(fd)
                return None
            time.sleep(0.01)
    if not _leads_to(path, fd):
        os.close(fd)
        return None
    return fd


def _leads_to(path: str, fd: int) -> bool:
    """Whether the file is still the one of that name: folders are taken away under their lock, and given to other runs."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
