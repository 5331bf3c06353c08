"""Runs work in a background process: the command does not wait for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
else:
    import _signal


def run(work: Callable[[], object]) -> None:
    """Runs ``work`` in a process that has neither the caller's session nor the caller's streams, and returns at once."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "TSTP", "CONT"):
            _signal.signal(getattr(_signal, f"SIG{name}"), _signal.SIG_DFL)  # they were for the caller's child
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.closerange(3, 256)
            work()
    finally:
        os._exit(0)
