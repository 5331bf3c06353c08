"""What a leader keeps between two runs: its connection to the controller, who asks by it for the next one, past the fork server,
and the socket that it listens on.

It is kept when the controller says so with its last word on a run (``forget``). What it says then is for the agent's process
(``run``), and behind that for the next run's leader, and may come before the last run is out of the way.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    from shim.job.link import SessionLink
    from shim.job.loop import Loop


class ListeningSocket:
    """A socket that a leader listens on, and the file that leads to it, which goes from one run's folder to the next one's."""

    def __init__(self, server: _socket.socket, path: str) -> None:
        self.server = server
        self._file = _identity(path)

    def at(self, path: str) -> bool:
        """Whether ``path`` leads to it now."""
        return self._file is not None and self._file == _identity(path)


class KeptLine:
    """Who holds it has the ``link``; what has come by it is in ``said``. ``ended``: the controller has closed it. ``listening``: still open."""

    def __init__(self, link: SessionLink, loop: Loop) -> None:
        self.link = link
        self.said: list[dict[str, Any]] = []
        self.ended = False
        self.listening: ListeningSocket | None = None
        self._loop = loop
        link.on_message = self._heard
        link.on_close = self._closed

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self.link.session.fd

    def next_run(self) -> tuple[str, int] | None:
        """Run folder and index of the run that is asked for; None while none is."""
        if not self.said or self.said[0].get("do") != "run":
            return None
        wanted = self.said.pop(0)
        return wanted["run_dir"], wanted["index"]

    def listening_at(self, path: str) -> ListeningSocket | None:
        """The socket, if it is the one at ``path``; it is closed if it is not. It is the caller's then."""
        kept, self.listening = self.listening, None
        if kept is not None and not kept.at(path):
            kept.server.close()
            return None
        return kept

    def close(self) -> None:
        """Nobody needs it."""
        self.link.close()
        if self.listening is not None:
            self.listening.server.close()

    def _heard(self, message: dict[str, Any]) -> None:
        self.said.append(message)
        self._loop.stop()

    def _closed(self, _reason: str) -> None:
        self.ended = True
        self._loop.stop()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def drop(line: int | KeptLine | None) -> None:
    """Close a leader's connection to its controller, a descriptor or one that was kept, if there is any."""
    if isinstance(line, KeptLine):
        line.close()
    elif line is not None:
        os.close(line)
