"""What the cluster warns of: asked late, seldom, and not at all where that is not allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.cluster.events import TOGETHER, Events
from shim.control.backends.kubernetes.run.start_troubles import WARNINGS_AFTER, Warnings
from tests.control.backends.kubernetes import clock


class FakeSite:
    """Answers a list of events by ``answer``."""

    namespace = "mine"

    def __init__(self, answer: Callable[[], list[dict[str, Any]]], more: str = "") -> None:
        self.asked: list[str] = []
        self.events = Events(cast(Access, self), self.namespace)
        self.troubles: list[ApiError] = []
        self._answer, self._more = answer, more
        self._tasks: list[asyncio.Task[None]] = []

    async def get(self, path: str, query: dict[str, Any]) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/mine/events"
        self.asked.append(query["fieldSelector"])
        alone = query["fieldSelector"].startswith("involvedObject")
        return {"items": self._answer(), "metadata": {} if alone else {"continue": self._more}}

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        async def logged() -> None:
            try:
                await work
            except ApiError as error:
                self.troubles.append(error)

        self._tasks.append(asyncio.ensure_future(logged()))


def event(reason: str, message: str, last: str = "", uid: str = "uid-1") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": last or None, "involvedObject": {"uid": uid}}


class Start:
    """A run that does not get on."""

    def __init__(self, site: FakeSite, uid: str = "uid-1") -> None:
        self.uid, self.poked = uid, 0
        self._warnings = Warnings(cast(Site, site), self._poke)

    def _poke(self) -> None:
        self.poked += 1

    def about(self, stands: float) -> str:
        return self._warnings.about(self.uid, stands)

    def under_way(self) -> str:
        return self._warnings.under_way(self.uid)


def learnt(site: FakeSite, *starts: str) -> list[str]:
    """What those with these uids know who all ask at the same time."""
    found: list[str] = []

    async def inside() -> None:
        runs = [Start(site, uid) for uid in starts or ("uid-1",)]
        assert [one.about(WARNINGS_AFTER) for one in runs] == [""] * len(runs)
        await asyncio.sleep(TOGETHER + 0.1)
        found.extend(one.about(WARNINGS_AFTER + 1) for one in runs)
        assert [one.poked for one in runs] == [bool(text) for text in found]  # what is new is looked at at once

    clock.run(inside())
    return found


def test_the_newest_that_says_why() -> None:
    events = [
        event("FailedMount", "old", "2026-01-01T00:00:00Z"),
        event("FailedMount", "MountVolume.SetUp failed\n for volume", "2026-01-01T00:00:05Z"),
        event("Unhealthy", "something else", "2026-01-01T00:00:09Z"),
    ]
    site = FakeSite(lambda: events)
    assert learnt(site) == ["MountVolume.SetUp failed for volume"]
    assert site.asked == ["involvedObject.uid=uid-1"]


def test_many_that_ask_at_the_same_time_cost_two_requests() -> None:
    site = FakeSite(lambda: [event("FailedMount", "no volume", uid="uid-2"), event("FailedCreate", "quota")])
    assert learnt(site, "uid-1", "uid-2", "uid-3") == ["quota", "no volume", ""]
    assert site.asked == ["type=Warning", "reason=Pulling"]


def test_lists_are_five_seconds_apart() -> None:
    site = FakeSite(list)

    async def inside() -> None:
        for number in range(30):
            Start(site, f"uid-{number}").about(WARNINGS_AFTER)
            await asyncio.sleep(1)

    clock.run(inside())
    assert 5 <= site.asked.count("type=Warning") == site.asked.count("reason=Pulling") <= 6


def test_where_a_list_is_very_long_each_is_asked_about() -> None:
    def answer() -> list[dict[str, Any]]:
        (*_, uid) = (one.partition("=")[2].partition(",")[0] for one in site.asked)
        return [event("FailedMount", f"about {uid}", uid=uid)]

    site = FakeSite(answer, more="there is more")
    assert learnt(site, "uid-1", "uid-2") == ["about uid-1", "about uid-2"]
    assert len(site.asked) == 3


def test_it_is_asked_neither_early_nor_often() -> None:
    site = FakeSite(lambda: [event("FailedCreate", "quota")])

    async def inside() -> None:
        one = Start(site)
        for stands, known in (
            (0.0, ""),
            (WARNINGS_AFTER - 0.1, ""),
            (WARNINGS_AFTER, ""),
            (4.0, "quota"),
            (5.0, "quota"),
        ):
            assert one.about(stands) == known
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        assert len(site.asked) == 1
        site._answer = list
        one.about(20.0)
        await asyncio.sleep(1)
        assert (one.about(21.0), len(site.asked), one.poked) == ("", 2, 2)

    clock.run(inside())


def test_an_image_that_is_pulled_takes_its_time() -> None:
    found = [
        event("Pulling", 'Pulling image  "python:3"', "2026-01-01T00:00:00Z"),
        event("Scheduled", "x", "2026-01-02T00:00:00Z"),
    ]

    async def inside() -> None:
        one, poked = Start(FakeSite(lambda: found)), 0
        for pulls in ('pulling image "python:3"', ""):
            assert one.about(WARNINGS_AFTER) == ""
            await asyncio.sleep(TOGETHER + 0.1)
            assert (one.under_way(), one.poked) == (pulls, poked := poked + 1)
            found.append(event("Pulled", "Successfully pulled", "2026-01-01T00:00:09Z"))
            await asyncio.sleep(10)

    clock.run(inside())


def test_who_may_not_ask_learns_nothing() -> None:
    def forbidden() -> list[dict[str, Any]]:
        raise ApiError(403, "Forbidden", "no")

    site = FakeSite(forbidden)
    assert learnt(site) == [""]
    assert not site.troubles


def test_a_server_in_trouble_is_told() -> None:
    def down() -> list[dict[str, Any]]:
        raise ApiError(503, "ServiceUnavailable", "no")

    site = FakeSite(down)
    assert learnt(site) == [""]
    assert [error.status for error in site.troubles] == [503]
