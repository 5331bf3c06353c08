"""An agent's process, from the fork on: a session of its own, its first run, and those that follow on the same place.

The fork server keeps it between two runs (``spares``). A run that failed, or that left its place otherwise than it found it, was the
last one: what is left then goes with the process, or is not its own.
"""

from __future__ import annotations

import _socket
import os
import sys

from shim.core.jsonlite import loads
from shim.job import dispositions
from shim.job.agent import cgroup
from shim.job.agent import main as agent_main
from shim.job.agent.agent import log
from shim.job.agent.kept_line import KeptLine
from shim.job.agent.place import Place
from shim.job.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal

_MOST_DESCRIPTORS = 4096  # the fork server itself has a handful
_MOST_REQUEST = 64 * 1024
_PASSED = 4  # bytes of a descriptor that is passed


def be_agent(
    run_dir: str, index: int, bell: int | None, line: int | None, control: int | None, groups: cgroup.Home | None = None
) -> NoReturn:
    """In the child: nothing inherited but the memory, the herald's ``bell`` (for leaders), a leader's connection, and the end of
    ``control`` by which the fork server has more for it to do (None: this run is the only one). ``groups``: where it has a control group.
    """
    code = 70  # as sysexits' EX_SOFTWARE: an error of ours
    group = ""
    try:
        os.setsid()
        dispositions.reset()
        _keep_only(bell, line, control)
        os.chdir("/")
        loop = Loop()
        group = "" if groups is None else groups.enter()
        place = Place(loop, group)
        code = agent_main.run(run_dir, index, bell, line, place)
        if control is not None:
            fork_server = _socket.socket(fileno=control)
            while code == 0 and place.untouched():
                kept, place.line = place.line, None
                run_dir, index, more = _next(fork_server, loop) if kept is None else _next_by(kept, fork_server, loop)
                if not run_dir:
                    break
                code = agent_main.run(run_dir, index, bell, more, place)
    except BaseException:
        # The last line of defence: an agent has nobody to print to.
        import traceback  # dear, and every agent would have it in its memory

        log(run_dir, index, traceback.format_exc())
    finally:
        try:
            if group:
                cgroup.leave(group)
        finally:
            os._exit(code)


def _keep_only(*kept: int | None) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    first = 3
    for fd in sorted(fd for fd in kept if fd is not None):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _MOST_DESCRIPTORS)


def _next_by(kept: KeptLine, fork_server: _socket.socket, loop: Loop) -> tuple[str, int, KeptLine]:
    """The same for an agent that its controller has kept, and the fork server knows as busy. It ends with either of them."""
    loop.on_signal(_signal.SIGTERM, loop.stop)
    loop.reader(fork_server.fileno(), loop.stop)
    if not kept.said and not kept.ended:
        loop.run()
    loop.begin_anew(kept.fd)
    return (*(kept.next_run() or ("", 0)), kept)


def _next(fork_server: _socket.socket, loop: Loop) -> tuple[str, int, int | None]:
    """Says that this agent is free, and waits: run folder, index and connection of its next run; no folder when there is none."""
    loop.on_signal(_signal.SIGTERM, loop.stop)
    loop.reader(fork_server.fileno(), loop.stop)
    try:
        fork_server.send(b"\0")
        loop.run()
        request, passed, _flags, _address = fork_server.recvmsg(
            _MOST_REQUEST, _socket.CMSG_LEN(_PASSED), _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT
        )
    except OSError:
        return "", 0, None  # the fork server was killed, or this agent is to end
    finally:
        loop.begin_anew()
    if not request:
        return "", 0, None
    wanted = loads(request)
    lines = b"".join(data for _level, _kind, data in passed)
    return wanted["run_dir"], wanted["index"], int.from_bytes(lines, sys.byteorder) if lines else None
