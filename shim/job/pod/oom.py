"""Processes of this pod that the kernel killed for the container's memory limit, as its control group counts them.

Kubernetes may also kill the whole container for one process; then nobody here is left to count, and the pod's own status tells.
"""

from __future__ import annotations

from shim.job import rawfile

FILES = (
    "/sys/fs/cgroup/memory.events",  # version 2
    "/sys/fs/cgroup/memory/memory.oom_control",  # version 1
)


class OomKills:
    """``new()``: how many were killed since the last call. Always 0 where the kernel does not tell."""

    def __init__(self, files: tuple[str, ...] = FILES) -> None:
        self._file = next((path for path in files if _count(path) is not None), "")
        self._seen = _count(self._file) or 0

    def new(self) -> int:
        count = _count(self._file)
        if count is None:
            return 0
        found, self._seen = count - self._seen, count
        return max(0, found)


def _count(path: str) -> int | None:
    """The line ``oom_kill N``."""
    try:
        words = rawfile.read(path).split() if path else []
    except OSError:
        return None
    for place, word in enumerate(words[:-1]):
        if word == b"oom_kill" and words[place + 1].isdigit():
            return int(words[place + 1])
    return None
