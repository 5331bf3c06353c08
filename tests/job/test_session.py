"""Connections between two ends on real sockets, friendly and not."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.job import address as addresses
from shim.job.link import Link, SessionLink, local_pair
from shim.job.listener import Listener
from shim.job.loop import Loop
from shim.job.session import ClientSession, Session, open_session
from shim.job.wire import BATCH, CHUNK, MAX_HELLO, MESSAGE, STDOUT, Plain, hello_frame
from tests.support import wait_until

SECRET = b"s" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Leader:
    """A listening end that keeps what it is told."""

    def __init__(self, loop: Loop, address: dict[str, Any]) -> None:
        server, self.address = addresses.listen(address)
        self.listener = Listener(loop, server, SECRET, self.opened)
        self.links: list[SessionLink] = []
        self.hellos: list[dict[str, Any]] = []
        self.got: list[Any] = []

    def opened(self, session: Session, hello: dict[str, Any]) -> None:
        link = SessionLink(session)
        link.on_message = self.got.append
        link.on_data = lambda *data: self.got.append(data)
        link.on_close = lambda reason: self.got.append("closed")
        self.hellos.append(hello)
        self.links.append(link)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[Loop]:
    loop = Loop(clock)
    yield loop
    loop.close()


@pytest.fixture(params=["unix", "long unix", "tcp", "tcp6"])
def leader(request: pytest.FixtureRequest, loop: Loop, tmp_path: Path) -> Iterator[Leader]:
    folder = tmp_path
    if request.param == "long unix":
        folder = tmp_path / ("d" * 120)
        folder.mkdir()
    if request.param == "tcp6":
        # A machine without IPv6 has no such address; IPv4 then stands for it, in the same test.
        address: dict[str, Any] = {"tcp": ["::1" if has_ipv6() else "127.0.0.1", 0]}
    elif request.param == "tcp":
        address = {"tcp": ["127.0.0.1", 0]}
    else:
        address = {"unix": str(folder / "leader.sock")}
    leader = Leader(loop, address)
    yield leader
    leader.listener.close()
    for link in leader.links:
        link.close()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def unix_leader(loop: Loop, tmp_path: Path) -> Iterator[Leader]:
    leader = Leader(loop, {"unix": str(tmp_path / "leader.sock")})
    yield leader
    leader.listener.close()
    for link in leader.links:
        link.close()


def turn_until(loop: Loop, condition: Callable[[], object], what: str) -> None:
    """As ``wait_until``, which would sleep between two turns of the loop."""
    end = time.monotonic() + 30
    loop.run_once(0.01)
    while not condition():
        assert time.monotonic() < end, f"not within 30 s: {what}"
        loop.run_once(0.01)


def client_of(loop: Loop, leader: Leader, secret: bytes = SECRET, **hello: Any) -> tuple[ClientSession, SessionLink]:
    session = open_session(loop, leader.address, secret, "node", **hello)
    return session, SessionLink(session)


def test_both_ways(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader, index=3)
    got: list[Any] = []
    link.on_message = got.append
    link.on_data = lambda *data: got.append(data)
    link.send({"do": "check-in", "name": "n\udcff"})
    link.send_data(BATCH, 0, STDOUT, b"\0\xff")
    turn_until(loop, lambda: len(leader.got) == 2, "a message and data at the leader")
    assert leader.got == [{"do": "check-in", "name": "n\udcff"}, (BATCH, 0, STDOUT, b"\0\xff")]
    assert leader.hellos[0]["index"] == 3
    assert leader.hellos[0]["role"] == "node"
    leader.links[0].send({"do": "start"})
    leader.links[0].send_data(1, 2, 0, b"")
    turn_until(loop, lambda: len(got) == 2, "a message and data at the client")
    assert got == [{"do": "start"}, (1, 2, 0, b"")]
    session.close()


def test_several_messages_at_once_before_and_after_the_handshake(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader)
    link.send_all([{"do": "a"}, {"do": "b"}])
    link.send_all([])
    turn_until(loop, lambda: len(leader.got) == 2, "what was said before there were keys")
    link.send_all([{"do": "c"}, {"do": "d"}])
    turn_until(loop, lambda: len(leader.got) == 4, "what was said after")
    assert [message["do"] for message in leader.got] == ["a", "b", "c", "d"]
    session.close()


def test_much_data_in_order(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader)
    for number in range(100):
        link.send_data(0, number, STDOUT, bytes((number,)) * CHUNK)
    turn_until(loop, lambda: len(leader.got) == 100, "all data")
    assert [(rank, data[0], len(data)) for _, rank, _, data in leader.got] == [(n, n, CHUNK) for n in range(100)]
    session.close()


def test_finish_sends_all_first(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader)
    link.send({"do": "check-in"})
    turn_until(loop, lambda: leader.got, "the check-in")
    session.send(MESSAGE, b'{"do":"big","text":"' + b"x" * 1000000 + b'"}')
    for _ in range(50):
        link.send_data(0, 0, STDOUT, b"x" * CHUNK)
    link.finish()
    turn_until(loop, lambda: leader.got[-1] == "closed", "the end at the leader")
    assert len(leader.got) == 2 + 50 + 1
    turn_until(loop, lambda: session.closed, "the end at the client")


def test_the_end_is_told(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader)
    ends: list[str] = []
    link.on_close = ends.append
    link.send({"do": "check-in"})
    turn_until(loop, lambda: leader.links, "the connection")
    leader.links[0].close()
    turn_until(loop, lambda: ends, "the end at the client")
    assert len(ends) == 1
    link.send({"do": "nothing"})  # no error


def test_a_wrong_key_gets_nowhere(loop: Loop, leader: Leader) -> None:
    session, link = client_of(loop, leader, secret=b"t" * 32)
    ends: list[str] = []
    link.on_close = ends.append
    link.send({"do": "check-in"})
    turn_until(loop, lambda: ends, "the leader's hanging up")
    assert leader.got == leader.links == []


def test_a_leader_without_the_key_is_not_believed(loop: Loop, tmp_path: Path) -> None:
    server, address = addresses.listen({"unix": str(tmp_path / "false.sock")})
    links: list[SessionLink] = []
    listener = Listener(loop, server, b"another secret", lambda session, hello: links.append(SessionLink(session)))
    link = SessionLink(open_session(loop, address, SECRET, "node"))
    ends: list[str] = []
    link.on_close = ends.append
    link.send({"do": "check-in"})
    turn_until(loop, lambda: ends, "the end")
    assert links == []
    listener.close()


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        ({"protocol": 2, "role": "node", "nonce": "00" * 16}, "protocol 2"),
        ({"role": "node", "nonce": "00" * 16}, "protocol None"),
        ({"protocol": 1, "role": "king", "nonce": "00" * 16}, "unknown role"),
        ({"protocol": 1, "role": "node", "nonce": "00" * 15}, ""),
        ({"protocol": 1, "role": "node", "nonce": "xx"}, ""),
        ({"protocol": 1, "role": "node"}, ""),
        ({"protocol": 1, "role": "node", "nonce": ["0"]}, ""),
        ({"protocol": 1, "role": ["node"], "nonce": "00" * 16}, "unknown role"),
    ],
)
def test_bad_hellos(loop: Loop, unix_leader: Leader, hello: dict[str, Any], answer: str) -> None:
    reply = reply_to(loop, unix_leader, hello_frame(hello))
    assert answer.encode() in reply
    assert (b"refused" in reply) == bool(answer)


@pytest.mark.parametrize(
    "stream",
    [
        (MAX_HELLO + 1).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\0\0\0\1J",
        b"\0\0\0\1D",
        b"\0\0\0\3J[]",
        hello_frame({"protocol": 1, "role": "node", "nonce": "00" * 16}) + b"\0\0\0\1J",
        hello_frame({"protocol": 1, "role": "node", "nonce": "00" * 16}) + b"\0\0\0\x20J" + b"x" * 31,
    ],
)
def test_strangers_are_dropped(loop: Loop, unix_leader: Leader, stream: bytes) -> None:
    assert b"refused" not in reply_to(loop, unix_leader, stream)
    assert unix_leader.links == []


def reply_to(loop: Loop, leader: Leader, stream: bytes) -> bytes:
    """All that the leader sends to a peer that sends ``stream``, up to the end of the connection."""
    reply = b""
    ended = False
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(leader.address["unix"])
        peer.sendall(stream)
        peer.setblocking(False)

        def read() -> bool:
            nonlocal reply, ended
            loop.run_once(0.01)
            try:
                data = peer.recv(65536)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                data = b""
            reply += data
            return not data

        wait_until(read, "the end of the connection")
    return reply


def test_silence_is_ended_after_ten_seconds(loop: Loop, unix_leader: Leader, clock: Clock) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(unix_leader.address["unix"])
        loop.run_once(1)
        clock.now += 9.9
        loop.run_once(0)
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)
        clock.now += 0.2
        loop.run_once(0)
        assert peer.recv(1) == b""


def test_a_client_whose_leader_never_answers(loop: Loop, clock: Clock, tmp_path: Path) -> None:
    server, address = addresses.listen({"unix": str(tmp_path / "deaf.sock")})
    link = SessionLink(open_session(loop, address, SECRET, "node"))
    ends: list[str] = []
    link.on_close = ends.append
    loop.run_once(0)
    clock.now += 10
    loop.run_once(0)
    assert ends == ["the peer did not answer"]
    server.close()


def test_refusal_reaches_the_client(loop: Loop, tmp_path: Path) -> None:
    here, there = socket.socketpair()
    here.setblocking(False)
    session = ClientSession(loop, here, SECRET, "srun", {})
    ends: list[str] = []
    session.on_close = ends.append
    there.sendall(hello_frame({"refused": "protocol 1 is not spoken here, only 2"}))
    turn_until(loop, lambda: ends, "the refusal")
    assert session.refused == "protocol 1 is not spoken here, only 2"
    there.close()


def test_nobody_there(loop: Loop, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        open_session(loop, {"unix": str(tmp_path / "none.sock")}, SECRET, "node")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can be there
        ends: list[str] = []
        try:
            session = open_session(loop, {"tcp": list(free.getsockname())}, SECRET, "node")
        except ConnectionRefusedError:
            return
        session.on_close = ends.append
        turn_until(loop, lambda: ends, "the refused connection")


def test_a_stale_socket_is_replaced(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "leader.sock"
    addresses.listen({"unix": str(path)})[0].close()
    assert path.exists()
    leader = Leader(loop, {"unix": str(path)})
    session, link = client_of(loop, leader)
    link.send({"do": "check-in"})
    turn_until(loop, lambda: leader.got, "the check-in")
    session.close()
    leader.links[0].close()
    leader.listener.close()


def test_address_file(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        addresses.read_address(str(tmp_path))
    addresses.write_address(str(tmp_path), {"tcp": ["127.0.0.1", 5]})
    assert addresses.read_address(str(tmp_path)) == {"tcp": ["127.0.0.1", 5]}
    assert os.listdir(tmp_path) == ["leader"]


def test_local_links_deliver_in_order_and_later(loop: Loop) -> None:
    one, other = local_pair(loop)
    got: list[Any] = []

    def answer(message: dict[str, Any]) -> None:
        got.append(message["do"])
        other.send({"do": "answer"})
        got.append("sent")

    other.on_message = answer
    other.on_data = lambda *data: got.append(data)
    other.on_close = lambda reason: got.append("closed")
    one.on_message = lambda message: got.append(message["do"])
    one.send({"do": "question"})
    one.send_data(0, 1, 2, b"x")
    assert got == []
    loop.run_once(0)
    loop.run_once(0)
    assert got == ["question", "sent", (0, 1, 2, b"x"), "answer"]
    one.send({"do": "question"})
    one.close()
    loop.run_once(0)
    assert got[4:] == ["question", "sent", "closed"]
    loop.run_once(0)
    assert got[7:] == []


def test_both_kinds_are_links(loop: Loop) -> None:
    assert issubclass(SessionLink, Link)
    assert all(isinstance(end, Link) for end in local_pair(loop))


def test_of_too_many_strangers_the_oldest_goes(
    loop: Loop, unix_leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.job.listener.MOST_STRANGERS", 3)
    known, _link = client_of(loop, unix_leader)
    turn_until(loop, lambda: unix_leader.links, "the first, which knows the key")
    strangers = [addresses.connect(unix_leader.address) for _ in range(5)]

    def ended(stranger: Any) -> bool:
        try:
            return bool(stranger.recv(1) == b"")
        except BlockingIOError:
            return False

    try:
        turn_until(loop, lambda: ended(strangers[1]), "the end of the second stranger")
        assert [ended(stranger) for stranger in strangers] == [True, True, False, False, False]
        late, _late_link = client_of(loop, unix_leader)
        turn_until(loop, lambda: len(unix_leader.links) == 2, "one more that knows the key")
        assert not known.closed
        late.close()
    finally:
        for stranger in strangers:
            stranger.close()
        known.close()


def test_who_opens_many_connections_ends_none_of_others(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.job.listener.MOST_STRANGERS", 8)
    leader = Leader(loop, {"tcp": ["127.0.0.1", 0]})
    slow = socket.socket()
    slow.bind(("127.0.0.3", 0))
    slow.connect(tuple(leader.address["tcp"]))
    slow.setblocking(False)
    strangers = []
    try:
        turn_until(loop, lambda: leader.listener._strangers, "the slow one")
        strangers += [addresses.connect(leader.address) for _ in range(40)]
        turn_until(loop, lambda: strangers[-1] and len(leader.listener._strangers) == 8, "the others")
        for _ in range(60):
            loop.run_once(0)
        session = ClientSession(loop, slow, SECRET, "node", {})
        turn_until(loop, lambda: leader.links, "the one that was slow to prove itself")
        session.close()
    finally:
        for stranger in strangers:
            stranger.close()
        slow.close()
        leader.listener.close()
        for link in leader.links:
            link.close()


def test_many_connect_before_the_leader_looks(tmp_path: Path) -> None:
    server, address = addresses.listen({"unix": str(tmp_path / "leader.sock")})
    clients = []
    try:
        clients += [addresses.connect(address) for _ in range(300)]
    finally:
        for client in clients:
            client.close()
        server.close()


def test_the_first_frame_is_empty(loop: Loop, unix_leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientSession, "_prove", lambda self: self._write(self._sealer.message({})))
    session, link = client_of(loop, unix_leader)
    closed: list[str] = []
    link.on_close = closed.append
    turn_until(loop, lambda: closed, "the end of the connection")
    assert not unix_leader.links
    session.close()


def test_a_connection_that_was_handed_over_is_a_controllers_at_once(loop: Loop, unix_leader: Leader) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        unix_leader.opened(unix_leader.listener.take(theirs.detach()), {"role": "controller"})
        ours.sendall(Plain().message({"do": "watch", "after": 0}))
        turn_until(loop, lambda: unix_leader.got, "the message")
        unix_leader.links[0].send({"do": "journal"})
        assert ours.recv(1000) == Plain().message({"do": "journal"})
    turn_until(loop, lambda: "closed" in unix_leader.got, "the end")
    assert unix_leader.got == [{"do": "watch", "after": 0}, "closed"]
