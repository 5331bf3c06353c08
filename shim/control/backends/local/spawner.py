"""The fork server as the controller sees it: started when first needed, started again when it is gone.

It forks agents that outlive it and the controller; all it is asked is ``{"run_dir", "index", "place"}``, all it answers ``{"pid"}``.
A leader is given its end of a connection right away: nobody need wait until it listens.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from shim.control.backends.base import BackendError

_LENGTH = struct.Struct(">I")
ROOT = str(Path(__file__).resolve().parents[4])
# -I -S: nothing of the user's Python settings and no site-packages; agents need the standard library alone.
# Not by way of runpy: what that imports would be in every agent's memory, a fifth of all.
_BOOT = f"import sys; sys.path.insert(0, {ROOT!r}); from shim.job.agent.forkserver import serve; serve(0)"


class Spawner:
    """Starts agents. Requests are answered in their order."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._socket: socket.socket
        self._turn = asyncio.Lock()

    async def spawn(self, run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
        """Starts agent ``index`` of the run in ``run_dir``; its pid. Raises BackendError (transient) if that fails.

        ``place``: a name for where the agent puts itself; one that is there after an earlier run may be used. ``line``: what the agent
        is given as its connection to the controller; it stays the caller's to close.
        """
        async with self._turn:
            for last in (False, True):
                try:
                    if self._writer is None:
                        await self._start()
                    answer = await self._ask({"run_dir": run_dir, "index": index, "place": place}, line)
                    return int(answer["pid"])
                except (OSError, EOFError, KeyError, ValueError) as problem:
                    # A fork server that was killed between two requests is replaced once. The agent's own lock makes a
                    # request that did get through harmless when it is repeated.
                    await self._drop()
                    if last:
                        raise BackendError(f"no agent could be started: {problem}", transient=True) from problem
        raise AssertionError("unreachable")

    async def warm(self) -> None:
        """Starts the fork server now, so that the first job does not wait for it."""
        async with self._turn:
            if self._writer is None:
                try:
                    await self._start()
                except OSError:
                    await self._drop()  # the next spawn tries again and reports it

    async def close(self) -> None:
        """Ends the fork server; agents go on."""
        async with self._turn:
            await self._drop()

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", _BOOT, stdin=theirs.fileno(), start_new_session=True, close_fds=True
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    async def _ask(self, request: dict[str, Any], line: socket.socket | None) -> dict[str, Any]:
        assert self._reader is not None
        assert self._writer is not None
        body = json.dumps(request).encode()
        # asyncio passes no descriptors. One request at a time is under way, so there is always room for the length.
        passed = [] if line is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", line.fileno()))]
        self._socket.sendmsg([_LENGTH.pack(len(body))], passed)
        self._writer.write(body)
        await self._writer.drain()
        try:
            (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            answer = json.loads(await self._reader.readexactly(size))
        except asyncio.IncompleteReadError as problem:
            raise EOFError("the fork server is gone") from problem
        if not isinstance(answer, dict) or "error" in answer:
            raise OSError(str(answer))
        return answer

    async def _drop(self) -> None:
        writer, process = self._writer, self._process
        self._reader = self._writer = self._process = None
        if writer is not None:
            writer.close()
            try:
                await writer.wait_closed()
            except OSError:
                pass  # it was gone before us
        if process is not None:
            await process.wait()  # it ends when its socket closes
