"""The line to a run's leader: its journal comes in, orders go out, the output of a job that was copied into its pods comes back.

One stream through the API server each, in turns where they are many: who has nothing to do lets others have theirs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Order
from shim.control.backends.kubernetes.output import Output
from shim.control.backends.kubernetes.turns import BEGINNING, BUSY, IDLE, Turns
from shim.control.backends.leader_link import LeaderLink, LinkError, take
from shim.job.pod.staging import Sender

if TYPE_CHECKING:
    import socket

_STREAMS = {1: "stdout", 2: "stderr"}
TURN = 10.0  # seconds after which a stream is given to a run that waits for one
_GREETING = 1.0  # seconds in which a leader that has something to tell begins to
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_LAST_WORDS = 10.0  # seconds in which the rest of the output must come after the end
_UNWRITTEN = 60.0  # seconds after the end that output which cannot be written here is tried again


class Follower:
    """Follows one leader until it has told the end. ``tell(line)``: each journal line once, in order."""

    def __init__(
        self,
        dial: Callable[[], Any],
        key: Callable[[], bytes],
        turns: Turns,
        seen: int,
        tell: Callable[[dict[str, Any]], None],
        outputs: tuple[Output, ...] = (),
        stage: str = "",
        trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``stage``: the archive of a working directory that the leader must be given before the start. ``trouble(text)``: output
        cannot be written here, and is asked for again; "" when it can.
        """
        self.seen = seen
        self.over = False
        self.connected = False
        self._dial = dial
        self._key = key
        self._turns = turns
        self._tell = tell
        self._orders: dict[int, Order] = {}
        self._link: LeaderLink | None = None
        self._outputs = {output.stream: output for output in outputs}
        self._stage = stage
        self._push: Sender | None = None
        self._archive = -1
        self._trouble = trouble
        self._problem = ""
        self._end: dict[str, Any] | None = None
        self._ended_at: float | None = None
        self._begun = seen > 0
        self._connected_at = 0.0
        self._heard = False
        self._leaving = False
        self._patience: asyncio.Timeout | None = None
        self._ordered = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    @property
    def rank(self) -> int:
        """How much this run needs a stream, for ``Turns``."""
        if self._orders or self._push is not None or self._end is not None:
            return BUSY
        heard = self._heard or self._link is None or _now() >= self._connected_at + _GREETING
        return IDLE if self._begun and heard else BEGINNING

    def leave(self) -> None:
        """Somebody else needs the stream: it is given away when nothing is under way here."""
        self._leaving = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    @property
    def outputs_left(self) -> list[Output]:
        """Those that have not come to their end."""
        return list(self._outputs.values())

    def order(self, order: Order) -> None:
        """Passes an order on, now or when the leader is reached."""
        self._orders[order.number] = order
        if self._link is not None:
            self._send_order(self._link, order)
        else:
            self._ordered.set()
            self._turns.look()

    async def forget(self) -> None:
        """The end is committed."""
        if self._link is not None:
            self._link.send({"do": "forget"})
        await self.close()

    async def close(self) -> None:
        """Follows no more."""
        if self._task is not asyncio.current_task():
            self._task.cancel()
            try:
                await self._task
            except asyncio.CancelledError:
                pass

    async def _work(self) -> None:
        pause = _FIRST_PAUSE
        while not self.over:
            await self._turns.take(self)
            self._leaving = False
            self._ordered.clear()
            seen = self.seen
            try:
                await self._follow()
            except (LinkError, OSError, ValueError):
                pass  # its pod says whether it is worth trying again
            finally:
                self._turns.release(self)
            if self.over:
                return
            pause = _FIRST_PAUSE if self.seen != seen else min(2 * pause, _LONGEST_PAUSE)
            try:
                async with asyncio.timeout(pause):
                    await self._ordered.wait()
            except TimeoutError:
                pass

    async def _follow(self) -> None:
        line: socket.socket = await self._dial()
        link = await take(line, self._key())
        self._link, self.connected = link, True
        self._connected_at, self._heard = _now(), False
        self._end = None  # told again, after the output that the last connection did not bring
        link.on_data = lambda _step, _rank, stream, data: self._data(link, _STREAMS[stream], data)
        try:
            link.send({"do": "watch", "after": self.seen})
            if self._stage and not self.seen:
                self._archive = os.open(self._stage, os.O_RDONLY | os.O_CLOEXEC)
                self._push = Sender(link, self._archive, os.fstat(self._archive).st_size)
            for output in self._outputs.values():
                link.send({"do": "output", "stream": output.stream, "after": output.taken()})
            for order in list(self._orders.values()):
                self._send_order(link, order)
            await self._listen(link)
        finally:
            self._link, self.connected = None, False
            self._pushed()
            await link.close()

    async def _listen(self, link: LeaderLink) -> None:
        over = self._connected_at + TURN
        while not self.over:
            if self._turns.waiting:
                self._turns.look()
                if self.rank != BUSY and (self._leaving or _now() >= over):
                    return
            try:
                async with asyncio.timeout(self._limit(over)) as self._patience:
                    message = await link.receive()
            except TimeoutError:
                if self._end is not None:
                    self._finish()  # the end counts, though a part of the output has not come
                continue
            finally:
                self._patience = None
            self._take(message)

    def _limit(self, over: float) -> float:
        """The seconds for which nothing but a message is of interest."""
        if self._end is not None:
            return _LAST_WORDS
        heard = self._connected_at + _GREETING
        return next((at - _now() for at in (heard, over) if at > _now()), TURN)

    def _take(self, message: dict[str, Any]) -> None:
        do = message.get("do")
        if do == "journal":
            self._heard = True
            self._line(message["line"])
        elif do == "done":
            self._orders.pop(message["number"], None)
        elif do == "credit" and self._push is not None:
            self._push.credit(int(message["bytes"]))
        elif do == "staged":
            self._stage = ""
            self._pushed()
        elif do == "output-end":
            self._outputs.pop(message["stream"], None)
            if self._end is not None and not self._outputs:
                self._finish()

    def _pushed(self) -> None:
        if self._push is not None:
            os.close(self._archive)
            self._push = None

    def _line(self, line: dict[str, Any]) -> None:
        if self.over or line["n"] <= self.seen or self._end is not None:
            return
        if line["kind"] == "ended" and self._outputs and not self._given_up():
            self._end = line  # whoever waits for the job's end finds its output complete
            return
        self.seen = line["n"]
        self._begun = self._begun or line["kind"] == "started"
        self.over = line["kind"] == "ended"
        self._tell(line)

    def _given_up(self) -> bool:
        """Whether the end was heard so long ago that output which could not be written since then never will be."""
        self._ended_at = _now() if self._ended_at is None else self._ended_at
        return _now() - self._ended_at > _UNWRITTEN

    def _finish(self) -> None:
        assert self._end is not None
        end, self._end, self._outputs = self._end, None, {}
        self._line(end)

    def _data(self, link: LeaderLink, stream: str, data: bytes) -> None:
        output = self._outputs.get(stream)
        if output is not None:
            problem = ""
            try:
                output.add(data)
            except OSError as error:
                problem = f"{output.path}: {error.strerror}"
                raise  # not taken: the leader keeps it as long as it is there
            finally:
                self._say(problem)
        link.send({"do": "credit", "step": "batch", "bytes": len(data), "stream": stream})

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._trouble(problem)

    @staticmethod
    def _send_order(link: LeaderLink, order: Order) -> None:
        link.send({"do": "order", "order": order.to_dict()})


def _now() -> float:
    return asyncio.get_running_loop().time()
