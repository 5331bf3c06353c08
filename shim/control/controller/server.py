"""The socket: who may connect, which protocol is spoken, which operation answers."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from shim.control.channel import ChannelClosed
from shim.control.controller import messages
from shim.control.controller.connection import Connection
from shim.control.controller.counting import Busy
from shim.control.controller.world import log
from shim.control.protocol import FOR_OPERATORS, PROTOCOL
from shim.core.errors import ACCESS_DENIED, ShimError

Operation = Callable[[Connection, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]

NO_OPERATOR = (
    "error: you are no operator here: the user whose jobs these are names them in the configuration (operators)"
)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Server:
    """Answers its owner, root and the operators. Calls ``idle`` whenever the last connection is closed.

    ``asked`` is told each operation that was done, for whom, and for how many seconds it worked.
    """

    def __init__(
        self,
        operations: dict[str, Operation],
        idle: Callable[[], None],
        operator: Callable[[int], bool],
        asked: Callable[[str, int, float], None] = lambda op, uid, seconds: None,
    ) -> None:
        self._operations = operations
        self._operator = operator
        self._idle = idle
        self._asked = asked
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self, sock: socket.socket) -> None:
        """Begins to accept on a listening socket, of which there may be several."""
        self._servers.append(await asyncio.start_unix_server(self._accepted, sock=sock))

    @property
    def busy(self) -> bool:
        """Whether a client is connected."""
        return bool(self._clients)

    @property
    def serving(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    async def close(self) -> None:
        """Accepts nobody any more and ends all connections: their clients ask the next controller."""
        for server in self._servers:
            server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the controller ends
        finally:
            self._clients.discard(task)
            writer.close()
            if not self._clients:
                self._idle()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        pid, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        operator = self._operator(uid)
        connection = Connection(reader, writer, uid, gid, pid, admin=operator)
        try:
            if uid != os.getuid() and not operator:
                await connection.send(
                    refused(f"error: {ACCESS_DENIED}", NO_OPERATOR)
                )  # and nothing is read of whoever that is
                return
            message = await connection.request()
            if uid not in (os.getuid(), 0) and message.get("op") not in FOR_OPERATORS:
                await connection.send(
                    refused(f"error: {ACCESS_DENIED}", f"error: {message.get('op')} is not for operators")
                )
                return
            await connection.send(await self._answer(connection, message))
        except ChannelClosed:
            return  # who does not wait for an answer gets none

    async def _answer(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        if message.get("protocol") != PROTOCOL:
            return refused(
                f"error: the controller speaks protocol {PROTOCOL}, this command {message.get('protocol')}: they are of "
                "different versions",
                "error: end the running controller with: shim controller stop",
            )
        operation = self._operations.get(str(message.get("op")))
        if operation is None:
            return refused(f"error: the controller does not know {message.get('op')!r}")
        try:
            messages.check(str(message.get("op")), message)
            busy = Busy(operation(connection, message))
            try:
                return {"ok": True, **await busy}
            finally:
                self._asked(str(message.get("op")), connection.uid, busy.seconds)
        except ShimError as error:
            return {"ok": False, "lines": list(error.lines), "code": error.code}
        except ChannelClosed:
            raise
        except Exception as error:  # an answer, whatever it was: who gets none would ask again and again
            log.exception("%s", message.get("op"))
            return refused(f"error: internal error in the controller: {type(error).__name__}: {error}")


def refused(*lines: str) -> dict[str, Any]:
    """The reply of a refusal."""
    return {"ok": False, "lines": list(lines), "code": 1}


async def refuse_all(sock: socket.socket, lines: tuple[str, ...], seconds: float) -> None:
    """Answers everybody with ``lines`` for a while: a controller that cannot work says so on the terminals it was started for."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, os.getuid(), os.getgid())
        try:
            await connection.request()
            await connection.send(refused(*lines))
        except ChannelClosed:
            pass
        await connection.close()

    server = await asyncio.start_unix_server(accepted, sock=sock)
    await asyncio.sleep(seconds)
    server.close()
