"""Job ids of a cluster whose numbers are shared with other controllers: a stock of them, kept in the index.

A submission needs its id at once and inside a transaction; the backend is asked for more before the stock is used up.
"""

from __future__ import annotations

import asyncio

from shim.control.backends.base import BackendError, NumbersJobs
from shim.control.index.errors import IdsUsedUp
from shim.control.index.store import STOCK, Store
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster

LOW = 5  # fewer than these: more are asked for


class IdStock:
    """The ids of one cluster, oldest first. What a transaction that failed had taken is passed over."""

    def __init__(self, store: Store, cluster: Cluster, backend: NumbersJobs) -> None:
        self._store = store
        self._cluster = cluster
        self._backend = backend
        self._name = f"{STOCK}{cluster.name}"
        self._ranges = _parsed(store.meta(self._name) or "")
        self._asking = asyncio.Lock()

    def __len__(self) -> int:
        return sum(map(len, self._ranges))

    async def ensure(self, count: int = 1) -> None:
        """At least ``count`` ids are there afterwards. Raises ShimError when the cluster gives none."""
        if len(self) >= count:
            return  # whoever asks just now asks for more
        try:
            async with self._asking:
                while len(self) < count:
                    last = self._store.last_job_id(self._cluster.name)
                    found = await self._backend.reserve(max(self._cluster.first_job_id, last + 1))
                    self._ranges.append(found)  # of now: ids were taken meanwhile
        except BackendError as error:
            raise ShimError(f"error: cluster {self._cluster.name}: {error}") from error

    def take(self, count: int = 1) -> int:
        """The first of ``count`` consecutive ids; kept in the transaction under way. Raises IdsUsedUp."""
        for place, ids in enumerate(self._ranges):
            if len(ids) >= count:
                self._ranges[place] = ids[count:]
                self._ranges = [one for one in self._ranges if one]
                self._store.set_meta(self._name, ",".join(f"{one.start}-{one.stop}" for one in self._ranges))
                return ids.start
        raise IdsUsedUp(f"error: cluster {self._cluster.name}: no job id is left")


def _parsed(text: str) -> list[range]:
    found = []
    for part in text.split(",") if text else ():
        start, _, stop = part.partition("-")
        found.append(range(int(start), int(stop)))
    return found
