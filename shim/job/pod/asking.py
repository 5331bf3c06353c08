"""Asking whether a gang may begin: the leader's half of the start that one write decides (docs/internals/kubernetes-start.md).

A leader whose gang has met asks every controller that listens, again and again, until one answers. It begins once, on a yes that answers an
ask of at most ``ANSWER_HOLDS`` seconds ago, if its links to all members have held since the gang met.
"""

from __future__ import annotations

import os
import time

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from shim.job.loop import Loop, Timer

ANSWER_HOLDS = 30.0  # seconds for which a yes may be acted on, from the ask on
AGAIN = 2.0  # seconds between two asks of one gang
_NONCE = 16  # bytes


class Member(Value):
    """An agent of the gang that asks. ``checked`` and ``boot`` say what its Node object, read live, confirmed at the grant."""

    index: int
    pod: str  # uid
    node: str
    boot: str = ""  # the machine's boot id; once granted: only if the Node object said the same
    checked: bool = False  # the Node object was there, and not marked as out of service


class Ask(Value):
    """A leader whose gang has met wants to launch.

    ``nonce``: random bytes in the memory of the leader's process, made anew for every gang that it assembles. So whoever presents the
    nonce is that process, and asks for these members: not the same pod's next container, not another gang.
    """

    record: str  # uid of the record whose key the gang holds
    run: int
    nonce: str
    members: tuple[Member, ...]  # the leader is the one with index 0
    asked: float  # on the leader's clock, which goes on while a machine sleeps; comes back with the answer
    _nested = {"members": Member}


def may_launch(answered: bool | None, ask: Ask, now: float, linked: bool) -> bool:
    """Whether a leader that has not launched yet does so now.

    ``ask``: the very one that was answered, not the last one made. ``now``: on the leader's clock. ``linked``: its links to all
    members have held since they met.
    """
    return answered is True and linked and 0 <= now - ask.asked <= ANSWER_HOLDS


def boot_id() -> str:
    """The id of the machine's present boot; "" where it is not to be had."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def boot_time() -> float:
    """Seconds since the machine was booted, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Asking:
    """One gang that has met. ``tell(message)`` reaches all controllers that listen now. ``begin()`` or ``refused()`` is called, once.

    ``close`` when a member is lost: whoever meets next is another gang, and asks with another nonce.
    """

    def __init__(
        self,
        loop: Loop,
        record: str,
        run: int,
        members: tuple[Member, ...],
        tell: Callable[[dict[str, Any]], None],
        begin: Callable[[], None],
        refused: Callable[[], None],
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._loop = loop
        self._tell = tell
        self._begin = begin
        self._refused = refused
        self._clock = clock
        self._over = False
        self._timer: Timer | None = None
        self._ask = Ask(record=record, run=run, nonce=os.urandom(_NONCE).hex(), members=members, asked=clock())

    @property
    def nonce(self) -> str:
        """Of this process and this gang alone."""
        return self._ask.nonce

    def ask(self) -> None:
        """Asks now, and again until there is an answer."""
        if self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._ask = self._ask.replace(asked=self._clock())
        self._tell({"do": "ask", "ask": self._ask.to_dict()})
        self._timer = self._loop.call_later(AGAIN, self.ask)

    def answered(self, message: dict[str, Any]) -> None:
        """An answer has come, to this gang's ask or to an earlier gang's. A yes that is too old is no answer: it is asked again."""
        if self._over or message["nonce"] != self._ask.nonce:
            return
        asked = self._ask.replace(asked=float(message["asked"]))
        if message["granted"] is not True:
            self.close()
            self._refused()
        elif may_launch(True, asked, self._clock(), linked=True):  # not closed: no link was lost
            self.close()
            self._begin()

    def close(self) -> None:
        """Asks no more, and hears no answer."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
