"""Starts the passes of the scheduler: one pass for all changes and due times since the last pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from shim.control.controller import crash
from shim.control.controller.alarm import Alarm
from shim.control.controller.book import Change
from shim.control.controller.counting import Counts
from shim.control.controller.judging import Judge, split
from shim.control.controller.launching import Launcher
from shim.control.controller.operations import cancelling
from shim.control.controller.world import World, log
from shim.control.index.errors import IndexFault
from shim.control.lifecycle import het, running, waiting
from shim.control.scheduler import plan
from shim.control.scheduler.queue import Want
from shim.core.admission.partition_rules import partitions_of
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare

CROWDED = 0.002  # seconds for which a pass counts at least while jobs wait for resources: what comes free is given away together
NEWS = 30.0  # seconds by which an expected start must have moved to be written down again
NO_IDS = 10.0  # seconds until a cluster that gave no job ids is asked again
FORECAST = 1.0  # seconds between passes that work out expected starts which change nothing else
OVERDUE = 10.0  # seconds beyond limit and KillWait that a run's own agents have to end it
RETRY = 1.0  # seconds until a pass that could not be written is tried again


class Dispatcher:
    """Moves pending jobs on: dependencies, begin times, deadlines, starts."""

    def __init__(self, world: World, counts: Counts) -> None:
        self._world = world
        self._counts = counts
        self._queue = 0  # jobs that the pass has looked at
        self._judge = Judge(world.book)
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._passing = False
        self._crowded = False  # the last pass left jobs that wait for resources
        self._rested = 0.0  # the loop's time from which on the next pass may begin
        self.rest = 2.0  # how much longer than a pass the pause behind it is
        self.forecast_every = FORECAST
        self._forecast_due = 0.0  # the loop's time from which on a pass works out expected starts
        self._forecast = False  # this pass does
        self.launcher = Launcher(world, self.kick)
        self.alarm = Alarm(self._loop, world.clock, self.kick)
        world.book.followers.append(self._changed)

    def _changed(self, old: Job | None, job: Job) -> None:
        """A scheduling pass is needed when a job has begun to wait, or resources came free; a start matters to dependencies alone."""
        if self._passing:
            return
        freed = old is not None and old.state in states.ALLOCATED and job.state not in states.ALLOCATED
        if freed or job.state == states.PENDING or self._judge.wanted:
            self.kick()

    def kick(self) -> None:
        """A pass will follow once what is happening now is over; many kicks make one pass.

        On a busy cluster with a long queue passes take turns with everything else: at most a third of the time is theirs.
        """
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_at(max(self._rested, self._loop.time()), self._run_kicked)

    def _run_kicked(self) -> None:
        self._scheduled = False
        self.run()

    def run(self) -> None:
        """One pass over all clusters. None by a configuration that is no more."""
        if self._world.outdated():
            return
        began = self._loop.time()
        self._crowded = False
        self._forecast = began >= self._forecast_due
        self._queue, clock = 0, time.perf_counter()
        self._pass()
        self._counts.passed(time.perf_counter() - clock, self._queue)
        if self._forecast:
            self._forecast_due = began + self.forecast_every
        ended = self._loop.time()
        self._rested = ended + self.rest * max(ended - began, CROWDED if self._crowded else 0.0)

    def _pass(self) -> None:
        now = self._world.clock()
        started: list[Job] = []
        self._passing = True
        judging = self._judge.begin(now)
        try:
            with self._world.book.change() as change:
                for cluster in self._world.clusters.values():
                    if self._world.looks_on(cluster.name):
                        continue  # whoever orders its jobs does all this
                    if judging:
                        self._judge.pass_over(change, cluster, now)
                    self._times(change, cluster, now)
                    if cluster.name not in self._world.unseen:
                        started.extend(self._plan(change, cluster, now))
        except IndexFault as fault:
            log.error("%s", fault)
            self._judge.again()
            self.alarm.set(now + RETRY)
            return
        finally:
            self._passing = False
        crash.point("started")
        for job in started:
            if not het.follows(job):
                self.launcher.launch(job)
        self.alarm.set(self._next(now))
        if self._judge.wanted:
            self.kick()  # a start may be what another job waits for

    def _times(self, change: Change, cluster: Cluster, now: float) -> None:
        for job in self._world.book.active(cluster.name):
            job = change.get(job.key) or job
            if job.state == states.RUNNING and self._overdue(job, cluster) <= now:
                self._end_overdue(change, job, now)
            if job.state != states.PENDING:
                continue
            if job.request.deadline and (job.request.deadline <= now or self._too_late(job, cluster, now)):
                for one in self._world.book.components(job):
                    change.put(waiting.missed(change.get(one.key) or one, now), now)
            elif job.reason == "BeginTime" and job.request.begin <= now:
                change.put(waiting.looked_at(job, now), now)

    @staticmethod
    def _overdue(job: Job, cluster: Cluster) -> float:
        """When a run that has not ended by itself is past its limit: its agents keep that, unless the job has stopped them."""
        limit = running.limit_seconds(job, cluster)
        return float("inf") if limit is None else job.end_time + cluster.over_time * 60 + cluster.kill_wait + OVERDUE

    def _end_overdue(self, change: Change, job: Job, now: float) -> None:
        job = self._world.book.leader(job)
        if any(order.kind == "end" for order in self._world.book.orders_of(job)):
            return
        log.warning("job %s is past its time limit", job.job_id)
        cancelling.end(change, change.get(job.key) or job, states.TIMEOUT, job.uid, now)
        self._loop.call_soon(self.launcher.order, job)

    def _too_late(self, job: Job, cluster: Cluster, now: float) -> bool:
        """Whether the scheduler would start the job, but too late. One that a limit of its partitions keeps back just waits."""
        if not waiting.eligible(job, now) or not waiting.starts_too_late(job, now):
            return False
        return bool(Want(job, cluster, self._world.members).allowed(job))

    def _plan(self, change: Change, cluster: Cluster, now: float) -> list[Job]:
        jobs = [change.get(job.key) or job for job in self._world.book.active(cluster.name)]
        jobs.extend(job for old, job in change.jobs.values() if old is None and job.cluster == cluster.name)
        pending = [job for job in jobs if job.state == states.PENDING]
        if not pending:
            return []
        self._queue += len(pending)
        running = [job for job in jobs if job.state in states.ALLOCATED]
        made = plan(pending, cluster, running, now, self._beside(change, cluster), self._forecast, self._world.members)
        self._crowded = self._crowded or made.crowded
        started = []
        for job, shares in made.starts:
            if job.array_tasks is not None and not self._has_ids(cluster):
                break  # each task of an array takes one
            started.append(self._start(change, job, shares, cluster, now))
        self._counts.overtook(pending, made.reasons, started)
        for job in pending:
            self._waits(change, job, made.reasons.get(job.key), made.expected.get(job.key), now)
        return started

    def _has_ids(self, cluster: Cluster) -> bool:
        stock = self._world.book.stocks.get(cluster.name)
        if stock is None or len(stock):
            return True
        self._world.task(self._stock_up(cluster))
        return False

    async def _stock_up(self, cluster: Cluster) -> None:
        try:
            await self._world.ids_for(cluster)
        except ShimError as error:
            log.warning("%s", error)
            await asyncio.sleep(NO_IDS)
        self.kick()

    def _beside(self, change: Change, cluster: Cluster) -> list[Job]:
        """What holds parts of the same machine under other clusters' names, started in this pass or before."""

        def known(name: str) -> list[Job]:
            jobs = [change.get(job.key) or job for job in self._world.book.active(name)]
            jobs.extend(job for old, job in change.jobs.values() if old is None and job.cluster == name)
            return jobs

        return self._world.beside(cluster, known)

    def _start(self, change: Change, job: Job, shares: Sequence[NodeShare], cluster: Cluster, now: float) -> Job:
        partition = job.partition
        current = change.get(job.key) or job
        if current.array_tasks is not None:
            # The scheduler names the task in its copy of the rest's record.
            task = job.array_task_id
            assert task is not None
            current, _rest = split(change, current, task, cluster, now)
        hosts = self._world.backends[cluster.name].hosts(shares, current)
        return change.put(running.starting(current, hosts, cluster, partition, now), now)

    def _waits(
        self, change: Change, job: Job, reason: str | None, expected: tuple[float, Sequence[str]] | None, now: float
    ) -> None:
        """Writes down why the job waits and when it may start, if that is news."""
        start = job.start_time
        if self._forecast:
            start = float(int(expected[0])) if expected is not None else 0.0
        note = self._note(job) if str(reason).startswith("Partition") else ""
        if reason in (None, job.reason) and abs(start - job.start_time) < NEWS and note in ("", job.system_comment):
            return
        current = change.get(job.key) or job
        if waiting.eligible(current, now):
            comment = note or current.system_comment
            change.put(current.replace(reason=reason or current.reason, start_time=start, system_comment=comment), now)

    def _note(self, job: Job) -> str:
        """Why the job's partitions have no nodes."""
        cluster = self._world.cluster_of(job)
        return "; ".join(one.note for one in partitions_of(job.request, cluster) if one.note)

    def _next(self, now: float) -> float | None:
        """When time alone will change something."""
        times = [self._judge.due] if self._judge.due is not None else []
        if self._crowded and not self._forecast:
            times.append(now + self._forecast_due - self._loop.time())
        for job in self._world.book.active():
            if self._world.looks_on(job.cluster):
                continue
            if job.state == states.PENDING:
                wake = waiting.wakes_at(job, now)
                if wake is not None:
                    times.append(wake)
            elif job.time_limit and job.state in (states.CONFIGURING, states.RUNNING):
                times.append(max(self._overdue(job, self._world.cluster_of(job)), now + OVERDUE))
        soonest = min(times, default=None)
        return None if soonest == float("inf") else soonest
