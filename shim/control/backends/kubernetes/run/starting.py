"""A run that was made and has not begun: whether its pods are placed, why they are not, and when it is given up.

Nothing here decides whether user code starts: the register does. So a run may be given up at any time and for any reason: either it is
taken back, and then it never begins, or it was granted meanwhile, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.control.backends.base import Progress
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.pod_files import AUTOSCALE_WAIT
from shim.control.backends.kubernetes.run import termination_record
from shim.control.backends.kubernetes.run.context import Context
from shim.control.backends.kubernetes.run.pod_view import PodView, suspended
from shim.control.backends.kubernetes.run.start_troubles import (
    CANNOT_MEET,
    UNMET_AFTER,
    WARNINGS_AFTER,
    Unmet,
    Warnings,
)
from shim.core.model import states

RETRY = 2.0  # seconds until the run's pods are looked at again
QUOTA = "AssocGrpResourceLimit"  # Slurm's reason for a group's limit
_PINNED_WAIT = 5.0  # seconds for a gang that was given these very nodes because they were free
_HEARD = 5.0  # seconds in which a leader that is reached has told what has happened
_OFTEN = 30.0  # seconds between looks, whatever else there is to wait for
_QUEUED = 60.0  # seconds between looks at a job that a queueing system holds: its changes are told

Line = dict[str, Any]


def waits_again(why: str) -> Line:
    """The end of a run whose job waits again."""
    return {"kind": "withdrawn", "reason": why}


def failed(why: str, state: str = states.BOOT_FAIL) -> Line:
    """The end of a job that is not tried again."""
    return {"kind": "ended", "state": state, "status": 0, "reason": "JobLaunchFailure", "detail": why}


class Starting:
    """``pinned``: there was room for the run a moment ago. ``staged``: its leader is to be given an archive; ``heard()``: it is reached.
    ``poke`` has it looked again.
    """

    def __init__(
        self,
        context: Context,
        pinned: bool,
        staged: bool,
        heard: Callable[[], bool],
        poke: Callable[[], None],
    ) -> None:
        self._context = context
        self._pinned = pinned
        self._staged = staged
        self._heard = heard
        self._warnings = Warnings(context.site, poke)
        self._unmet = Unmet(context.site)

    def progress(self, views: list[PodView]) -> Progress:
        """How far the start has come: nodes, then images and containers."""
        whole = self._context.nodes
        placed, running = sum(bool(view.node) for view in views), sum(view.running for view in views)
        if placed < whole:
            return Progress("its pods wait for nodes", "placed", whole, placed)
        if running < whole:
            late = next((view for view in views if not view.running), None)
            pulls = self._warnings.under_way(late.uid) if late is not None else ""
            return Progress(f"its pods start{', ' + pulls if pulls else ''}", "run", whole, running)
        return Progress("all pods run, and make ready")

    async def look(self, views: list[PodView]) -> tuple[Line | None, float]:
        """How the run is given up (None: it is not), and the seconds until time alone may change something, or a node that nobody tells of."""
        end, pause = await self._look(views)
        return end, min(_OFTEN, pause)

    async def _look(self, views: list[PodView]) -> tuple[Line | None, float]:
        context = self._context
        died = next((view for view in views if view.ended is not None), None)
        if died is not None:
            return self._died(died), RETRY
        placed = len(views) == context.nodes and all(view.node for view in views)
        if not placed:
            return await self._look_unplaced(views)
        context.elapsed("unplaced", False)
        unheard = self._unheard(views)
        if unheard is not None:
            return self._look_unheard(*unheard)
        return await self._look_placed(views)

    async def _look_unplaced(self, views: list[PodView]) -> tuple[Line | None, float]:
        context = self._context
        texts = [view.unschedulable for view in views if view.unschedulable]
        # One pod of a gang tells the real reason, the others that they wait for it.
        text = next((one for one in texts if one.startswith("0/")), texts[0] if texts else "")
        jobs = [
            job
            for job in context.site.seen.jobs_of(context.run.job_id, context.record)
            if job["metadata"]["name"] == names.stem(context.run.job_id, context.number)
        ]
        job = jobs[0] if jobs else None
        if context.settings.queue and job is not None and suspended(job):
            context.tell_reason("Resources", f"waits in queue {context.settings.queue}")
            context.elapsed("unplaced", False)
            return None, _QUEUED
        # While others are being sent away for it a gang is as good as placed.
        waits = context.elapsed("unplaced", not any(view.nominated for view in views))
        if not texts:
            # Pods that are not there have no status: the Job's events tell why.
            text = self._warnings.about(job["metadata"].get("uid", "") if job else "", waits)
        context.tell_reason(QUOTA if "exceeded quota" in text else "Resources", text)
        holds = any(view.node for view in views)
        patience = self._patience(holds)
        if waits < patience:
            return None, min(patience - waits, patience if texts and holds else WARNINGS_AFTER)
        return waits_again(text or "its pods were not created"), RETRY

    def _patience(self, holds: bool) -> float:
        """Seconds that the gang may wait for its nodes. ``holds``: it has some of them, which others may want."""
        settings = self._context.settings
        if settings.autoscale:
            return float(max(AUTOSCALE_WAIT, settings.bind_wait))
        if self._pinned and holds:
            return min(_PINNED_WAIT, settings.bind_wait)
        return float(settings.bind_wait)

    def _unheard(self, views: list[PodView]) -> tuple[PodView, float] | None:
        """The pod that has been longest on a node that does not answer, and for how many seconds."""
        context = self._context
        found = []
        for view in views:
            silent = context.unanswered(view)
            stands = context.elapsed(f"unheard {view.uid}", silent)
            if silent:
                found.append((view, stands))
        return max(found, key=lambda one: one[1], default=None)

    def _look_unheard(self, unheard: PodView, stands: float) -> tuple[Line | None, float]:
        context = self._context
        why = f"node {unheard.node} does not answer"
        context.tell_reason("NodeNotResponding", why)
        patience = float(min(context.settings.bind_wait, context.settings.node_wait))
        return (None, patience - stands) if stands < patience else (waits_again(why), RETRY)

    async def _look_placed(self, views: list[PodView]) -> tuple[Line | None, float]:
        context = self._context
        stuck = next((view for view in views if view.obstacle), None)
        late = next((view for view in views if not view.running), None)
        limit = context.settings.boot_limit
        stands = context.elapsed("starting", late is not None)
        reason, text = (stuck.obstacle, stuck.detail) if stuck else ("None", "")
        if late is not None and stuck is None:
            # A volume that is not there is told by events alone.
            text = self._warnings.about(late.uid, stands)
            reason = "FailedMount" if text else reason
        if late is None:
            return await self._look_meeting(views)
        context.elapsed("meeting", False)
        context.tell_reason(reason, text)
        if stands < limit:
            return None, min(limit - stands, limit if stuck else WARNINGS_AFTER)
        return self._fails(f"{reason}: {text}" if text else "the pods did not start in time"), RETRY

    async def _look_meeting(self, views: list[PodView]) -> tuple[Line | None, float]:
        """All pods run: they find each other at once, or something keeps them apart."""
        context = self._context
        stands = context.elapsed("meeting", True)
        text = await self._unmet.about(views, stands)
        context.tell_reason(CANNOT_MEET if text else "None", text)
        known = context.elapsed("heard", self._heard()) > _HEARD  # a leader that is not reached has asked nobody
        if stands < context.settings.boot_limit or (self._staged and not text and known):
            return None, UNMET_AFTER / 4
        return self._fails(f"{CANNOT_MEET}: {text}" if text else "the pods have not met in time"), RETRY

    def _died(self, died: PodView) -> Line:
        """A pod ended before the start."""
        assert died.ended is not None
        lines = termination_record.lines(died, self._context.site.now()) if died.index == 0 else []
        if lines and not self._context.broken_before_start(lines[-1]):
            for line in lines[:-1]:
                self._context.tell(line)
            return lines[-1]
        if lines or died.ended.code == 0:
            return waits_again(f"pod {died.name} has left: {termination_record.why(died) or 'it was let go'}")
        if died.leaving or died.disruption or termination_record.never_began(died):
            return waits_again(f"pod {died.name} was taken away")  # nothing is wrong with the job
        if termination_record.lost_sight(died):
            return waits_again(f"pod {died.name} was lost with its machine")
        text = " ".join((died.ended.message or died.ended.reason or f"exit code {died.ended.code}").split())
        return self._fails(f"pod {died.name}: {text[:400]}")

    def _fails(self, why: str) -> Line:
        self._context.tell_reason("JobLaunchFailure", why)
        return failed(why)
