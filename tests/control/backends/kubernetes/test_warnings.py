"""What the cluster warns of: asked late, seldom, and not at all where that is not allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.run import start_troubles
from shim.control.backends.kubernetes.run.start_troubles import WARNINGS_AFTER, Warnings


class FakeSite:
    """Answers a list of events by ``answer``."""

    namespace = "mine"

    def __init__(self, answer: Callable[[], list[dict[str, Any]]]) -> None:
        self.access = self
        self.asked: list[str] = []
        self._answer = answer

    async def get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/mine/events"
        self.asked.append(query["fieldSelector"])
        return {"items": self._answer()}


def event(reason: str, message: str, last: str = "") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": last or None}


def about(site: FakeSite, *times: float) -> list[str]:
    async def ask() -> list[str]:
        one = Warnings(cast(Site, site))
        return [await one.about("uid-1", stands) for stands in times]

    return asyncio.run(ask())


def test_the_newest_that_says_why() -> None:
    events = [
        event("FailedMount", "old", "2026-01-01T00:00:00Z"),
        event("FailedMount", "MountVolume.SetUp failed\n for volume", "2026-01-01T00:00:05Z"),
        event("Unhealthy", "something else", "2026-01-01T00:00:09Z"),
    ]
    site = FakeSite(lambda: events)
    assert about(site, WARNINGS_AFTER) == ["MountVolume.SetUp failed for volume"]
    assert site.asked == ["involvedObject.uid=uid-1,type=Warning"]


def test_it_is_asked_neither_early_nor_often() -> None:
    site = FakeSite(lambda: [event("FailedCreate", "quota")])
    assert about(site, 0.0, WARNINGS_AFTER - 0.1, WARNINGS_AFTER, WARNINGS_AFTER + 1) == ["", "", "quota", "quota"]
    assert len(site.asked) == 1


def test_it_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_troubles, "_AGAIN", 0.0)
    found = [[event("FailedCreate", "quota")], []]
    assert about(FakeSite(lambda: found.pop(0)), WARNINGS_AFTER, WARNINGS_AFTER + 1) == ["quota", ""]


def test_who_may_not_ask_learns_nothing() -> None:
    def forbidden() -> list[dict[str, Any]]:
        raise ApiError(403, "Forbidden", "no")

    assert about(FakeSite(forbidden), WARNINGS_AFTER) == [""]


def test_a_server_in_trouble_is_told() -> None:
    def down() -> list[dict[str, Any]]:
        raise ApiError(503, "ServiceUnavailable", "no")

    with pytest.raises(ApiError):
        about(FakeSite(down), WARNINGS_AFTER)
