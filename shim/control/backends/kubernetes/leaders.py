"""What is known of first pods that are gone: whether one had begun its run decides whether that may be started again.

Nothing is concluded from what nobody has seen: a watch lags, breaks off, and after a break tells what is gone as it was before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import record
from shim.control.backends.kubernetes.observed import PodView, changes, look, queued, suspended

Object = dict[str, Any]


class Leaders:
    """By run, for as long as its Job is there."""

    def __init__(self) -> None:
        self._begun: dict[Run, PodView] = {}
        self._unbegun: set[Run] = set()
        self._vanished: set[Run] = set()
        self._interrupted: set[Run] = set()
        self._doubt: set[Run] = set()

    def came(self, run: Run) -> None:
        """There is one that was not there before: what was said was of another one."""
        self._unbegun.discard(run)

    def left(self, run: Run, leader: PodView, job: Object) -> None:
        """One is gone. ``leader``: as it was seen last; only what must have stayed so counts."""
        if record.began(leader):
            self._begun[run] = leader
        elif (leader.leaving and not leader.node) or record.never_began(leader) or record.ended_unbegun(leader):
            self._unbegun.add(run)  # a pod that is being deleted is bound to no node
        else:
            self._vanished.add(run)
            if changes(job) > 1 and not queued(job):
                self._doubt.add(run)

    def changed(self, run: Run, before: Object | None, job: Object, pods: Iterable[Object]) -> None:
        """The run's Job is another than it was: let go (its first change), suspended by somebody, resumed, and so on.

        ``pods``: those that are there.
        """
        missed = changes(job) - (changes(before) if before is not None else 0) > 1
        if before is not None and suspended(job) and not suspended(before):
            self._interrupted.add(run)
        if before is not None and suspended(before) and not suspended(job) and changes(job) > 1:
            there = run in self._unbegun or any(look(pod).index == 0 for pod in pods)
            missed = missed or run in self._vanished or not there
            self._unbegun.discard(run)  # pods are made anew
        if missed and not queued(job):
            self._doubt.add(run)

    def forget(self, run: Run) -> None:
        """The Job is gone."""
        self._begun.pop(run, None)
        for found in (self._unbegun, self._vanished, self._interrupted, self._doubt):
            found.discard(run)

    def begun(self, run: Run) -> PodView | None:
        """The last of one that has begun the run."""
        return self._begun.get(run)

    def interrupted(self, run: Run) -> bool:
        """Whether the Job was suspended after it had been let go: its pods are made anew when it is resumed, or were already."""
        return run in self._interrupted or run in self._doubt

    def in_doubt(self, run: Run) -> bool:
        """Whether the run has, or may have, other pods than it had, and nobody has seen that those before had not begun."""
        return run in self._doubt

    def unknown(self, run: Run, job: Object) -> bool:
        """Whether ``job``, of which there is no first pod, has had one, and it was not seen that it had not begun."""
        status = job.get("status") or {}
        lists = (str(status.get(name) or "") for name in ("failedIndexes", "completedIndexes"))
        over = any(one.split(",")[0].split("-")[0] == "0" for one in lists)
        # Of the pods of a Job that was suspended its status says nothing. For a queue that is daily work, before the start.
        again = not queued(job) and (run in self._interrupted or changes(job) > (0 if suspended(job) else 1))
        return run in self._doubt or ((over or again) and run not in self._unbegun)
