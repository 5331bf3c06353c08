"""The three watches of a namespace: records, Jobs and pods of all of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from shim.control.backends.kubernetes.api.reflector import Reflector
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.objects import names

Object = dict[str, Any]


class Watching:
    """``changed(job_id)`` with every change of an object, ``on_synced()`` once all have told what there is, ``trouble(what, text)`` when
    one of them cannot ask (None: it can again).
    """

    def __init__(
        self,
        site: Site,
        changed: Callable[[int], None],
        on_synced: Callable[[], None],
        trouble: Callable[[str, str | None], None],
    ) -> None:
        self.synced = asyncio.Event()
        self._changed = changed
        self._on_synced = on_synced
        site.records.changed = changed
        seen, records, objects = site.seen, site.records, site.objects
        kinds = (
            (records.path, records.selector, records.event, _unchanged),
            (objects.jobs, names.selector(), self._taking(seen.job_event), seen.trim),
            (objects.pods, names.selector(), self._taking(seen.pod_event), seen.trim),
        )
        self._unsynced = {path for path, *_rest in kinds}
        self._watches = [
            Reflector(
                site.access,
                path,
                selector,
                on_event=take,
                on_synced=partial(self._one_synced, path),
                on_trouble=partial(trouble, path),
                trim=trim,
            )
            for path, selector, take, trim in kinds
        ]

    def start(self) -> None:
        """Begins to watch."""
        for watch in self._watches:
            watch.start()

    def _taking(self, take: Callable[[str, Object], int]) -> Callable[[str, Object], None]:
        return lambda kind, found: self._changed(take(kind, found))

    def _one_synced(self, path: str) -> None:
        self._unsynced.discard(path)  # one of them may list twice before another has listed once
        if not self._unsynced and not self.synced.is_set():
            self.synced.set()
            self._on_synced()

    async def close(self) -> None:
        """Watches no more."""
        for watch in self._watches:
            await watch.close()


def _unchanged(found: Object) -> Object:
    return found
