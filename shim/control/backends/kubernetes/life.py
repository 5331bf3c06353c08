"""One run in the cluster, from its objects to its end: what its pods show is turned into what the controller is told.

Nothing here decides whether user code starts: the agents' barrier does. This side only takes back a gang that cannot be
complete, and it does so by removing a pod that is not placed yet: the barrier can then never open.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Observer, Order, Run
from shim.control.backends.kubernetes import names, record
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.following import Follower
from shim.control.backends.kubernetes.observed import PodView, look
from shim.control.backends.kubernetes.proxy import Proxy
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.core.model import states

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.site import Site

RETRY = 2.0  # seconds until the API server is asked again after an error
_FINAL_WORDS = 3.0  # seconds in which a leader that has ended may still be heard over its stream
_LOG_LIMIT = 64 * 1024 * 1024  # bytes
_GIVE_UP = 0  # the number of our own order: the index's begin at 1
_FAREWELL = 5.0  # seconds for a leader to end by itself once its end is known
_CANCEL_PATIENCE = 10.0  # seconds in which a leader that runs should be reached before its run is ended without it
_PINNED_WAIT = 5.0  # seconds for a gang that was given these very nodes because they were free


class Life:
    """``folder`` holds the ticket; ``seen``: the last line of the journal that the index has."""

    def __init__(
        self, site: Site, run: Run, settings: Settings, folder: TicketFolder, observer: Observer, seen: int
    ) -> None:
        ticket = folder.ticket or folder.make()
        self.run = run
        self.started = seen > 0
        self.over = False
        self._site = site
        self._nodes = ticket.nodes
        self._settings = settings
        self._folder = folder
        self._observer = observer
        self._pinned = ticket.pinned
        self._seen = seen
        self._follower: Follower | None = None
        self._proxy = Proxy(folder.path, self.dial)
        self._orders: dict[int, Order] = {}
        self._broken = False  # lost before its start
        self._placed: tuple[str, ...] = ()
        self._told: tuple[str, str] = ("", "")
        self._since: dict[str, float] = {}  # when a state began that is not borne for ever
        self._poke = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    # From outside

    async def begin(self) -> None:
        """Begins to watch the run's pods. OSError when srun could not reach it."""
        await self._proxy.open()
        self._task = self._loop.create_task(self._work())

    def poke(self) -> None:
        """Something about the run's objects has changed."""
        self._poke.set()

    def order(self, order: Order) -> None:
        """Passes an order on to the leader; one that ends a run without a reachable leader is obeyed here."""
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
        while any(view.index == 0 and view.running for view in self.views()) and self._loop.time() < end:
            self._poke.clear()
            try:
                async with asyncio.timeout(end - self._loop.time()):
                    await self._poke.wait()
            except TimeoutError:
                pass  # its pod is removed all the same
        await self.close()

    async def close(self) -> None:
        """Watches no more; the run goes on."""
        await self._end_work()
        if self._follower is not None:
            await self._follower.close()
        await self._proxy.close()

    async def _end_work(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            try:
                await self._task
            except asyncio.CancelledError:
                pass

    async def dial(self) -> Any:
        """A socket to the leader, through its pod. Raises OSError where there is none."""
        leader = self._leader(self.views())
        if leader is None or not leader.running:
            raise ConnectionRefusedError("the job's first pod does not run")
        try:
            return await self._site.connect(leader.name)
        except ApiError as error:
            raise ConnectionError(error.message) from error

    def views(self) -> list[PodView]:
        """The run's pods as they are known."""
        return [look(pod) for pod in self._site.pods_of(self.run)]

    # The work

    async def _work(self) -> None:
        while not self.over:
            self._poke.clear()
            pause: float | None = RETRY
            try:
                pause = await self._look()
            except ApiError as error:
                self._site.log("job %s: %s", self.run.job_id, error.message)
            except Exception:
                # An error of this program must not leave the job for ever as it is: it is looked at again.
                self._site.log("job %s: an internal error", self.run.job_id, exc_info=True)
            if not self.over:
                try:
                    async with asyncio.timeout(pause):
                        await self._poke.wait()
                except TimeoutError:
                    pass  # looked at again because of the time alone

    async def _look(self) -> float | None:
        """Looks at everything once; seconds until time alone may change something (None: never)."""
        ticket = self._folder.ticket
        if ticket is not None and ticket.verdict is not None:
            await self._close(ticket.verdict)
            return None
        if self._broken:
            await self._close({"kind": "withdrawn", "reason": "a pod was lost before the start"})
            return None
        views = self.views()
        leader = self._leader(views)
        if leader is not None and leader.ended is not None:
            return await self._leader_over(leader)
        if leader is not None and leader.running and self._follower is None:
            self._follow()
        if any(order.kind == "end" and order.step is None for order in self._orders.values()):
            pause = await self._end_ordered(leader)
            if self.over or pause is not None:
                return pause
        if self._site.synced and not self._site.has_job(self.run):
            await self._gone(views)
            return RETRY
        if self.started:
            return await self._look_running(views, leader)
        self._tell_place(views)
        return await self._look_starting(views)

    @staticmethod
    def _leader(views: list[PodView]) -> PodView | None:
        return next((view for view in views if view.index == 0), None)

    def _follow(self) -> None:
        self._follower = Follower(
            self.dial, self._folder.key, self._site.turns, self._seen, self._journal, self._folder.outputs()
        )
        for order in self._orders.values():
            self._follower.order(order)

    def _journal(self, line: dict[str, Any]) -> None:
        self._seen = line["n"]
        if line["kind"] == "started":
            self._begun()
        if line["kind"] == "suspect":
            self._tell_reason("NodeNotResponding", f"{line.get('host')} is silent")
            return
        if line["kind"] == "ending" and not self.started:
            return  # what follows says whether it ends, or begins anew
        if line["kind"] == "recovered":
            self._tell_reason("None", "")
            return
        if self._broken_before_start(line):
            self._broken = True
            self.poke()
            return
        self.over = line["kind"] == "ended"
        self._observer.happened(self.run, line)
        self.poke()

    def _broken_before_start(self, line: dict[str, Any]) -> bool:
        """Whether the leader ended because a node was lost, and nothing of the user's has run."""
        return line["kind"] == "ended" and line.get("state") == states.NODE_FAIL and not self.started

    def _begun(self) -> None:
        """User code runs: from now on no pod of this run may begin."""
        self._tell_place(self.views())
        self.started = True
        self._site.soon(self._tear())

    async def _tear(self) -> None:
        ticket = self._folder.load()
        if ticket is not None and not ticket.torn:
            await self._site.objects.tear(self.run)
            self._folder.save(ticket.replace(torn=True))

    def _tell_place(self, views: list[PodView]) -> None:
        nodes = tuple(view.node for view in sorted(views, key=lambda view: view.index) if view.node)
        if len(nodes) == self._nodes and nodes != self._placed and self._site.names_nodes:
            self._placed = nodes
            self._observer.happened(self.run, {"kind": "placed", "nodes": list(nodes)})

    def _tell_reason(self, reason: str, detail: str) -> None:
        if (reason, detail) != self._told:
            self._told = (reason, detail)
            self._observer.happened(self.run, {"kind": "waits", "reason": reason, "detail": detail})

    def _elapsed(self, state: str, holds: bool) -> float:
        """Seconds for which ``state`` has held without a break."""
        if not holds:
            self._since.pop(state, None)
            return 0.0
        return self._loop.time() - self._since.setdefault(state, self._loop.time())

    # Before the start

    async def _look_starting(self, views: list[PodView]) -> float | None:
        died = next((view for view in views if view.ended is not None), None)
        if died is not None:
            await self._not_complete(views, died)
            return RETRY
        unbound = [view for view in views if not view.node]
        missing = self._nodes - len(views)
        waits = self._elapsed("unbound", bool(unbound or missing > 0))
        if unbound or missing > 0:
            text = next((one.unschedulable for one in unbound if one.unschedulable.startswith("0/")), "")
            text = text or next((one.unschedulable for one in unbound if one.unschedulable), "")
            self._tell_reason("Resources", text)
            patience = self._patience(bool(text))
            if waits >= patience:
                await self._undo(views, text or "its pods were not created")
                return RETRY
            return patience - waits
        stuck = next((view for view in views if view.obstacle), None)
        if stuck is not None:
            self._tell_reason(stuck.obstacle, stuck.detail)
        elif self._told[0]:
            self._tell_reason("None", "")
        stands = self._elapsed("starting", not all(view.running for view in views))
        if stands >= self._settings.boot_limit:
            await self._boot_failed(views, stuck)
            return RETRY
        return self._settings.boot_limit - stands

    def _patience(self, unschedulable: bool) -> float:
        if self._settings.autoscale:
            return max(1200.0, self._settings.bind_wait)
        if self._pinned and unschedulable and self._nodes > 1:
            return min(_PINNED_WAIT, self._settings.bind_wait)
        return float(self._settings.bind_wait)

    async def _undo(self, views: list[PodView], why: str) -> None:
        """Takes the gang back, if it is certain that it cannot start meanwhile."""
        objects = self._site.objects
        unbound = [view for view in views if not view.node]
        if unbound:
            # A pod that is being deleted is bound to no node: without it the barrier stays shut.
            if not await objects.remove_pod(unbound[0].name, uid=unbound[0].uid, version=unbound[0].version):
                return  # it has changed: look again
        else:
            await objects.tear(self.run)  # pods that are not there yet cannot begin without it
            if len(self.views()) == self._nodes:
                return
        await self._close({"kind": "withdrawn", "reason": why})

    async def _boot_failed(self, views: list[PodView], stuck: PodView | None) -> None:
        reason = stuck.obstacle if stuck is not None else "the pods did not start in time"
        await self._give_up(views, f"{reason}: {stuck.detail}" if stuck is not None else reason)

    async def _not_complete(self, views: list[PodView], died: PodView) -> None:
        """A pod ended before the start, as far as is known here."""
        assert died.ended is not None
        if died.ended.code == 0:
            return  # the leader let it go: its end is about to be seen
        text = " ".join((died.ended.message or died.ended.reason or f"exit code {died.ended.code}").split())
        await self._give_up(views, f"pod {died.name}: {text[:400]}")

    async def _give_up(self, views: list[PodView], why: str) -> None:
        """The gang will never be complete. A leader that runs must say so itself: only it knows that it has not started."""
        self._tell_reason("JobLaunchFailure", why)
        leader = self._leader(views)
        if leader is not None and leader.running:
            if _GIVE_UP not in self._orders:
                self.order(Order(number=_GIVE_UP, kind="end", state=states.BOOT_FAIL, why=why))
            return
        if leader is not None and leader.ended is not None:
            return  # its record decides
        await self._close({"kind": "ended", "state": states.BOOT_FAIL, "status": 0, "reason": "JobLaunchFailure"})

    async def _close(self, verdict: dict[str, Any]) -> None:
        """Ends the run as ``verdict`` says, when nothing of it can do anything any more. Goes on after a restart."""
        ticket = self._folder.load()
        if ticket is not None and ticket.verdict is None:
            self._folder.save(ticket.replace(verdict={"at": self._site.now(), **verdict}))
        if self._follower is not None:
            await self._follower.close()  # what a leader says that is taken down is no news
        await self._clear()
        self._tell_verdict(verdict)

    def _tell_verdict(self, verdict: dict[str, Any]) -> None:
        self.over = True
        if verdict["kind"] == "withdrawn":
            self._observer.withdrawn(self.run, str(verdict.get("reason") or ""))
        elif verdict["kind"] == "lost":
            self._observer.lost(self.run, str(verdict.get("reason") or ""))
        else:
            self._observer.happened(self.run, {"at": self._site.now(), **verdict})

    # While it runs

    async def _look_running(self, views: list[PodView], leader: PodView | None) -> float | None:
        silent = leader is None or leader.silent
        waits = self._elapsed("silent", silent)
        if not silent:
            return None
        if leader is None:
            await self._lost("the job's first pod was deleted")
            return RETRY
        self._tell_reason("NodeNotResponding", f"{leader.node} does not answer")
        if waits >= self._settings.node_wait:
            await self._lost(f"node {leader.node} does not answer")
            return RETRY
        return self._settings.node_wait - waits

    async def _leader_over(self, leader: PodView) -> float | None:
        waits = self._elapsed("leader over", True)
        if self._follower is not None and self._follower.connected and waits < _FINAL_WORDS:
            return _FINAL_WORDS - waits
        lines = [
            line
            for line in record.lines(leader, self._site.now())
            if int(line.get("n", 0)) == 0 or line["n"] > self._seen
        ]
        if self.over:
            return None
        if not lines:
            await self._lost("the job's first pod has ended without a record")
            return RETRY
        if not self.started and lines[0]["kind"] == "started":
            self._begun()
        if self._broken_before_start(lines[-1]):
            await self._close({"kind": "withdrawn", "reason": "a pod was lost before the start"})
            return None
        await self._fetch_output(leader)
        for line in lines:
            self._observer.happened(self.run, line)
        self.over = True
        return None

    async def _fetch_output(self, leader: PodView) -> None:
        """What nobody fetched while the leader was there comes from the kubelet's log, both streams in one."""
        left = self._follower.outputs_left if self._follower is not None else self._folder.outputs()
        if left and leader.ended is not None:
            text = await self._site.access.log(self._site.namespace, leader.name, names.CONTAINER, limit=_LOG_LIMIT)
            left[0].add(text[left[0].taken() :])

    async def _lost(self, why: str) -> None:
        """Reported once nothing of the run can write any more: what follows may run on the same files."""
        await self._close({"kind": "lost", "reason": why})

    async def _gone(self, views: list[PodView]) -> None:
        """Somebody deleted the Job."""
        if self.started or any(view.running for view in views):
            await self._lost("its Job was deleted")
        else:
            self._tell_reason("JobLaunchFailure", "its Job was deleted")
            await self._close({"kind": "ended", "state": states.FAILED, "status": 0, "reason": "JobLaunchFailure"})

    async def _end_ordered(self, leader: PodView | None) -> float | None:
        """An end is wanted. The leader sees to it; without one it is done from here."""
        waits = self._elapsed("ending", True)
        follower = self._follower
        if (
            leader is not None
            and leader.running
            and (follower is None or follower.connected or waits < _CANCEL_PATIENCE)
        ):
            return None if follower is not None and follower.connected else _CANCEL_PATIENCE
        order = next(order for order in self._orders.values() if order.kind == "end" and order.step is None)
        verdict = {"kind": "ended", "state": order.state or states.CANCELLED, "status": 0, "reason": ""}
        await self._close(verdict if order.uid is None else {**verdict, "uid": order.uid})
        return None

    async def _clear(self) -> None:
        """Removes the run's objects; returns when no pod of it can do anything any more."""
        await self._site.objects.remove(self.run)
        while True:
            self._poke.clear()
            left = [view for view in self.views() if not view.over and not self._site.node_is_gone(view.node)]
            if not left:
                return
            for view in left:
                if not view.node:
                    await self._site.objects.remove_pod(view.name, grace=0, uid=view.uid)
            try:
                async with asyncio.timeout(RETRY):
                    await self._poke.wait()
            except TimeoutError:
                pass  # looked at again
