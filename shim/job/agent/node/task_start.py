"""What a task is started with, and what each child of an agent undoes and sets up between fork and execve."""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Mapping, Sequence

    from shim.job.container.enter import ContainerPlace
else:
    import _signal

_ALL = _signal.valid_signals()  # the C library keeps some for itself


def default_signals() -> None:
    """In a child: no signal is ignored or handled, and none goes to the parent's wake-up pipe."""
    _signal.set_wakeup_fd(-1)
    for number in _ALL:
        # Of most of them Python knows without asking the kernel that they are as they should be.
        if _signal.getsignal(number) != _signal.SIG_DFL:
            try:
                _signal.signal(number, _signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # KILL and STOP


def place_files(files: tuple[int, int, int]) -> None:
    """In a child: these become descriptors 0, 1 and 2."""
    # Out of the way first: one of them may be where another must go.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in files]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=True)


class TaskStart:
    """What a task is started with. ``files``: descriptors for 0, 1, 2. ``first``: of its step on this node (it tells of a missing
    working directory twice, for the node and for itself). ``pty``: descriptor 0 becomes its controlling terminal. ``prolog``: the
    program of --task-prolog, "" for none. ``container``: where the task runs in one, else None.
    """

    __slots__ = ("argv", "container", "environment", "files", "first", "prolog", "pty", "rlimits", "umask", "work_dir")

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        work_dir: str,
        umask: int,
        rlimits: Mapping[str, Sequence[int]],
        files: tuple[int, int, int],
        first: bool,
        pty: bool = False,
        prolog: str = "",
        container: ContainerPlace | None = None,
    ) -> None:
        self.argv = list(argv)
        self.environment = dict(environment)
        self.work_dir = work_dir
        self.umask = umask
        self.rlimits = rlimits
        self.files = files
        self.first = first
        self.pty = pty
        self.prolog = prolog
        self.container = container
