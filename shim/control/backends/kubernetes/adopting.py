"""Taking over the jobs of a machine that is gone, by its Lease; what becomes of them: orphans.py.

Whose machine it was is the API server's word: the Lease has a hash of the user's name there. That it is gone is seen, not believed: its
Lease has stood unchanged for its whole duration by this machine's own clock.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from shim.control.backends.base import BackendError, Taking
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.estates import Estates
from shim.control.backends.kubernetes.lease import holder_of, leases, signed, whoami
from shim.control.backends.kubernetes.site import Site

Object = dict[str, Any]


class Adopting:
    """Watches the Leases of others, and takes those that have stood still for long enough."""

    def __init__(self, site: Site, estates: Estates) -> None:
        self._site = site
        self._estates = estates
        self._stood: dict[str, tuple[str, float]] = {}  # Leases: as they were seen first, and when
        self._turn = asyncio.Lock()

    async def take_over(self) -> Taking:
        """See ``base.Adopts``."""
        async with self._turn:
            try:
                return await self._take_over()
            except ApiError as error:
                raise BackendError(error.message, transient=error.transient) from error
            except OSError as error:
                raise BackendError(f"{error.strerror}: {error.filename}") from error

    async def _take_over(self) -> Taking:
        user = await whoami(self._site.access)
        if not user:
            raise BackendError("the cluster does not tell who its users are (Kubernetes 1.28 does)")
        taken: list[str] = []
        waits: list[tuple[str, float]] = []
        notes: list[str] = []
        for owner, jobs in sorted((await self._owners()).items()):
            lease = await self._lease(owner)
            if lease is None:
                notes.append(f"{_count(jobs)} of owner {owner[:8]} cannot be taken over: there is no Lease")
                continue
            if (lease["metadata"].get("labels") or {}).get(names.USER) != user:
                continue  # another user's
            left = self._left(owner, lease)
            if left > 0:
                waits.append((owner, left))
            elif await self._estates.add(owner, partial(self._take, lease)):
                taken.append(owner)
            else:
                notes.append(f"another machine was quicker to take over the jobs of owner {owner[:8]}")
        return Taking(taken=tuple(taken), waits=tuple(waits), notes=tuple(notes))

    async def _owners(self) -> dict[str, int]:
        """The owners of Jobs in the namespace that are nobody here, and how many they have."""
        known = {self._estates.home.owner, *self._estates.adopted}
        found = await self._site.access.get(
            self._site.objects.jobs, {"labelSelector": f"{names.MANAGED}={names.MANAGER}"}
        )
        owners: dict[str, int] = {}
        for job in found.get("items") or ():
            owner = names.owner_of(job)
            if owner and owner not in known:
                owners[owner] = owners.get(owner, 0) + 1
        return owners

    async def _lease(self, owner: str) -> Object | None:
        try:
            return await self._site.access.get(f"{leases(self._site.namespace)}/{names.lease(owner)}")
        except ApiError as error:
            if error.missing:
                return None
            raise

    def _left(self, owner: str, lease: Object) -> float:
        """Seconds for which the Lease must still stand unchanged."""
        if holder_of(lease) == self._estates.home.owner:
            return 0.0  # it was taken, and this host killed before it noted that
        now, version = asyncio.get_running_loop().time(), str(lease["metadata"]["resourceVersion"])
        if self._stood.get(owner, ("", 0.0))[0] != version:
            self._stood[owner] = (version, now)
        duration = int((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
        return max(duration, 1) - (now - self._stood[owner][1])

    async def _take(self, lease: Object) -> bool:
        duration = int((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
        path = f"{leases(self._site.namespace)}/{lease['metadata']['name']}"
        try:
            await self._site.access.put(path, signed(lease, self._estates.home.owner, duration))
        except ApiError as error:
            if error.conflict or error.missing:
                return False
            raise
        return True


def _count(jobs: int) -> str:
    return f"{jobs} job" + ("" if jobs == 1 else "s")
