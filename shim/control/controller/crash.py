"""Places where a test may kill the controller: around every boundary between committing and acting.

``SHIM_TEST_CRASH=name`` or ``name:n`` makes the process kill itself the first (the n-th) time it gets there.
"""

from __future__ import annotations

import os
import signal

_name, _, _count = os.environ.get("SHIM_TEST_CRASH", "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def point(name: str) -> None:
    """The process dies here if a test asked for it."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
