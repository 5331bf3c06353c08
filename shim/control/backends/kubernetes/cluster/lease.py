"""Which machine orders the jobs of a namespace: the holder of one Lease. No safety rule rests on it: two holders do the same, and one of them each thing.

It is taken when it is free, when its holder was a process of this machine that is no more, or when it has stood unchanged for its whole
duration by this machine's own clock, which counts while the machine sleeps; renewed while there are jobs; given back by a holder that leaves.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.job.pod.asking import boot_id, boot_time

Object = dict[str, Any]
SCHEMA = "slurm-shim.io/schema"
_VERSION = 2
_SIGNS = 5  # signs of life in the duration
_LOOK = 2.0  # seconds between looks at a Lease that another holds
_TRIES = 5


def identity(owner: str) -> str:
    """This process, as a holder: the index, the machine since its boot with its process ids, the process."""
    return f"{owner[:12]}.{_here()}.{os.getpid()}.{_began(os.getpid())}"


def is_dead(holder: str) -> bool:
    """Whether a holder was a process of this machine that has ended."""
    _owner, here, pid, began = (holder.split(".") + ["", "", ""])[:4]
    return bool(here) and here == _here() and pid.isdecimal() and _began(int(pid)) != began


def _here() -> str:
    """Tells processes whose ids mean something here: of this machine, since its boot, in the same namespace of process ids."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{boot_id()} {space}".encode()).hexdigest()[:12] if space and boot_id() else ""


def _began(pid: int) -> str:
    """When a process began, as the kernel counts; "" for none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


class Lease:
    """``holder``: this process. ``lost()`` is called when another has it."""

    def __init__(
        self,
        access: Access,
        namespace: str,
        holder: str,
        duration: int,
        lost: Callable[[], None],
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.held = asyncio.Event()
        self.holder = ""  # who has it, as far as is known
        self._access = access
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._own = holder
        self._duration = duration
        self._lost = lost
        self._clock = clock
        self._stood: tuple[str, float] = ("", 0.0)  # another's Lease: as it was read last, and since when
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    def start(self) -> None:
        """Begins to try for the Lease, and to renew it."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while not self._closing.is_set():
            pause = _LOOK
            try:
                if await self.take():
                    pause = self._duration / _SIGNS
            except ApiError as error:
                pause = self._failed(error)
            await self._wait(pause)

    def _failed(self, error: ApiError) -> float:
        """Where Leases are refused every machine is the holder: safe, and each orders the jobs as if it were alone."""
        self._trouble = error.message
        if error.not_permitted and not self.held.is_set():
            self.held.set()
        return self._duration / _SIGNS if self.held.is_set() else _LOOK

    async def take(self) -> bool:
        """Whether it is this holder's, taken or renewed by this. ApiError."""
        for _ in range(_TRIES):
            try:
                return await self._try()
            except ApiError as error:
                if not error.conflict:
                    raise
        return False

    @property
    def _path(self) -> str:
        return f"{self._leases}/{names.LEASE}"

    async def _try(self) -> bool:
        try:
            found = await self._access.get(self._path)
        except ApiError as error:
            if not error.missing:
                raise
            await self._access.post(self._leases, self._signed({"metadata": self._metadata()}))
            return self._have()
        spec = found.get("spec") or {}
        self.holder = str(spec.get("holderIdentity") or "")
        if self.holder not in ("", self._own):
            if self.held.is_set():
                self.held.clear()
                self._lost()
            if not is_dead(self.holder) and not self._is_over(found):
                return False
        schema = (found["metadata"].get("annotations") or {}).get(SCHEMA, "1")
        if not schema.isdigit() or int(schema) > _VERSION:
            return False  # a later version's controllers hold it: this one may submit and read
        await self._access.put(self._path, self._signed(found))
        return self._have()

    def _have(self) -> bool:
        self.holder = self._own
        self.held.set()
        return True

    def _is_over(self, found: Object) -> bool:
        now, version = self._clock(), str(found["metadata"]["resourceVersion"])
        if self._stood[0] != version:
            self._stood = (version, now)
        duration = int((found.get("spec") or {}).get("leaseDurationSeconds") or 0)
        return now - self._stood[1] >= max(duration, 1)

    def _metadata(self) -> Object:
        return {"name": names.LEASE, "labels": {names.MANAGED: names.MANAGER}}

    def _signed(self, found: Object, holder: str | None = None) -> Object:
        """The Lease with a sign of life, as it was read but for that: another's write in between makes this one a conflict."""
        spec = dict(found.get("spec") or {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        own = self._own if holder is None else holder
        if spec.get("holderIdentity") != own:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
            spec["acquireTime"] = stamp
        spec.update(holderIdentity=own, leaseDurationSeconds=self._duration, renewTime=stamp)
        metadata = dict(found["metadata"])
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SCHEMA: str(_VERSION)}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **found, "metadata": metadata, "spec": spec}

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Tries no more; a Lease that is held is given back: whoever comes next need not wait for it. ApiError."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self.held.is_set() and self.holder == self._own:
            found = await self._access.get(self._path)
            if (found.get("spec") or {}).get("holderIdentity") == self._own:
                await self._access.put(self._path, self._signed(found, ""))
