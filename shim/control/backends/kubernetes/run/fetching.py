"""A run for the machine that its job was submitted on, while another one orders it: its output comes here, srun reaches it from here.

Nothing is decided here. When the job has ended and all of its output is here, the record says so, and may go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from shim.control.backends.base import BackendError, Observer, Run
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.records.record import JobRecord, Way
from shim.control.backends.kubernetes.run.context import Context
from shim.control.backends.kubernetes.run.course import Course
from shim.control.backends.kubernetes.run.register import WITHDRAWN
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model import states
from shim.core.model.job import Job

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

RETRY = 2.0  # seconds until what could not be done is tried again


class _Steps:
    """What is told of a run whose states come from its record: its steps."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        if event["kind"] in ("step", "step-end"):
            self._observer.happened(run, event)

    def lost(self, run: Run, reason: str, detail: str = "") -> None: ...

    def withdrawn(self, run: Run, reason: str) -> None: ...


class Fetching:
    """Of one job. ``index``: the job as the index has committed it last. ``watches``: its output is for this machine."""

    def __init__(
        self,
        site: Site,
        job_id: int,
        settings: Callable[[str], Settings],
        observer: Observer,
        ways: Callable[[JobRecord], tuple[Way, ...]],
        watches: bool,
    ) -> None:
        self.index: Job | None = None
        self.done = asyncio.Event()  # the record says that all is here, or is gone
        self._site = site
        self._job_id = job_id
        self._settings = settings
        self._observer = cast(Observer, _Steps(observer))
        self._ways = ways
        self._watches = watches
        self._course: Course | None = None
        self._complete = -1  # the last run that all is here of
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    def poke(self) -> None:
        """Something about the job has changed."""
        self._changed.set()

    async def close(self) -> None:
        """Fetches no more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._leave()

    async def _work(self) -> None:
        while not self.done.is_set():
            self._changed.clear()
            pause: float | None = RETRY
            try:
                pause = await self._look()
            except (ApiError, BackendError, OSError) as error:
                self._site.log("job %s: %s", self._job_id, error)
            except Exception:
                # An error of this program must not leave the output where it is for ever: it is looked at again.
                self._site.log("job %s: an internal error", self._job_id, exc_info=True)
            if not self.done.is_set():
                await self._wait(pause)
        await self._leave()

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass  # looked at again because of the time alone

    async def _leave(self) -> None:
        course, self._course = self._course, None
        if course is not None:
            await course.close()

    async def _look(self) -> float | None:
        record = self._site.records.find(self._job_id)
        if record is None or record.settled:
            if self._site.synced:
                self.done.set()
            return None
        register = record.register
        if self._course is not None and not self._course.is_of(record):
            await self._leave()
        if register is not None and register.run != self._complete:
            course = self._course = self._course or self._made(record)
            if not course.opened:
                payload = await self._site.records.payload(record)
                await course.open(payload.key(record.uid, register.run))
            pause = await self._follow(record)
            if register.run != self._complete:
                return pause
        if self._watches and record.ended and self.index is not None and self.index.state in states.TERMINAL:
            await self._site.records.write(record, settled=self._site.host)
        return None

    def _made(self, record: JobRecord) -> Course:
        register = record.register
        assert register is not None
        run = Run(cluster=self._site.cluster, job_id=self._job_id, restart=register.restart)
        settings = self._settings(record.job.partition)
        seen = self.index.journal if self.index is not None and self.index.restarts == register.restart else 0
        context = Context(self._site, run, record.uid, register.run, record.job.nodes, settings, self._observer, seen)
        ways = self._ways(record) if self._watches else ()
        return Course(context, record, ways, False, "", self.poke)

    async def _follow(self, record: JobRecord) -> float | None:
        """Fetches what there is by now; seconds until time alone may change something."""
        course, register = self._course, record.register
        assert course is not None and register is not None
        if not register.closed:
            return await course.look(record) if self._watches else None
        if not self._watches or register.state == WITHDRAWN or await course.fetched(register):
            self._complete = register.run
            await self._leave()
            return None
        return RETRY
