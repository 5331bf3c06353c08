"""The fork server as the controller sees it: started when first needed, started again when it is gone.

It forks agents that outlive it and the controller; all it is asked is ``{"run_dir", "index", "place"}``, all it answers ``{"pid"}``.
A leader is given its end of a connection right away: nobody need wait until it listens.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from shim.control import starter
from shim.control.backends.base import BackendError
from shim.core import jsonlite
from shim.job.agent import herald

_LENGTH = struct.Struct(">I")
_PIECE = 64 * 1024
TRIES = 8  # fork servers that may be gone without an answer to the same request
_REFUSALS = 2  # answers that an agent cannot be started
ROOT = str(Path(__file__).resolve().parents[4])
# -I -S: nothing of the user's Python settings and no site-packages; agents need the standard library alone.
# As text everything is UTF-8, whatever the locale: bytes stay bytes on their way from a command to a task.
_FLAGS = ("-I", "-S", "-X", "utf8")
# Not by way of runpy: what that imports would be in every agent's memory, a fifth of all.
_BOOT = f"""import sys; sys.path.insert(0, {ROOT!r})
from shim.job.agent import forkserver
forkserver.serve(0, sys.argv[1:])"""


class _Gone(Exception):
    """The fork server does not answer any more."""


class _ForkServer:
    """One that runs. Requests are answered in their order; nobody need wait for an answer with the next request."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self._process = process
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._answers: deque[asyncio.Future[dict[str, Any]]] = deque()
        self._heard = bytearray()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._readable)

    @classmethod
    async def start(cls) -> _ForkServer:
        """A new one. OSError."""
        ours, theirs = socket.socketpair()
        ties = starter.ties
        pulse = None if ties is None else herald.other_end(ties.life, os.O_RDONLY)
        tied = () if ties is None or pulse is None else (ties.bell, pulse)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *_FLAGS, "-c", _BOOT, *map(str, tied), *(ties.argv if ties is not None else ())),
                stdin=theirs.fileno(),
                start_new_session=True,
                pass_fds=tied,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if pulse is not None:
                os.close(pulse)
        return cls(process, ours)

    async def ask(self, request: dict[str, Any], line: socket.socket | None) -> dict[str, Any]:
        """The answer. _Gone: there will be none."""
        body = jsonlite.dumps(request).encode("ascii")
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        async with self._turn:
            if self._socket.fileno() < 0:
                raise _Gone("it was closed")
            self._answers.append(answer)
            try:
                await self._send(_LENGTH.pack(len(body)) + body, line)
            except OSError as problem:
                self._lost(str(problem))
        return await answer

    async def _send(self, data: bytes, line: socket.socket | None) -> None:
        passed = [] if line is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", line.fileno()))]
        while True:
            try:
                sent = self._socket.sendmsg([data], passed)
                break
            except BlockingIOError:
                await self._writable()
        await self._loop.sock_sendall(self._socket, data[sent:])

    async def _writable(self) -> None:
        there = self._loop.create_future()
        self._loop.add_writer(self._socket, _wake, there)
        try:
            await there
        finally:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            piece = self._socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError as problem:
            self._lost(str(problem))
            return
        if not piece:
            self._lost("it ended")
            return
        heard = self._heard
        heard += piece
        while len(heard) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(heard)
            end = _LENGTH.size + size
            if len(heard) < end:
                return
            said = bytes(heard[_LENGTH.size : end])
            del heard[:end]
            answer = self._answers.popleft()
            if not answer.done():  # else nobody waits for it any more
                answer.set_result(jsonlite.loads(said))

    def _lost(self, why: str) -> None:
        self._loop.remove_reader(self._socket)
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(_Gone(why))

    async def close(self) -> None:
        """Ends it; agents go on."""
        if self._socket.fileno() >= 0:
            self._lost("it is being ended")
            with suppress(OSError):  # else it finds out by itself that nobody was killed
                self._socket.send(_LENGTH.pack(herald.GOES))
            self._socket.close()
        await self._process.wait()  # it ends when its socket closes


def _wake(there: asyncio.Future[None]) -> None:
    if not there.done():
        there.set_result(None)


class Spawner:
    """Starts agents."""

    def __init__(self) -> None:
        self._server: _ForkServer | None = None
        self._starting = asyncio.Lock()

    async def spawn(self, run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
        """Starts agent ``index`` of the run in ``run_dir``; its pid. Raises BackendError (transient) if that fails.

        ``place``: a name for where the agent puts itself; one that is there after an earlier run may be used. ``line``: what the agent
        is given as its connection to the controller; it stays the caller's to close.
        """
        request = {"run_dir": run_dir, "index": index, "place": place}
        problem: object = None
        refused = 0
        for _ in range(TRIES):
            # A fork server that was killed is replaced. The agent's own lock makes a request that did get through
            # harmless when it is repeated, but not one that is given up.
            server = None
            try:
                server = await self._there()
                answer = await server.ask(request, line)
                if "pid" in answer:
                    return int(answer["pid"])
                problem = answer.get("error")
                refused += 1
                if refused == _REFUSALS:
                    break
            except (OSError, RuntimeError, _Gone) as fault:  # asyncio waits for a process's end in a thread
                problem = fault
                await self._drop(server)
        raise BackendError(f"no agent could be started: {problem}", transient=True)

    async def warm(self) -> None:
        """Starts the fork server now, so that the first job does not wait for it."""
        try:
            await self._there()
        except (OSError, RuntimeError):
            return  # the next spawn tries again and reports it

    async def close(self) -> None:
        """Ends the fork server; agents go on."""
        async with self._starting:
            await self._drop(self._server)

    async def _there(self) -> _ForkServer:
        async with self._starting:
            if self._server is None:
                self._server = await _ForkServer.start()
            return self._server

    async def _drop(self, server: _ForkServer | None) -> None:
        """Lets go of a server, unless it has been replaced already."""
        if server is not None and server is self._server:
            self._server = None
            await server.close()
