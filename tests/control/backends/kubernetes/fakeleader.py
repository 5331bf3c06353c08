"""A leader that says what the test has it say, over the agent protocol."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from shim.job import kdf, wire


class FakeLeader:
    """``heard``: the messages of the controller."""

    def __init__(self, key: bytes) -> None:
        self.heard: list[dict[str, Any]] = []
        self.staged = b""
        self.lines: list[dict[str, Any]] = []
        self.asking: dict[str, Any] = {}
        self._key = key
        self._serving: set[asyncio.Task[None]] = set()
        self._peers: list[tuple[wire.Sealer, asyncio.StreamWriter]] = []

    def serve(self, line: socket.socket) -> None:
        """Answers at this end of a connection."""
        task = asyncio.get_running_loop().create_task(self._serve(line))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def line(self, kind: str, **fields: Any) -> None:
        """Writes a line of the journal."""
        line = {"n": len(self.lines) + 1, "at": 1.0, "kind": kind, **fields}
        self.lines.append(line)
        self.say({"do": "journal", "line": line})

    def ask(self, nonce: str, record: str, pods: list[dict[str, Any]], run: int = 0, asked: float = 5.0) -> None:
        """Its gang, of these pods, has met: it asks now, and every controller that comes."""
        members = [
            {
                "index": index,
                "pod": pod["metadata"]["uid"],
                "node": pod["spec"]["nodeName"],
                "boot": f"boot-{pod['spec']['nodeName']}",
            }
            for index, pod in enumerate(pods)
        ]
        ask = {"record": record, "run": run, "nonce": nonce, "members": members, "asked": asked}
        self.asking = {"do": "ask", "ask": ask}
        self.say(self.asking)

    @property
    def answers(self) -> list[tuple[str, bool]]:
        return [(message["nonce"], message["granted"]) for message in self.asked("answer")]

    def say(self, message: dict[str, Any]) -> None:
        for sealer, writer in self._peers:
            writer.write(sealer.message(message))

    def print(self, data: bytes, stream: int = wire.STDOUT) -> None:
        """Sends a part of the job's output."""
        for sealer, writer in self._peers:
            writer.write(sealer.seal(wire.DATA, wire.data_payload(wire.BATCH, 0, stream, data)))

    def print_file(self, number: int, data: bytes) -> None:
        """Sends a part of a step's file."""
        for sealer, writer in self._peers:
            writer.write(sealer.seal(wire.DATA, wire.data_payload(wire.FILES, number, wire.STDOUT, data)))

    def asked(self, do: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message["do"] == do]

    async def _serve(self, line: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=line)
        splitter, bodies = wire.Splitter(), list[bytes]()

        async def body() -> bytes:
            while not bodies:
                data = await reader.read(65536)
                if not data:
                    raise EOFError
                bodies.extend(splitter.feed(data))
            return bodies.pop(0)

        hello = wire.parse_message((await body())[1:])
        mine = b"n" * 16
        keys = kdf.session_keys(self._key, bytes.fromhex(hello["nonce"]), mine, "controller")
        opener, sealer = wire.Opener(keys[0]), wire.Sealer(keys[1])
        writer.write(wire.hello_frame({"protocol": wire.PROTOCOL, "nonce": mine.hex()}))
        splitter.limit = wire.MAX_FRAME
        peer = (sealer, writer)
        try:
            opener.open(await body())
            while True:
                kind, payload = opener.open(await body())
                if kind == wire.DATA:
                    self.staged += wire.split_data(payload)[3]
                    continue
                message = wire.parse_message(payload)
                self.heard.append(message)
                if message["do"] == "watch":
                    self._peers.append(peer)
                    if self.asking:
                        writer.write(sealer.message(self.asking))
                    for told in self.lines[message["after"] :]:
                        writer.write(sealer.message({"do": "journal", "line": told}))
        except (EOFError, OSError):
            pass  # the controller has gone
        finally:
            if peer in self._peers:
                self._peers.remove(peer)
            writer.close()
