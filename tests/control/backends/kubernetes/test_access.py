"""Requests: what is sent, what is repeated, how failures are told."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.kubernetes.api import access as module
from shim.control.backends.kubernetes.api.access import Access, ApiError
from shim.control.backends.kubernetes.api.errors import from_answer
from tests.control.backends.kubernetes.fakeapi import FakeServer, Request

POD = "/api/v1/namespaces/mine/pods/x"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def ask(server: FakeServer, tmp_path: Path) -> Callable[[Callable[[Access], Awaitable[Any]]], Any]:
    """Runs a request against the fake server."""
    file = server.kubeconfig(tmp_path / "config")

    async def go(work: Callable[[Access], Awaitable[Any]]) -> Any:
        access = await Access.load(file)
        try:
            return await work(access)
        finally:
            await access.close()

    return lambda work: asyncio.run(go(work))


def failure(ask: Any, work: Callable[[Access], Awaitable[Any]]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask(work)
    return caught.value


def test_what_a_request_carries(server: FakeServer, ask: Any) -> None:
    query = {"limit": 5, "watch": True, "nothing": None, "empty": "", "labelSelector": "a=b,c"}
    assert ask(lambda access: access.get("/x", query)) == {}
    (seen,) = server.seen
    assert (seen.command, seen.where, seen.headers["Authorization"]) == ("GET", "/x", "Bearer secret")
    assert seen.query == {"limit": "5", "watch": "true", "labelSelector": "a=b,c"}


def test_a_body_and_the_kinds_of_a_patch(server: FakeServer, ask: Any) -> None:
    async def go(access: Access) -> None:
        await access.post("/x", {"a": 1}, {"dryRun": "All"})
        await access.put("/x", {"a": 2})
        await access.patch("/x", {"a": None})
        await access.patch("/x", {"a": 3}, kind="apply", force=True)
        await access.patch("/x", [{"op": "remove", "path": "/a"}], kind="json")

    ask(go)
    assert [(seen.command, seen.body, seen.headers["Content-Type"]) for seen in server.seen] == [
        ("POST", {"a": 1}, "application/json"),
        ("PUT", {"a": 2}, "application/json"),
        ("PATCH", {"a": None}, "application/merge-patch+json"),
        ("PATCH", {"a": 3}, "application/apply-patch+yaml"),
        ("PATCH", [{"op": "remove", "path": "/a"}], "application/json-patch+json"),
    ]
    assert server.seen[0].query == {"dryRun": "All"}
    assert server.seen[3].query == {"fieldManager": "slurm-shim", "force": "true"}


def test_conditions_of_a_deletion(server: FakeServer, ask: Any) -> None:
    async def go(access: Access) -> None:
        await access.delete(POD)
        await access.delete(POD, uid="u")
        await access.delete(POD, propagation="Foreground", grace=0, uid="u", version="7")

    ask(go)
    kind = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert [seen.body for seen in server.seen] == [
        {**kind, "propagationPolicy": "Background"},
        {**kind, "propagationPolicy": "Background", "preconditions": {"uid": "u"}},
        {
            **kind,
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        },
    ]


@pytest.mark.parametrize(
    ("status", "property_name"), [(409, "conflict"), (410, "gone"), (404, "missing"), (403, "forbidden")]
)
def test_refusals_are_told_at_once(server: FakeServer, ask: Any, status: int, property_name: str) -> None:
    server.answer = lambda request: request.fail(status, "Word", "the message")
    error = failure(ask, lambda access: access.get(POD))
    assert (error.status, error.reason, str(error), error.transient) == (status, "Word", "the message", False)
    assert getattr(error, property_name)
    assert len(server.seen) == 1


DENIED = 'pods "x" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "mine"'


def test_a_server_that_has_just_begun_may_not_know_what_the_user_may(server: FakeServer, ask: Any) -> None:
    server.turns(
        lambda request: request.cut(),
        lambda request: request.fail(403, "Forbidden", DENIED),
        lambda request: request.json({"here": 1}),
    )
    assert ask(lambda access: access.get(POD)) == {"here": 1}


def test_after_a_failure_a_refusal_of_permission_passes_and_others_do_not(server: FakeServer, ask: Any) -> None:
    async def go(access: Access) -> list[bool]:
        found = []
        for _ in range(3):
            with pytest.raises(ApiError) as caught:
                await access.post("/x", {})
            found.append(caught.value.transient)
        return found

    server.turns(
        lambda request: request.cut(),
        lambda request: request.fail(403, "Forbidden", DENIED),
        lambda request: request.fail(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q'),
    )
    assert ask(go) == [True, True, False]


def test_a_busy_server_is_given_the_time_it_asks_for(server: FakeServer, ask: Any) -> None:
    server.turns(
        lambda request: request.fail(429, "TooManyRequests", Retry_After="1"), lambda request: request.json({})
    )
    before = time.monotonic()
    assert ask(lambda access: access.post("/x", {})) == {}
    assert len(server.seen) == 2
    assert time.monotonic() - before >= 1.0  # no upper bound: a busy machine may take its time


def test_a_server_that_stays_busy(server: FakeServer, ask: Any) -> None:
    server.answer = lambda request: request.fail(429, "TooManyRequests", Retry_After="60")
    error = failure(ask, lambda access: access.get("/x", timeout=5))
    assert (error.status, error.retry_after, error.transient, len(server.seen)) == (429, 60.0, True, 1)


def test_reading_is_repeated_when_the_server_fails(server: FakeServer, ask: Any) -> None:
    server.turns(
        lambda request: request.raw(b"<html>bad gateway</html>", 502),
        lambda request: request.cut(),
        lambda request: request.fail(500, "InternalError"),
        lambda request: request.json({"a": 1}),
    )
    assert ask(lambda access: access.get("/x")) == {"a": 1}


@pytest.mark.parametrize("answer", [lambda request: request.cut(), lambda request: request.fail(500, "InternalError")])
def test_writing_is_not(server: FakeServer, ask: Any, answer: Callable[[Request], None]) -> None:
    server.answer = answer
    assert failure(ask, lambda access: access.post("/x", {})).transient
    assert len(server.seen) == 1


def test_no_server(server: FakeServer, ask: Any) -> None:
    server.stop()
    error = failure(ask, lambda access: access.post("/x", {}, timeout=0.5))
    assert (error.status, error.reason, error.transient) == (0, "Refused", True)
    assert str(error).startswith("no connection to the API server: ")
    assert "object at" not in str(error)


def test_a_forwarder_without_a_server(server: FakeServer, tmp_path: Path) -> None:
    """It accepts and closes: TLS is never begun, so nothing was sent and a POST may be repeated."""
    accepted = 0
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        nonlocal accepted
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            accepted += 1
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    file = server.kubeconfig(tmp_path / "config", server=f"https://127.0.0.1:{listening.getsockname()[1]}")

    async def go() -> ApiError:
        access = await Access.load(file)
        with pytest.raises(ApiError) as caught:
            await access.post("/x", {})
        await access.close()
        return caught.value

    try:
        assert asyncio.run(go()).reason == "Refused"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
    assert accepted == 5


def test_a_server_that_comes_back_is_waited_for(server: FakeServer, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([ApiError(0, "Refused", "down"), ApiError(0, "Refused", "down")])
    send = module.Transport.send

    def flaky(*words: Any) -> bytes:
        error = next(refusals, None)
        if error:
            raise error
        return send(*words)

    monkeypatch.setattr(module.Transport, "send", flaky)
    assert ask(lambda access: access.post("/x", {})) == {}


def test_a_silent_server(server: FakeServer, ask: Any) -> None:
    server.answer = lambda request: request.rfile.read(1)  # until the client goes
    error = failure(ask, lambda access: access.post("/x", {}, timeout=1.0))
    assert (error.status, error.reason, error.transient) == (0, "Timeout", True)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff"])
def test_an_answer_that_is_no_object(server: FakeServer, ask: Any, body: bytes) -> None:
    server.answer = lambda request: request.raw(body)
    assert failure(ask, lambda access: access.post("/x", {})).reason == "Connection"


def test_may_i(server: FakeServer, ask: Any) -> None:
    server.answer = lambda request: request.json({"status": {"allowed": True}})
    assert ask(lambda access: access.can("create", "pods", subresource="exec")) is True
    assert ask(lambda access: access.can("list", "nodes", namespace="")) is True
    asked = [seen.body["spec"]["resourceAttributes"] for seen in server.seen if seen.body]
    assert asked[0] == {"verb": "create", "group": "", "resource": "pods", "subresource": "exec", "namespace": "mine"}
    assert asked[1]["namespace"] == ""


def test_a_log_is_bytes(server: FakeServer, ask: Any) -> None:
    server.answer = lambda request: request.raw(b"\xff\0\n")
    assert ask(lambda access: access.log("mine", "x", "agent", limit=3)) == b"\xff\0\n"
    assert server.seen[0].query == {"container": "agent", "limitBytes": "3"}


def test_errors_that_are_no_status() -> None:
    assert str(from_answer(502, {}, b"<html>\n bad </html>")) == "HTTP 502: <html> bad </html>"
    assert str(from_answer(502, {}, b"")) == "HTTP 502"
    assert len(str(from_answer(502, {}, b"x" * 100000))) == 2000
    status = b'{"kind": "Status", "reason": "R", "message": "m", "details": {"retryAfterSeconds": 2}}'
    assert from_answer(500, {}, status).retry_after == 2.0
    assert from_answer(500, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, status).retry_after == 2.0


def test_a_caller_that_is_cancelled_when_the_answer_is_there_ends(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(access: Access) -> None:
        came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        asked = asyncio.Event()

        async def answered(work: Any) -> bytes:
            asked.set()
            return await came

        monkeypatch.setattr(module, "in_thread", answered)
        asking = asyncio.ensure_future(access.get("/x"))
        await asked.wait()
        came.set_result(b"{}")
        asking.cancel()  # in the same turn of the loop
        with pytest.raises(asyncio.CancelledError):
            await asking

    ask(go)
