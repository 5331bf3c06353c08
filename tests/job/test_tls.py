"""Connections between machines: nothing is said in the clear, and nobody on the way can make an end believe otherwise."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shim.job import address as addresses
from shim.job.link import SessionLink
from shim.job.listener import Listener
from shim.job.loop import Loop
from shim.job.session import ClientSession
from shim.job.tls import Tls
from shim.job.wire import BATCH, CHUNK, STDOUT, WireError
from tests.job.test_session import SECRET, turn_until

WORD = b"a very secret word"


class Wire:
    """A leader, a client, and the network between them, which hears and may change everything."""

    def __init__(self, loop: Loop, *, client: bool = True, leader: bool = True) -> None:
        self.loop = loop
        self.heard = {"up": b"", "down": b""}
        self.held = {"up": b"", "down": b""}
        self.change: dict[str, Any] = {"up": bytes, "down": bytes}
        server, where = addresses.listen({"tcp": ["127.0.0.1", 0]})
        self.got: list[Any] = []
        self.links: list[SessionLink] = []
        self.listener = Listener(loop, server, SECRET, self._opened, encrypted=leader)
        ours, self._inner = socket.socketpair()
        self._outer = socket.socket()
        self._outer.bind(("127.0.0.9", 0))  # another machine's
        self._outer.connect(tuple(where["tcp"]))
        for one in (ours, self._inner, self._outer):
            one.setblocking(False)
        loop.reader(self._inner.fileno(), lambda: self._carry("up", self._inner, self._outer))
        loop.reader(self._outer.fileno(), lambda: self._carry("down", self._outer, self._inner))
        self.session = ClientSession(loop, ours, SECRET, "node", {}, client)
        self.link = SessionLink(self.session)
        self.said: list[Any] = []
        self.closed: list[str] = []
        self.link.on_message = self.said.append
        self.link.on_data = lambda *data: self.said.append(data)
        self.link.on_close = self.closed.append

    def _opened(self, session: Any, _hello: Any) -> None:
        link = SessionLink(session)
        link.on_message = self.got.append
        link.on_data = lambda *data: self.got.append(data)
        link.on_close = lambda reason: self.got.append("closed")
        self.links.append(link)

    def _carry(self, way: str, here: socket.socket, there: socket.socket) -> None:
        data = here.recv(1 << 20)
        self.heard[way] += data
        self.held[way] += self.change[way](data)
        if not data:
            self.loop.reader(here.fileno(), None)
            there.shutdown(socket.SHUT_WR)
        elif self.held[way]:
            self.loop.writer(there.fileno(), lambda: self._pass_on(way, there))

    def _pass_on(self, way: str, there: socket.socket) -> None:
        self.held[way] = self.held[way][there.send(self.held[way]) :]
        if not self.held[way]:
            self.loop.writer(there.fileno(), None)

    def close(self) -> None:
        self.session.close()
        self.listener.close()
        for link in self.links:
            link.close()
        for one in (self._inner, self._outer):
            self.loop.forget(one.fileno())
            one.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_what_is_said_cannot_be_heard_on_the_way(loop: Loop) -> None:
    wire = Wire(loop)
    wire.link.send({"do": "step", "environment": {"TOKEN": WORD.decode()}})
    wire.link.send_data(BATCH, 0, STDOUT, WORD * 1000)
    turn_until(loop, lambda: len(wire.got) == 2, "what the client has said")
    assert wire.got == [{"do": "step", "environment": {"TOKEN": WORD.decode()}}, (BATCH, 0, STDOUT, WORD * 1000)]
    wire.links[0].send({"do": "launch", "environment": {"TOKEN": WORD.decode()}})
    turn_until(loop, lambda: wire.said, "what the leader has said")
    assert WORD not in wire.heard["up"] and WORD not in wire.heard["down"]
    assert len(wire.heard["up"]) > 1000 * len(WORD)
    wire.close()


def test_much_passes_in_both_directions(loop: Loop) -> None:
    wire = Wire(loop)
    pieces = [bytes([number]) * CHUNK for number in range(60)]
    for piece in pieces:
        wire.link.send_data(BATCH, 0, STDOUT, piece)
    turn_until(loop, lambda: len(wire.got) == 60, "all of it at the leader")
    for _step, _rank, _stream, piece in wire.got:
        wire.links[0].send_data(BATCH, 0, STDOUT, piece)
    turn_until(loop, lambda: len(wire.said) == 60, "all of it at the client")
    assert [one[3] for one in wire.said] == pieces
    done: list[bool] = []
    wire.links[0].finish(lambda: done.append(True))
    turn_until(loop, lambda: wire.closed, "the end")
    wire.close()


def test_a_leader_believes_nothing_that_others_could_read(loop: Loop) -> None:
    wire = Wire(loop, client=False)
    wire.link.send({"do": "check-in"})
    turn_until(loop, lambda: wire.closed, "the end of the connection")
    assert [one for one in wire.got if one != "closed"] == []
    wire.close()


def test_a_leader_says_nothing_before_it_is_secret(loop: Loop) -> None:
    wire = Wire(loop, client=False)
    turn_until(loop, lambda: wire.links, "the peer has proved itself")
    wire.links[0].send({"do": "launch", "token": WORD.decode()})
    for _ in range(50):
        loop.run_once(0.001)
    assert wire.said == [] and WORD not in wire.heard["down"]
    wire.close()


@pytest.mark.parametrize("way", ["up", "down"])
def test_who_changes_the_key_agreement_ends_the_connection(loop: Loop, way: str) -> None:
    wire = Wire(loop)
    wire.link.send({"do": "step", "token": WORD.decode()})
    seen = [0]

    def changed(data: bytes) -> bytes:
        seen[0] += len(data)
        if seen[0] < 400 or seen[0] - len(data) > 400:
            return data
        return data[:-1] + bytes([data[-1] ^ 1])

    wire.change[way] = changed
    turn_until(loop, lambda: wire.closed, "the end of the connection")
    assert [one for one in wire.got if one != "closed"] == []
    wire.close()


def test_a_machine_s_own_connections_need_none(loop: Loop) -> None:
    server, where = addresses.listen({"tcp": ["127.0.0.1", 0]})
    got: list[Any] = []
    links: list[SessionLink] = []

    def opened(session: Any, _hello: Any) -> None:
        links.append(SessionLink(session))
        links[0].on_message = got.append

    listener = Listener(loop, server, SECRET, opened, encrypted=True)
    session = ClientSession(loop, addresses.connect(where), SECRET, "srun", {})
    SessionLink(session).send({"do": "step"})
    turn_until(loop, lambda: got, "the message")
    session.close()
    listener.close()
    links[0].close()


def test_what_is_no_tls_ends_it() -> None:
    with pytest.raises(WireError, match="the encryption is broken"):
        Tls(server=True).feed(b"hello" * 20)
