"""Drives the runs of one job: looks at its record, its pods and its leader, has ``decide`` say what is next, and carries that out.

Every effect may be repeated, be lost or come late: what is there afterwards is looked at again. What the controller is told follows
from the register: a run is withdrawn, or over, before anybody hears that it was given up from this side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from typing import TYPE_CHECKING, Any

from shim.control.backends.base import BackendError, Observer, Order, Run
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.run_objects import refusal
from shim.control.backends.kubernetes.records.record import JobRecord, Way, current, fits
from shim.control.backends.kubernetes.run import evidence, pod_view, run_folders
from shim.control.backends.kubernetes.run.context import Context
from shim.control.backends.kubernetes.run.course import CANCEL_PATIENCE, WAITS, Course, final_end
from shim.control.backends.kubernetes.run.decide import ENDED, ENDS, Answer, CreateJob, Delete, Effect, Write, decide
from shim.control.backends.kubernetes.run.evidence import Report, Seen, fence
from shim.control.backends.kubernetes.run.register import GRANTED, MADE, WITHDRAWN, Limits, Register, answer, withdrawn
from shim.control.backends.kubernetes.run.starting import waits_again
from shim.control.backends.kubernetes.settings import Settings
from shim.control.lifecycle import running
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.value import Value

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.cluster_session import Site
    from shim.control.backends.kubernetes.objects.gang_spec import Gang

KEPT = 7 * 86400.0  # seconds for which the end of a job waits for its machine
RETRY = 2.0  # seconds until what could not be done is tried again
_NEVER = 10.0**12
_TRIES = 5
# Final: whoever removes a record has seen the job's end, so no run of it may follow.
_REMOVED = {
    "kind": "ended",
    "state": states.NODE_FAIL,
    "status": 0,
    "detail": "its record was deleted",
    "final": True,
}
_NOT_OVER = "the run before is not over yet"


class Prepared(Value):
    """A run's objects, as they are to be made. ``stage``: the archive that its leader must be given, "" for none."""

    gang: Gang
    settings: Settings
    contents: dict[str, bytes]
    stage: str = ""
    outputs: tuple[Way, ...] = ()
    copied: str = ""  # the working directory that the pods have a copy of
    pinned: bool = False  # there was room for it a moment ago


Prepare = Callable[[JobRecord, int], Awaitable[Prepared]]


class Driver:
    """``index``: the job as the index has committed it last (None: it has none). ``ways(record)``: where its output goes here."""

    def __init__(
        self,
        site: Site,
        job_id: int,
        settings: Callable[[str], Settings],
        kill_wait: int,
        observer: Observer,
        ways: Callable[[JobRecord], tuple[Way, ...]],
    ) -> None:
        self.index: Job | None = None
        self.ended_elsewhere: Container[
            str
        ] = ()  # uids of records whose end was found in them: it did not come about here
        self.holds_tasks: Callable[[int], bool] = lambda array: (
            False
        )  # whether the index has tasks of the array to be started
        self.tidy: Callable[[JobRecord], Awaitable[None]] = _as_it_is  # what an array's record gives that has no record
        self.fetch: Callable[[Job], None] = lambda job: None  # what is left of such a run here
        self.done = asyncio.Event()  # the record is gone, and everything is told
        self.course: Course | None = None
        self._site = site
        self._job_id = job_id
        self._settings = settings
        self._kill_wait = kill_wait
        self._observer = observer
        self._ways = ways
        self._prepared: Prepared | None = None
        self._since: tuple[Register | None, float] = (None, 0.0)
        self._written: JobRecord | None = (
            None  # in this look: the API server's answer to a write, as good as a live read
        )
        self._removed = False  # this has deleted the record
        self._swept: set[int] = set()  # runs whose Secret was removed
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()  # a start, or a look
        self._task = asyncio.get_running_loop().create_task(self._work())

    # From outside

    def poke(self) -> None:
        """Something about the job's objects, or what is wanted, has changed."""
        self._changed.set()

    async def begin(self, run: Run, host: str, prepare: Prepare) -> None:
        """Sees to it that the run is made, and goes on with it; see ``Backend.start``. ``host``: the first host name that the job was told.

        Raises BackendError where the run is not made, and will not be by this.
        """
        async with self._turn:
            try:
                await self._begin(run, host, prepare)
            except ApiError as error:
                raise refusal(error) from error

    async def _begin(self, run: Run, host: str, prepare: Prepare) -> None:
        record = self._site.records.find(self._job_id)
        if record is None:
            raise BackendError("its record is gone", transient=True)
        if self._tell_missed(record):
            return
        await self._end_course_before(record)
        register = record.register
        if register is None or not register.serves(run.restart):
            record = await self._next(record, run, host, prepare)
            register = record.register
        assert register is not None
        if register.state == MADE:
            await self._make(record, register, run, prepare)
        self.follow(run, 0)

    async def _end_course_before(self, record: JobRecord) -> None:
        """What is begun gets a course of its own: that of a run before must not stand in its place, whoever has made the run."""
        course = self.course
        if course is not None and not course.is_of(record):
            if not course.committed:
                raise BackendError(_NOT_OVER, transient=True)
            await self._leave(course)

    async def _next(self, record: JobRecord, run: Run, host: str, prepare: Prepare) -> JobRecord:
        number = next_number(record.register, run.restart)
        if host != names.host(self._job_id, number, 0):
            raise BackendError(f"another run of the job was made meanwhile: this is number {number}", transient=True)
        if self.course is not None:
            raise BackendError(_NOT_OVER, transient=True)
        if self.index is not None and not fits(record, self.index):
            raise BackendError("another machine has given this task away", transient=True)
        await self._refuse_older(record, run)
        seen = (await self._evidence(record)).replace(turn=True, restart=run.restart)
        doubts = fence(record.deciding(self._limits), seen, self._site.clock())
        if doubts:
            raise BackendError(self._unfenced(record, doubts), transient=True)
        self._prepared = await prepare(record, number)
        decision = decide(record.deciding(self._limits), seen, self._site.clock())
        first = decision.effects[0] if decision.effects else None
        if not isinstance(first, Write) or first.register is None or first.register.state != MADE:
            raise BackendError("the job is held, cancelled, or has ended", transient=True)
        made = await self._write(record, first, outputs=self._prepared.outputs, copied=self._prepared.copied)
        if made.register != first.register:
            raise BackendError("its record was changed at the same time", transient=True)
        return made

    async def _refuse_older(self, record: JobRecord, run: Run) -> None:
        """A job that ran before it had a register ran with the version before. Those pods are behind no fence: they must have ended."""
        if record.register is not None or not run.restart:
            return
        views = [pod_view.look(pod) for pod in await self._site.objects.pods_of_job(self._job_id)]
        left = [view for view in views if not view.over]
        nodes = await self._site.evidence.nodes(view.node for view in left) or {}
        off = {name for name, node in nodes.items() if node.gone or node.out_of_service}
        alive = [view.name for view in left if view.node not in off]
        if alive:
            raise BackendError(f"pods of a run before are still there: {', '.join(alive)}", transient=True)

    def _unfenced(self, record: JobRecord, doubts: tuple[str, ...]) -> str:
        """Why the job cannot run again yet."""
        assert record.register is not None
        on = {member.pod: member.node for member in record.register.members}
        on.update({pod["metadata"]["uid"]: pod_view.look(pod).node for pod in self._pods(record)})
        nodes = sorted({on[uid] for uid in doubts if on.get(uid)})
        silent = [node for node in nodes if self._site.node_is_silent(node)]
        text = "pods of the run before are still there, or nobody has seen them end"
        if nodes:
            text += f", on {', '.join(nodes)}"
        return text + (": until it answers, is removed or tainted out-of-service" if silent else "")

    async def _make(self, record: JobRecord, register: Register, run: Run, prepare: Prepare) -> None:
        """Makes the run's objects. A refusal takes the run back; where nobody knows it is tried again, by every look."""
        if self._prepared is None or self._prepared.gang.number != register.run:
            self._prepared = await prepare(record, register.run)
        try:
            await self._create()
        except ApiError as error:
            if error.transient:
                self._site.log("job %s: %s", self._job_id, error.message)
                return
            failed = refusal(error)
            current = await self._withdraw(record)
            if current is not None and current.register is not None and current.register.state == WITHDRAWN:
                self._prepared = None
                raise failed from error

    async def _create(self) -> None:
        assert self._prepared is not None
        made = self._prepared
        self._site.seen.note(await self._site.objects.make(made.gang, made.settings, made.contents))

    async def _withdraw(self, record: JobRecord) -> JobRecord | None:
        current: JobRecord | None = record
        for _ in range(_TRIES):
            if current is None or current.register is None or current.register.state != MADE:
                return current
            try:
                return await self._site.records.write(current, register=withdrawn(current.register))
            except ApiError as error:
                if not error.conflict and not error.transient:
                    raise
                current = await self._site.records.read(self._job_id)
        return current

    def follow(self, run: Run, seen: int) -> None:
        """Goes on with the run that the record has, for the controller, which has the journal up to line ``seen``."""
        record = self._site.records.find(self._job_id)
        if self.course is not None or record is None or record.register is None:
            return
        settings = self._settings(record.job.partition)
        context = Context(
            self._site, run, record.uid, record.register.run, record.job.nodes, settings, self._observer, seen
        )
        prepared = self._prepared
        pinned = prepared.pinned if prepared is not None else False
        stage = prepared.stage if prepared is not None else ""
        self.course = Course(context, record, self._ways(record), pinned, stage, self.poke)
        self.poke()

    async def _open(self, course: Course, record: JobRecord) -> None:
        """Gives the course the key of its run; without one the run goes on, and its leader is not heard."""
        assert record.register is not None
        try:
            payload = await self._site.records.payload(record)
        except (ApiError, BackendError) as error:
            self._site.log("job %s: %s", self._job_id, error)
        else:
            await course.open(payload.key(record.uid, record.register.run))

    def order(self, order: Order) -> None:
        """Passes an order on to the leader; one that ends a run without a reachable leader is obeyed here."""
        if self.course is not None:
            self.course.order(order)
        self.poke()

    async def forget(self) -> None:
        """The end that was told is committed: the run's leader may go, and the register be closed.

        Said once more, or late, it may find the run that came after: of that no end was told, and it goes on.
        """
        course = self.course
        if course is None or not course.over:
            return
        await course.forget()
        self.poke()

    async def close(self) -> None:
        """Looks no more; the runs go on."""
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.course is not None:
            await self.course.close()

    # The work

    async def _work(self) -> None:
        while not self.done.is_set():
            self._changed.clear()
            pause: float | None = RETRY
            try:
                async with self._turn:
                    pause = await self._look()
            except (ApiError, BackendError) as error:
                self._site.log("job %s: %s", self._job_id, error)
            except Exception:
                # An error of this program must not leave the job for ever as it is: it is looked at again.
                self._site.log("job %s: an internal error", self._job_id, exc_info=True)
            if not self.done.is_set():
                await self._wait(pause)

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass  # looked at again because of the time alone

    async def _look(self) -> float | None:
        """Looks at everything once; seconds until time alone may change something (None: never)."""
        if not self._site.synced:
            return None
        record = self._site.records.find(self._job_id)
        if record is None:
            return await self._record_gone()
        course, pause = self.course, None
        if course is not None and not course.is_of(record):
            if not course.over and not course.committed:
                course.tell_end(waits_again("another run of the job was made meanwhile"))
            await self._leave(course)
            course = None
        if self._tell_missed(record):
            return RETRY
        await self._site.clear(self._job_id)
        if course is not None:
            if not course.opened:
                await self._open(course, record)
            pause = await course.look(record)
            pause = pause if course.opened else RETRY
        seen = await self._see(record)
        decision = decide(self._deciding(record), seen, self._site.clock())
        self._written = None
        for effect in decision.effects:
            if not await self._carry_out(record, effect):
                break
        if course is not None and record.register is not None and record.register.closed:
            left = await self._look_closed(record, course)
            pause = left if pause is None else pause
        if decision.next == ENDED and not decision.effects and not self._may_go(record):
            self._fetch_left(record)
            return pause  # whoever fetches what is left writes to the record
        waits = [one for one in (pause, decision.look_again) if one is not None]
        return min(waits, default=None)

    def _fetch_left(self, record: JobRecord) -> None:
        if self.index is not None and self.course is None and record.uid in self.ended_elsewhere:
            self.fetch(self.index)

    def _tell_missed(self, record: JobRecord) -> bool:
        """Tells an index, for which the job is under way, what another controller has made of it since: its end, or a later restart."""
        job, register = self.index, record.register
        requeued = register is not None and job is not None and register.restart > job.restarts
        if job is None or job.state not in states.ALLOCATED or not (record.ended or requeued):
            return False
        if record.ended and self.course is not None:
            return False  # it tells its end itself
        run = Run(cluster=self._site.cluster, job_id=self._job_id, restart=job.restarts)
        ended = final_end(record) or {"kind": "ended", "state": states.REQUEUED, "status": record.job.exit_status}
        self._observer.happened(run, {"at": self._site.now(), **ended})
        return True

    async def _record_gone(self) -> float | None:
        if not self._removed and await self._site.records.read(self._job_id) is not None:
            return 0.0
        course, self.course = self.course, None
        job = self.index
        if course is not None:
            if not course.over and not course.committed:
                course.tell_end(_REMOVED)
            await course.close()
        elif job is not None and job.state in states.ALLOCATED:
            run = Run(cluster=self._site.cluster, job_id=self._job_id, restart=job.restarts)
            self._observer.happened(run, {"at": self._site.now(), **_REMOVED})
        await self._site.clear(self._job_id)
        if not self.holds_tasks(self._job_id):  # while there is a folder no record of them is made anew
            run_folders.remove(self._site.cluster, self._job_id)
        self._site.seen.forget(self._job_id)
        self.done.set()
        return None

    async def _look_closed(self, record: JobRecord, course: Course) -> float | None:
        """The register is closed: the controller is told how, once nothing holds anything any more, and then the course is at its end."""
        if course.committed:
            await self._leave(course)
            return 0.0
        if course.over:
            return None
        if course.left():
            return RETRY
        await course.hush()
        course.tell_end(course.end_of(record))
        return None

    async def _leave(self, course: Course) -> None:
        self.course, self._prepared = None, None
        await course.close()

    # What is seen

    @property
    def _limits(self) -> Limits:
        settings = self._settings("")
        return Limits(
            boot=_NEVER, node=float(settings.node_wait), cancel=CANCEL_PATIENCE, grace=float(self._kill_wait + 10)
        )

    def _deciding(self, record: JobRecord) -> Any:
        ended = self.course is not None and self.course.end_ordered
        return record.deciding(self._limits, cancel=record.wanted.cancel or ended)

    def _pods(self, record: JobRecord) -> list[dict[str, Any]]:
        return self._site.seen.pods_of(self._job_id, record.uid)

    def _plain(self, record: JobRecord) -> Seen:
        """What the watches show."""
        pods = []
        for pod in self._pods(record):
            view = pod_view.look(pod)
            pods.append(
                evidence.Pod(
                    name=view.name,
                    uid=view.uid,
                    run=names.number_of(pod, names.RUN),
                    index=view.index,
                    node=view.node,
                    ended=view.over,
                    unknown=view.ended is not None and not view.ended.known,
                    deleting=view.leaving,
                )
            )
        jobs = [
            evidence.Job(
                name=job["metadata"]["name"],
                uid=job["metadata"]["uid"],
                run=names.number_of(job, names.RUN),
                finished=pod_view.finished(job),
                deleting="deletionTimestamp" in job["metadata"],
            )
            for job in self._site.seen.jobs_of(self._job_id, record.uid)
        ]
        now = self._site.clock()
        if self._since[0] != record.register or not self._since[1]:
            self._since = (record.register, now)
        return Seen(
            jobs=tuple(jobs),
            pods=tuple(pods),
            over=self._site.seen.over(self._job_id),
            since=self._since[1],
            heard=now,
            ended=self._ended(record),
            archived=self.index is not None
            and self.index.state in states.TERMINAL
            and self.course is None
            and self._may_go(record),
        )

    def _may_go(self, record: JobRecord) -> bool:
        """Whether the machine that the job was submitted on needs its record no more: it has the end, and the output."""
        own = record.host in ("", self._site.host) and record.user in ("", self._site.known_user)
        late = self._site.now() - record.job.end_time > KEPT and record.job.end_time > 0
        return bool(record.settled) or late or (own and record.uid not in self.ended_elsewhere)

    def _ended(self, record: JobRecord) -> str:
        """How the job has ended by the index; "" while it has not."""
        return self.index.state if self.index is not None and self.index.state in states.TERMINAL else record.ended

    async def _see(self, record: JobRecord) -> Seen:
        register, course = record.register, self.course
        seen = self._plain(record)
        if register is None:
            return seen
        if register.closed:
            return await self._evidence(record, ENDS)
        if course is None:
            # One that nobody here has asked for, or whose job was taken back into the queue meanwhile.
            job = self.index
            if job is None or (job.state in states.ALLOCATED and job.restarts == register.restart):
                return seen
            if register.state == MADE:
                return seen.replace(given_up=WAITS)
            if job.state in states.TERMINAL or job.restarts > register.restart:  # its end is committed
                outcome = job.state if job.state in states.TERMINAL else states.REQUEUED
                return seen.replace(report=Report(nonce=register.nonce, outcome=outcome))
            return seen
        if register.state == MADE:
            asks = course.asks
            nodes = {member.node for ask in asks for member in ask.members}
            given_up = course.outcome_unbegun()
            live = await self._site.evidence.nodes(nodes) if nodes else {}
            return seen.replace(asks=asks, nodes=live, given_up=given_up)
        assert register.leader is not None
        absent = {}
        if course.leader_is_missing:
            absent = await self._site.evidence.absent(self._job_id, record.uid, [register.leader.pod])
        # What has ended is told first, and closed once that is committed.
        pods = tuple(pod.replace(ended=False) for pod in seen.pods) if course.ends_by_itself else seen.pods
        return seen.replace(
            asks=course.asks,
            report=course.report(register),
            heard=course.heard(),
            absent=absent,
            pods=pods,
        )

    async def _evidence(self, record: JobRecord, patience: float = 0.0) -> Seen:
        """What is seen of a run that is closed, with live reads where the fence needs them. ApiError.

        ``patience``: seconds in which a pod that is there, and whose end the watch is about to tell, is reason for none.
        """
        seen = self._plain(record)
        register = record.register
        if register is None or not register.closed:
            return seen
        doubts = fence(self._deciding(record), seen, self._site.clock())
        members = [member for member in register.members if member.pod in doubts]
        shown = {pod.uid for pod in seen.pods if not pod.deleting}
        ending = all(member.pod in shown for member in members) and self._site.clock() - seen.since < patience
        if not members or ending:
            return seen
        live = self._site.evidence
        nodes = await live.nodes(member.node for member in members)
        absent = await live.absent(self._job_id, record.uid, [member.pod for member in members])
        if absent:
            await live.look_at_leases(member.node for member in members if member.pod in absent)
        return seen.replace(nodes=nodes, absent=absent, leases=dict(live.leases))

    # What is done

    async def _carry_out(self, record: JobRecord, effect: Effect) -> bool:
        """Whether what was decided beside it still stands."""
        if isinstance(effect, Write):
            return (await self._write(record, effect)).register == effect.register
        if isinstance(effect, CreateJob):
            there = self._site.seen.views(self._job_id, record.uid, effect.run)  # a pod that has no Job
            if self._prepared is not None and self._prepared.gang.number == effect.run and not there:
                await self._create()
        elif isinstance(effect, Answer):
            await self._answer(effect)
        elif isinstance(effect, Delete):
            await self._delete(record, effect)
        return True  # TellEnd: the order is passed on by whoever has the stream

    async def _write(self, record: JobRecord, write: Write, **more: Any) -> JobRecord:
        """The record as it is after the write, or as another has written it; whether it took place is seen in it."""
        job = current(record, self.index) if self.index is not None else record.job
        if write.register is not None and write.register.state == GRANTED and job.state == states.CONFIGURING:
            job = running.started(job, self._site.now())  # as the others see it; the leader tells when exactly
        try:
            self._written = await self._site.records.write(
                record, register=write.register, ended=write.ended, job=job, **more
            )
            return self._written
        except ApiError as error:
            if not error.conflict and not error.transient:
                raise
            failed = error
        now = await self._site.records.read(self._job_id)  # whoever is in doubt reads live, and decides anew
        if failed.conflict:
            self.poke()
        elif now is None or now.register != write.register:
            raise failed
        return now if now is not None else record

    async def _answer(self, effect: Answer) -> None:
        # All asks of a decision came before its writes.
        current = self._written or await self._site.records.read(self._job_id)
        course = self.course
        if course is not None:
            course.answer(
                effect.ask, answer(current.deciding(self._limits) if current is not None else None, effect.ask)
            )

    async def _delete(self, record: JobRecord, effect: Delete) -> None:
        objects, remove = self._site.objects, self._site.remove
        if effect.kind == "record":
            await self.tidy(record)
            if not self._site.records.tasks_of(self._job_id) and not record.given:  # an array's tasks have its payload
                await self._site.records.release(record.job)
                self._removed = await self._site.records.delete(record)
                self._site.evidence.forget(record.uid)
            return
        register = record.register
        if effect.kind == "job":
            await remove(self._job_id, objects.jobs, effect.name, effect.uid)
        else:
            # What never began is not waited for: its first process may not hear the TERM, so early.
            soon = register is not None and register.run == effect.run and register.state == WITHDRAWN
            await remove(self._job_id, objects.pods, effect.name, effect.uid, grace=1 if soon else None)
        if effect.run not in self._swept:
            self._swept.add(effect.run)
            await objects.remove_rest(self._job_id, effect.run)


async def _as_it_is(record: JobRecord) -> None: ...


def next_number(register: Register | None, restart: int) -> int:
    """The number of the run that a start for this restart is, or would be."""
    if register is None:
        return restart
    return register.run if register.serves(restart) or not register.closed else register.run + 1
