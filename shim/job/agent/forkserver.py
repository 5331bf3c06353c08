"""The fork server: a process with everything loaded that an agent needs, so that an agent costs a fork and not an interpreter.

It is started with one end of a socket pair as descriptor 0. A request is a 4-byte big-endian length and JSON
``{"run_dir": path, "index": number}``; the answer, framed alike, is ``{"pid": number}`` or ``{"error": text}``. It ends when the other end
is closed, and at once on TERM; agents go on. Standard library only, meant for ``python -I -S``.
"""

from __future__ import annotations

import gc
import os
import sys
from _struct import Struct

# OpenSSL's SHA-256 and ctypes are loaded here once for all agents; ``kdf`` and ``libc`` then find them.
try:
    import _hashlib  # noqa: F401
except ImportError:
    pass  # kdf has the interpreter's own
try:
    import ctypes  # noqa: F401
except ImportError:
    pass  # libc says so when it is asked for something

import encodings.ascii  # noqa: F401  # loaded when a file is opened with it
import resource  # noqa: F401
import traceback

from shim.core.jsonlite import dumps, loads
from shim.job.agent import main as agent_main

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable, NoReturn
else:
    import _signal

_LENGTH = Struct(">I")
_MAX_REQUEST = 1024 * 1024


def serve(socket: int, run: Callable[[str, int], int] = agent_main.run) -> None:
    """Answer requests on descriptor ``socket`` until it is closed. ``run`` is what an agent does: (run_dir, index) -> exit code."""
    # Agents are not waited for: the kernel takes them away when they end.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    for number in (_signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)  # a terminal's: the controller's business
    # Frozen objects are never touched by a collection, so agents share their pages.
    gc.collect()
    gc.freeze()
    while True:
        request = _receive(socket)
        if request is None:
            return
        answer = dumps(_answer(socket, request, run)).encode("ascii")
        try:
            _write_all(socket, _LENGTH.pack(len(answer)) + answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _answer(socket: int, request: bytes, run: Callable[[str, int], int]) -> dict[str, Any]:
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
        _be_agent(run_dir, index, run)
    return {"pid": pid}


def _be_agent(run_dir: str, index: int, run: Callable[[str, int], int]) -> NoReturn:
    """In the child: an own session, nothing inherited but the memory, then the agent."""
    code = 70  # as sysexits' EX_SOFTWARE: an error of ours
    try:
        os.setsid()
        for number in (_signal.SIGCHLD, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(number, _signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(null, target)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                _close(int(name))
        os.chdir("/")
        code = run(run_dir, index)
    except BaseException:
        # The last line of defence: an agent has nobody to print to.
        agent_main.log(run_dir, index, traceback.format_exc())
    finally:
        os._exit(code)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return  # that of the folder just read


def _receive(socket: int) -> bytes | None:
    head = _read_exactly(socket, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    return _read_exactly(socket, size) if size <= _MAX_REQUEST else None


def _read_exactly(socket: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            piece = os.read(socket, size - len(data))
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
