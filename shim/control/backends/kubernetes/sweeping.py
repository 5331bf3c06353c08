"""What is left is removed: the objects and the ticket of a run that is over, and what was kept for an estate without jobs.

What the API server refuses now is tried again until it is done: nothing else would ever come back to it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shim.control.backends.base import BackendError, Run
from shim.control.backends.kubernetes import tickets
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.estates import Estates
from shim.control.backends.kubernetes.lease import TakenOver
from shim.control.backends.kubernetes.site import Site
from shim.control.backends.kubernetes.tickets import TicketFolder

PATIENCE = 10.0  # seconds that a start waits for what is left of the run to be removed
_STRAY = 20.0  # seconds that pods have to go with their Job
_LONGEST_STRAY = 300.0
_AWAY = 60.0  # seconds for which pods that do not go keep their run from another try
_LOOK = 0.2  # seconds between two looks at them
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 15.0  # seconds


class Sweeping:
    """For as long as ``site`` is open; what was not done by then the next controller finds by the tickets."""

    def __init__(self, site: Site, estates: Estates) -> None:
        self._site = site
        self._estates = estates
        self._runs: dict[Run, asyncio.Task[None]] = {}
        self._problems: dict[Run, str] = {}  # why a run cannot be removed yet
        self._swept: set[Run] = set()  # ever, and still seen
        self._straying: set[Run] = set()  # whose pods are seen to
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False

    def sweep(self, run: Run) -> None:
        """Removes what there is of a run, in the background."""
        self._swept.intersection_update(self._site.seen.runs())
        self._swept.add(run)
        task = self._runs[run] = self._site.soon(self._remove(run))
        task.add_done_callback(lambda done: self._runs.pop(run, None) if self._runs.get(run) is done else None)

    def sees_to(self, run: Run) -> bool:
        """Whether what is seen of a run is what this controller has removed, or is removing."""
        return run in self._swept

    async def swept(self, run: Run) -> None:
        """Returns when nothing of the run is being removed. Raises BackendError when that takes long.

        Pods are waited for as well: while the cluster's own controllers cannot hear that their Job is gone, another one of its name
        would be taken for it, and what the first one had would stay for ever.
        """
        task = self._runs.get(run)
        if task is not None and not (await asyncio.wait([task], timeout=PATIENCE))[0]:
            why = self._problems.get(run, "")
            text = "what is left of the try before is not removed yet"
            raise BackendError(f"{text}: {why}" if why else text, transient=True)

    async def _remove(self, run: Run) -> None:
        pause = _FIRST_PAUSE
        ticket = tickets.load(run)
        while self._has_objects(run):
            try:
                if await self._site.objects.remove(run, ticket.submission if ticket is not None else ""):
                    self._site.seen.job_is_gone(run)
                if ticket is not None and not ticket.torn:
                    # Script, environment and key are not left to a garbage collector that may lag for minutes.
                    await self._site.objects.tear(run, ticket.submission)
                break
            except TakenOver:
                break  # another machine acts for it
            except ApiError as error:
                if self._problems.get(run) != error.message:
                    self._site.log("job %s: it cannot be removed yet: %s", run.job_id, error.message)
                self._problems[run] = error.message
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._problems.pop(run, None)
        TicketFolder(run).remove()
        self.look()
        if run not in self._straying:
            self._straying.add(run)
            self._site.soon(self._remove_strays(run))
        loop = asyncio.get_running_loop()
        end = loop.time() + _AWAY
        while self._site.seen.strays(run) and loop.time() < end:
            await asyncio.sleep(_LOOK)

    async def _remove_strays(self, run: Run) -> None:
        """Sees to what the garbage collector should have removed: for minutes after its API server was killed it does not come."""
        pause = _STRAY
        try:
            while True:
                await asyncio.sleep(pause)
                strays = self._site.seen.strays(run)
                if not strays or not await self._removed(run, strays):
                    return
                if all("deletionTimestamp" in pod["metadata"] for pod in strays):
                    pause = min(2 * pause, _LONGEST_STRAY)  # on a node that does not answer they stay
        finally:
            self._straying.discard(run)

    async def _removed(self, run: Run, strays: list[dict[str, Any]]) -> bool:
        """Whether the pods are this machine's to remove, as has been tried."""
        for pod in strays:
            metadata = pod["metadata"]
            try:
                await self._site.objects.remove_pod(run, metadata["name"], uid=metadata["uid"])
            except TakenOver:
                return False
            except ApiError as error:
                self._site.log("job %s: a pod cannot be removed yet: %s", run.job_id, error.message)
        return True

    def _has_objects(self, run: Run) -> bool:
        """Whether there may be objects of the run that are this home's: names alone would do for another machine's as well."""
        seen = tickets.load(run) is not None or self._site.seen.owner_of(run) is not None
        return seen and not self._estates.is_lost(run)

    # Estates

    def look(self) -> asyncio.Task[None]:
        """Gives up estates of which nothing is left, here or at all, in the background."""
        self._look_again = True
        if self._looking is None or self._looking.done():
            self._looking = self._site.soon(self._look())
        return self._looking

    async def _look(self) -> None:
        pause = _FIRST_PAUSE
        while self._look_again:
            self._look_again = False
            try:
                await self._give_up_empty()
            except (ApiError, OSError) as error:
                self._site.log("cluster %s: %s", self._site.cluster, error)
                self._look_again = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _give_up_empty(self) -> None:
        known = map(tickets.load, tickets.known(self._site.cluster))
        owners = {found.adopted for found in known if found is not None}
        for owner, estate in list(self._estates.adopted.items()):
            gone = estate.synced.is_set() and not self._site.seen.runs_of(owner)
            if owner not in owners and (estate.lease.lost or gone):
                await self._estates.drop(owner)
        if self._estates.home.lease.lost and "" not in owners:
            await self._estates.begin_anew()
        await self._estates.clear()
