"""A run as it is seen from here, and what is told of it: shared by those who look at its start, its course and its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Observer, Run
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.lease import TakenOver
from shim.control.backends.kubernetes.observed import PodView, look
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.core.model import states

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.site import Site

_TEAR_PAUSE = 5.0  # seconds
_PREEMPTED = ("PreemptionByScheduler",)  # why pods are taken away that make way for others
_UNHEARD = 30.0  # seconds beyond its grace after which a pod that is deleted should be gone


class Watched:
    """``folder`` holds the ticket; ``seen``: the last line of the journal that the index has. ``started``: user code may run."""

    def __init__(
        self, site: Site, run: Run, settings: Settings, folder: TicketFolder, observer: Observer, seen: int
    ) -> None:
        ticket = folder.ticket or folder.make()
        self.site = site
        self.run = run
        self.settings = settings
        self.folder = folder
        self.seen = seen
        self.submission = ticket.submission
        self.nodes = ticket.nodes
        self.pinned = ticket.pinned
        self.adopted = bool(ticket.adopted)
        self.started = seen > 0 or ticket.torn
        self.over = False
        self.preempted = ""  # by whom, in the cluster's words
        self.changed = asyncio.Event()  # something about the run's objects is new
        self._observer = observer
        self._placed: tuple[tuple[str, ...], bool] = ((), False)
        self._told: tuple[str, str] = ("", "")
        self._tearing = False
        self._since: dict[str, float] = {}  # when a state began that is not borne for ever
        self._loop = asyncio.get_running_loop()

    def views(self) -> list[PodView]:
        """The run's pods as they are known. Not those of an attempt before, which may be there still: they have no Secret."""
        found = self.site.seen.pods_of(self.run)
        views = [look(pod) for pod in found if names.submission_of(pod) == self.submission]
        for view in views:
            if view.disruption in _PREEMPTED:
                self.preempted = view.takes or view.disruption
        return views

    @staticmethod
    def leader(views: list[PodView]) -> PodView | None:
        """The first pod, if it is there."""
        return next((view for view in views if view.index == 0), None)

    def elapsed(self, state: str, holds: bool) -> float:
        """Seconds for which ``state`` has held without a break."""
        if not holds:
            self._since.pop(state, None)
            return 0.0
        return self._loop.time() - self._since.setdefault(state, self._loop.time())

    def unanswered(self, view: PodView) -> bool:
        """Whether nobody on the pod's node hears what is wanted of it. Whoever may not see nodes tells it by pods that do not go."""
        late = self.elapsed(f"leaving {view.uid}", view.leaving) > view.grace + _UNHEARD
        return bool(view.node) and not view.over and (view.silent or late or self.site.node_is_silent(view.node))

    async def wait(self, seconds: float | None) -> None:
        """Returns when something has changed, or after ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            pass  # looked at again because of the time alone

    # What the controller is told

    def tell(self, line: dict[str, Any]) -> None:
        """A line of the journal, or one in its form."""
        self.over = self.over or line["kind"] == "ended"
        if line["kind"] == "ended" and line.get("state") == states.NODE_FAIL and self.started and self.makes_way():
            line = {**line, "state": states.PREEMPTED, "reason": "None", "detail": self.preempted}
        elif line["kind"] == "ended" and line.get("state") == states.BOOT_FAIL and " " in line.get("reason", ""):
            line = {**line, "reason": "JobLaunchFailure", "detail": line["reason"]}  # why we had the leader end it
        self._observer.happened(self.run, line)

    def tell_verdict(self, verdict: dict[str, Any]) -> None:
        """The end that was decided here."""
        self.over = True
        reason = str(verdict.get("reason") or "")
        if verdict["kind"] == "withdrawn" and self.adopted:
            # Its script and its place in the queue were on the machine that is gone.
            self.tell({"at": self.site.now(), "kind": "ended", "state": states.BOOT_FAIL, "status": 0})
        elif verdict["kind"] == "withdrawn":
            self._observer.withdrawn(self.run, reason)
        elif verdict["kind"] == "lost" and self.started and self.makes_way():
            self.tell({"at": self.site.now(), "kind": "ended", "state": states.NODE_FAIL, "status": 0})
        elif verdict["kind"] == "lost":
            self._observer.lost(self.run, reason)
        else:
            self.tell({"at": self.site.now(), **verdict})

    def makes_way(self) -> bool:
        """Whether the run makes way for another one: the cluster says so before it takes pods away, a queueing system by suspending the Job."""
        self.views()
        if not self.preempted and self.settings.queue and self.site.seen.suspended(self.run):
            self.preempted = f"queue {self.settings.queue} took it back"
        return bool(self.preempted)

    def tell_place(self, views: list[PodView]) -> None:
        """The nodes that the cluster has chosen, once all are known; also those from which others are still being sent away."""
        ordered = sorted(views, key=lambda view: view.index)
        nodes = tuple(view.node or view.nominated for view in ordered)
        planned = not all(view.node for view in ordered)
        if len(nodes) == self.nodes and all(nodes) and (nodes, planned) != self._placed and self.site.names_nodes:
            self._placed = nodes, planned
            self.tell({"kind": "placed", "nodes": list(nodes), **({"planned": True} if planned else {})})

    def tell_reason(self, reason: str, detail: str = "") -> None:
        """Why the run does not start, or what is wrong with it; "None" when nothing is."""
        if (reason, detail) != self._told and (self._told[0] or reason != "None"):
            self._told = (reason, detail)
            self.tell({"kind": "waits", "reason": reason, "detail": detail})

    def begun(self) -> None:
        """User code runs: from now on no pod of this run may begin."""
        self.tell_place(self.views())
        self.started = True
        self.tear()

    def tear(self) -> None:
        """User code runs: from now on no pod of the run may begin. Tried again until that is certain."""
        if not self._tearing:
            self._tearing = True
            self.site.soon(self._tear())

    async def _tear(self) -> None:
        ticket = self.folder.load()
        if ticket is None or ticket.torn:
            return
        await self._keep()
        while True:
            try:
                await self.site.objects.tear(self.run, ticket.submission)
                break
            except TakenOver:
                return  # another machine sees to it
            except ApiError as error:
                self.site.log("job %s: its Secret cannot be removed yet: %s", self.run.job_id, error.message)
            if self.over:
                return  # it goes with its Job
            await asyncio.sleep(_TEAR_PAUSE)
        ticket = self.folder.load()
        if ticket is not None:  # it was not forgotten meanwhile
            self.folder.save(ticket.replace(torn=True))

    async def _keep(self) -> None:
        """Leaves in the cluster what another machine would need if this one is lost. Without it the job runs as well."""
        job, record = self.site.seen.job(self.run), self.folder.kept()
        if job is not None and record:
            try:
                await self.site.objects.keep(self.run, job, record, self.folder.key())
            except (ApiError, OSError) as error:
                self.site.log("job %s: no other machine could carry it on: %s", self.run.job_id, error)

    def broken_before_start(self, line: dict[str, Any]) -> bool:
        """Whether the leader ended because a node was lost, and nothing of the user's has run."""
        return line["kind"] == "ended" and line.get("state") == states.NODE_FAIL and not self.started
