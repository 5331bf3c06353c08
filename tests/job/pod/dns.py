"""A small name server that counts questions and, like a cluster's, keeps its answers by kind of question."""

from __future__ import annotations

import socket
import struct
import threading

A, SRV = 1, 33


class NameServer:
    """Answers for ``names`` on 127.0.0.1; ``asked`` has (name, type, DO, CD) of every question.

    With ``keeps`` a "no such name" is given again to the same kind of question, whatever ``names`` says by then.
    """

    def __init__(self, keeps: bool = False) -> None:
        self.names: dict[str, str] = {}
        self.asked: list[tuple[str, int, bool, bool]] = []
        self._negative: set[tuple[str, int, bool, bool]] = set()
        self._keeps = keeps
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        ident, flags, _, _, _, extra = struct.unpack_from(">HHHHHH", query)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        (qtype,) = struct.unpack_from(">H", query, at + 1)
        body = query[12 : at + 5]
        do = bool(extra) and bool(struct.unpack_from(">I", query, at + 5 + 5)[0] & 0x8000)
        name = ".".join(labels)
        key = (name, qtype, do, bool(flags & 0x10))
        self.asked.append(key)
        address = self.names.get(name)
        if address is None or key in self._negative:
            if self._keeps:
                self._negative.add(key)
            return struct.pack(">HHHHHH", ident, 0x8183, 1, 0, 0, 0) + body
        found = b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 5, 4) + socket.inet_aton(address)
        if qtype not in (A, SRV):  # the name is there, such a record is not
            return struct.pack(">HHHHHH", ident, 0x8180, 1, 0, 0, 0) + body
        if qtype == SRV:
            target = struct.pack(">HHH", 0, 100, 6818) + body[:-4]
            record = b"\xc0\x0c" + struct.pack(">HHIH", SRV, 1, 5, len(target)) + target
            return struct.pack(">HHHHHH", ident, 0x8180, 1, 1, 0, 1) + body + record + found
        return struct.pack(">HHHHHH", ident, 0x8180, 1, 1, 0, 0) + body + found

    def forget(self) -> None:
        """What was kept has expired."""
        self._negative.clear()

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(30)
        self._socket.close()
