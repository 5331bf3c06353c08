"""How srun on this machine reaches a leader in a pod: a socket here, each connection to it a stream there.

The run folder looks like one of the local backend's (``key``, ``leader``), so srun need not know the difference. Bytes only: the
agent protocol's frames prove who speaks.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.job.address import FILE

_CHUNK = 65536


class Proxy:
    """The listening socket of one run."""

    def __init__(self, folder: str, dial: Callable[[], Any]) -> None:
        self._folder = folder
        self._dial = dial
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begins to listen. OSError."""
        path = os.path.join(self._folder, "leader.sock")
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A socket address holds 107 bytes; a folder's descriptor makes any path short.
            self._server = await asyncio.start_unix_server(self._connected, f"/proc/self/fd/{descriptor}/leader.sock")
        finally:
            os.close(descriptor)
        os.chmod(path, 0o600)
        draft = os.path.join(self._folder, FILE + ".new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"unix": path}, file)
        os.replace(draft, os.path.join(self._folder, FILE))

    async def close(self) -> None:
        """Listens no more; connections end."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            line = await self._dial()
            there, back = await asyncio.open_connection(sock=line)
            try:
                await _both(_pump(reader, back), _pump(there, writer))
            finally:
                back.close()
        except (OSError, ApiError):
            pass  # srun sees the end of the connection, and looks again whether the job is there
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


async def _both(*ways: Any) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # What the leader said last is on its way: the other direction may finish it.
        await asyncio.wait(tasks, timeout=1.0)
    finally:
        for task in tasks:
            task.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        pass  # the other end is gone: so is this one
