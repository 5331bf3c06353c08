"""An exec stream against a WebSocket of the test's."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.kubernetes.api import pump
from shim.control.backends.kubernetes.api.access import Access, ApiError
from shim.control.backends.kubernetes.api.exec_stream import UNREACHED, ExecStream
from tests.control.backends.kubernetes.fakeapi import FakeServer, Request
from tests.support import wait_until

LIMIT = 30.0
SUCCESS = b'\x03{"status":"Success"}'


def exited(code: int) -> bytes:
    cause = {"reason": "ExitCode", "message": str(code)}
    return (
        b"\x03"
        + json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}).encode()
    )


@pytest.fixture
def run(server: FakeServer, tmp_path: Path) -> Callable[..., Any]:
    """Opens a stream to what ``program`` plays, and does ``work`` with it."""
    file = server.kubeconfig(tmp_path / "config")

    async def go(program: Callable[[Request], None], work: Callable[[ExecStream], Awaitable[Any]]) -> Any:
        def answer(request: Request) -> None:
            request.upgrade()
            program(request)

        server.answer = answer
        access = await Access.load(file)
        stream = await access.exec("mine", "x", "agent", ["cat", "-n"])
        try:
            return await asyncio.wait_for(work(stream), LIMIT)
        finally:
            await asyncio.wait_for(stream.close(), LIMIT)
            await access.close()

    return lambda program, work: asyncio.run(go(program, work))


async def everything(stream: ExecStream) -> bytes:
    found = []
    while data := await stream.read():
        found.append(data)
    return b"".join(found)


def test_what_is_asked(server: FakeServer, run: Any) -> None:
    run(lambda request: request.send_frame(SUCCESS), everything)
    (seen,) = server.seen
    assert (seen.where, seen.words) == ("/api/v1/namespaces/mine/pods/x/exec", ["cat", "-n"])
    assert {seen.query[name] for name in ("stdin", "stdout", "stderr")} == {"true"}
    assert seen.headers["Authorization"] == "Bearer secret"
    assert seen.headers["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io,v4.channel.k8s.io"


def test_output_then_the_exit_status(run: Any) -> None:
    def program(request: Request) -> None:
        request.send_frame(b"\x01")  # the server's first frames are empty
        request.send_frame(b"\x01out")
        request.send_frame(b"\x02" + b"e" * 5000)
        request.send_frame(b"\x02rr")
        request.send_frame(b"\x01put")
        request.send_frame(exited(7))
        request.send_frame(b"\x03\xe8", 8)

    async def work(stream: ExecStream) -> tuple[bytes, int, bytes]:
        return await everything(stream), await stream.status(), stream.stderr

    assert run(program, work) == (b"output", 7, b"e" * 4094 + b"rr")


def test_the_other_way_byte_for_byte(run: Any) -> None:
    def echo(request: Request) -> None:
        opcode, payload = request.receive_frame()
        while opcode != 8:
            assert payload[:1] == b"\0"
            request.send_frame(b"\x01" + payload[1:])
            opcode, payload = request.receive_frame()

    sent = bytes(range(256)) * 4000

    async def work(stream: ExecStream) -> bytes:
        writing = asyncio.create_task(stream.write(sent))
        found = b""
        while len(found) < len(sent):
            found += await stream.read()
        await writing
        return found

    assert run(echo, work) == sent


def test_a_ping_is_answered(run: Any) -> None:
    answers: list[tuple[int, bytes]] = []

    def program(request: Request) -> None:
        request.send_frame(b"abc", 9)
        answers.append(request.receive_frame())
        request.send_frame(SUCCESS)

    run(program, everything)
    assert answers == [(10, b"abc")]


def test_what_was_written_before_closing_is_sent(run: Any) -> None:
    found = bytearray()
    ended = threading.Event()

    def program(request: Request) -> None:
        opcode, payload = request.receive_frame()
        while opcode != 8:
            found.extend(payload[1:])
            opcode, payload = request.receive_frame()
        ended.set()

    async def work(stream: ExecStream) -> None:
        await stream.write(b"x" * 100_000)
        await stream.close()
        with pytest.raises(ApiError) as caught:
            await stream.status()
        assert caught.value.reason == "Closed"

    run(program, work)
    assert ended.wait(LIMIT)
    assert found == b"x" * 100_000


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_the_end_of_stdin(server: FakeServer, tmp_path: Path, protocol: str) -> None:
    def program(request: Request) -> None:
        request.upgrade(protocol)
        found = b""
        while (frame := request.receive_frame()) == (2, b"\0in"):
            found += frame[1][1:]
        if frame == (2, b"\xff\0"):
            request.send_frame(b"\x01all of " + found)
            request.send_frame(SUCCESS)

    server.answer = program

    async def go() -> bytes:
        access = await Access.load(server.kubeconfig(tmp_path / "config"))
        stream = await access.exec("mine", "x", "agent", ["cat"])
        await stream.write(b"in")
        stream.line.shutdown(socket.SHUT_WR)
        found = await asyncio.wait_for(everything(stream), LIMIT)
        await stream.close()
        await access.close()
        return found

    assert asyncio.run(go()) == (b"all of in" if protocol[1] == "5" else b"")


def test_a_program_that_does_not_read_holds_up_the_writer_only(run: Any) -> None:
    gate = threading.Event()

    def program(request: Request) -> None:
        request.send_frame(b"\x01hello")
        gate.wait(LIMIT)
        request.cut()

    async def work(stream: ExecStream) -> bytes:
        writing = asyncio.create_task(stream.write(b"x" * 64_000_000))
        said = await stream.read()
        assert not writing.done()
        gate.set()
        with pytest.raises(OSError):
            await writing
        with pytest.raises(ApiError):
            await stream.status()
        return said

    assert run(program, work) == b"hello"


def test_a_stream_that_is_stuck_in_both_directions_can_be_closed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "_FAREWELL", 0.2)
    gate = threading.Event()

    def program(request: Request) -> None:
        request.connection.settimeout(1.0)
        try:
            while True:
                request.send_frame(b"\x01" + b"x" * 32767)
        except OSError:
            gate.wait(LIMIT)

    async def work(stream: ExecStream) -> None:
        writing = asyncio.create_task(stream.write(b"x" * 64_000_000))
        await asyncio.sleep(1.5)
        writing.cancel()
        await asyncio.wait([writing])
        await stream.close()

    run(program, work)
    gate.set()


def test_a_silent_connection_is_pinged_and_given_up(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "_PING", 0.1)
    monkeypatch.setattr(pump, "_SILENCE", 0.5)
    seen: list[int] = []

    def program(request: Request) -> None:
        while (opcode := request.receive_frame()[0]) != 8:
            seen.append(opcode)

    async def work(stream: ExecStream) -> str:
        with pytest.raises(ApiError) as caught:
            await stream.status()
        return str(caught.value)

    assert run(program, work) == "the exec stream broke off: the API server does not answer"
    wait_until(lambda: seen, "a ping has come")
    assert set(seen) == {9}


def test_a_reader_that_waits_holds_up_the_program(run: Any) -> None:
    sent = 0

    def program(request: Request) -> None:
        nonlocal sent
        for _ in range(2000):
            request.send_frame(b"\x01" + b"x" * 32767)
            sent += 32767
        request.send_frame(SUCCESS)

    async def work(stream: ExecStream) -> int:
        found = len(await stream.read())
        before = -1
        while before != sent:  # it stops: the sockets between are full, nothing else grows
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 30_000_000
        found += len(await everything(stream))
        assert await stream.status() == 0
        return found

    assert run(program, work) == 2000 * 32767


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda request: request.cut(), "Connection"),
        (lambda request: request.send_frame(b"\x03nonsense"), "Connection"),
        (lambda request: request.send_frame(b"\x01x", 0), "Connection"),
        (lambda request: request.send_frame(b'\x03{"status": "Failure", "code": 500, "reason": "R"}'), "R"),
    ],
)
def test_ends_without_an_exit_status(run: Any, program: Callable[[Request], None], reason: str) -> None:
    async def work(stream: ExecStream) -> str:
        await everything(stream)
        with pytest.raises(ApiError) as caught:
            await stream.status()
        return caught.value.reason

    assert run(program, work) == reason


@pytest.mark.parametrize("status", [404, 400, 403, 500])
def test_a_refused_stream(server: FakeServer, tmp_path: Path, status: int) -> None:
    server.answer = lambda request: request.fail(status, "Word", "the message")

    async def go() -> ApiError:
        access = await Access.load(server.kubeconfig(tmp_path / "config"))
        with pytest.raises(ApiError) as caught:
            await access.exec("mine", "x", "agent", ["true"])
        await access.close()
        return caught.value

    error = asyncio.run(go())
    assert (error.status, error.reason, str(error)) == (status, "Word", "the message")


def test_no_server(server: FakeServer, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path / "config")
    server.stop()

    async def go() -> ApiError:
        access = await Access.load(file)
        with pytest.raises(ApiError) as caught:
            await access.exec("mine", "x", "agent", ["true"])
        await access.close()
        return caught.value

    assert asyncio.run(go()).reason == "Refused"


# A forwarded port


@pytest.fixture
def forward(server: FakeServer, tmp_path: Path) -> Callable[..., Any]:
    """Opens port 6818 of a pod, whose kubelet ``program`` plays, and does ``work`` with it."""
    file = server.kubeconfig(tmp_path / "config")

    async def go(program: Callable[[Request], None], work: Callable[[ExecStream], Awaitable[Any]]) -> Any:
        def answer(request: Request) -> None:
            request.upgrade("v4.channel.k8s.io")
            program(request)

        server.answer = answer
        access = await Access.load(file)
        stream = await access.forward("mine", "x", 6818)
        try:
            return await asyncio.wait_for(work(stream), LIMIT)
        finally:
            await asyncio.wait_for(stream.close(), LIMIT)
            await access.close()

    return lambda program, work: asyncio.run(go(program, work))


def test_a_port_carries_bytes_both_ways_without_its_number(server: FakeServer, forward: Any) -> None:
    def program(request: Request) -> None:
        for first in (b"\x00\xa2\x1a", b"\x01\xa2\x1a", b"\x00hel", b"\x00lo"):
            request.send_frame(first)
        assert request.receive_frame()[1] == b"\x00yes"
        request.send_frame(b"\x00bye")

    async def work(stream: ExecStream) -> bytes:
        heard = b""
        while heard != b"hello":
            heard += await stream.read()
        await stream.write(b"yes")
        return await everything(stream)

    assert forward(program, work) == b"bye"
    (seen,) = server.seen
    assert (seen.where, seen.query["ports"]) == ("/api/v1/namespaces/mine/pods/x/portforward", "6818")


def test_a_port_that_nobody_listens_at_ends_at_once(forward: Any) -> None:
    """Though the kubelet leaves the connection open."""
    left = threading.Event()

    def program(request: Request) -> None:
        for first in (b"\x00\xa2\x1a", b"\x01\xa2\x1a", b"\x01connection refused"):
            request.send_frame(first)
        left.wait(LIMIT)

    async def work(stream: ExecStream) -> str:
        assert await everything(stream) == b""
        with pytest.raises(ApiError) as caught:
            await stream.status()
        left.set()
        assert caught.value.reason == UNREACHED
        return caught.value.message

    assert forward(program, work) == "connection refused"
