"""The line to a run's leader: its journal comes in, orders go out, the output of a job that was copied into its pods comes back.

One stream through the API server each; at most ``STREAMS`` at a time. Who has nothing to do lets others have theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Order
from shim.control.backends.kubernetes.output import Output
from shim.control.backends.kubernetes.pushing import Push
from shim.control.backends.leader_link import LeaderLink, LinkError, take

if TYPE_CHECKING:
    import socket

_STREAMS = {1: "stdout", 2: "stderr"}
STREAMS = 20  # at a time, beside the two watches: the API server is everybody's
TURN = 10.0  # seconds after which a stream is given to a run that waits for one
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_LAST_WORDS = 10.0  # seconds in which the rest of the output must come after the end


class Turns:
    """The streams that may be open at a time."""

    def __init__(self, most: int = STREAMS) -> None:
        self._free = asyncio.Semaphore(most)
        self.waiting = 0

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(self, *_error: object) -> None:
        self._free.release()


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
    ) -> None:
        """``stage``: the archive of a working directory that the leader must be given before the start."""
        self.seen = seen
        self.over = False
        self.connected = False
        self.failed: Exception | None = None  # the last attempt
        self._dial = dial
        self._key = key
        self._turns = turns
        self._tell = tell
        self._orders: dict[int, Order] = {}
        self._link: LeaderLink | None = None
        self._outputs = {output.stream: output for output in outputs}
        self._stage = stage
        self._push: Push | None = None
        self._end: dict[str, Any] | None = None
        self._task = asyncio.get_running_loop().create_task(self._work())

    @property
    def outputs_left(self) -> list[Output]:
        """Those that have not come to their end."""
        return list(self._outputs.values())

    def order(self, order: Order) -> None:
        """Passes an order on, now or when the leader is reached."""
        self._orders[order.number] = order
        if self._link is not None:
            self._send_order(self._link, order)

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
            async with self._turns:
                seen = self.seen
                try:
                    await self._follow()
                except (LinkError, OSError, ValueError) as problem:
                    self.failed = problem
            if self.over:
                return
            pause = _FIRST_PAUSE if self.seen != seen else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        line: socket.socket = await self._dial()
        link = await take(line, self._key())
        self._link, self.connected, self.failed = link, True, None
        link.on_data = lambda _step, _rank, stream, data: self._data(link, _STREAMS[stream], data)
        try:
            link.send({"do": "watch", "after": self.seen})
            if self._stage and not self.seen:
                self._push = Push(link, self._stage)
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
        while not self.over:
            limit = _LAST_WORDS if self._end is not None else TURN
            try:
                async with asyncio.timeout(limit):
                    message = await link.receive()
            except TimeoutError:
                if self._end is not None:
                    self._finish()  # the end counts, though a part of the output has not come
                elif self._turns.waiting and not self._orders:
                    return
                continue
            except LinkError:
                if self._end is not None:
                    self._finish()
                raise
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        do = message.get("do")
        if do == "journal":
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
            self._push.close()
            self._push = None

    def _line(self, line: dict[str, Any]) -> None:
        if self.over or line["n"] <= self.seen or self._end is not None:
            return
        if line["kind"] == "ended" and self._outputs:
            self._end = line  # whoever waits for the job's end finds its output complete
            return
        self.seen = line["n"]
        self.over = line["kind"] == "ended"
        self._tell(line)

    def _finish(self) -> None:
        assert self._end is not None
        end, self._end, self._outputs = self._end, None, {}
        self._line(end)

    def _data(self, link: LeaderLink, stream: str, data: bytes) -> None:
        output = self._outputs.get(stream)
        if output is not None:
            output.add(data)
        link.send({"do": "credit", "step": "batch", "bytes": len(data), "stream": stream})

    @staticmethod
    def _send_order(link: LeaderLink, order: Order) -> None:
        link.send({"do": "order", "order": order.to_dict()})
