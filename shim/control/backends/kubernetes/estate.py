"""One owner's jobs, watched by two watches and held by a Lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.lease import Lease
from shim.control.backends.kubernetes.reflector import Reflector
from shim.control.backends.kubernetes.site import Site


class Estate:
    """The jobs of one owner. ``cluster``: what the configuration calls the cluster of its own jobs (None: whatever they say)."""

    def __init__(self, site: Site, owner: str, cluster: str | None, lease: Lease) -> None:
        self.owner = owner
        self.lease = lease
        self.synced = asyncio.Event()
        self._site = site
        self._selector = names.selector(owner, cluster)
        self._watches: list[Reflector] = []

    def watch(
        self,
        changed: Callable[[Run | None], None],
        synced: Callable[[], None],
        trouble: Callable[[str, str | None], None],
    ) -> None:
        """Begins to watch; ``synced()`` once both watches have told what there is, ``changed(run)`` with every change,
        ``trouble(what, text)`` when one of them cannot ask (None: it can again).
        """

        site = self._site
        takes = {site.objects.jobs: site.seen.job_event, site.objects.pods: site.seen.pod_event}
        unsynced = set(takes)

        def one_synced(path: str) -> None:
            unsynced.discard(path)  # one of them may list twice before the other has listed once
            if not unsynced:
                self.synced.set()
                synced()

        for path, take in takes.items():
            watch = Reflector(
                site.access,
                path,
                self._selector,
                on_event=_taking(take, changed),
                on_synced=partial(one_synced, path),
                on_trouble=partial(trouble, f"{path} {self.owner}"),
                trim=site.seen.trim,
            )
            watch.start()
            self._watches.append(watch)

    async def close(self) -> None:
        """Watches no more."""
        for watch in self._watches:
            await watch.close()


def _taking(
    take: Callable[[str, dict[str, Any]], Run | None], changed: Callable[[Run | None], None]
) -> Callable[[str, dict[str, Any]], None]:
    return lambda kind, found: changed(take(kind, found))
