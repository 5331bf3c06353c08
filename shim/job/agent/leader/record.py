"""What the leader has written down, and who is told: the journal, the controllers that watch it, the one that must be started.

An event is written first; only then is it acted on and told. A disk that is full holds both back until there is room.
Controllers get every line after the number they ask from. With news and no controller connected, one is started by way of
the herald, and again with growing pauses; the journal on disk is the truth, so a leader may also give up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.agent.journal import Journal
    from shim.job.link import Link
    from shim.job.loop import Loop, Timer

FULL_DISK_PAUSE = 1.0  # seconds between tries to write what the disk refused
FIRST_CALL = 0.5  # seconds that a controller has to come by itself before one is started
LONGEST_CALL = 300.0
TOGETHER = 0.02  # seconds for which a line waits for the one that usually follows it
CALLS = 10  # how often a controller is asked for in vain before the leader stops asking


class Record:
    """Writes events, then acts, then tells.

    ``call`` asks for a controller to be started (None: nobody can be asked). ``on_unheard`` is called when nobody came
    after all calls.
    """

    def __init__(self, journal: Journal, loop: Loop, call: Callable[[], None] | None) -> None:
        self.on_unheard: Callable[[], None] = _nothing
        self._journal = journal
        self._loop = loop
        self._call = call
        self._after: list[Callable[[], None]] = []  # what to do once everything held is on disk
        self.watched_ever = False  # a controller was there
        self._watchers: dict[Link, int] = {}  # -> number of the last line sent
        self._heard = len(journal.lines)
        self._calls = 0
        self._timer: Timer | None = None
        self._later: Timer | None = None

    def write(self, kind: str, then: Callable[[], None] | None = None, followed: bool = False, **fields: Any) -> None:
        """Writes an event; ``then`` is called once it is on disk: at once unless the disk is full.

        ``followed``: usually the next event is near; controllers are told of both together, or after ``TOGETHER``.
        """
        if then is not None:
            self._after.append(then)
        written = self._journal.append(kind, **fields)
        self._settle(written, followed)

    def watch(self, link: Link, after: int) -> None:
        """A controller wants every line after number ``after``."""
        self._watchers[link] = after
        self.watched_ever = True
        self._calls = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._later is None:
            self._tell()

    def tell(self, message: dict[str, Any]) -> None:
        """Says something that is not of the journal to all controllers that are there."""
        for link in self._watchers:
            link.send(message)

    def unwatch(self, link: Link) -> None:
        """A controller is gone."""
        self._watchers.pop(link, None)

    @property
    def watched(self) -> bool:
        """Whether a controller is there."""
        return bool(self._watchers)

    def ask(self) -> None:
        """Makes sure that somebody hears of the end: a controller that is there, or one that is started."""
        if not self._watchers and self._timer is None:
            self._timer = self._loop.call_later(FIRST_CALL, self._ring)

    def summon(self) -> None:
        """Has a controller started now: somebody inside the job wants one, and must not start it there."""
        if self._call is not None:
            self._call()

    def close(self) -> None:
        """Ends the calls and closes the journal."""
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._journal.close()

    def _settle(self, written: bool, followed: bool = False) -> None:
        if not written:
            self._loop.call_later(FULL_DISK_PAUSE, lambda: self._settle(self._journal.flush()))
            return
        if followed and self._later is None:
            self._later = self._loop.call_later(TOGETHER, self._tell)
        elif not followed:
            self._tell()
        actions, self._after = self._after, []
        for action in actions:
            action()

    def _tell(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        lines = self._journal.lines
        for link, last in self._watchers.items():
            link.send_all([{"do": "journal", "line": line} for line in lines[last:]])
            self._watchers[link] = max(last, len(lines))
        if self._watchers:
            self._heard = len(lines)
        elif len(lines) > self._heard:
            self.ask()

    def _ring(self) -> None:
        self._timer = None
        if self._watchers:
            return
        # A run folder that is gone was removed by a controller that has the end; it could not say "forget".
        if self._call is None or self._calls >= CALLS or self._journal.gone:
            self.on_unheard()
            return
        self._call()
        self._calls += 1
        self._timer = self._loop.call_later(min(LONGEST_CALL, 2.0**self._calls), self._ring)


def _nothing() -> None:
    """Nobody asked."""
