"""The line to a run's leader: its journal comes in, orders go out, the output of a job that was copied into its pods comes back.

One stream through the API server each; at most ``STREAMS`` at a time. Who has nothing to do lets others have theirs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import Order
from shim.control.backends.kubernetes.output import Output
from shim.control.backends.leader_link import LeaderLink, LinkError, take
from shim.job.pod.staging import Sender

if TYPE_CHECKING:
    import socket

_STREAMS = {1: "stdout", 2: "stderr"}
STREAMS = 20  # at a time, beside the two watches: the API server is everybody's
TURN = 10.0  # seconds after which a stream is given to a run that waits for one
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_LAST_WORDS = 10.0  # seconds in which the rest of the output must come after the end
_UNWRITTEN = 60.0  # seconds after the end that output which cannot be written here is tried again


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
                except (LinkError, OSError, ValueError):
                    pass  # its pod says whether it is worth trying again
            if self.over:
                return
            pause = _FIRST_PAUSE if self.seen != seen else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        line: socket.socket = await self._dial()
        link = await take(line, self._key())
        self._link, self.connected = link, True
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
            os.close(self._archive)
            self._push = None

    def _line(self, line: dict[str, Any]) -> None:
        if self.over or line["n"] <= self.seen or self._end is not None:
            return
        if line["kind"] == "ended" and self._outputs and not self._given_up():
            self._end = line  # whoever waits for the job's end finds its output complete
            return
        self.seen = line["n"]
        self.over = line["kind"] == "ended"
        self._tell(line)

    def _given_up(self) -> bool:
        """Whether the end was heard so long ago that output which could not be written since then never will be."""
        now = asyncio.get_running_loop().time()
        self._ended_at = now if self._ended_at is None else self._ended_at
        return now - self._ended_at > _UNWRITTEN

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
