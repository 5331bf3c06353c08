"""Whose jobs this controller acts for: this home's own, and those of machines that are gone, taken over by `shim adopt`.

An owner's jobs are an estate: watched by two watches, held by a Lease. An estate that somebody else holds is let go: nothing
is written about its jobs any more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run
from shim.control.backends.kubernetes import names, tickets
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.estate import Estate
from shim.control.backends.kubernetes.lease import Lease, TakenOver, leases, returned
from shim.control.backends.kubernetes.site import Site

SIGNS = 5  # signs of life in the duration of a Lease
_FILE = "adopted"  # owners that were taken over, and under which name this home holds their Leases
_BEFORE = "before"  # names that this home had, whose Leases have told it what they were kept for
_PARTING = 5.0  # seconds for the last requests of a controller that ends


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
        self._folder = tickets.folder_of(site.cluster)
        self.home = self._estate(site.owner, site.owner, site.cluster)
        self.adopted = {owner: self._estate(owner, holder, None) for owner, holder in self._noted().items()}
        site.objects.guard = self.guard
        self._signs: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

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
            if own in known or self._site.seen.runs_of(estate.owner):
                try:
                    await estate.lease.hold()
                except TakenOver:
                    pass  # it has been told

    async def held(self) -> list[str]:
        """The owners whose jobs were taken over and are this home's for sure. ApiError where that cannot be known now."""
        found = []
        for owner, estate in list(self.adopted.items()):
            if self._site.seen.runs_of(owner):
                try:
                    await estate.lease.hold()
                    found.append(owner)
                except TakenOver:
                    continue  # it has been told
        return found

    def of(self, run: Run) -> Estate | None:
        """The estate that a run belongs to, by this host's ticket of it, else by its objects; None for one that is none of ours."""
        ticket = tickets.TicketFolder(run).load()
        owner = ticket.adopted if ticket is not None else self._site.seen.owner_of(run)
        return self.home if owner in (None, "", self.home.owner) else self.adopted.get(owner)

    def is_lost(self, run: Run) -> bool:
        """Whether another machine acts for the run, as far as is known."""
        estate = self.of(run)
        return estate is None or estate.lease.lost

    async def guard(self, run: Run) -> None:
        """Raises ApiError unless this controller acts for the run: asked before every write about it."""
        estate = self.of(run)
        if estate is None:
            raise TakenOver(self._site.seen.owner_of(run) or "")
        await estate.lease.hold()

    async def _sign(self) -> None:
        while not await self._is_closing(self._duration / SIGNS):
            for estate in (self.home, *self.adopted.values()):
                if not estate.lease.lost and not estate.lease.unused and self._site.seen.runs_of(estate.owner):
                    try:
                        await estate.lease.renew()
                    except ApiError as error:
                        self._site.log("cluster %s: %s", self._site.cluster, error.message)

    async def _is_closing(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

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
        """An estate that was taken over and has no runs any more, or is somebody else's by now. ApiError: to be repeated.

        Its Lease stays as it is, for its owner to find should it come back; one that has come back needs it no more.
        """
        estate = self.adopted[owner]
        await estate.lease.give_up(wanted=returned)
        await estate.close()
        self._site.seen.drop(owner)
        del self.adopted[owner]
        self._forget(owner)

    async def begin_anew(self) -> None:
        """This home's jobs so far are another machine's, and nothing of them is left here: it goes on under another name."""
        before = self.home
        self._save(_BEFORE, [*self._load(_BEFORE, []), before.owner])
        await before.close()
        self._site.seen.drop(before.owner)
        self._site.synced = False
        self._site.owner = names.begin_anew(self._site.cluster)
        self.home = self._estate(self._site.owner, self._site.owner, self._site.cluster)
        self.home.watch(*self._hooks)

    async def clear(self) -> None:
        """Removes the Leases of the names that this home had before. ApiError: to be repeated."""
        for owner in self._load(_BEFORE, []):
            if owner != self._site.owner:
                try:
                    await self._site.access.delete(f"{leases(self._site.namespace)}/{names.lease(owner)}")
                except ApiError as error:
                    if not error.missing:
                        raise
                self._save(_BEFORE, [one for one in self._load(_BEFORE, []) if one != owner])

    async def close(self) -> None:
        """Watches no more. A Lease without jobs is removed: nothing is left to be taken over."""
        self._closing.set()
        home = self.home
        try:
            async with asyncio.timeout(_PARTING):
                if self._signs is not None:
                    await asyncio.wait([self._signs])  # not cut off in a write, which would come after the removal
                if (
                    home.synced.is_set()
                    and not self._site.seen.runs_of(home.owner)
                    and not tickets.known(self._site.cluster)
                ):
                    await home.lease.give_up()
        except ApiError as error:
            self._site.log("cluster %s: %s", self._site.cluster, error.message)
        except TimeoutError:
            self._site.log("cluster %s does not answer", self._site.cluster)
        if self._signs is not None:
            self._signs.cancel()
        for estate in (home, *self.adopted.values()):
            await estate.close()

    # What this host notes

    def _noted(self) -> dict[str, str]:
        return {str(owner): str(holder) for owner, holder in self._load(_FILE, {}).items()}

    def _note(self, owners: dict[str, str]) -> None:
        self._save(_FILE, owners)

    def _forget(self, owner: str) -> None:
        self._note({one: holder for one, holder in self._noted().items() if one != owner})

    def _load(self, name: str, default: Any) -> Any:
        try:
            with open(os.path.join(self._folder, name)) as file:
                return json.load(file)
        except FileNotFoundError:
            return default

    def _save(self, name: str, value: Any) -> None:
        paths.ensure(self._folder)
        tickets.write(os.path.join(self._folder, name), json.dumps(value))
