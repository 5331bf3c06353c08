"""The course of one run for the controller that has it: its leader is followed, orders go out, what happens is told, ends are found."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from shim.control import paths
from shim.control.backends.base import BackendError, Order, Progress
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.threads import beside
from shim.control.backends.kubernetes.objects import names, volumes
from shim.control.backends.kubernetes.records.record import JobRecord, Way
from shim.control.backends.kubernetes.run import run_folders, stage_out
from shim.control.backends.kubernetes.run import termination_record as termination
from shim.control.backends.kubernetes.run.context import Context
from shim.control.backends.kubernetes.run.evidence import Report
from shim.control.backends.kubernetes.run.following import Follower
from shim.control.backends.kubernetes.run.output import LateOutput, Output, StepFile
from shim.control.backends.kubernetes.run.pod_view import PodView
from shim.control.backends.kubernetes.run.proxy import Proxy
from shim.control.backends.kubernetes.run.register import GRANTED, MADE, NODE_FAIL, NOT_BEGUN, WITHDRAWN, Register
from shim.control.backends.kubernetes.run.stage_out import Destination, StageOut, StageReport
from shim.control.backends.kubernetes.run.starting import RETRY, Line, Starting, failed, waits_again
from shim.core.model import states
from shim.job.pod import echo
from shim.job.pod.asking import Ask

_FILES = "files"  # in the run folder: what files of steps were begun, and how often
WAITS = "WAITS"  # the outcome of a run that is withdrawn and whose job waits again
_FINAL_WORDS = 3.0  # seconds in which a leader that has ended may still be heard over its stream
_LOG_LIMIT = 64 * 1024 * 1024  # bytes
_ALONE = 5.0  # seconds for which a leader whose other pods are still being started is left alone
_FETCH = 600.0  # seconds for files of a job that runs
LOST = "its pods are gone: files that it made or changed in its copy of the working directory may be lost"
CANCEL_PATIENCE = 10.0  # seconds in which a leader that runs should be reached before its run is ended without it


class Course:
    """``poke`` has the driver look again. ``stage``: the archive that the leader must be given before it begins."""

    def __init__(
        self,
        context: Context,
        record: JobRecord,
        ways: tuple[Way, ...],
        pinned: bool,
        stage: str,
        poke: Callable[[], None],
    ) -> None:
        self._context = context
        self._site = context.site
        self._record = record
        self._ways = ways
        self._stage = stage
        self._poke = poke
        self._key = b""
        self._of_here = record.host == self._site.host
        self._starting = Starting(
            context, pinned, bool(stage), lambda: self._follower is not None and self._follower.connected, poke
        )
        self._follower: Follower | None = None
        self._proxy = Proxy(run_folders.path_of(context.run), self.dial)
        self._orders: dict[int, Order] = {}
        self._asks: dict[str, Ask] = {}
        self._granted = ""  # uid of the leader that was granted the run
        self.committed = False  # the index has the run's end
        self._end: Line | None = None  # as it was decided here, and is told once the register says so
        self._told = ""  # the state that the leader has told, as its end
        self._not_begun = False  # the leader that was granted the run has said that it never began it
        self._waits_for_words = False  # a leader that has ended may still be heard
        self._unheard = False  # said that its leader's node does not answer
        self._heard_at = self._site.clock()
        self._report = StageReport()
        self._elsewhere = ""  # where files are that belong to another machine

    async def open(self, key: bytes) -> None:
        """Makes srun's way to the run, whose key this is. Where that cannot be given (a full disk) it runs without."""
        self._key = key
        try:
            run_folders.ensure(self._context.run, self._key)
            await self._proxy.open()
        except OSError as error:
            text = error.strerror or error
            self._site.log("job %s: srun cannot reach it from here: %s", self._context.run.job_id, text)

    @property
    def opened(self) -> bool:
        """Whether the run's key is known."""
        return bool(self._key)

    async def close(self) -> None:
        """Follows no more; the run goes on."""
        await self.hush()
        await self._proxy.close()

    async def hush(self) -> None:
        """Ends the connection to the leader: what one says that is taken down is no news."""
        if self._follower is not None:
            await self._follower.close()

    async def forget(self) -> None:
        """The end is committed: the leader may go."""
        if self._follower is not None:
            await self._follower.forget()
        self.committed = True

    def is_of(self, record: JobRecord) -> bool:
        """Whether the record's last run is this one."""
        number = record.register.run if record.register is not None else None
        return (record.uid, number) == (self._context.record, self._context.number)

    @property
    def over(self) -> bool:
        """Whether the controller was told the end."""
        return self._context.over

    def left(self) -> list[PodView]:
        """The pods that still hold something, and are heard."""
        return self._context.left()

    # Orders

    def order(self, order: Order) -> None:
        """Passes an order on to the leader."""
        if order.number not in self._orders:
            self._orders[order.number] = order
            if self._follower is not None:
                self._follower.order(order)

    @property
    def _end_order(self) -> Order | None:
        found = (one for one in self._orders.values() if one.kind == "end" and one.step is None and not one.component)
        return next(found, None)

    @property
    def end_ordered(self) -> bool:
        """Whether the whole run is to end."""
        return self._end_order is not None

    def ended_by_order(self) -> Line | None:
        """The end that was ordered; None: none was."""
        order = self._end_order
        if order is None:
            return None
        line = {"kind": "ended", "state": order.state or states.CANCELLED, "status": 0, "reason": ""}
        return line if order.uid is None else {**line, "uid": order.uid}

    async def dial(self) -> Any:
        """A socket to the leader, through its pod. Raises OSError where there is none."""
        leader = self._leader()
        if leader is None or not leader.running:
            raise ConnectionRefusedError("the job's first pod does not run")
        try:
            return await self._site.connect(leader.name)
        except ApiError as error:
            raise ConnectionError(error.message) from error

    def _leader(self) -> PodView | None:
        return self._context.leader(self._context.views(), self._granted)

    # Looking

    async def look(self, record: JobRecord) -> float | None:
        """Looks at the pods once, tells what is new; seconds until time alone may change something (None: never)."""
        register = record.register
        assert register is not None
        if self.committed or register.closed:
            return None
        self._know_members(register)
        views = self._context.views()
        leader = self._context.leader(views, self._granted)
        alone = self._alone(views, register)
        if leader is not None and leader.running and self.opened and self._follower is None and not alone:
            self._follow()
        if register.state == MADE:
            self._context.tell_place(views)
            end, pause = await self._starting.look(views)
            self._end = end = self.ended_by_order() or end
            return min(pause, alone) if alone else pause
        assert register.state == GRANTED
        self._context.tell_place(views)
        if leader is not None and leader.ended is not None:
            return await self._leader_over(leader, register)
        return self._look_running(leader)

    def _know_members(self, register: Register) -> None:
        if register.leader is not None:
            self._granted = register.leader.pod
            self._context.members = frozenset(member.pod for member in register.members)

    def _alone(self, views: list[PodView], register: Register) -> float:
        """Seconds for which nobody need reach the leader: without all pods nothing begins, and a stream takes time from them."""
        context = self._context
        late = len(views) < context.nodes or any(not view.running and view.ended is None for view in views)
        wanted = register.state == GRANTED or bool(self._orders) or bool(self._stage)
        return max(0.0, _ALONE - context.elapsed("alone", late and not wanted)) if late and not wanted else 0.0

    def _follow(self) -> None:
        context = self._context
        self._follower = Follower(
            self.dial,
            lambda: self._key,
            self._site.turns,
            context.seen,
            self._journal,
            tuple(self._output(way) for way in self._ways),
            self._stage,
            self._output_trouble,
            self._step_file,
            self._asked,
            self._stage_out,
            self._came_back,
        )
        for order in self._orders.values():
            self._follower.order(order)

    def _step_file(self, told: Line) -> StepFile | None:
        """Where a step's file goes; None for one that the pods share with this machine, or that has no place here."""
        context, copied = self._context, self._record.copied
        if not copied or not self._of_here or volumes.mounted(str(told["path"]), context.settings):
            return None
        return StepFile(told, copied, os.path.join(run_folders.path_of(context.run), _FILES))

    def _output(self, way: Way) -> Output:
        """A file of the script's output, which is begun now if the run was made by another machine."""
        if way.base >= 0:
            return Output(way.stream, way.path, way.base)
        noted = os.path.join(run_folders.path_of(self._context.run), _FILES)
        request = self._record.job.request
        append = request.open_mode == "a" or self._context.run.restart > 0
        return LateOutput(way.stream, way.path, append, request.umask, noted)

    @property
    def _destination(self) -> Destination:
        """Where files go that the job has changed: what another machine names is never written to."""
        run, job, cluster = self._context.run, self._record.job, self._site.cluster
        root = self._record.copied
        if not self._of_here:
            root = os.path.join(paths.state_dir(), "adopted", cluster, f"{self._record.name}.files")
        return Destination(
            job_id=run.job_id,
            restart=run.restart,
            root=root,
            folder=run_folders.path_of(run),
            spool=stage_out.spool_of(cluster, job),
        )

    def _stage_out(self, told: Line) -> StageOut | None:
        return StageOut(told, self._destination) if self._record.copied else None

    def _came_back(self, report: StageReport) -> None:
        self._report += report
        job_id = self._context.run.job_id
        if report.files and not self._of_here:
            self._elsewhere = f"files are on {self._site.host} in {self._destination.root}"
        if report.text:
            self._site.log("job %s: %s", job_id, report.text)

    def progress(self) -> Progress | None:
        """How far the start, or the way of files, has come; None: the run goes on by itself."""
        moving = self._follower.progress() if self._follower is not None else None
        if moving is not None or self._context.begun:
            return moving
        return self._starting.progress(self._context.views())

    async def fetch(self) -> tuple[int, int, str]:
        """What the job has changed by now comes here: files, bytes, and what is to be said of others. BackendError where its leader is not reached."""
        if not self._record.copied:
            return 0, 0, ""
        came = asyncio.Event()
        before, self._report = self._report, StageReport()
        try:
            if self._follower is None or not self._follower.gather(came.set):
                raise BackendError("the job's first pod is not reached now: try again", transient=True)
            async with asyncio.timeout(_FETCH):
                await came.wait()
            found = self._report
        except TimeoutError:
            raise BackendError(f"the job's files did not come within {_FETCH:g} s", transient=True) from None
        finally:
            self._report = before + self._report
        return found.files, found.bytes, found.text

    def _with_report(self, line: Line) -> Line:
        """The end of the run, with what its user has to know of the files."""
        said = [text for text in (line.get("detail"), self._report.text, self._elsewhere) if text]
        return {**line, "detail": "; ".join(said)} if said else line

    def _output_trouble(self, text: str) -> None:
        self._context.tell_reason("OutputNotWritten" if text else "None", text)

    def _journal(self, line: Line) -> None:
        """A line of the leader's journal, heard over its stream."""
        context = self._context
        context.seen = line["n"]
        kind = line["kind"]
        if kind == "started":
            context.tell_place(context.views())
            context.begun = True
        if kind == "suspect":
            context.tell_reason("NodeNotResponding", f"{line.get('host')} is silent")
        elif kind == "recovered":
            context.tell_reason("None")
        elif not context.broken_before_start(line) and (kind != "ending" or context.begun):
            # Before the start what follows says whether it ends, or begins anew.
            self._tell(line)
        self._poke()

    def _tell(self, line: Line) -> None:
        if line["kind"] == "ended":
            self._told = str(line.get("state") or states.FAILED)
            line = self._with_report(line)
        self._context.tell(line)

    def _look_running(self, leader: PodView | None) -> float | None:
        context = self._context
        reached = self._follower is not None and self._follower.connected
        silent = leader is None or context.unanswered(leader)
        if not silent and (reached or self._end_order is None):
            self._heard_at = self._site.clock()
        if leader is None:
            return RETRY
        if not silent:
            if self._unheard:
                self._unheard = False
                context.tell_reason("None")
            if leader.leaving:
                return RETRY  # where nobody hears that it is to go nothing but time tells
            return RETRY if self._end_order is not None and not reached else None
        context.tell_reason("NodeNotResponding", f"{leader.node} does not answer")
        self._unheard = True
        return RETRY

    # Asks and answers

    def _asked(self, message: Line) -> None:
        ask = Ask.from_dict(message["ask"])
        self._asks[ask.nonce] = ask
        self._poke()

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Those that are not answered yet."""
        return tuple(self._asks.values())

    def answer(self, ask: Ask, granted: bool | None) -> None:
        """Tells the leader what came of a live read after its ask; None: nothing yet."""
        if granted is None:
            return
        if self._asks.get(ask.nonce) == ask:
            del self._asks[ask.nonce]
        if self._follower is not None:
            self._follower.send({"do": "answer", "nonce": ask.nonce, "asked": ask.asked, "granted": granted})

    # Ends

    def outcome_unbegun(self) -> str:
        """As what a run that was made is to be withdrawn; "": it is not."""
        if self.committed:
            return WAITS  # its end is in the index, which says what becomes of the job
        if self._end is None:
            return ""
        return WAITS if self._end["kind"] == "withdrawn" else str(self._end.get("state") or states.FAILED)

    @property
    def leader_is_missing(self) -> bool:
        """Whether the watch does not show the pod that was granted the run."""
        return self._leader() is None

    @property
    def leader_has_ended(self) -> bool:
        """Whether the watch shows the end of its first pod."""
        leader = self._leader()
        return leader is not None and leader.over

    @property
    def ends_by_itself(self) -> bool:
        """Whether its leader has told its end: that is to be committed first."""
        return bool(self._told) or self._waits_for_words

    def heard(self) -> float:
        """When the leader was last heard, or its node; for a run that is to end when it was last reached."""
        return self._site.clock() if self._told else self._heard_at

    def report(self, register: Register) -> Report | None:
        """What the granted leader has said of its end, once that is committed, or need not be: nothing has begun."""
        if self._not_begun:
            return Report(nonce=register.nonce, outcome=NOT_BEGUN)
        if self.committed:
            return Report(nonce=register.nonce, outcome=self._told or states.FAILED)
        return None

    async def _leader_over(self, leader: PodView, register: Register) -> float | None:
        """The leader's pod has ended: what it has not told over its stream is in its record."""
        context = self._context
        if self._told:
            return None
        waits = context.elapsed("leader over", True)
        self._waits_for_words = self._follower is not None and self._follower.connected and waits < _FINAL_WORDS
        if self._waits_for_words:
            return _FINAL_WORDS - waits
        found = termination.lines(leader, self._site.now())
        lines = [line for line in found if not line.get("n") or line["n"] > context.seen]
        told = register.nonce and termination.is_told(leader)
        if not lines or (told and register.nonce not in termination.nonces(leader)):
            return None  # it ended without a word, or this is another process': decided by that
        now = self._site.now()  # by the clock of a node that is ahead it would end later, and a requeue wait for that
        lines = [{**line, "at": min(float(line.get("at", now)), now)} for line in lines]
        if lines[0]["kind"] == "started":
            context.begun = True
        if context.broken_before_start(lines[-1]):
            self._not_begun = True  # its own word, or the kubelet's: nothing of it has run
            return None
        await self._fetch_output(leader)
        if not termination.is_told(leader):
            lines[-1] = self._unheard_end(lines[-1])
        for line in lines:
            self._tell(line)
        return None

    async def fetched(self, register: Register) -> bool:
        """Whether the output of a run that is over is here as far as it is anywhere: what is left comes from its leader, or from its log."""
        assert register.leader is not None
        self._know_members(register)
        leader = self._leader()
        if self._told:
            return True
        if leader is None:
            await self._fetch_files()
            self._site.log("job %s: its output is incomplete: its first pod is gone", self._context.run.job_id)
            return True
        if not leader.over:
            if self._follower is None and leader.running:
                self._follow()
            return False
        if self._context.elapsed("leader over", True) < _FINAL_WORDS and self._follower is not None:
            return False
        await self.hush()
        await self._fetch_output(leader)
        return True

    async def _fetch_output(self, leader: PodView) -> None:
        """What nobody fetched while the leader was there comes from the kubelet's log; files, as far as they had come."""
        await self._fetch_files()
        site = self._site
        ways = self._ways
        left = self._follower.outputs_left if self._follower is not None else [self._output(way) for way in ways]
        if not left:
            return
        try:
            text = await site.access.log(site.namespace, leader.name, names.CONTAINER, limit=_LOG_LIMIT)
        except ApiError as error:
            if not error.missing:
                raise
            site.log("job %s: its output is incomplete: its first pod is gone", self._context.run.job_id)
            return
        pieces = echo.split(text)
        if pieces is None:
            # One stream; or an agent that was killed: then both are in one, in about the order in which they were fetched.
            before = sum([await self._output(way).taken() for way in ways])
            pieces = {left[0].stream: (await left[0].taken(), text[before:])}
        for output in left:
            await self._add_rest(output, *pieces.get(output.stream, (0, b"")))

    async def _fetch_files(self) -> None:
        """What had come of the job's files goes to its place."""
        if self._record.copied:
            to = self._destination
            self._came_back(await beside(lambda: stage_out.remains(to)))

    async def _add_rest(self, output: Output, start: int, text: bytes) -> None:
        """Adds what is not there yet of an output's last bytes, before which there were ``start`` others."""
        job_id, taken = self._context.run.job_id, await output.taken()
        if taken < start:
            self._site.log("job %s: %s bytes of %s are lost", job_id, start - taken, output.path)
        try:
            await output.add(text[max(0, taken - start) :])
        except OSError as error:
            # The job has ended all the same, and its pod with the rest of the output goes.
            self._site.log("job %s: its output is incomplete: %s: %s", job_id, output.path, error.strerror)

    def end_of(self, record: JobRecord) -> Line:
        """What the controller is told of a run whose register is closed, from what was decided here or from what another has written."""
        register = record.register
        assert register is not None
        outcome = register.outcome
        final = final_end(record)
        if final is not None:
            return final
        if register.state == WITHDRAWN:
            if self._end is not None:
                return self._end
            waits = outcome in ("", WAITS)
            return self.ended_by_order() or (
                waits_again("it was taken back before it began") if waits else failed("", outcome)
            )
        if self._end_order is not None:
            return self._unheard_end(self.ended_by_order() or {})
        if outcome == NOT_BEGUN:
            return waits_again("it did not begin")
        if outcome == NODE_FAIL:
            return {"kind": "lost", "reason": "the job's first pod is gone, or its node does not answer"}
        return {"kind": "ended", "state": outcome, "status": record.job.exit_status, "reason": ""}

    def _unheard_end(self, line: Line) -> Line:
        """An end of which the leader has said nothing: nor has it sent what it had."""
        if self._record.copied:
            line = {**line, "detail": "; ".join(text for text in (line.get("detail"), LOST) if text)}
        return self._with_report(line)

    def tell_end(self, end: Line) -> None:
        """Tells the controller an end that was decided on this side."""
        self._context.tell_end(self._unheard_end(end) if end["kind"] == "lost" or end.get("final") else end)


def final_end(record: JobRecord) -> Line | None:
    """The end of the job, where the record says that it has ended: no run of it is made any more, whatever an index would make of such an end."""
    if not record.ended:
        return None
    return {"kind": "ended", "state": record.ended, "status": record.job.exit_status, "final": True}
