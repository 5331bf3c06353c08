"""What events say of a namespace's objects: warnings of volumes and quotas, images that are pulled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError

TOGETHER = 0.5  # seconds in which those who ask are answered together
EVERY = 5.0  # seconds between two answers
_PAGE = 500  # events that are told at a time
_TOLD = ("FailedMount", "FailedAttachVolume", "FailedCreate")
_LONGEST = 500  # characters

Learn = Callable[[str, str], None]


class Events:
    """Those who ask at about the same time are answered together: where the machines are busy many
    starts are slow at once.
    """

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self._path = f"/api/v1/namespaces/{namespace}/events"
        self._wanted: dict[str, list[Learn]] = {}
        self._asked = -EVERY

    def want(self, uid: str, then: Learn) -> bool:
        """``then(warning, pull)`` will be called with the newest warning about the object and with the image that is pulled for it, "" for none,
        if they can be had. Whether ``look`` is to be called.
        """
        first = not self._wanted
        self._wanted.setdefault(uid, []).append(then)
        return first

    async def look(self) -> None:
        """Asks for all that is wanted by then, some seconds after the last time. ApiError."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(TOGETHER, self._asked + EVERY - loop.time()))
        self._asked = loop.time()
        wanted, self._wanted = self._wanted, {}
        warnings = await self._list("type=Warning") if len(wanted) > 1 else None
        pulls = await self._list("reason=Pulling") if warnings is not None else None
        if warnings is None or pulls is None:  # one object; or very many events, and few of them ours
            for uid, told in wanted.items():
                self._tell({uid: told}, await self._list(f"involvedObject.uid={uid}") or [])
        else:
            self._tell(wanted, [*warnings, *pulls])

    async def _list(self, selector: str) -> list[dict[str, Any]] | None:
        """The events; none for who may not list them. None: there are more than are told at a time."""
        try:
            found = await self._access.get(self._path, {"fieldSelector": selector, "limit": _PAGE})
        except ApiError as error:
            if error.transient:
                raise
            return []
        return None if (found.get("metadata") or {}).get("continue") else list(found["items"])

    @staticmethod
    def _tell(wanted: Mapping[str, Sequence[Learn]], found: Sequence[dict[str, Any]]) -> None:
        events: dict[str, list[dict[str, Any]]] = {}
        for one in found:
            events.setdefault(str((one.get("involvedObject") or {}).get("uid") or ""), []).append(one)
        for uid, told in wanted.items():
            own = events.get(uid, ())
            for then in told:
                then(_newest(own, _TOLD), _pull(own))


def _newest(events: Sequence[dict[str, Any]], reasons: Sequence[str], passed: str = "") -> str:
    """The message of the newest event of these reasons; "" for none, or if it has the reason ``passed``."""

    def when(event: dict[str, Any]) -> str:
        return str(event.get("lastTimestamp") or event.get("eventTime") or "")

    newest = max((one for one in events if one.get("reason") in reasons), key=when, default=None)
    if newest is None or newest["reason"] == passed:
        return ""
    return " ".join(str(newest.get("message") or "").split())[:_LONGEST]


def _pull(events: Sequence[dict[str, Any]]) -> str:
    """``pulling image "python:3.12"`` of a pod whose kubelet began that last, and has not said that it is there."""
    text = _newest(events, ("Pulling", "Pulled"), "Pulled")
    return text[:1].lower() + text[1:]
