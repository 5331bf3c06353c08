"""Reflectors of the cluster in memory: they tell at once."""

from __future__ import annotations

from typing import Any, cast

from shim.control.backends.kubernetes.api.access import Access
from tests.control.backends.kubernetes.fakecluster import FakeCluster, selected


class FakeReflector:
    """In place of ``Reflector``."""

    def __init__(self, access: Access, path: str, selector: str = "", **hooks: Any) -> None:
        self._cluster, self._path, self._hooks = cast(FakeCluster, access), path, hooks
        self._selector = selector
        self._open = True

    def start(self) -> None:
        self._cluster.watch(self._path, self._tell)
        self._hooks["on_synced"]()

    def _tell(self, kind: str, found: dict[str, Any]) -> None:
        if self._open and selected(found, self._selector):
            self._hooks["on_event"](kind, self._hooks["trim"](found))

    async def close(self) -> None:
        self._open = False
