"""The end of a run that is decided on this side: first written down, then carried out, then told. A restart goes on with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from shim.control.backends.kubernetes.watched import Watched
from shim.core.model import states

RETRY = 2.0  # seconds until the run's pods are looked at again

WITHDRAWN = {"kind": "withdrawn", "reason": "a pod was lost before the start"}
BOOT_FAIL = {"kind": "ended", "state": states.BOOT_FAIL, "status": 0, "reason": "JobLaunchFailure"}
FAILED = {"kind": "ended", "state": states.FAILED, "status": 0, "reason": "JobLaunchFailure"}


class Closing:
    """``hush``: ends the connection to the leader: what one says that is taken down is no news."""

    def __init__(self, watched: Watched, hush: Callable[[], Awaitable[None]]) -> None:
        self._watched = watched
        self._hush = hush

    async def begun(self) -> bool:
        """Goes on with what was decided before; whether there was anything."""
        ticket = self._watched.folder.ticket
        if ticket is None or ticket.verdict is None:
            return False
        await self.close(ticket.verdict)
        return True

    async def close(self, verdict: dict[str, Any]) -> None:
        """Ends the run as ``verdict`` says; told when nothing of it is left that anybody could still end.

        What runs on a node that does not answer may go on. Slurm, too, ends such a job; another run of it must wait
        (``KubernetesBackend.start``).
        """
        watched = self._watched
        ticket = watched.folder.load()
        if ticket is not None and ticket.verdict is None:
            if verdict["kind"] == "withdrawn":
                verdict = self._believed(verdict)
            watched.folder.save(ticket.replace(verdict={"at": watched.site.now(), **verdict}))
        await self._hush()
        await self._clear(verdict["kind"] == "withdrawn")
        watched.tell_verdict(verdict)

    def _believed(self, verdict: dict[str, Any]) -> dict[str, Any]:
        """That a run has not begun, unless something speaks against it."""
        if self._watched.folder.marked:
            return {"kind": "lost", "reason": "it has begun, and nobody has seen its end"}
        if self._watched.site.seen.leaders.in_doubt(self._watched.run):
            return {
                "kind": "lost",
                "reason": "it has had other pods before, and nobody has seen whether they had begun",
            }
        return verdict

    async def lost(self, why: str) -> None:
        """The leader is gone without a word."""
        self._watched.makes_way()  # what tells it goes with the run's objects
        await self.close({"kind": "lost", "reason": why})

    async def _clear(self, harmless: bool) -> None:
        """Removes the run's objects; returns when its pods are over, but for those that nobody hears. ``harmless``: the run never
        began and never will: such pods have only their names, which the next try must have for itself.
        """
        watched = self._watched
        objects = watched.site.objects
        await objects.remove(watched.run, watched.submission)
        tries = 0
        while True:
            watched.changed.clear()
            there = [view for view in watched.views() if not view.over and not watched.site.node_is_gone(view.node)]
            unheard = [view for view in there if watched.unanswered(view)]
            left = [view for view in there if harmless or view not in unheard]
            if not left:
                return
            for view in left:
                if not view.node or view in unheard:
                    await objects.remove_pod(watched.run, view.name, grace=0, uid=view.uid)
                elif not watched.started and tries:
                    # Its first process did not hear the TERM, so early. The kubelet still sees to it that it is gone.
                    await objects.remove_pod(watched.run, view.name, grace=1, uid=view.uid)
            tries += 1
            await watched.wait(RETRY)
