"""Why a run does not start, where no status tells: warnings of volumes and quotas, and what pods say that do not find the first one.

A NetworkPolicy or the DNS keeps pods apart, and not us from their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.pod_view import PodView
from shim.job.spec import UNMET

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.api.access import Access
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

WARNINGS_AFTER = 3.0  # seconds that a start may take before anybody asks
_AGAIN = 10.0  # seconds until the same is asked again
TOGETHER = 0.5  # seconds in which those who ask are answered by one list
EVERY = 5.0  # seconds between two lists
_PAGE = 500  # events that are told at a time
_TOLD = ("FailedMount", "FailedAttachVolume", "FailedCreate")
_LONGEST = 500  # characters
CANNOT_MEET = "NodesCannotMeet"
UNMET_AFTER = 20.0  # seconds that pods have to find each other before anybody asks
_UNMET_AGAIN = 20.0  # seconds until they are asked again
_MOST = 4  # pods that are asked
_LOG = 64 * 1024  # bytes of a log


Learn = Callable[[str, str], None]


class Events:
    """What events say of a namespace's objects. Those who ask at about the same time are answered together: where the machines are busy many
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
