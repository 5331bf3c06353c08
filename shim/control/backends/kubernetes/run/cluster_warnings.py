"""What the cluster warns of that no status tells: volumes that are not there, pods that a quota keeps from being made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shim.control.backends.kubernetes.api.errors import ApiError

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

FIRST = 3.0  # seconds that a start may take before anybody asks
_AGAIN = 10.0  # seconds until the same is asked again
_TOLD = ("FailedMount", "FailedAttachVolume", "FailedCreate")
_LONGEST = 500  # characters


class Warnings:
    """Of one run's objects. Who may not list events learns nothing, and jobs run all the same."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked: dict[str, float] = {}
        self._known: dict[str, str] = {}

    async def about(self, uid: str, stands: float) -> str:
        """The newest warning about this very Job or pod, which has not got on for ``stands`` seconds; "" for none."""
        now = asyncio.get_running_loop().time()
        if uid and stands >= FIRST and now - self._asked.get(uid, -_AGAIN) >= _AGAIN:
            self._asked[uid] = now
            self._known[uid] = await self._ask(uid)
        return self._known.get(uid, "")

    async def _ask(self, uid: str) -> str:
        path = f"/api/v1/namespaces/{self._site.namespace}/events"
        try:
            found = await self._site.access.get(path, {"fieldSelector": f"involvedObject.uid={uid},type=Warning"})
        except ApiError as error:
            if error.transient:
                raise
            return ""
        events = [one for one in found["items"] if one.get("reason") in _TOLD]
        newest = max(events, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""), default=None)
        return " ".join(str(newest.get("message") or "").split())[:_LONGEST] if newest is not None else ""
