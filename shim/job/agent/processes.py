"""What runs on this machine, out of /proc: parents, sessions, environments, memory. Reads only.

Every process may end between two reads; one that did counts as not there.
"""

from __future__ import annotations

import os

from shim.job import rawfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """One line of the table: parent, session and whether it is more than a zombie."""

    __slots__ = ("alive", "pages", "parent", "session")

    def __init__(self, parent: int, session: int, alive: bool, pages: int) -> None:
        self.parent = parent
        self.session = session
        self.alive = alive
        self.pages = pages

    @property
    def rss(self) -> int:
        """Resident bytes, shared pages counted in full."""
        return self.pages * _PAGE


def table() -> dict[int, Process]:
    """All processes by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            text = rawfile.read_if_there(f"/proc/{name}/stat")
            # The second field is the program's name in brackets; it may hold spaces and brackets.
            fields = text[text.rfind(b")") + 2 :].split()
            if len(fields) > 21:
                found[int(name)] = Process(
                    int(fields[1]), int(fields[3]), fields[0] not in (b"Z", b"X"), int(fields[21])
                )
    return found


def children(pid: int) -> list[int] | None:
    """The children of a single-threaded process; None where the kernel does not tell."""
    try:
        return [int(word) for word in rawfile.read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return None


def by_parent(processes: dict[int, Process]) -> dict[int, list[int]]:
    """The children of each process."""
    found: dict[int, list[int]] = {}
    for pid, process in processes.items():
        found.setdefault(process.parent, []).append(pid)
    return found


def environment(pid: int) -> list[bytes]:
    """The environment with which ``pid`` was started, as ``NAME=value``; empty when it may not be read."""
    return rawfile.read_if_there(f"/proc/{pid}/environ").split(b"\0")


def value_of(environ: Iterable[bytes], name: bytes) -> bytes | None:
    """A variable of such an environment."""
    start = name + b"="
    for item in environ:
        if item.startswith(start):
            return item[len(start) :]
    return None


def pss(pid: int) -> int | None:
    """Proportional set size in bytes: shared pages count in parts. None where the kernel does not tell."""
    for line in rawfile.read_if_there(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None
