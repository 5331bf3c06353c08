"""The time limit of a run: when it ends the job, when ``--signal`` is due before it, and how a suspension stops the clock."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from shim.job.loop import Timer, Timers


SETTLE = 2.0  # seconds


class TimeLimit:
    """Counts from ``begin``. ``seconds`` None: no limit. ``lead``: seconds before the limit at which ``on_lead`` is called once
    (None: never; at once when the limit is nearer than that); ``on_end`` is called when the limit is reached.

    A script has ``SETTLE`` seconds to set its trap: the signal that is due at its very start would only kill it. Slurm
    looks every 30 seconds.
    """

    def __init__(
        self,
        timers: Timers,
        seconds: int | None,
        lead: int | None,
        on_lead: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._clock = timers
        self._seconds = seconds
        self._lead = lead
        self._on_lead = on_lead
        self._on_end = on_end
        self._used = 0.0  # seconds that count, up to ``_since``
        self._since: float | None = None  # None: the clock stands
        self._timers: list[Timer] = []

    def begin(self) -> None:
        """The job starts, or goes on after a suspension."""
        if self._since is None:
            self._since = self._clock.now()
            self._arm()

    def pause(self) -> None:
        """The job is suspended."""
        if self._since is not None:
            self._used += self._clock.now() - self._since
            self._since = None
            self._disarm()

    def change(self, seconds: int | None) -> None:
        """Another limit, from the start as before."""
        self._seconds = seconds
        if self._since is not None:
            self._arm()

    def stop(self) -> None:
        """The job ends: nothing is due any more."""
        self.pause()

    def _arm(self) -> None:
        self._disarm()
        if self._seconds is None or self._since is None:
            return
        start = self._since - self._used
        end = start + self._seconds
        if self._lead is not None:
            self._timers.append(self._clock.call_at(max(end - self._lead, start + SETTLE), self._led))
        self._timers.append(self._clock.call_at(end, self._ended))

    def _disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _led(self) -> None:
        self._lead = None
        self._on_lead()

    def _ended(self) -> None:
        self.stop()
        self._on_end()
