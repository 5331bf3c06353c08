"""One run as its pods show it, and what the controller is told of it: shared by those who look at its start and its course."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Observer, Run
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.pod_view import PodView, suspended
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model import states

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site

_PREEMPTED = ("PreemptionByScheduler",)  # why pods are taken away that make way for others
_UNHEARD = 30.0  # seconds beyond its grace after which a pod that is deleted should be gone


class Context:
    """``run``: as the controller calls it; ``number``: in the record; ``seen``: the last line of the journal that the index has."""

    def __init__(
        self,
        site: Site,
        run: Run,
        record: str,
        number: int,
        nodes: int,
        settings: Settings,
        observer: Observer,
        seen: int,
    ) -> None:
        self.site = site
        self.run = run
        self.record = record
        self.number = number
        self.nodes = nodes
        self.settings = settings
        self.seen = seen
        self.begun = seen > 0  # its leader has said that user code runs
        self.over = False  # its end was told
        self.members: frozenset[str] = frozenset()  # uids of the pods that it was granted to
        self._observer = observer
        self.preempted = ""  # by whom, in the cluster's words
        self._placed: tuple[tuple[str, ...], bool] = ((), False)
        self._told: tuple[str, str] = ("", "")
        self._since: dict[str, float] = {}  # when a state began that is not borne for ever
        self._loop = asyncio.get_running_loop()

    def views(self) -> list[PodView]:
        """The run's pods as they are known, one for each index."""
        views = self.site.seen.views(self.run.job_id, self.record, self.number, self.members)
        for view in views:
            if view.disruption in _PREEMPTED:
                self.preempted = view.takes or view.disruption
        return views

    def makes_way(self) -> bool:
        """Whether the run makes way for another one: the cluster says so before it takes pods away, a queueing system by suspending the Job."""
        self.views()
        if not self.preempted and self.settings.queue and self._suspended():
            self.preempted = f"queue {self.settings.queue} took it back"
        return bool(self.preempted)

    def _suspended(self) -> bool:
        jobs = self.site.seen.jobs_of(self.run.job_id, self.record)
        return any(suspended(job) for job in jobs if names.number_of(job, names.RUN) == self.number)

    @staticmethod
    def leader(views: list[PodView], uid: str = "") -> PodView | None:
        """The first pod, if it is there; with ``uid`` that very one."""
        return next((view for view in views if view.index == 0 and uid in ("", view.uid)), None)

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

    def left(self) -> list[PodView]:
        """The pods that still hold something, and are heard."""
        return [
            view
            for view in self.views()
            if not view.over and not self.site.node_is_gone(view.node) and not self.unanswered(view)
        ]

    # What the controller is told

    def tell(self, line: dict[str, Any]) -> None:
        """A line of the journal, or one in its form."""
        lost = line["kind"] == "ended" and line.get("state") == states.NODE_FAIL and not line.get("final")
        if lost and self.begun and self.makes_way():
            line = {
                **line,
                "state": states.PREEMPTED,
                "reason": "None",
                "detail": "; ".join(text for text in (self.preempted, line.get("detail")) if text),
            }
        self.over = self.over or line["kind"] == "ended"
        self._observer.happened(self.run, line)

    def tell_end(self, end: dict[str, Any]) -> None:
        """The end that was decided on this side."""
        self.over = True
        reason = str(end.get("reason") or "")
        said = {"detail": end["detail"]} if end.get("detail") else {}
        if end["kind"] == "withdrawn":
            self._observer.withdrawn(self.run, reason)
        elif end["kind"] == "lost" and self.begun and self.makes_way():
            self.tell({"at": self.site.now(), "kind": "ended", "state": states.NODE_FAIL, "status": 0, **said})
        elif end["kind"] == "lost":
            self._observer.lost(self.run, reason, str(end.get("detail") or ""))
        else:
            self.tell({"at": self.site.now(), **end})

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

    def broken_before_start(self, line: dict[str, Any]) -> bool:
        """Whether the leader ended because a node was lost, or because it was refused, and nothing of the user's has run."""
        return line["kind"] == "ended" and line.get("state") == states.NODE_FAIL and not self.begun
