"""Ended jobs are kept for a time (``retention``), as slurmdbd's purge has it; then the index forgets them, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shim.control.controller.connection import Connection
from shim.control.controller.world import World, log
from shim.control.index.errors import IndexFault
from shim.core.errors import ShimError
from shim.core.model.job import Job

DAY = 86400.0
BEGIN = 2.0  # seconds from a controller's start to its first look: dependencies are judged before
EVERY = 6 * 3600.0  # seconds between looks
AT_ONCE = 200  # jobs in one transaction
UNHEARD = 366 * DAY  # after which a real Slurm's job has ended, whether that was seen or not


class Pruning:
    """``days``: how long ended jobs are kept; 0: for ever. ``memory()``: seconds for which they are remembered whatever is asked for."""

    def __init__(self, world: World, days: int, memory: Callable[[], float]) -> None:
        self._world = world
        self._days = days
        self._memory = memory

    async def keep_on(self) -> None:
        """Forgets what is too old, again and again."""
        if not self._days:
            return
        await asyncio.sleep(BEGIN)
        while True:
            try:
                gone = await self._prune(self._before(self._days), dry_run=False)
            except IndexFault as fault:
                log.error("%s", fault)
            else:
                if gone:
                    log.info("%s jobs that ended more than %s days ago are kept no longer", gone, self._days)
            await asyncio.sleep(EVERY)

    async def asked(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """The operation ``prune``: jobs (how many), before (epoch)."""
        days = message.get("days")
        if days is None and not self._days:
            raise ShimError("error: retention is 0, jobs are kept for ever: --older-than says which go all the same")
        before = self._before(self._days if days is None else int(days))
        return {"jobs": await self._prune(before, dry_run=bool(message.get("dry_run"))), "before": before}

    def _before(self, days: int) -> float:
        return self._world.clock() - max(days * DAY, self._memory())

    async def _prune(self, before: float, *, dry_run: bool) -> int:
        """Forgets what ended before that second; how many jobs."""
        store = self._world.book.store
        self._world.book.forget_before(self._world.clock() - self._memory())
        count, after = 0, (0.0, 0)
        while found := store.old_jobs(before, after, AT_ONCE):
            after = (found[-1][1], found[-1][0])
            wanted = self._wanted()
            old = [one for one in found if one[0] not in wanted]
            if not dry_run:
                store.drop_jobs(old)
            count += len(old)
            await asyncio.sleep(0)
        unheard = self._world.clock() - max(UNHEARD, self._memory())
        return count + store.drop_passed(before, min(before, unheard), dry_run=dry_run)

    def _wanted(self) -> set[int]:
        """The keys of jobs that are still needed: those in memory, and the other components of jobs that go on."""
        book = self._world.book
        parts: list[Job] = [part for job in book.active() if job.het_job_id for part in book.components(job)]
        return {*book.jobs, *(part.key for part in parts)}
