"""Why a run does not start, where no status tells: warnings of volumes and quotas, and what pods say that do not find the first one.

A NetworkPolicy or the DNS keeps pods apart, and not us from their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.pod_view import PodView
from shim.job.spec import UNMET

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

WARNINGS_AFTER = 3.0  # seconds that a start may take before anybody asks
_AGAIN = 10.0  # seconds until the same is asked again
CANNOT_MEET = "NodesCannotMeet"
UNMET_AFTER = 20.0  # seconds that pods have to find each other before anybody asks
_UNMET_AGAIN = 20.0  # seconds until they are asked again
_MOST = 4  # pods that are asked
_LOG = 64 * 1024  # bytes of a log


class Warnings:
    """Of one run's objects. Who may not list events learns nothing, and jobs run all the same. ``poke`` is called when something new is known."""

    def __init__(self, site: Site, poke: Callable[[], None]) -> None:
        self._site = site
        self._poke = poke
        self._asked: dict[str, float] = {}
        self._known: dict[str, tuple[str, str]] = {}

    def under_way(self, uid: str) -> str:
        """What is no trouble, but takes its time, as far as it is known: an image is pulled."""
        return self._known.get(uid, ("", ""))[1]

    def about(self, uid: str, stands: float) -> str:
        """The newest warning about this very Job or pod, which has not got on for ``stands`` seconds; "" for none that is known yet."""
        now = asyncio.get_running_loop().time()
        if uid and stands >= WARNINGS_AFTER and now - self._asked.get(uid, -_AGAIN) >= _AGAIN:
            self._asked[uid] = now
            if self._site.events.want(uid, lambda *found: self._learn(uid, found)):
                self._site.soon(self._site.events.look())
        return self._known.get(uid, ("", ""))[0]

    def _learn(self, uid: str, found: tuple[str, str]) -> None:
        if self._known.get(uid, ("", "")) != found:
            self._known[uid] = found
            self._poke()


class Unmet:
    """Of one run. Who may not read logs learns nothing."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked = -_UNMET_AGAIN
        self._known = ""

    async def about(self, views: Sequence[PodView], stands: float) -> str:
        """What the pods that all have run for ``stands`` seconds say; "" if nothing keeps them apart, as far as is known."""
        others = [view for view in sorted(views, key=lambda view: view.index) if view.index > 0]
        now = asyncio.get_running_loop().time()
        if others and stands >= UNMET_AFTER and now - self._asked >= _UNMET_AGAIN:
            self._asked = now
            said = [await self._ask(view) for view in others[:_MOST]]
            told = [one for one in said if one]
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            self._known = told[0] + more if told else ""
        return self._known

    async def _ask(self, view: PodView) -> str:
        try:
            log = await self._site.access.log(self._site.namespace, view.name, names.CONTAINER, limit=_LOG)
        except ApiError as error:
            if error.transient:
                raise
            return ""
        lines = [line for line in log.decode(errors="replace").splitlines() if line.startswith(UNMET)]
        return lines[-1].removeprefix(UNMET) if lines else ""
