"""The fork server: a process with everything loaded that an agent needs, so that an agent costs a fork and not an interpreter.

It is started with one end of a socket pair as descriptor 0. A request is a 4-byte big-endian length and JSON
``{"run_dir": path, "index": number}``; the answer, framed alike, is ``{"pid": number}`` or ``{"error": text}``. With the length of a
request a descriptor may be passed (SCM_RIGHTS): a leader's connection to whoever asks. It ends when the other end is closed, and at
once on TERM; agents go on. Standard library only, meant for ``python -I -S``.
"""

from __future__ import annotations

import gc
import os
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
from shim.job.agent import leader_herald, libc
from shim.job.agent import main as agent_main

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NoReturn
else:
    import _signal

_LENGTH = Struct(">I")
_MAX_REQUEST = 1024 * 1024


_PASSED = 4  # bytes of a descriptor that is passed
_MOST_DESCRIPTORS = 4096  # the fork server itself has a handful


def serve(socket: int) -> None:
    """Answer requests on descriptor ``socket`` until it is closed."""
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
    bell = leader_herald.begin()
    connection = _socket.socket(fileno=socket)
    while True:
        request, line = _receive(connection)
        if request is None:
            return
        answer = dumps(_answer(request, bell, line)).encode("ascii")
        if line is not None:
            os.close(line)
        try:
            _write_all(socket, _LENGTH.pack(len(answer)) + answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _answer(request: bytes, bell: int, line: int | None) -> dict[str, Any]:
    try:
        wanted = loads(request)
        run_dir, index = wanted["run_dir"], wanted["index"]
    except (ValueError, TypeError, KeyError):
        return {"error": "not a request"}
    if not isinstance(run_dir, str) or not isinstance(index, int):
        return {"error": "not a request"}
    try:
        pid = os.fork()
    except OSError as error:
        return {"error": f"fork: {error.strerror}"}
    if pid == 0:
        _be_agent(run_dir, index, *((bell, line) if index == 0 else (None, None)))
    return {"pid": pid}


def _be_agent(run_dir: str, index: int, bell: int | None, line: int | None) -> NoReturn:
    """In the child: an own session, nothing inherited but the memory (a leader: the herald's bell, its connection), then the agent."""
    code = 70  # as sysexits' EX_SOFTWARE: an error of ours
    try:
        os.setsid()
        for number in (_signal.SIGCHLD, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(number, _signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(null, target)
        first = 3
        for kept in sorted(fd for fd in (bell, line) if fd is not None):
            os.closerange(first, kept)
            first = kept + 1
        os.closerange(first, _MOST_DESCRIPTORS)
        os.chdir("/")
        code = agent_main.run(run_dir, index, bell, line)
    except BaseException:
        # The last line of defence: an agent has nobody to print to.
        import traceback  # dear, and every agent would have it in its memory

        agent_main.log(run_dir, index, traceback.format_exc())
    finally:
        os._exit(code)


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


def _write_all(socket: int, data: bytes) -> None:
    while data:
        data = data[os.write(socket, data) :]


if __name__ == "__main__":
    serve(0)
    sys.exit(0)
