"""One owner's Lease: for how long a renewal is relied upon, and what is removed of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shim.control.backends.kubernetes import lease, names
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import FakeCluster

DURATION = 300
PATH = f"{lease.leases('default')}/{names.lease('me')}"


def lease_of(cluster: FakeCluster, holder: str) -> lease.Lease:
    return lease.Lease(cluster.access, "default", "me", holder, DURATION, lambda: None)


def delayed(call: Callable[..., Awaitable[Any]], before: Callable[[], None]) -> Callable[..., Awaitable[Any]]:
    """The call; ``before`` happens while it is under way."""

    async def made(*arguments: Any, **words: Any) -> Any:
        answer = await call(*arguments, **words)
        before()
        return answer

    return made


def test_a_renewal_counts_from_the_moment_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server may have written it at once, however late its answer comes: from then on others count."""
    passed = [0.0]

    def slowly() -> None:
        passed[0] += 50

    async def inside() -> None:
        cluster = FakeCluster()
        own = lease_of(cluster, "me")
        monkeypatch.setattr(lease, "now", lambda: passed[0])
        monkeypatch.setattr(cluster, "post", delayed(cluster.post, slowly))
        await own.hold()
        asked = len(cluster.said)
        passed[0] = 179
        await own.hold()
        assert len(cluster.said) == asked
        passed[0] = 181  # 180 seconds of the duration are relied upon
        await own.hold()
        assert cluster.said[asked:] == [f"PUT leases/{names.lease('me')}"]

    clock.run(inside())


def test_a_lease_that_another_one_takes_while_it_is_given_up_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        own = lease_of(cluster, "me")
        await own.hold()

        def taken() -> None:
            if lease.holder_of(cluster.objects[PATH]) == "me":
                found = cluster.objects[PATH]
                cluster._put("MODIFIED", PATH, lease.signed(found, "other", DURATION))

        monkeypatch.setattr(cluster, "get", delayed(cluster.get, taken))
        await own.give_up()
        assert lease.holder_of(cluster.objects[PATH]) == "other"

    clock.run(inside())
