"""Where a task's streams go on its node: files, /dev/null, a pipe to the leader, a terminal.

Output files are opened as slurmstepd opens them: appending always, so that all who write to one (both streams, several
tasks, the leader with its own lines) follow each other, truncated first unless told to append.
"""

from __future__ import annotations

import fcntl
import os
from _struct import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TIOCSWINSZ = 0x5414
_EINVAL = 22
_NAMES = ("stdin", "stdout", "stderr")


class OpenError(Exception):
    """A file of a task could not be opened; the text is srun's. ``detail``: slurmstepd's, with the ``path``."""

    def __init__(self, stream: int, path: str, number: int) -> None:
        which, why = f"Could not open {_NAMES[stream]} file", os.strerror(number)
        super().__init__(f"{which}: {why}")
        self.detail = f"{which} {path}: {why}"


class Files:
    """Opens the files of one step's tasks on this node; a path is truncated once and then shared.

    ``close`` when all tasks are started.
    """

    def __init__(self, work_dir: str, umask: int) -> None:
        self._work_dir = work_dir
        self._umask = umask
        self._open: dict[str, int] = {}

    def output(self, where: dict[str, Any], stream: int) -> int:
        """A descriptor to write to: of the file, or of /dev/null. OpenError."""
        if where["to"] != "file":
            return self._null()
        path = os.path.join(self._work_dir, where["path"])
        if path not in self._open:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if where.get("append") else os.O_TRUNC)
            self._open[path] = self._opened(path, flags, stream)
        return self._open[path]

    def input(self, where: dict[str, Any]) -> int:
        """A descriptor to read from, of its own for each task: each reads the whole file. OpenError."""
        if where["to"] != "file":
            return self._null()
        path = os.path.join(self._work_dir, where["path"])
        fd = self._opened(path, os.O_RDONLY, 0)
        self._open[f"{path}\0{fd}"] = fd
        return fd

    def close(self) -> None:
        """The tasks have their copies."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def _null(self) -> int:
        if os.devnull not in self._open:
            self._open[os.devnull] = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        return self._open[os.devnull]

    def _opened(self, path: str, flags: int, stream: int) -> int:
        before = os.umask(self._umask)
        try:
            # Non-blocking: a named pipe without a peer must not stop the agent.
            fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, 0o666)
        except (OSError, ValueError) as error:
            raise OpenError(stream, path, getattr(error, "errno", None) or _EINVAL) from None
        finally:
            os.umask(before)
        os.set_blocking(fd, True)
        return fd


def pipe() -> tuple[int, int]:
    """(read end, write end), close-on-exec; the agent makes its own end non-blocking."""
    return os.pipe2(os.O_CLOEXEC)


def terminal(window: tuple[int, int] | None) -> tuple[int, int]:
    """(the agent's side, the task's side) of a new pseudo terminal of ``window`` rows and columns."""
    agent, task = os.openpty()
    if window is not None:
        resize(agent, *window)
    return agent, task


def resize(terminal: int, rows: int, columns: int) -> None:
    """Tell a terminal its size; its foreground processes get SIGWINCH."""
    fcntl.ioctl(terminal, _TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))
