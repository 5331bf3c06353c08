"""The steps that wait: for the run's start, or for resources that other steps have."""

from __future__ import annotations

from shim.core.errors import ALREADY_DONE, ShimError, no_step
from shim.core.placement.step_values import StepError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable

    from shim.job.agent.step_manager.parts import Part, Wish
    from shim.job.link import Link


class _Waiting:
    """A step that waits."""

    __slots__ = ("srun", "wishes")

    def __init__(self, srun: Link, wishes: Sequence[Wish]) -> None:
        self.srun = srun
        self.wishes = wishes


class Queue:
    """First come, first served; who does not fit yet is passed by.

    ``place(wishes)``: the parts, or ShimError (a StepError that may be tried again: not now). ``make(srun, parts)``: there is a
    place. ``refuse(srun, lines)``: there will be none.
    """

    def __init__(
        self,
        job_id: int,
        place: Callable[[Sequence[Wish]], list[Part]],
        make: Callable[[Link, Sequence[Part]], None],
        refuse: Callable[[Link, Sequence[str]], None],
    ) -> None:
        self._job_id = job_id
        self._place = place
        self._make = make
        self._refuse = refuse
        self._waiting: list[_Waiting] = []
        self._opened = False
        self._closed = False

    def add(self, srun: Link, wishes: Sequence[Wish]) -> None:
        """An srun asks for a step. ValueError: it has asked before."""
        if any(waiting.srun is srun for waiting in self._waiting):
            raise ValueError("one step for one srun")
        if self._closed:
            self._too_late(srun)
            return
        if not self._opened:
            self._waiting.append(_Waiting(srun, wishes))
            return
        try:
            parts = self._place(wishes)
        except ShimError as refused:
            if not isinstance(refused, StepError) or not refused.retry or wishes[0].request.immediate is not None:
                self._refuse(srun, refused.lines)
                return
            self._waiting.append(_Waiting(srun, wishes))
            srun.send({"do": "busy", "job_id": self._job_id, "why": refused.why})
            return
        self._make(srun, parts)

    def open(self) -> None:
        """Steps may start."""
        self._opened = True
        self.retry()

    def retry(self) -> None:
        """Something may have become free."""
        if not self._opened:
            return
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            try:
                parts = self._place(one.wishes)
            except ShimError as refused:
                if isinstance(refused, StepError) and refused.retry:
                    self._waiting.append(one)
                else:
                    self._refuse(one.srun, refused.lines)
                continue
            self._make(one.srun, parts)

    def drop(self, srun: Link) -> None:
        """That srun is gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.srun is not srun]

    def close(self) -> None:
        """The job ends: nobody gets a step any more."""
        self._closed = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._too_late(one.srun)

    def _too_late(self, srun: Link) -> None:
        self._refuse(srun, [no_step(self._job_id, ALREADY_DONE)])
