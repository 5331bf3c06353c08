"""One owner's Lease: who holds it acts for the owner's jobs, and nobody else does.

A home holds its own from its first job on, and renews it while it has jobs in the cluster. Every write about a job asks it first
whether it is still held; time counts while the machine sleeps. Another machine that carries on with the jobs takes the Lease,
by a write that only one can win; it is never given back.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.errors import ApiError

Object = dict[str, Any]
_FRESH = 0.6  # of the duration: so long a renewal is relied upon, what is under way then ends in time
_TRIES = 5
_ASK_AGAIN = 60.0  # seconds for which a refusal counts: a server that begins, a quota, a webhook refuse for a while


def now() -> float:
    """Seconds that have passed, also while the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class TakenOver(ApiError):
    """Another machine acts for this owner's jobs."""

    def __init__(self, owner: str) -> None:
        super().__init__(409, "TakenOver", f"another machine carries on with the jobs of {owner}")


class Lease:
    """``holder``: this home; ``lost()`` is called once, when somebody else has it."""

    def __init__(
        self,
        access: Access,
        namespace: str,
        owner: str,
        holder: str,
        duration: int,
        lost: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.holder = holder
        self.lost = False
        self._refused = (
            0.0  # this user may have no Leases, as far as is known until then: everything goes on as without
        )
        self._had = False  # it was held once
        self._access = access
        self._leases = leases(namespace)
        self.path = f"{self._leases}/{names.lease(owner)}"
        self._duration = duration
        self._tell_lost = lost
        self._until = 0.0  # it is held until then, for sure
        self._found: Object | None = None  # as it was written last
        self._given_up = False
        self._turn = asyncio.Lock()  # one write at a time: none comes after the Lease was removed

    @property
    def unused(self) -> bool:
        """Whether this user may have no Leases: nobody can take over. It is asked again from time to time."""
        return now() < self._refused

    async def hold(self) -> None:
        """Returns when it is held. Raises TakenOver; another ApiError when that cannot be known now."""
        if not self.unused and (self.lost or now() >= self._until):
            async with self._turn:
                if self.lost or now() >= self._until:
                    await self._renew()

    async def renew(self) -> None:
        """Says that its holder is there, whether that is needed yet or not. Raises as ``hold``."""
        async with self._turn:
            await self._renew()

    async def _renew(self) -> None:
        for _ in range(_TRIES):
            if self.lost or self._given_up:
                raise TakenOver(self.owner)
            asked = now()
            try:
                self._found = await self._written(self._found)
            except ApiError as error:
                remembered, self._found = self._found, None
                if error.forbidden and not self._had:
                    self._refused = now() + _ASK_AGAIN
                    return
                if error.conflict or (error.missing and remembered is not None):
                    continue  # it is another one by now: looked at
                raise
            if self.lost:
                raise TakenOver(self.owner)
            self._until = asked + _FRESH * self._duration
            self._had, self._refused = True, 0.0
            return
        raise ApiError(409, "Conflict", f"lease {names.lease(self.owner)} is changed all the time")

    async def _written(self, found: Object | None) -> Object:
        if found is None:
            try:
                found = await self._access.get(self.path)
            except ApiError as error:
                if not error.missing:
                    raise
                return await self._access.post(self._leases, await self._new())
        if holder_of(found) != self.holder:
            self._lose()
            return found
        return await self._access.put(self.path, signed(found, self.holder, self._duration))

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self._tell_lost()

    async def _new(self) -> Object:
        metadata: Object = {
            "name": names.lease(self.owner),
            "labels": {names.MANAGED: names.MANAGER, names.OWNER: self.owner},
        }
        user = await whoami(self._access)
        if user:
            metadata["labels"][names.USER] = user
        if self.holder != self.owner:
            metadata["annotations"] = {names.RETURNED: "true"}  # only the owner itself, come back, removes it
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        return signed(lease, self.holder, self._duration)

    async def give_up(self, *, wanted: Callable[[Object], bool] = lambda found: True) -> None:
        """Never writes it again, and removes it if this holder has it and it is ``wanted``: nobody else would. May be repeated."""
        async with self._turn:
            self._given_up, self._until = True, 0.0
            if self.unused or self.lost:
                return
            for _ in range(_TRIES):
                try:
                    found = await self._access.get(self.path)
                    if holder_of(found) == self.holder and wanted(found):
                        await self._access.delete(self.path, version=found["metadata"].get("resourceVersion"))
                    return
                except ApiError as error:
                    if error.missing or error.forbidden:
                        return
                    if not error.conflict:
                        raise
            raise ApiError(409, "Conflict", f"lease {names.lease(self.owner)} is changed all the time")


def returned(lease: Object) -> bool:
    """Whether the owner has come back and knows that it has lost its jobs: the Lease need not tell it."""
    return names.RETURNED in (lease["metadata"].get("annotations") or {})


def leases(namespace: str) -> str:
    """Where the Leases of a namespace are."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def holder_of(lease: Object) -> str:
    """Who holds it."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def signed(lease: Object, holder: str, duration: int) -> Object:
    """The Lease with a sign of life of ``holder``, which has it from now on. Only what was read is replaced by it."""
    spec = dict(lease.get("spec") or {})
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    if spec.get("holderIdentity") not in (None, holder):
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
    if spec.get("holderIdentity") != holder:
        spec["acquireTime"] = stamp
    return {**lease, "spec": {**spec, "holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": stamp}}


async def whoami(access: Access) -> str:
    """Who this user is for the API server, as a label may say it: a hash. "" where that cannot be asked (before Kubernetes 1.28)."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await access.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", dict(kind))
    except ApiError as error:
        if error.missing or error.forbidden:
            return ""
        raise
    name = str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
    return hashlib.sha256(f"slurm-shim {name}".encode()).hexdigest()[:40] if name else ""
