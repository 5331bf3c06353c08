"""The line to a run's leader: its journal comes in, orders go out, the output of a job that was copied into its pods comes back.

One stream through the API server each, in turns where they are many: who has nothing to do lets others have theirs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from shim.control.backends.base import Order, Progress
from shim.control.backends.kubernetes.api.stream_slots import BEGINNING, BUSY, IDLE, Turns
from shim.control.backends.kubernetes.run.output import Output, Refused, StepFile
from shim.control.backends.kubernetes.run.stage_out import StageOut, StageReport
from shim.control.backends.leader_link import LeaderLink, LinkError, take
from shim.job.pod.staging import Sender
from shim.job.wire import FILES

if TYPE_CHECKING:
    import socket

T = TypeVar("T")
_STREAMS = {1: "stdout", 2: "stderr"}
TURN = 10.0  # seconds after which a stream is given to a run that waits for one
_GREETING = 1.0  # seconds in which a leader that has something to tell begins to
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 5.0
_LAST_WORDS = 10.0  # seconds in which the rest of the output must come after the end
_UNWRITTEN = 60.0  # seconds after the end that output which cannot be written here is tried again
_SKEW = 2.0  # seconds that two clocks, and the way between them, may differ without being wrong
_SLOW = 5.0  # seconds after which it is said that a file takes nothing


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
        step_file: Callable[[dict[str, Any]], StepFile | None] = lambda told: None,
        asked: Callable[[dict[str, Any]], None] = lambda message: None,
        stage_out: Callable[[dict[str, Any]], StageOut | None] = lambda told: None,
        returned: Callable[[StageReport], None] = lambda report: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``stage``: the archive of a working directory that the leader must be given before the start. ``trouble(text)``: output
        cannot be written here, and is asked for again; "" when it can. ``step_file(told)``: where a file goes that an srun in the pods has
        opened. ``asked(message)``: the leader asks whether it may begin. ``stage_out(told)``: where files go that the job has changed;
        ``returned(report)``: they are there.
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
        self._takers: dict[str, _Taker] = {}  # of the present connection
        self._stage = stage
        self._push: Sender | None = None
        self._archive = -1
        self._trouble = trouble
        self._step_file = step_file
        self._asked = asked
        self._stage_out = stage_out
        self._returned = returned
        self._changes: list[StageOut] = []  # in the order in which they are taken
        self._moved_at = -_LAST_WORDS  # when data came last
        self._complete: list[Callable[[], None]] = []
        self._asked_for = 0
        self._gathered: dict[int, Callable[[], None]] = {}
        self._wall = wall
        self._ahead = 0.0  # seconds by which the leader's clock is ahead of ours
        self._problems: dict[str, str] = {}  # by output
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
        self._wake()

    def _wake(self) -> None:
        """Has the loop look at what has changed."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    @property
    def outputs_left(self) -> list[Output]:
        """Those of the script that have not come to their end."""
        return [output for output in self._outputs.values() if not isinstance(output, (StepFile, StageOut))]

    def order(self, order: Order) -> None:
        """Passes an order on, now or when the leader is reached."""
        self._orders[order.number] = order
        if self._link is not None:
            self._send_order(self._link, order)
        else:
            self._ordered.set()
            self._turns.look()

    def send(self, message: dict[str, Any]) -> None:
        """Says something to the leader if it is reached now: it asks again if it is not."""
        if self._link is not None:
            self._link.send(message)

    async def forget(self) -> None:
        """The end is committed."""
        if self._link is not None:
            self._link.send({"do": "forget"})
        await self.close()

    async def close(self) -> None:
        """Follows no more."""
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        for output in self._outputs.values():
            output.close()

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
        link.on_data = lambda step, rank, stream, data: self._data(
            str(rank) if step == FILES else _STREAMS[stream], data
        )
        try:
            link.send({"do": "watch", "after": self.seen, "files": True})
            if self._stage and not self.seen:
                self._archive = os.open(self._stage, os.O_RDONLY | os.O_CLOEXEC)
                self._push = Sender(link, self._archive, os.fstat(self._archive).st_size)
            for one in self._changes:
                self._outputs.pop(one.stream, None)
            self._changes.clear()  # they are told again
            self._takers = {name: self._taker(link, output) for name, output in self._outputs.items()}
            for order in list(self._orders.values()):
                self._send_order(link, order)
            await self._listen(link)
        finally:
            self._link, self.connected = None, False
            self._pushed()
            for taker in self._takers.values():
                taker.cancel()
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
                if self._end is not None and self._moves():
                    continue
                if self._end is not None:
                    self._finish()  # the end counts, though a part of the output has not come
                continue
            finally:
                self._patience = None
            self._take(message)

    def _moves(self) -> bool:
        """Whether something has come lately, or is being put in its place."""
        lately = _now() < self._moved_at + _LAST_WORDS
        return lately or any(self._takers[one.stream].busy for one in self._changes if one.stream in self._takers)

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
        elif do == "ask":
            self._asked(message)
        elif do == "done":
            self._orders.pop(message["number"], None)
        elif do == "credit" and self._push is not None:
            self._push.credit(int(message["bytes"]))
        elif do == "staged":
            self._stage = ""
            self._pushed()
        elif do == "changes":
            self._changed(message)
        elif do == "gathered":
            self._changes_told(int(message["number"]))
        elif do == "output-end" and message["stream"] in self._takers:
            if isinstance(self._outputs.get(message["stream"]), StageOut):
                return  # these say themselves how long they are
            name = message["stream"]
            self._takers[name].when_written(lambda: self._written(name))
        elif do == "clock":
            ahead = float(message["at"]) - self._wall()
            self._ahead = ahead if abs(ahead) > _SKEW else 0.0
        elif do == "file":
            self._file(message)

    def _changed(self, told: dict[str, Any]) -> None:
        """A node's changes are there. They are taken one after the other: where two nodes have changed a file the first one's counts."""
        found = self._stage_out(told)
        if found is None or self._link is None or found.stream in self._outputs:
            return
        self._outputs[found.stream] = found
        self._changes.append(found)
        if len(self._changes) == 1:
            self._takers[found.stream] = self._taker(self._link, found)

    def _changes_here(self, done: StageOut, report: StageReport | None) -> None:
        if done not in self._changes:
            return
        self._changes.remove(done)
        if report is not None:
            self._returned(report)
        self._written(done.stream)
        if self._changes and self._link is not None:
            following = self._changes[0]
            self._takers[following.stream] = self._taker(self._link, following)
        self._changes_told(None)

    def _changes_missed(self) -> None:
        """The job's end is told without what has not come yet."""
        for one in self._changes:
            name = f"files of node {one.node} ({one.total} bytes did not come in time)"
            self._returned(StageReport(missing=(name,), missed=1))
        self._changes.clear()

    def gather(self, then: Callable[[], None]) -> bool:
        """Has the leader send what all nodes have changed by now; ``then()`` when it is here. Whether the leader is reached."""
        if self._link is None:
            return False
        self._asked_for += 1
        self._gathered[self._asked_for] = then
        self.send({"do": "gather", "number": self._asked_for})
        return True

    def _changes_told(self, number: int | None) -> None:
        if number is not None and number in self._gathered:
            self._complete.append(self._gathered.pop(number))
        if not self._changes:
            complete, self._complete = self._complete, []
            for then in complete:
                then()

    def progress(self) -> Progress | None:
        """How far the working directory has come to the leader, or what the job has changed to here; None: nothing is on its way."""
        if self._push is not None:
            size = os.fstat(self._archive).st_size
            return Progress("the working directory goes to its first pod", "bytes", size, self._push.sent)
        if self._changes:
            one = self._changes[0]
            return Progress(f"files of node {one.node} come", "bytes", one.total, one.came)
        return None

    def _pushed(self) -> None:
        if self._push is not None:
            os.close(self._archive)
            self._push = None

    def _line(self, line: dict[str, Any]) -> None:
        if self.over or line["n"] <= self.seen or self._end is not None:
            return
        if line["kind"] == "ended" and self._outputs:
            if not self._given_up():
                self._end = line  # whoever waits for the job's end finds its output complete
                return
            self._changes_missed()
        self.seen = line["n"]
        self._begun = self._begun or line["kind"] == "started"
        self.over = line["kind"] == "ended"
        at = float(line["at"]) - self._ahead
        self._tell({**line, "at": min(at, self._wall())})

    def _given_up(self) -> bool:
        """Whether the end was heard so long ago that output which could not be written since then never will be."""
        self._ended_at = _now() if self._ended_at is None else self._ended_at
        return _now() - self._ended_at > _UNWRITTEN

    def _finish(self) -> None:
        assert self._end is not None
        self._changes_missed()
        end, self._end, self._outputs = self._end, None, {}
        self._line(end)

    def _taker(self, link: LeaderLink, output: Output) -> _Taker:
        if isinstance(output, StageOut):
            return _Taker(link, output, self._say, lambda: self._changes_here(output, None), self._changes_here)
        return _Taker(link, output, self._say, lambda: self._written(output.stream))

    def _file(self, told: dict[str, Any]) -> None:
        """An srun has opened a file, or begun it anew; or that is told again to a new connection."""
        known = self._outputs.get(str(told["stream"]))
        found = self._step_file(told)
        if found is None or self._link is None or (isinstance(known, StepFile) and known.round == found.round):
            return
        if known is not None:
            taker = self._takers[known.stream]
            taker.cancel()
            taker.credit_all()
            found.follow(known)
        self._outputs[found.stream] = found
        self._takers[found.stream] = self._taker(self._link, found)

    def _data(self, stream: str, data: bytes) -> None:
        self._moved_at = _now()
        output = self._outputs.get(stream)
        if isinstance(output, StageOut):
            output.came += len(data)
        if stream in self._takers:
            self._takers[stream].take(data)

    def _written(self, stream: str) -> None:
        """All of that output is here."""
        output = self._outputs.pop(stream, None)
        if output is not None:
            output.close()
        if self._end is not None and not self._outputs:
            self._finish()
            self._wake()

    def _say(self, stream: str, problem: str) -> None:
        before = next(iter(self._problems.values()), "")
        self._problems.pop(stream, None)
        if problem:
            self._problems[stream] = problem
        now = next(iter(self._problems.values()), "")
        if now != before:
            self._trouble(now)

    @staticmethod
    def _send_order(link: LeaderLink, order: Order) -> None:
        link.send({"do": "order", "order": order.to_dict()})


class _Taker:
    """Takes one output over one connection: what comes is credited when it is in the file. ``say(stream, problem)``: why it is not; "".
    ``refused()``: it is not taken at all.
    """

    def __init__(
        self,
        link: LeaderLink,
        output: Output,
        say: Callable[[str, str], None],
        refused: Callable[[], None],
        here: Callable[[StageOut, StageReport], None] = lambda output, report: None,
    ) -> None:
        self.busy = False
        self._here = here
        self._link = link
        self._output = output
        self._say = say
        self._refused = refused
        self._came = asyncio.Event()
        self._pieces: list[bytes] = []
        self._owed = 0  # bytes that are not credited yet
        self._then: Callable[[], None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._work())

    def take(self, data: bytes) -> None:
        """A piece has come."""
        self._pieces.append(data)
        self._owed += len(data)
        self._came.set()

    def when_written(self, then: Callable[[], None]) -> None:
        """Nothing more comes; ``then()`` when all of it is written."""
        self._then = then
        self._came.set()

    def cancel(self) -> None:
        """Nothing more is taken: what is not written is asked for again by another connection."""
        self._task.cancel()

    def credit_all(self) -> None:
        """What has come is of no interest any more."""
        self._credit(self._owed)

    def _credit(self, count: int) -> None:
        self._owed -= count
        self._link.send({"do": "credit", "step": "batch", "bytes": count, "stream": self._output.stream})

    async def _work(self) -> None:
        try:
            after = await self._patiently(self._output.taken())
            wanted = {"stream": self._output.stream, "after": after}
            if isinstance(self._output, StepFile):
                wanted["round"] = self._output.round
            self._link.send({"do": "output", **wanted})
            if isinstance(self._output, StageOut):
                await self._take_changes(self._output, after)
                return
            while self._pieces or self._then is None:
                self._came.clear()
                if not self._pieces:
                    await self._came.wait()
                    continue
                data = b"".join(self._pieces)
                self._pieces.clear()
                await self._patiently(self._output.add(data))
                self._say(self._output.stream, "")
                self._credit(len(data))
            self._then()
        except Refused as error:
            self._say(self._output.stream, f"{self._output.path}: {error.strerror}")
            self._refused()
        except OSError as error:
            self._say(self._output.stream, f"{self._output.path}: {error.strerror}")
            await self._link.close()  # not taken: the leader keeps it as long as it is there

    async def _take_changes(self, output: StageOut, after: int) -> None:
        while after < output.total:
            self._came.clear()
            if not self._pieces:
                await self._came.wait()
                continue
            data = b"".join(self._pieces)
            self._pieces.clear()
            await self._patiently(output.add(data))
            self._say(output.stream, "")
            self._credit(len(data))
            after += len(data)
        self.busy = True
        try:
            report = await output.finish()
        except ValueError as error:
            report = StageReport(missing=(f"files of node {output.node} ({error})",), missed=1)
        finally:
            self.busy = False
        self._here(output, report)

    async def _patiently(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the file, however long; says so if that is long."""
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait([task], timeout=_SLOW)
            if not done:
                self._say(self._output.stream, f"{self._output.path}: waits for its reader, or for its file system")
            return await task
        finally:
            task.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
