"""The fork server: a process with everything loaded that an agent needs, so that an agent costs a fork and not an interpreter.

It is started with one end of a socket pair as descriptor 0. A request is a 4-byte big-endian length and JSON
``{"run_dir": path, "index": number}``; the answer, framed alike, is ``{"pid": number}`` or ``{"error": text}``. With the length of a
request a descriptor may be passed (SCM_RIGHTS): a leader's connection to whoever asks. A request may name a ``place`` (a text): its
agent is kept when its run is over, and given the next request for the same place (``spares``). It ends when the other end is
closed, and at once on TERM; agents go on. Standard library only, meant for ``python -I -S``.
"""

from __future__ import annotations

import gc
import os
import select
import sys
from _struct import Struct

# OpenSSL's SHA-256 is loaded here once for all agents; ``kdf`` then finds it.
try:
    import _hashlib  # noqa: F401
except ImportError:
    pass  # kdf has the interpreter's own
import _socket
import encodings.ascii  # noqa: F401  # loaded when a file is opened with it
import resource  # noqa: F401

from shim.core.jsonlite import dumps, loads
from shim.job import libc
from shim.job.agent import cgroup, herald
from shim.job.agent.life import be_agent
from shim.job.agent.spares import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Sequence
else:
    import _signal

_LENGTH = Struct(">I")
_MAX_REQUEST = 1024 * 1024
_PASSED = 4  # bytes of a descriptor that is passed
_OBJECTS = 20_000  # new ones until an agent looks for garbage among them: those of several short runs


def serve(socket: int, tied: Sequence[str] = ()) -> None:
    """Answer requests on descriptor ``socket`` until it is closed. ``tied``: the bell, the life's other end and what starts a controller,
    where the one that asks has a herald; if it is killed a fork server sees to it that it has a successor.
    """
    # Agents are not waited for: the kernel takes them away when they end.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    for number in (_signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)  # a terminal's: the controller's business
    try:
        libc.load()
    except OSError:
        pass  # it says so when it is asked for something
    # Frozen objects are never touched by a collection, so agents share their pages.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    ties = herald.Ties(int(tied[0]), int(tied[1]), tied[2:]) if tied else None
    if ties is not None:
        os.set_inheritable(ties.bell, False)
        os.set_inheritable(ties.life, False)
    bell = None if ties is None else ties.bell
    state_dir = os.environ.get("SHIM_HOST_STATE_DIR")
    groups = cgroup.home(state_dir) if state_dir else None
    connection = _socket.socket(fileno=socket)
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    spares = Spares(poll)
    server = _Server(connection, bell, groups, spares)
    try:
        while server.serve(poll.poll(spares.pause())):
            pass
    except _Ended:
        return
    connection.close()
    spares.close()
    if ties is not None:
        ties.outlive()


class _Ended(Exception):
    """Who asks has said that it goes."""


class _Server:
    """What answers requests: ``bell`` and ``groups`` are for the agents."""

    def __init__(
        self, connection: _socket.socket, bell: int | None, groups: cgroup.Home | None, spares: Spares
    ) -> None:
        self._connection = connection
        self._bell = bell
        self._groups = groups
        self._spares = spares

    def serve(self, ready: list[tuple[int, int]]) -> bool:
        """Serve who has something to say; False at the end. _Ended when that was said."""
        # Who says that it is free is heard before anybody is asked for an agent.
        for fd, _events in sorted(ready, key=lambda event: event[0] == self._connection.fileno()):
            if fd != self._connection.fileno():
                self._spares.hear(fd)
            elif not self._serve_one():
                return False
        return True

    def _serve_one(self) -> bool:
        request, line = _receive(self._connection)
        if request is None:
            return False
        answer = dumps(self._answer(request, line)).encode("ascii")
        if line is not None:
            os.close(line)
        try:
            self._connection.sendall(_LENGTH.pack(len(answer)) + answer)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _answer(self, request: bytes, line: int | None) -> dict[str, Any]:
        try:
            wanted = loads(request)
            run_dir, index, place = wanted["run_dir"], wanted["index"], wanted.get("place", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            return {"error": "not a request"}
        if not isinstance(run_dir, str) or not isinstance(index, int) or not isinstance(place, str):
            return {"error": "not a request"}
        pid = self._spares.give(place, request, line) if place else None
        if pid is not None:
            return {"pid": pid}
        try:
            return {"pid": self._fork(run_dir, index, line, place)}
        except OSError as error:
            return {"error": f"fork: {error.strerror}"}

    def _fork(self, run_dir: str, index: int, line: int | None, place: str) -> int:
        """A new agent's pid; one of a ``place`` is kept, if there is room. OSError."""
        if not place or not self._spares.room:
            pid = os.fork()
            if pid == 0:
                be_agent(run_dir, index, None if index else self._bell, line, None, self._groups)
            return pid
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
            if pid == 0:
                be_agent(run_dir, index, self._bell, line, theirs.fileno(), self._groups)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._spares.add(place, pid, ours)
        return pid


def _receive(connection: _socket.socket) -> tuple[bytes | None, int | None]:
    """The next request and the descriptor that came with it; (None, None) at the end."""
    head, lines = b"", b""
    while len(head) < _LENGTH.size:
        try:
            piece, passed, _flags, _address = connection.recvmsg(
                _LENGTH.size - len(head), _socket.CMSG_LEN(_PASSED), _socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None, None
        if not piece:
            return None, None
        head += piece
        lines += b"".join(data for _level, _kind, data in passed)
    (size,) = _LENGTH.unpack(head)
    if size == herald.GOES:
        raise _Ended
    line = int.from_bytes(lines, sys.byteorder) if len(lines) == _PASSED else None
    return (_read_exactly(connection, size) if size <= _MAX_REQUEST else None), line


def _read_exactly(connection: _socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            piece = connection.recv(size - len(data))
        except ConnectionResetError:
            return None
        if not piece:
            return None
        data += piece
    return data


if __name__ == "__main__":
    serve(0)
    sys.exit(0)
