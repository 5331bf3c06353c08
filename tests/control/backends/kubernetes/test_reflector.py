"""List and watch: what is told, in order, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from shim.control.backends.kubernetes.api import reflector as module
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.reflector import Reflector
from tests.control.backends.kubernetes.fakeapi import FakeServer, Request, pod, pods

PATH = "/api/v1/namespaces/mine/pods"
LIMIT = 30.0


class Diary:
    """What a reflector tells, as short words: "ADDED a1", "synced", "trouble"."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = asyncio.Event()

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._more.set()

    async def until(self, *lines: str) -> None:
        """Waits until exactly these have been written."""

        async def wait() -> None:
            while len(self.lines) < len(lines):
                self._more.clear()
                await self._more.wait()

        try:
            await asyncio.wait_for(wait(), LIMIT)
        except TimeoutError:
            pass  # the difference says more
        assert self.lines == list(lines)


@pytest.fixture
def follow(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a reflector until the diary has the lines."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)
    file = server.kubeconfig(tmp_path / "config")

    async def go(lines: tuple[str, ...], settings: dict[str, Any]) -> Reflector:
        access = await Access.load(file)
        diary = Diary()
        reflector = Reflector(
            access,
            settings.pop("path", PATH),
            "app=x",
            on_event=lambda kind, one: diary.write(
                f"{kind} {one['metadata']['name']}{one['metadata']['resourceVersion']}"
            ),
            on_synced=lambda: diary.write("synced"),
            on_trouble=lambda text: diary.write("trouble" if text else "well"),
            **settings,
        )
        reflector.start()
        try:
            await diary.until(*lines)
        finally:
            await reflector.close()
            await asyncio.to_thread(reflector._thread.join, LIMIT)
            assert not reflector._thread.is_alive()
            await access.close()
        return reflector

    def run(*lines: str, **settings: Any) -> Reflector:
        return asyncio.run(go(lines, settings))

    return run  # type: ignore[return-value]


def watching(request: Request, *events: tuple[str, Any], cut: bool = False) -> None:
    """Sends the events, then holds the stream (or cuts it off)."""
    request.stream()
    for kind, found in events:
        request.event(kind, found)
    if cut:
        request.cut()
    else:
        request.rfile.read(1)


def test_pages_then_changes(server: FakeServer, follow: Any) -> None:
    server.turns(
        lambda request: request.json(pods(1, pod("a", 1), following="more")),
        lambda request: request.json(pods(5, pod("b", 2))),
        lambda request: watching(
            request,
            ("MODIFIED", pod("a", 6)),
            ("ADDED", pod("c", 7)),
            ("DELETED", pod("b", 8)),
            ("BOOKMARK", pod("", 9)),
        ),
    )
    reflector = follow("ADDED a1", "ADDED b2", "synced", "MODIFIED a6", "ADDED c7", "DELETED b8")
    first, second, third = server.seen
    assert first.query == {"labelSelector": "app=x", "limit": "500"}
    assert second.query["continue"] == "more"
    assert third.query["resourceVersion"] == "5"
    assert third.query["allowWatchBookmarks"] == third.query["watch"] == "true"
    assert 1 <= int(third.query["timeoutSeconds"]) <= 180
    assert set(reflector.objects) == {"a", "c"}
    assert "managedFields" not in reflector.objects["a"]["metadata"]
    assert gc.isenabled()


def test_a_list_says_what_its_items_are(server: FakeServer, follow: Any) -> None:
    server.turns(lambda request: request.json(pods(1, pod("a", 1))), watching)
    one = follow("ADDED a1", "synced").objects["a"]
    assert (one["kind"], one["apiVersion"]) == ("Pod", "v1")


def test_objects_of_many_namespaces_and_a_trim(server: FakeServer, follow: Any) -> None:
    server.turns(lambda request: request.json(pods(1, pod("a", 1, spec={}))), watching)
    found = follow("ADDED a1", "synced", path="/api/v1/pods", trim=lambda one: {"metadata": one["metadata"]}).objects
    assert list(found) == ["mine/a"]
    assert list(found["mine/a"]) == ["metadata"]


def test_a_watch_that_is_cut_off_goes_on_where_it_was(server: FakeServer, follow: Any) -> None:
    def half_a_line(request: Request) -> None:
        request.stream()
        request.event("ADDED", pod("a", 6))
        request.chunk(b'{"type": "ADDED", "obj')
        request.cut()

    server.turns(
        lambda request: request.json(pods(5)),
        half_a_line,
        lambda request: watching(request, ("BOOKMARK", pod("", 8)), cut=True),
        lambda request: watching(request, ("ADDED", pod("b", 9))),
    )
    follow("synced", "ADDED a6", "ADDED b9")
    assert [request.query.get("resourceVersion") for request in server.seen] == [None, "5", "6", "8"]


def test_a_line_in_pieces(server: FakeServer, follow: Any) -> None:
    def slow(request: Request) -> None:
        request.stream()
        for piece in (
            b'{"type": "ADD',
            b'ED", "object": {"metadata": {"name": "\xc3',
            b'\xa9", "resourceVersion": "6"}}}',
            b"\n\n",
        ):
            request.chunk(piece)
        request.rfile.read(1)

    server.turns(lambda request: request.json(pods(5)), slow)
    follow("synced", "ADDED é6")


def gone(request: Request) -> None:
    watching(request, ("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))


@pytest.mark.parametrize("answer", [gone, lambda request: request.fail(410, "Expired")])
def test_what_was_missed_is_told_by_a_list(server: FakeServer, follow: Any, answer: Callable[[Request], None]) -> None:
    again = pod("c", 11, uid="new")
    server.turns(
        lambda request: request.json(pods(5, pod("a", 1), pod("b", 2), pod("c", 3), pod("d", 4))),
        answer,
        lambda request: request.json(pods(20, pod("a", 1), pod("b", 10), again, pod("e", 12))),
        watching,
    )
    first = ["ADDED a1", "ADDED b2", "ADDED c3", "ADDED d4", "synced"]
    follow(*first, "DELETED d4", "MODIFIED b10", "DELETED c3", "ADDED c11", "ADDED e12", "synced")


def test_pages_that_took_too_long_are_read_anew(server: FakeServer, follow: Any) -> None:
    server.turns(
        lambda request: request.json(pods(1, pod("a", 1), following="more")),
        lambda request: request.fail(410, "Expired"),
        lambda request: request.json(pods(3, pod("b", 2))),
        watching,
    )
    follow("ADDED b2", "synced")
    assert "continue" not in server.seen[2].query


def test_an_unreachable_server_is_told_once_and_its_return_too(server: FakeServer, follow: Any) -> None:
    server.turns(
        lambda request: request.json(pods(5)),
        lambda request: watching(request, ("ADDED", pod("a", 6)), cut=True),
        lambda request: request.fail(503, "ServiceUnavailable", "etcd"),
        lambda request: request.fail(503, "ServiceUnavailable", "etcd"),
        lambda request: watching(request, ("ADDED", pod("b", 7))),
    )
    follow("synced", "ADDED a6", "trouble", "well", "ADDED b7")


def test_no_permission_is_told_and_asked_again(server: FakeServer, follow: Any) -> None:
    server.turns(
        lambda request: request.fail(403, "Forbidden"),
        lambda request: request.json(pods(5)),
        watching,
    )
    follow("trouble", "synced", "well")


def test_no_server_at_all(server: FakeServer, follow: Any) -> None:
    server.stop()
    follow("trouble")


def test_a_callback_that_fails_loses_no_other_object(server: FakeServer, tmp_path: Path) -> None:
    server.turns(lambda request: request.json(pods(1, pod("a", 1), pod("b", 1), pod("c", 1))), watching)
    file = server.kubeconfig(tmp_path / "config")

    async def go() -> tuple[list[str], list[str]]:
        access = await Access.load(file)
        diary, reports = Diary(), []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["message"]))

        def on_event(kind: str, one: dict[str, Any]) -> None:
            if one["metadata"]["name"] == "b":
                raise ValueError
            diary.write(one["metadata"]["name"])

        reflector = Reflector(access, PATH, on_event=on_event, on_synced=lambda: diary.write("synced"))
        reflector.start()
        await diary.until("a", "c", "synced")
        await reflector.close()
        await access.close()
        return diary.lines, reports

    assert asyncio.run(go()) == (["a", "c", "synced"], ["ADDED b"])


def test_a_watch_that_cannot_go_on_says_so(server: FakeServer, follow: Any) -> None:
    def trim(one: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("spec")

    server.turns(lambda request: request.json(pods(1, pod("a", 1))), watching)
    follow("trouble", trim=trim)


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        transport = type("Transport", (), {"login": None})()

    reflector = Reflector(cast(Access, Nobody()), "/api/v1/pods")
    waits: list[float] = []
    answers = [ApiError(429, "TooManyRequests", "busy", 7.0), ApiError(0, "Refused", "gone")]

    def follow() -> bool:
        if not answers:
            reflector._closed.set()
            return True
        raise answers.pop(0)

    monkeypatch.setattr(reflector, "_follow", follow)
    monkeypatch.setattr(reflector, "_apply", lambda *_: None)
    monkeypatch.setattr(reflector._closed, "wait", waits.append)
    reflector._keep_up()
    assert waits[0] == 7.0
    assert 0 < waits[1] < 2.0
