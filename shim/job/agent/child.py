"""Between fork and execve: what a child of an agent undoes and sets up first."""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
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
