"""A way to a server that can fall silent, as a stopped server does: what is sent arrives nowhere, and nobody hangs up.

A process of its own (``road.py PORT``): it says its port, USR1 silences it and USR2 restores it; each is answered by a line.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Road:
    """Carries connections from ``port`` to a port of this machine, unless it is silent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def silence(self) -> None:
        """Nothing goes through any more; new connections are taken."""
        self._process.send_signal(signal.SIGUSR1)
        assert self._line() == "silent"

    def restore(self) -> None:
        """What was sent meanwhile arrives."""
        self._process.send_signal(signal.SIGUSR2)
        assert self._line() == "open"

    def close(self) -> None:
        """Breaks all connections, and refuses new ones."""
        self._process.kill()
        self._process.wait()


@contextmanager
def road_to(port: int) -> Iterator[Road]:
    """A road for one test."""
    with subprocess.Popen([sys.executable, __file__, str(port)], stdout=subprocess.PIPE, text=True) as process:
        road = Road(process)
        try:
            yield road
        finally:
            road.close()


async def _serve(goal: int) -> None:
    passable = asyncio.Event()
    passable.set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await passable.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # an end has gone
        finally:
            writer.close()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await passable.wait()
        there = await asyncio.open_connection("127.0.0.1", goal)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    def told(number: int) -> None:
        if number == signal.SIGUSR1:
            passable.clear()
        else:
            passable.set()
        print("open" if passable.is_set() else "silent", flush=True)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, told, number)
    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
