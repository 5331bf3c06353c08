"""A run before its start: whether its pods are placed, why they are not, and when it is given up.

Nothing here decides whether user code starts: the agents' barrier does. A gang that cannot be complete is taken back only when
the barrier is sure to stay shut: a pod that was never placed is removed, the Secret is removed before there are pods, or the leader
itself ends.
"""

from __future__ import annotations

from collections.abc import Callable

from shim.control.backends.base import Order
from shim.control.backends.kubernetes import names, unmet
from shim.control.backends.kubernetes.closing import BOOT_FAIL, RETRY, Closing
from shim.control.backends.kubernetes.observed import PodView, look
from shim.control.backends.kubernetes.warnings import FIRST, Warnings
from shim.control.backends.kubernetes.watched import Watched
from shim.core.model import states

GIVE_UP = 0  # the number of our own order to the leader: the index's begin at 1
QUOTA = "AssocGrpResourceLimit"  # Slurm's reason for a group's limit
_PINNED_WAIT = 5.0  # seconds for a gang that was given these very nodes because they were free
_UNDONE_WAIT = 5.0  # seconds until a Job that was to be let go, and was not, is taken back: the watch may lag
_HEARD = 5.0  # seconds in which a leader that is reached has told what has happened
_OFTEN = 30.0  # seconds between looks, whatever else there is to wait for
_QUEUED = 60.0  # seconds between looks at a job that a queueing system holds: its changes are told
_AUTOSCALE_WAIT = 1200.0  # seconds for a node to be added


class Starting:
    """``order`` passes an order to the leader; ``heard()``: what the leader says is heard, so that it is known what has not begun."""

    def __init__(
        self, watched: Watched, closing: Closing, order: Callable[[Order], None], heard: Callable[[], bool]
    ) -> None:
        self._watched = watched
        self._closing = closing
        self._order = order
        self._heard = heard
        self._warnings = Warnings(watched.site)
        self._unmet = unmet.Unmet(watched.site)
        self._torn = False  # the Secret was removed from here, because pods did not come

    async def look(self, views: list[PodView]) -> float:
        """Seconds until time alone may change something, or a node that nobody tells of."""
        return min(_OFTEN, await self._look(views))

    async def _look(self, views: list[PodView]) -> float:
        placed = len(views) == self._watched.nodes and all(view.node for view in views)
        unheard = self._unheard(views)
        if placed and unheard:
            return await self._look_unheard(views, *unheard[0])
        died = next((view for view in views if view.ended is not None), None)
        if died is not None:
            await self._not_complete(views, died)
            return RETRY
        if not placed:
            return await self._look_unplaced(views)
        self._watched.elapsed("unplaced", False)
        return await self._look_placed(views)

    async def shut(self) -> None:
        """Removes the Secret: pods that are not there yet cannot begin without it."""
        if not self._torn:
            await self._watched.site.objects.tear(self._watched.run, self._watched.submission)
            self._torn = True

    async def _look_unplaced(self, views: list[PodView]) -> float:
        watched = self._watched
        texts = [view.unschedulable for view in views if view.unschedulable]
        # One pod of a gang tells the real reason, the others that they wait for it.
        text = next((one for one in texts if one.startswith("0/")), texts[0] if texts else "")
        if watched.settings.queue and watched.site.seen.suspended(watched.run):
            watched.tell_reason("Resources", f"waits in queue {watched.settings.queue}")
            watched.elapsed("unplaced", False)
            return _QUEUED
        # While others are being sent away for it a gang is as good as placed.
        waits = watched.elapsed("unplaced", not any(view.nominated for view in views))
        if not texts:
            # Pods that are not there have no status: the Job's events tell why.
            job = watched.site.seen.job(watched.run)
            text = await self._warnings.about(job["metadata"].get("uid", "") if job else "", waits)
        watched.tell_reason(QUOTA if "exceeded quota" in text else "Resources", text)
        patience = self._patience(any(view.node for view in views))
        if waits < patience:
            return min(patience - waits, patience if texts and any(view.node for view in views) else FIRST)
        await self._undo(views, text or "its pods were not created")
        return RETRY

    def _patience(self, holds: bool) -> float:
        """Seconds that the gang may wait for its nodes. ``holds``: it has some of them, which others may want."""
        settings = self._watched.settings
        if self._watched.site.seen.never_let_go(self._watched.run):
            return _UNDONE_WAIT
        if settings.autoscale or self._watched.adopted:  # one that is carried on here would not be started again
            return max(_AUTOSCALE_WAIT, settings.bind_wait)
        if self._watched.pinned and holds:
            return min(_PINNED_WAIT, settings.bind_wait)
        return float(settings.bind_wait)

    async def _undo(self, views: list[PodView], why: str) -> None:
        objects = self._watched.site.objects
        unplaced = [view for view in views if not view.node]
        leader = self._watched.leader(views)
        if unplaced:
            # A pod that is being deleted is bound to no node: without it the barrier stays shut.
            run, one = self._watched.run, unplaced[0]
            if not await objects.remove_pod(run, one.name, uid=one.uid, version=one.version):
                return  # it has changed: looked at again
        elif leader is not None and leader.running:
            self._end_by_leader(states.NODE_FAIL, why)  # one that is not there may have been: only the leader knows
            return
        elif leader is not None and self._watched.unanswered(leader):
            await self._closing.lost(f"node {leader.node} does not answer")
            return
        else:
            await self.shut()
            if leader is not None:
                await objects.remove_pod(self._watched.run, leader.name, uid=leader.uid)
                return  # how it ends says whether it has begun
            if not await self._never_led():
                return
        await self._closing.close({"kind": "withdrawn", "reason": why})

    async def _never_led(self) -> bool:
        """Whether it is certain that a run without a first pod has not begun. If nobody will ever know it is told as lost.

        The API server is asked, as what is watched may lag behind: by seconds when that has just come back.
        """
        watched = self._watched
        pods, job = await watched.site.objects.made(watched.run, watched.submission)
        if not job:
            watched.site.seen.job_is_gone(watched.run)
            return False
        if any(look(pod).index == 0 for pod in pods):
            return False  # it came meanwhile, and may have begun: the watch is about to tell
        if watched.site.seen.leaders.unknown(watched.run, job):
            await self._closing.lost("the job's first pod is gone, and nobody has seen how")
            return False
        return True

    def _unheard(self, views: list[PodView]) -> list[tuple[PodView, float]]:
        """Pods on nodes that do not answer, and for how many seconds; the longest first."""
        watched = self._watched
        found = []
        for view in views:
            silent = watched.unanswered(view)
            stands = watched.elapsed(f"unheard {view.uid}", silent)
            if silent:
                found.append((view, stands))
        return sorted(found, key=lambda one: -one[1])

    async def _look_unheard(self, views: list[PodView], unheard: PodView, stands: float) -> float:
        """A pod is on a node that does not answer: without it the barrier cannot open, if it has not."""
        watched = self._watched
        why = f"node {unheard.node} does not answer"
        watched.tell_reason("NodeNotResponding", why)
        patience = float(min(watched.settings.bind_wait, watched.settings.node_wait))
        if stands < patience:
            return patience - stands
        leader = watched.leader(views)
        if leader is None or watched.unanswered(leader):
            await self._closing.lost(why)  # nobody can tell whether it has begun
        else:
            await self._take_away(leader, why)
        return RETRY

    async def _look_placed(self, views: list[PodView]) -> float:
        watched = self._watched
        stuck = next((view for view in views if view.obstacle), None)
        late = next((view for view in views if not view.running), None)
        limit = watched.settings.boot_limit
        stands = watched.elapsed("starting", late is not None)
        reason, text = (stuck.obstacle, stuck.detail) if stuck else ("None", "")
        if late is not None and stuck is None:
            # A volume that is not there is told by events alone.
            text = await self._warnings.about(late.uid, stands)
            reason = "FailedMount" if text else reason
            if stands >= FIRST and await self._ticket_is_gone(text):
                leader = watched.leader(views) or late
                await self._take_away(leader, f"the Secret was gone before pod {late.name} began")
                return RETRY
        if late is None:
            return await self._look_meeting(views)
        watched.elapsed("meeting", False)
        watched.tell_reason(reason, text)
        if stands < limit:
            return min(limit - stands, limit if stuck else FIRST)
        await self._give_up(views, f"{reason}: {text}" if text else "the pods did not start in time")
        return RETRY

    async def _look_meeting(self, views: list[PodView]) -> float:
        """All pods run: they find each other at once, or something keeps them apart."""
        watched = self._watched
        stands = watched.elapsed("meeting", True)
        text = await self._unmet.about(views, stands)
        watched.tell_reason(unmet.REASON if text else "None", text)
        known = watched.elapsed("heard", self._heard()) > _HEARD
        if stands < watched.settings.boot_limit or not known or (watched.folder.stage() and not text):
            return unmet.FIRST / 4
        await self._give_up(views, f"{unmet.REASON}: {text}" if text else "the pods have not met in time")
        return RETRY

    async def _ticket_is_gone(self, text: str) -> bool:
        """Whether pods that have not mounted the Secret never will: it is not made a second time. ``text``: what the cluster warns of."""
        watched = self._watched
        name = names.attempt(watched.run, watched.submission)
        return (self._torn or name in text) and await watched.site.objects.secret(name) is None

    async def _take_away(self, one: PodView, why: str) -> None:
        """Shuts the barrier for a gang that cannot be complete: by its leader, if there is ``one``, which says at its end whether it
        had begun all the same.
        """
        if one.index == 0 and one.running:
            self._end_by_leader(states.NODE_FAIL, why)
        else:
            await self._watched.site.objects.remove_pod(self._watched.run, one.name, uid=one.uid)

    async def _not_complete(self, views: list[PodView], died: PodView) -> None:
        """A pod ended before the start, as far as is known here."""
        assert died.ended is not None
        leader = self._watched.leader(views)
        if leader is None and not await self._never_led():
            return
        if died.ended.code == 0:
            if leader is None:
                await self._undo(views, f"pod {died.name} was let go")
            return  # the leader let it go: its end is about to be seen
        if died.leaving or died.disruption:
            await self._undo(views, f"pod {died.name} was taken away")  # nothing is wrong with the job
            return
        text = " ".join((died.ended.message or died.ended.reason or f"exit code {died.ended.code}").split())
        await self._give_up(views, f"pod {died.name}: {text[:400]}")

    async def _give_up(self, views: list[PodView], why: str) -> None:
        """The gang will never be complete."""
        self._watched.tell_reason("JobLaunchFailure", why)
        leader = self._watched.leader(views)
        if leader is not None and leader.running:
            self._end_by_leader(states.BOOT_FAIL, why)
        elif (leader is None or leader.ended is None) and not await self._leads():
            await self._closing.close(BOOT_FAIL)
        # The record of a leader that has ended decides.

    async def _leads(self) -> bool:
        """Whether a first pod runs, or has, which the watch is still to tell of."""
        pods, _job = await self._watched.site.objects.made(self._watched.run, self._watched.submission)
        return any(view.index == 0 and (view.running or view.over) for view in map(look, pods))

    def _end_by_leader(self, state: str, why: str) -> None:
        self._order(Order(number=GIVE_UP, kind="end", state=state, why=why))
