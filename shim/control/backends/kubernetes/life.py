"""One run in the cluster, from its objects to its end: what its pods show is turned into what the controller is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Observer, Order, Run
from shim.control.backends.kubernetes import names, record, volumes
from shim.control.backends.kubernetes.closing import FAILED, RETRY, WITHDRAWN, Closing
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.following import Follower
from shim.control.backends.kubernetes.observed import PodView
from shim.control.backends.kubernetes.output import Output, StepFile
from shim.control.backends.kubernetes.proxy import Proxy
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.starting import GIVE_UP, Starting
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.control.backends.kubernetes.watched import Watched
from shim.core.model import states
from shim.job.pod import echo

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.site import Site

_FINAL_WORDS = 3.0  # seconds in which a leader that has ended may still be heard over its stream
_LOG_LIMIT = 64 * 1024 * 1024  # bytes
_FAREWELL = 5.0  # seconds for a leader to end by itself once its end is known
_ALONE = 5.0  # seconds for which a leader whose other pods are still being started is left alone
_CANCEL_PATIENCE = 10.0  # seconds in which a leader that runs should be reached before its run is ended without it


class Life:
    """``folder`` holds the ticket; ``seen``: the last line of the journal that the index has."""

    def __init__(
        self, site: Site, run: Run, settings: Settings, folder: TicketFolder, observer: Observer, seen: int
    ) -> None:
        self.run = run
        self._site = site
        self._watched = Watched(site, run, settings, folder, observer, seen)
        self._closing = Closing(self._watched, self._hush)
        self._starting = Starting(
            self._watched,
            self._closing,
            self.order,
            lambda: self._follower is not None and self._follower.connected,
        )
        self._follower: Follower | None = None
        self._proxy = Proxy(folder.path, self.dial)
        self._orders: dict[int, Order] = {}
        self._broken = False  # lost before its start
        self._unheard = False  # said that its leader's node does not answer
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    # From outside

    async def begin(self) -> None:
        """Begins to watch the run's pods. Where srun cannot be given a way to it (a full disk) it runs without."""
        try:
            await self._proxy.open()
        except OSError as error:
            self._site.log("job %s: srun cannot reach it from here: %s", self.run.job_id, error.strerror or error)
        self._task = self._loop.create_task(self._work())

    def poke(self) -> None:
        """Something about the run's objects has changed."""
        self._watched.changed.set()

    def order(self, order: Order) -> None:
        """Passes an order on to the leader; one that ends a run without a reachable leader is obeyed here."""
        if order.number in self._orders:
            return
        self._orders[order.number] = order
        if self._follower is not None:
            self._follower.order(order)
        self.poke()

    async def forget(self) -> None:
        """The end is committed: the leader may go. Returns when it has gone, or soon."""
        if self._follower is not None:
            await self._follower.forget()
        await self._end_work()
        end = self._loop.time() + _FAREWELL
        while self._loop.time() < end:
            self._watched.changed.clear()
            leader = self._watched.leader(self._watched.views())
            if leader is None or not leader.running:
                break
            await self._watched.wait(end - self._loop.time())
        await self.close()

    async def close(self) -> None:
        """Watches no more; the run goes on."""
        await self._end_work()
        await self._hush()
        await self._proxy.close()

    async def _hush(self) -> None:
        if self._follower is not None:
            await self._follower.close()

    async def _end_work(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            try:
                await self._task
            except asyncio.CancelledError:
                pass

    async def dial(self) -> Any:
        """A socket to the leader, through its pod. Raises OSError where there is none."""
        leader = self._watched.leader(self._watched.views())
        if leader is None or not leader.running:
            raise ConnectionRefusedError("the job's first pod does not run")
        try:
            return await self._site.connect(leader.name)
        except ApiError as error:
            raise ConnectionError(error.message) from error

    # The work

    async def _work(self) -> None:
        watched = self._watched
        while not watched.over:
            watched.changed.clear()
            pause: float | None = RETRY
            try:
                pause = await self._look()
            except ApiError as error:
                self._site.log("job %s: %s", self.run.job_id, error.message)
            except Exception:
                # An error of this program must not leave the job for ever as it is: it is looked at again.
                self._site.log("job %s: an internal error", self.run.job_id, exc_info=True)
            if not watched.over:
                await watched.wait(pause)

    async def _look(self) -> float | None:
        """Looks at everything once; seconds until time alone may change something (None: never)."""
        watched = self._watched
        if not self._site.synced:
            return None  # what is not known to be there may be there all the same
        if await self._closing.begun():
            return None
        if self._broken:
            await self._closing.close(WITHDRAWN)
            return None
        views = watched.views()
        leader = watched.leader(views)
        gone = self._site.seen.leaders.begun(self.run)
        if gone is not None:
            return await self._leader_gone(gone)
        if leader is not None and leader.ended is not None:
            return await self._leader_over(leader)
        if self._site.seen.leaders.interrupted(self.run) and not watched.started and not watched.settings.queue:
            await self._starting.shut()  # pods that are made anew must not begin: those before may have
        alone = self._alone(views)
        speaks = leader is not None and leader.running and watched.folder.has_key  # to nobody without its key
        if speaks and self._follower is None and not alone:
            self._follow()
        order = self._end_order()
        if order is not None:
            pause = await self._end_ordered(order, leader)
            if watched.over or pause is not None:
                return pause
        if self._site.synced and not self._site.seen.has_job(self.run):
            await self._job_gone(views)
            return RETRY
        if watched.started and self._site.seen.suspended(self.run):
            # Resumed it would be made anew, by whoever suspended it: a queueing system, or a person.
            await self._closing.lost("its Job was suspended")
            return RETRY
        if watched.started:
            return await self._look_running(leader)
        watched.tell_place(views)
        pause = await self._starting.look(views)
        return min(pause, alone) if alone else pause

    def _end_order(self) -> Order | None:
        """The first that ends the whole run. Ours counts if there is none of the user's."""
        found = [one for one in self._orders.values() if one.kind == "end" and one.step is None]
        return min(found, key=lambda one: one.number == GIVE_UP, default=None)

    def _alone(self, views: list[PodView]) -> float:
        """Seconds for which nobody need reach the leader: without all pods nothing begins, and a stream takes time from them."""
        watched = self._watched
        late = len(views) < watched.nodes or any(not view.running and view.ended is None for view in views)
        wanted = watched.started or bool(self._orders) or bool(watched.folder.stage())
        return max(0.0, _ALONE - watched.elapsed("alone", late and not wanted)) if late and not wanted else 0.0

    def _follow(self) -> None:
        watched = self._watched
        self._follower = Follower(
            self.dial,
            watched.folder.key,
            self._site.turns,
            watched.seen,
            self._journal,
            watched.folder.outputs(),
            watched.folder.stage(),
            self._output_trouble,
            self._step_file,
        )
        for order in self._orders.values():
            self._follower.order(order)

    def _step_file(self, told: dict[str, Any]) -> StepFile | None:
        """Where a step's file goes; None for one that the pods share with this machine, or that has no place here."""
        watched = self._watched
        return None if volumes.mounted(str(told["path"]), watched.settings) else watched.folder.step_file(told)

    def _output_trouble(self, text: str) -> None:
        self._watched.tell_reason("OutputNotWritten" if text else "None", text)

    def _journal(self, line: dict[str, Any]) -> None:
        """A line of the leader's journal, heard over its stream."""
        watched = self._watched
        watched.seen = line["n"]
        kind = line["kind"]
        if kind == "started":
            watched.begun()
        if kind == "suspect":
            watched.tell_reason("NodeNotResponding", f"{line.get('host')} is silent")
        elif kind == "recovered":
            watched.tell_reason("None")
        elif watched.broken_before_start(line):
            self._broken = True
        elif kind != "ending" or watched.started:  # before the start what follows says whether it ends, or begins anew
            watched.tell(line)
        self.poke()

    async def _look_running(self, leader: PodView | None) -> float | None:
        watched = self._watched
        watched.tear()  # whoever saw it begin may have been killed
        silent = leader is None or watched.unanswered(leader)
        waits = watched.elapsed("silent", silent)
        if leader is not None and not silent:
            if self._unheard:
                self._unheard = False
                watched.tell_reason("None")
            if leader.leaving:
                return RETRY  # where nobody hears that it is to go nothing but time tells
            return self._patience()
        if leader is None:
            await self._closing.lost("the job's first pod was deleted")
            return RETRY
        watched.tell_reason("NodeNotResponding", f"{leader.node} does not answer")
        self._unheard = True
        left = watched.settings.node_wait - waits
        if left > 0:
            return min(left, self._patience() or left)
        await self._closing.lost(f"node {leader.node} does not answer")
        return RETRY

    def _patience(self) -> float | None:
        """Seconds for which nothing but news counts: a leader that is to end its run may be lost to us."""
        return _CANCEL_PATIENCE if self._orders else None

    # Ends

    async def _leader_gone(self, leader: PodView) -> float | None:
        """The leader has begun the run, and its pod is gone: whatever there is instead must not begin."""
        watched = self._watched
        if not watched.started:
            watched.begun()
        if any(line.get("state") == states.NODE_FAIL for line in record.lines(leader, 0.0)):
            await self._closing.lost("the job's first pod was taken away")
            return RETRY
        return await self._leader_over(leader)

    async def _leader_over(self, leader: PodView) -> float | None:
        """The leader's pod has ended: what it has not told over its stream is in its record."""
        watched = self._watched
        waits = watched.elapsed("leader over", True)
        if self._follower is not None and self._follower.connected and waits < _FINAL_WORDS:
            return _FINAL_WORDS - waits
        found = record.lines(leader, self._site.now())
        lines = [line for line in found if not line.get("n") or line["n"] > watched.seen]
        if not lines:
            await self._closing.lost("the job's first pod has ended without a record")
            return RETRY
        now = self._site.now()  # by the clock of a node that is ahead it would end later, and a requeue wait for that
        lines = [{**line, "at": min(float(line.get("at", now)), now)} for line in lines]
        if lines[0]["kind"] == "started" and not watched.started:
            watched.begun()
        if watched.broken_before_start(lines[-1]):
            await self._closing.close(WITHDRAWN)
            return None
        await self._fetch_output(leader)
        for line in lines:
            watched.tell(line)
        return None

    async def _fetch_output(self, leader: PodView) -> None:
        """What nobody fetched while the leader was there comes from the kubelet's log."""
        left = self._follower.outputs_left if self._follower is not None else list(self._watched.folder.outputs())
        if left:
            try:
                text = await self._site.access.log(self._site.namespace, leader.name, names.CONTAINER, limit=_LOG_LIMIT)
            except ApiError as error:
                if not error.missing:
                    raise
                self._site.log("job %s: its output is incomplete: its first pod is gone", self.run.job_id)
                return
            pieces = echo.split(text)
            if pieces is None:
                # One stream; or an agent that was killed: then both are in one, in about the order in which they were fetched.
                before = sum([await one.taken() for one in self._watched.folder.outputs()])
                pieces = {left[0].stream: (await left[0].taken(), text[before:])}
            for output in left:
                await self._add_rest(output, *pieces.get(output.stream, (0, b"")))

    async def _add_rest(self, output: Output, start: int, text: bytes) -> None:
        """Adds what is not there yet of an output's last bytes, before which there were ``start`` others."""
        taken = await output.taken()
        if taken < start:
            self._site.log("job %s: %s bytes of %s are lost", self.run.job_id, start - taken, output.path)
        try:
            await output.add(text[max(0, taken - start) :])
        except OSError as error:
            # The job has ended all the same, and its pod with the rest of the output goes.
            self._site.log("job %s: its output is incomplete: %s: %s", self.run.job_id, output.path, error.strerror)

    async def _job_gone(self, views: list[PodView]) -> None:
        """Somebody deleted the Job."""
        if self._watched.started or any(view.running for view in views):
            await self._closing.lost("its Job was deleted")
        else:
            self._watched.tell_reason("JobLaunchFailure", "its Job was deleted")
            await self._closing.close(FAILED)

    async def _end_ordered(self, order: Order, leader: PodView | None) -> float | None:
        """An end is wanted. The leader sees to it; without one it is done from here."""
        follower = self._follower
        heard = leader is not None and not self._watched.unanswered(leader)  # a stream to a dead node looks open
        reached = heard and follower is not None and follower.connected
        waits = self._watched.elapsed("unreached", not reached)
        if leader is not None and leader.running:
            if reached:
                return None
            if waits < _CANCEL_PATIENCE:
                return _CANCEL_PATIENCE - waits
        verdict: dict[str, Any] = {"kind": "ended", "state": order.state or states.CANCELLED, "status": 0, "reason": ""}
        await self._closing.close(verdict if order.uid is None else {**verdict, "uid": order.uid})
        return None
