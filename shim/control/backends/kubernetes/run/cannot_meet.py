"""Why a gang does not start although all of its pods run: what those say of it that do not find the first one.

A NetworkPolicy or the DNS keeps pods apart, and not us from their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.pod_view import PodView
from shim.job.spec import UNMET

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

REASON = "NodesCannotMeet"
FIRST = 20.0  # seconds that pods have to find each other before anybody asks
_AGAIN = 20.0  # seconds until they are asked again
_MOST = 4  # pods that are asked
_LIMIT = 64 * 1024  # bytes of a log


class Unmet:
    """Of one run. Who may not read logs learns nothing."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked = -_AGAIN
        self._known = ""

    async def about(self, views: Sequence[PodView], stands: float) -> str:
        """What the pods that all have run for ``stands`` seconds say; "" if nothing keeps them apart, as far as is known."""
        others = [view for view in sorted(views, key=lambda view: view.index) if view.index > 0]
        now = asyncio.get_running_loop().time()
        if others and stands >= FIRST and now - self._asked >= _AGAIN:
            self._asked = now
            said = [await self._ask(view) for view in others[:_MOST]]
            told = [one for one in said if one]
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            self._known = told[0] + more if told else ""
        return self._known

    async def _ask(self, view: PodView) -> str:
        try:
            log = await self._site.access.log(self._site.namespace, view.name, names.CONTAINER, limit=_LIMIT)
        except ApiError as error:
            if error.transient:
                raise
            return ""
        lines = [line for line in log.decode(errors="replace").splitlines() if line.startswith(UNMET)]
        return lines[-1].removeprefix(UNMET) if lines else ""
