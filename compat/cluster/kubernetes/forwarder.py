"""The host's way to the API server: listens on 127.0.0.1, connects from inside the control plane's network namespace.

``forwarder.py PID PORT HOST PORT``: PID is a process in that namespace. A socket belongs to the namespace in which it was
made, so the listening one is opened first.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000


def enter_network(pid: int) -> None:
    """Move this process into the network namespace of ``pid`` (os.setns came with Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns failed")
    os.close(namespace)


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass on bytes, and the end of them; a connection that breaks is closed."""
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.write_eof()
    except OSError:
        target.close()


async def serve(listener: socket.socket, host: str, port: int) -> None:
    """Join every connection with one to ``host:port``."""

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, back), copy(there, writer))
        back.close()
        writer.close()

    async with await asyncio.start_server(joined, sock=listener) as server:
        await server.serve_forever()


def main(pid: int, port: int, host: str, inner_port: int) -> None:
    """Listen, enter the namespace, serve until killed."""
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        enter_network(pid)
        asyncio.run(serve(listener, host, inner_port))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
