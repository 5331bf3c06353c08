"""Finding a pod by its name without spoiling the name for everybody else.

A name that is asked for too early is answered "no such name", and the usual cluster DNS then says so to all for 30 s. It keeps
its answers by name, type, and the flags DO and CD of the question. The questions here are never the plain one that
programs ask (type A without flags): a too early one of ours costs them nothing. And as there are seven other kinds, one
that was answered too early leaves the others open: each kind is asked for a name at most once in 30 s.
"""

from __future__ import annotations

import _socket
import os
from _struct import error as StructError  # type: ignore[attr-defined]
from _struct import pack, unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.loop import Loop, Timer

    Server = tuple[str, int]

A, AAAA, SRV, OPT = 1, 28, 33, 41
_RECURSION, _CD = 0x0100, 0x0010
_DO = 0x8000
_SIZE = 1232  # bytes of an answer: fits any network
# Type, DO, CD. The answer to SRV carries the addresses of the name that it leads to, of both families.
KINDS = (
    (A, True, False),
    (A, False, True),
    (SRV, False, False),
    (A, True, True),
    (SRV, True, False),
    (SRV, False, True),
    (SRV, True, True),
)
TIMES = (0.0, 0.15, 0.5, 1.5, 5.0, 12.0, 20.0)  # seconds from the first question: one kind each
KEPT = 30.5  # seconds after which a kind may be asked again
PACE = 5.0  # seconds between questions from then on
_ANSWER_LIMIT = 4.0  # seconds that an answer may take


def servers_of(path: str) -> list[Server]:
    """The name servers in a resolv.conf, at most three; ``127.0.0.1#5353`` names a port. The local one where none is named."""
    found = []
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) > 1 and words[0] == "nameserver":
                    host, _, port = words[1].partition("#")
                    found.append((host, int(port) if port.isdigit() else 53))
    except OSError:
        pass  # as the C library does
    return found[:3] or [("127.0.0.1", 53)]


def question(ident: int, name: str, kind: tuple[int, bool, bool]) -> bytes:
    """A query for ``name``. ValueError: no name of DNS."""
    qtype, do, cd = kind
    encoded = b""
    for label in name.rstrip(".").split("."):
        part = label.encode("ascii")
        if not 0 < len(part) < 64:
            raise ValueError(f"no name of DNS: {name}")
        encoded += bytes((len(part),)) + part
    query = pack(">HHHHHH", ident, _RECURSION | (_CD if cd else 0), 1, 0, 0, 1 if do else 0)
    query += encoded + b"\0" + pack(">HH", qtype, 1)
    if do:
        query += b"\0" + pack(">HHIH", OPT, _SIZE, _DO, 0)
    return query


def addresses_in(answer: bytes, ident: int, name: str) -> list[str]:
    """The addresses of ``name`` in an answer to the question ``ident``; none when it is no such answer, or broken."""
    wanted = name.rstrip(".").lower().encode("ascii")
    found = []
    try:
        number, flags, questions, *counts = unpack_from(">HHHHHH", answer)
        if number != ident or not flags & 0x8000:
            return []
        at = 12
        for _ in range(questions):
            at = _name(answer, at)[1] + 4
        for _ in range(sum(counts)):
            owner, at = _name(answer, at)
            rtype, _class, _ttl, size = unpack_from(">HHIH", answer, at)
            at += 10
            data = answer[at : at + size]
            at += size
            if owner.lower() == wanted and len(data) == size:
                if rtype == A and size == 4:
                    found.append(_socket.inet_ntop(_socket.AF_INET, data))
                elif rtype == AAAA and size == 16:
                    found.append(_socket.inet_ntop(_socket.AF_INET6, data))
    except (ValueError, IndexError, StructError):
        return []
    return found


def _name(data: bytes, at: int) -> tuple[bytes, int]:
    """The name at ``at`` and where it ends. ValueError for one that never does."""
    labels = []
    end = 0
    for _ in range(128):
        size = data[at]
        if size >= 0xC0:
            end = end or at + 2
            at = (size & 0x3F) << 8 | data[at + 1]
        elif size:
            labels.append(data[at + 1 : at + 1 + size])
            at += 1 + size
        else:
            return b".".join(labels), end or at + 1
    raise ValueError("a name without end")


class Lookup:
    """Asks until ``name`` has an address: ``on_found(address)`` once, from the loop. ``close`` at any time."""

    def __init__(self, loop: Loop, servers: list[Server], name: str, on_found: Callable[[str], None]) -> None:
        self._loop = loop
        self._servers = servers
        self._name = name
        self._on_found = on_found
        self._asked = 0
        self._begun = loop.now()
        self._last = [0.0] * len(KINDS)
        self._open: dict[_socket.socket, Timer] = {}
        self._timer: Timer | None = loop.call_later(TIMES[0], self._ask)

    def close(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for sock in list(self._open):
            self._drop(sock)

    def _ask(self) -> None:
        kind = self._asked % len(KINDS)
        self._last[kind] = now = self._loop.now()
        server = self._servers[self._asked % len(self._servers)]
        self._asked += 1
        self._timer = self._loop.call_at(self._next(now), self._ask)
        ident = int.from_bytes(os.urandom(2), "big")
        family = _socket.AF_INET6 if ":" in server[0] else _socket.AF_INET
        try:
            sock = _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        except OSError:
            return
        try:
            sock.connect(server)  # other senders' answers are then dropped by the kernel
            sock.send(question(ident, self._name, KINDS[kind]))
        except OSError:
            sock.close()
            return
        self._open[sock] = self._loop.call_later(_ANSWER_LIMIT, lambda: self._drop(sock))
        self._loop.reader(sock.fileno(), lambda: self._answered(sock, ident))

    def _next(self, now: float) -> float:
        if self._asked < len(TIMES):
            return self._begun + TIMES[self._asked]
        return max(now + PACE, self._last[self._asked % len(KINDS)] + KEPT)

    def _answered(self, sock: _socket.socket, ident: int) -> None:
        try:
            answer = sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock)  # nobody listens there (now)
            return
        found = addresses_in(answer, ident, self._name)
        if found:
            self.close()
            self._on_found(found[0])
        elif len(answer) > 2 and answer[:2] == pack(">H", ident):
            self._drop(sock)

    def _drop(self, sock: _socket.socket) -> None:
        timer = self._open.pop(sock, None)
        if timer is not None:
            timer.cancel()
            self._loop.forget(sock.fileno())
            sock.close()
