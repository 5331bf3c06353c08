"""The life cycle under arbitrary sequences of events, with a clock of its own."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shim.control.lifecycle import running, tasks, waiting
from shim.core.model import states
from shim.core.model.job import Job
from tests.control.lifecycle.samples import CLUSTER, NOW, SHARES, a_job

_ENDS = st.sampled_from(
    ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REQUEUED", "OUT_OF_MEMORY"]
)


class Life(RuleBasedStateMachine):
    """Jobs by id; every rule takes one of them through one event that could happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.next_id = 1
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, set[int]] = {}  # array -> tasks that are pending in its rest or split off
        self.restarts: dict[int, int] = {}

    def pick(self, data: st.DataObject, *wanted: str) -> Job | None:
        fitting = [job for job in self.jobs.values() if job.state in wanted]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    def put(self, job: Job) -> None:
        self.jobs[job.job_id] = job

    @rule(hold=st.booleans(), begin=st.sampled_from([0, 30]), array=st.sampled_from([None, "0-3%2", "7"]))
    def submit(self, hold: bool, begin: int, array: str | None) -> None:
        job = a_job(self.next_id, hold=hold, begin=int(self.now) + begin if begin else 0, array=array, time_limit=1)
        self.next_id += 1
        self.put(job)
        if array:
            self.arrays[job.job_id] = set(tasks.pending_tasks(job) or ())

    @rule(seconds=st.integers(min_value=1, max_value=40))
    def time_goes_by(self, seconds: int) -> None:
        self.now += seconds
        for job in list(self.jobs.values()):
            if job.state == states.PENDING:
                self.put(waiting.looked_at(job, self.now))

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        job = self.pick(data, states.PENDING, states.RUNNING)
        if job is not None:
            self.put(waiting.hold(job, self.now))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        job = self.pick(data, states.PENDING)
        if job is not None:
            self.put(waiting.release(job, self.now))

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        job = self.pick(data, states.PENDING)
        if job is None or not waiting.eligible(job, self.now):
            return
        spec = tasks.pending_tasks(job)
        if spec is not None:
            job, rest = tasks.split(job, data.draw(st.sampled_from(sorted(spec))), self.next_id)
            if rest is not None:
                self.next_id += 1
                self.put(rest)
        self.put(running.starting(job, SHARES, CLUSTER, "debug", self.now))

    @rule(data=st.data(), again=st.booleans())
    def start_fails(self, data: st.DataObject, again: bool) -> None:
        job = self.pick(data, states.CONFIGURING)
        if job is not None:
            failed = running.not_started(job, "JobLaunchFailure", self.now)
            self.put(running.waits_again(job, CLUSTER, self.now) if again else failed)

    @rule(data=st.data())
    def started(self, data: st.DataObject) -> None:
        job = self.pick(data, states.CONFIGURING)
        if job is not None:
            self.put(running.started(job, self.now))

    @rule(data=st.data())
    def ending(self, data: st.DataObject) -> None:
        job = self.pick(data, states.RUNNING, states.SUSPENDED, states.CONFIGURING)
        if job is not None:
            self.put(running.ending(job))

    @rule(data=st.data(), state=_ENDS)
    def ended(self, data: st.DataObject, state: str) -> None:
        job = self.pick(data, *sorted(states.ALLOCATED))
        if job is not None:
            self.put(running.ended(job, {"at": self.now, "state": state, "status": 0}, CLUSTER))

    @rule(data=st.data())
    def suspended_or_resumed(self, data: st.DataObject) -> None:
        job = self.pick(data, states.RUNNING, states.SUSPENDED)
        if job is not None:
            self.put((running.suspended if job.state == states.RUNNING else running.resumed)(job, self.now))

    @rule(data=st.data())
    def requeued_after_its_end(self, data: st.DataObject) -> None:
        job = self.pick(data, *sorted(states.TERMINAL))
        if job is not None:
            self.put(running.requeued(job, CLUSTER, self.now))

    @precondition(lambda self: self.arrays)
    @rule(data=st.data(), task=st.integers(min_value=0, max_value=3))
    def task_cancelled(self, data: st.DataObject, task: int) -> None:
        job = self.pick(data, states.PENDING)
        spec = tasks.pending_tasks(job) if job is not None else None
        if job is None or spec is None or task not in spec:
            return
        left = tasks.cancelled_tasks(job, [task], 0, self.now)
        self.put(left)
        if left.state == states.PENDING:
            self.arrays[job.job_id].discard(task)

    @invariant()
    def every_job_is_whole(self) -> None:
        for job in self.jobs.values():
            if job.state == states.PENDING:
                assert job.shares == ()
                assert (job.priority == 0) == bool(job.held)
                assert (job.end_time, job.exit_status, job.cancelled_by) == (0, 0, None)
                assert waiting.eligible(job, self.now) == (job.reason == "None") or job.request.begin <= self.now
            elif job.state in states.ALLOCATED:
                assert job.shares
                assert job.start_time
            else:
                assert job.end_time
            assert job.restarts >= self.restarts.get(job.job_id, 0)
            self.restarts[job.job_id] = job.restarts

    @invariant()
    def no_task_is_lost_or_doubled(self) -> None:
        for array, wanted in self.arrays.items():
            found: list[int] = []
            for job in self.jobs.values():
                if job.array_job_id == array:
                    found.extend(tasks.pending_tasks(job) or [job.array_task_id])  # type: ignore[list-item]
            assert sorted(found) == sorted(wanted)


TestLife = Life.TestCase
