"""Job ids that all who use a namespace share."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.submit import ids


class Namespace:
    """An API server's ConfigMap, as several see it: ``before`` runs before each write, as somebody quicker would."""

    def __init__(self) -> None:
        self.map: dict[str, Any] | None = None
        self.version = 0
        self.before = lambda: None
        self.refuse: ApiError | None = None

    def store(self, found: dict[str, Any]) -> None:
        self.version += 1
        self.map = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self.version), "uid": "place"}}

    async def get(self, path: str) -> dict[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        if self.map is None:
            raise ApiError(404, "NotFound", "no such map")
        return self.map

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before()
        if self.map is not None:
            raise ApiError(409, "AlreadyExists", "there is one")
        self.store(body)
        assert self.map is not None
        return self.map

    async def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before()
        assert self.map is not None
        if body["metadata"]["resourceVersion"] != self.map["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has changed")
        self.store(body)
        assert self.map is not None
        return self.map


def reserve(namespace: Namespace, first: int, count: int = 5) -> range:
    return asyncio.run(ids.reserve(cast(Access, namespace), "team", first, count))[0]


def test_blocks_follow_each_other() -> None:
    namespace = Namespace()
    assert [reserve(namespace, 1), reserve(namespace, 1), reserve(namespace, 100)] == [
        range(1, 6),
        range(6, 11),
        range(100, 105),
    ]


def test_who_is_slower_takes_the_next_block() -> None:
    namespace = Namespace()
    others: list[range] = []

    def quicker() -> None:
        namespace.before = lambda: None
        others.append(reserve_now(namespace))

    def reserve_now(shared: Namespace) -> range:
        start = int(shared.map["data"]["next"]) if shared.map is not None else 1
        metadata = {"name": "slurm-job-ids"}
        shared.store({"metadata": metadata, "data": {"next": str(start + 5)}})
        return range(start, start + 5)

    for _ in range(3):
        namespace.before = quicker
        mine = reserve(namespace, 1)
        assert not set(mine) & {number for other in others for number in other}


def test_a_namespace_that_may_not_be_read_says_so() -> None:
    namespace = Namespace()
    namespace.refuse = ApiError(403, "Forbidden", "configmaps is forbidden")
    with pytest.raises(BackendError, match=r"namespace team: configmaps is forbidden") as caught:
        reserve(namespace, 1)
    assert not caught.value.transient


def test_a_map_that_somebody_spoilt_is_no_number() -> None:
    namespace = Namespace()
    namespace.store({"metadata": {"name": "slurm-job-ids"}, "data": {"next": "x"}})
    with pytest.raises(BackendError, match="no number"):
        reserve(namespace, 1)
