"""Whose jobs this controller acts for: this home's own, and those of machines that are gone, taken over by `shim adopt`.

An owner's jobs are an estate: watched by two watches, held by a Lease. An estate that somebody else holds is let go: nothing
is written about its jobs any more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names, tickets
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.lease import Lease, TakenOver
from shim.control.backends.kubernetes.reflector import Reflector
from shim.control.backends.kubernetes.site import Site

SIGNS = 5  # signs of life in the duration of a Lease
_FILE = "adopted"  # owners that were taken over, and under which name this home holds their Leases


class Estate:
    """The jobs of one owner. ``cluster``: what the configuration calls the cluster of its own jobs (None: whatever they say)."""

    def __init__(self, site: Site, owner: str, cluster: str | None, lease: Lease) -> None:
        self.owner = owner
        self.lease = lease
        self.synced = asyncio.Event()
        self._site = site
        self._selector = names.selector(owner, cluster)
        self._watches: list[Reflector] = []
        self._unsynced = 2

    def watch(
        self,
        changed: Callable[[Run | None], None],
        synced: Callable[[], None],
        trouble: Callable[[str, str | None], None],
    ) -> None:
        """Begins to watch; ``synced()`` once both watches have told what there is, ``changed(run)`` with every change,
        ``trouble(what, text)`` when one of them cannot ask (None: it can again).
        """

        def one_synced() -> None:
            self._unsynced -= 1
            if self._unsynced <= 0:
                self.synced.set()
                synced()

        site = self._site
        for path, take in ((site.objects.jobs, site.job_event), (site.objects.pods, site.pod_event)):
            watch = Reflector(
                site.access,
                path,
                self._selector,
                on_event=_taking(take, changed),
                on_synced=one_synced,
                on_trouble=partial(trouble, f"{path} {self.owner}"),
                trim=site.trim,
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


class Estates:
    """``changed``, ``synced`` and ``trouble``: see ``Estate.watch``; ``lost(owner)``: somebody else holds an estate now."""

    def __init__(
        self,
        site: Site,
        duration: int,
        changed: Callable[[Run | None], None],
        synced: Callable[[], None],
        trouble: Callable[[str, str | None], None],
        lost: Callable[[str], None],
    ) -> None:
        self._site = site
        self._duration = duration
        self._hooks = (changed, synced, trouble)
        self._lost = lost
        self._path = os.path.join(tickets.folder_of(site.cluster), _FILE)
        self.home = self._estate(site.owner, site.owner, site.cluster)
        self.adopted = {owner: self._estate(owner, holder, None) for owner, holder in self._noted().items()}
        site.objects.guard = self.guard
        self._signs: asyncio.Task[None] | None = None

    def _estate(self, owner: str, holder: str, cluster: str | None) -> Estate:
        site = self._site
        lease = Lease(site.access, site.namespace, owner, holder, self._duration, lambda: self._lost(owner))
        return Estate(site, owner, cluster, lease)

    def watch(self) -> None:
        """Begins to watch everything, and to give signs of life."""
        for estate in (self.home, *self.adopted.values()):
            estate.watch(*self._hooks)
        self._signs = asyncio.get_running_loop().create_task(self._sign())

    @property
    def all_synced(self) -> bool:
        """Whether everything is known."""
        return all(estate.synced.is_set() for estate in (self.home, *self.adopted.values()))

    async def synced(self) -> None:
        """Returns when everything is known."""
        for estate in (self.home, *self.adopted.values()):
            await estate.synced.wait()

    async def check(self) -> None:
        """Finds out which estates are still held, if there is anything in them. ApiError where that cannot be known now."""
        known = {
            ticket.adopted for ticket in map(tickets.load, tickets.known(self._site.cluster)) if ticket is not None
        }
        for estate in (self.home, *self.adopted.values()):
            own = "" if estate is self.home else estate.owner
            if own in known or self._site.runs_of(estate.owner):
                try:
                    await estate.lease.hold()
                except TakenOver:
                    pass  # it has been told

    async def held(self) -> list[str]:
        """The owners whose jobs were taken over and are this home's for sure. ApiError where that cannot be known now."""
        found = []
        for owner, estate in list(self.adopted.items()):
            if self._site.runs_of(owner):
                try:
                    await estate.lease.hold()
                    found.append(owner)
                except TakenOver:
                    continue  # it has been told
        return found

    def of(self, run: Run) -> Estate | None:
        """The estate that a run belongs to, by this host's ticket of it, else by its objects; None for one that is none of ours."""
        ticket = tickets.TicketFolder(run).load()
        owner = ticket.adopted if ticket is not None else self._site.owner_of(run)
        return self.home if owner in (None, "", self.home.owner) else self.adopted.get(owner)

    async def guard(self, run: Run) -> None:
        """Raises ApiError unless this controller acts for the run: asked before every write about it."""
        estate = self.of(run)
        if estate is None:
            raise TakenOver(self._site.owner_of(run) or "")
        await estate.lease.hold()

    async def _sign(self) -> None:
        while True:
            await asyncio.sleep(self._duration / SIGNS)
            for estate in (self.home, *self.adopted.values()):
                if not estate.lease.lost and not estate.lease.unused and self._site.runs_of(estate.owner):
                    try:
                        await estate.lease.renew()
                    except ApiError as error:
                        self._site.log("cluster %s: %s", self._site.cluster, error.message)

    # Estates come and go

    async def add(self, owner: str, take: Callable[[], Any]) -> bool:
        """Takes an estate over: noted here first, then by ``take``, which says whether it was had. False if another one was quicker."""
        self._note({**self._noted(), owner: self.home.owner})
        if not await take():
            self._forget(owner)
            return False
        estate = self._estate(owner, self.home.owner, None)
        estate.watch(*self._hooks)
        await estate.synced.wait()
        self.adopted[owner] = estate
        return True

    async def drop(self, owner: str) -> None:
        """An estate that was taken over and has no runs any more, or is somebody else's by now.

        Its Lease stays as it is, for its owner to find should it come back; one that has come back needs it no more.
        """
        estate = self.adopted.pop(owner)
        await estate.close()
        self._site.drop(owner)
        if estate.lease.returned:
            await estate.lease.remove()
        self._forget(owner)

    async def begin_anew(self) -> None:
        """This home's jobs so far are another machine's, and nothing of them is left here: it goes on under another name."""
        before = self.home
        await before.close()
        self._site.drop(before.owner)
        self._site.synced = False
        self._site.owner = names.begin_anew(self._site.cluster)
        try:
            await self._site.access.delete(before.lease.path)  # it has told what it was kept for
        except ApiError as error:
            self._site.log("cluster %s: %s", self._site.cluster, error.message)
        self.home = self._estate(self._site.owner, self._site.owner, self._site.cluster)
        self.home.watch(*self._hooks)

    async def close(self) -> None:
        """Watches no more. A Lease without jobs is removed: nothing is left to be taken over."""
        if self._signs is not None:
            self._signs.cancel()
        home = self.home
        if home.synced.is_set() and not self._site.runs_of(home.owner) and not tickets.known(self._site.cluster):
            try:
                await home.lease.remove()
            except ApiError as error:
                self._site.log("cluster %s: %s", self._site.cluster, error.message)
        for estate in (home, *self.adopted.values()):
            await estate.close()

    # What this host notes

    def _noted(self) -> dict[str, str]:
        try:
            with open(self._path) as file:
                return {str(owner): str(holder) for owner, holder in json.load(file).items()}
        except FileNotFoundError:
            return {}

    def _note(self, owners: dict[str, str]) -> None:
        paths.ensure(os.path.dirname(self._path))
        tickets.write(self._path, json.dumps(owners))

    def _forget(self, owner: str) -> None:
        self._note({one: holder for one, holder in self._noted().items() if one != owner})
