"""The call of a real program, and becoming it."""

from __future__ import annotations

import os

from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal


class Call:
    """One call of a real program: its path, ``argv`` with the name it is called by, its environment."""

    __slots__ = ("argv", "environment", "path")

    def __init__(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        self.path = path
        self.argv = argv
        self.environment = environment


def become(call: Call) -> NoReturn:
    """Makes this process the real command. ShimError if the system refuses."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # which Python ignores, for itself and what it becomes
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execve(call.path, call.argv, call.environment)
    except OSError as error:
        raise ShimError(f"error: {call.path}: {error.strerror}") from None
