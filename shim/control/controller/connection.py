"""One client's connection as an operation sees it: who asks, events on the way, and whether the client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shim.control import channel
from shim.control.channel import ChannelClosed
from shim.control.protocol import MAX_MESSAGE


class Connection:
    """A client. ``uid``, ``gid`` and ``pid`` are the kernel's word, not the client's. ``admin``: it may do what Slurm leaves to operators."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        uid: int,
        gid: int,
        pid: int = 0,
        *,
        admin: bool = False,
    ) -> None:
        self.pid = pid
        self.uid = uid
        self.gid = gid
        self.admin = admin
        self._reader = reader
        self._writer = writer

    async def request(self) -> dict[str, Any]:
        """The client's request. Raises ChannelClosed if it does not come or is none."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            if size > MAX_MESSAGE:
                raise ChannelClosed("message too long")
            return channel.unpack(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ChannelClosed(str(error)) from None

    async def send(self, message: dict[str, Any]) -> None:
        """An event or the reply. Raises ChannelClosed if the client is gone."""
        try:
            self._writer.write(channel.pack(message))
            await self._writer.drain()
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def tell(self, message: dict[str, Any]) -> None:
        """An event beside those that somebody is sending: it does not wait until the client has taken it."""
        self._writer.write(channel.pack(message))

    async def gone(self) -> None:
        """Returns when the client has closed its end: after its request it has nothing more to say."""
        try:
            while await self._reader.read(4096):
                pass
        except OSError:
            return

    @contextmanager
    def watched(self) -> Iterator[asyncio.Future[None]]:
        """While the client is waited for: a future that is done when it is gone."""
        gone = asyncio.ensure_future(self.gone())
        try:
            yield gone
        finally:
            gone.cancel()

    async def close(self) -> None:
        """Ends the connection."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # it was gone before
