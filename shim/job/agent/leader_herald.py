"""The herald: a small process that starts a controller when the leader has news and none is connected.

It is forked before the agent becomes a child subreaper or enters its node's namespaces: what it starts must not count as a
process of the job (it would be killed with it), nor see the job's host names. It holds nothing of the agent's open, sleeps
until it is rung, and ends with the agent, when the pipe between them closes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DESCRIPTORS = 4096  # an agent forks its herald first, when it has few


class Herald:
    """The agent's end. Make it before anything else is opened, in the process that the leader will run in."""

    def __init__(self, argv: Sequence[str]) -> None:
        ears, self._bell = os.pipe2(os.O_CLOEXEC)
        first = os.fork()
        if first == 0:
            # Twice, so that the herald is nobody's child here and no zombie is left.
            try:
                if os.fork() == 0:
                    _serve(ears, argv)
            finally:
                os._exit(0)
        os.close(ears)
        os.waitpid(first, 0)

    def ring(self) -> None:
        """Start a controller; it decides itself that it is not needed when one is there."""
        try:
            os.write(self._bell, b"!")
        except OSError:
            return  # the herald is gone: the next command of the user starts a controller

    def close(self) -> None:
        """Let the herald go."""
        os.close(self._bell)


def _serve(ears: int, argv: Sequence[str]) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    kept = os.dup2(ears, 3)
    os.closerange(4, _MOST_DESCRIPTORS)
    while os.read(kept, 4096):
        pid = os.fork()
        if pid == 0:
            try:
                if os.fork() == 0:
                    os.close(kept)
                    os.setsid()
                    os.execv(argv[0], list(argv))
            finally:
                os._exit(127)
        os.waitpid(pid, 0)
