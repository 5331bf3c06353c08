"""Finding a pod by its name without spoiling the name for everybody else.

A name that is asked for too early is answered "no such name", and the usual cluster DNS then says so to all for 30 s. It keeps
its answers by name, type, and the flags DO and CD of the question. The questions here are never the plain ones that
programs ask (types A and AAAA without flags): a too early one of ours costs them nothing.

Whether the name is there is found out by asking for types that it has not: "no such name" and "no such record" are different
answers. Each ``SLOT`` of time has a kind of such questions of its own, for all pods, so that what one of them asks too early does not
keep the others from hearing the truth in the next slot; after 30 s they begin again. Only when the name is there its address is
asked for. A server that does not know such types is asked for the address every ``PACE`` seconds.
"""

from __future__ import annotations

import _socket
import os
from _struct import error as StructError  # type: ignore[attr-defined]
from _struct import pack, unpack_from
from time import time

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
    (AAAA, True, False),
    (A, False, True),
    (SRV, False, False),
    (A, True, True),
    (SRV, True, False),
    (SRV, False, True),
    (SRV, True, True),
)
# Types for private use: no pod has such records, and no program asks for them.
PROBES = tuple([(qtype, do, cd) for qtype in range(65280, 65360) for do in (False, True) for cd in (False, True)])
SLOT = 0.1  # seconds; all slots together are longer than an answer is kept
KEPT = 30.5  # seconds after which a kind may be asked again
PACE = 5.0  # seconds between questions for the address of a name of which it is not known whether it is there
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


def is_there(answer: bytes, ident: int) -> bool:
    """Whether an answer to the question ``ident`` says that the name exists, with or without such records."""
    return len(answer) >= 12 and answer[:2] == pack(">H", ident) and answer[2] & 0x80 != 0 and answer[3] & 0x0F == 0


class Lookup:
    """Asks until ``name`` has an address: ``on_found(address)`` once, from the loop. ``close`` at any time. ``wall`` gives the epoch."""

    def __init__(
        self,
        loop: Loop,
        servers: list[Server],
        name: str,
        on_found: Callable[[str], None],
        wall: Callable[[], float] = time,
    ) -> None:
        self._loop = loop
        self._servers = servers
        self._name = name
        self._on_found = on_found
        self._wall = wall
        self.answered = False  # a server has said something, if only that there is no such name
        self._count = 0
        self._last = [loop.now() - KEPT] * len(KINDS)  # when each was asked
        self._open: dict[_socket.socket, Timer] = {}
        self._timers: list[Timer] = [loop.call_later(0.0, self._probe), loop.call_later(PACE, self._ask_anyway)]

    def close(self) -> None:
        """Ask no more."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        for sock in list(self._open):
            self._drop(sock)

    def _probe(self) -> None:
        slot, into = divmod(self._wall(), SLOT)
        self._timers[0] = self._loop.call_later(SLOT - into + 0.01, self._probe)
        self._ask(self._next_server(), PROBES[int(slot) % len(PROBES)], probing=True)

    def _ask_anyway(self) -> None:
        self._timers[1] = self._loop.call_later(PACE, self._ask_anyway)
        self._ask_address(self._next_server())

    def _next_server(self) -> Server:
        self._count += 1
        return self._servers[self._count % len(self._servers)]

    def _ask_address(self, server: Server) -> None:
        now = self._loop.now()
        for place, kind in enumerate(KINDS):
            if now - self._last[place] >= KEPT:
                self._last[place] = now
                self._ask(server, kind)
                return

    def _ask(self, server: Server, kind: tuple[int, bool, bool], probing: bool = False) -> None:
        ident = int.from_bytes(os.urandom(2), "big")
        family = _socket.AF_INET6 if ":" in server[0] else _socket.AF_INET
        try:
            sock = _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        except OSError:
            return
        try:
            sock.connect(server)  # other senders' answers are then dropped by the kernel
            sock.send(question(ident, self._name, kind))
        except OSError:
            sock.close()
            return
        self._open[sock] = self._loop.call_later(_ANSWER_LIMIT, lambda: self._drop(sock))
        self._loop.reader(sock.fileno(), lambda: self._answered(sock, server, ident, probing))

    def _answered(self, sock: _socket.socket, server: Server, ident: int, probing: bool) -> None:
        try:
            answer = sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock)  # nobody listens there (now)
            return
        self.answered = True
        found = addresses_in(answer, ident, self._name)
        if found:
            self.close()
            self._on_found(found[0])
        elif len(answer) > 2 and answer[:2] == pack(">H", ident):
            self._drop(sock)
            if probing and is_there(answer, ident):
                self._ask_address(server)

    def _drop(self, sock: _socket.socket) -> None:
        timer = self._open.pop(sock, None)
        if timer is not None:
            timer.cancel()
            self._loop.forget(sock.fileno())
            sock.close()
