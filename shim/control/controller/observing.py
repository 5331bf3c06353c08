"""What backends report, taken into the index: journal lines become transitions, steps and ends.

Every line has a number and a job remembers the last one it took in, so that reading a journal again changes nothing. Lines that
arrive together are committed together, and on a busy cluster those that come while others were written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from shim.control.backends.base import HasJournals, KeepsJobs, Run
from shim.control.backends.unopened import Unopened
from shim.control.controller import crash
from shim.control.controller.book import Change
from shim.control.controller.world import World, log, run_of
from shim.control.index.errors import IndexFault
from shim.control.lifecycle import het, running
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, Step

LONGEST_PAUSE = 60.0  # seconds, at most, until a job that was taken back repeatedly is started again
RETRY = 1.0  # seconds until lines that could not be written are tried again
PATIENCE = 2.0  # seconds that a start waits for clusters elsewhere


class Observing:
    """The observer that all backends are given."""

    def __init__(self, world: World, cluster_changed: Callable[[Cluster], None]) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._lines: list[tuple[Run, Mapping[str, Any]]] = []
        self._scheduled = False
        self._rested = 0.0  # the loop's time from which on the next lines may be taken in
        self.rest = 2.0  # how much longer than taking lines in the pause behind it is
        self._cluster_changed = cluster_changed
        self._withdrawals: dict[int, int] = {}  # of jobs that have not run since: how often they were taken back
        self.on_unknown: Callable[[str], None] = lambda cluster: None
        self.on_wanted: Callable[[str], None] = lambda cluster: None
        self.on_outdated: Callable[[str], None] = lambda cluster: None

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        """One line of a journal; taken in soon, together with those that come at the same time."""
        self._lines.append((run, event))
        self._soon()

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        """The run ended without saying so. ``detail``: what its user has to know of that."""
        log.warning("job %s, run %s is lost: %s", run.job_id, run.restart, reason)
        self._lines.append((run, {"kind": "lost", "at": self._world.clock(), "detail": detail}))
        self._soon()

    def withdrawn(self, run: Run, reason: str) -> None:
        """The run was taken back before it began."""
        log.info("job %s, run %s waits again: %s", run.job_id, run.restart, reason)
        self._lines.append((run, {"kind": "withdrawn", "at": self._world.clock(), "reason": reason}))
        self._soon()

    def cluster_changed(self, cluster: Cluster) -> None:
        """Nodes changed."""
        self._cluster_changed(cluster)

    def unknown(self, cluster: str) -> None:
        """The cluster holds jobs that are not in the index."""
        self.on_unknown(cluster)

    def wanted(self, cluster: str) -> None:
        """Somebody who spoke to another machine wants something of the cluster's jobs."""
        self.on_wanted(cluster)

    def outdated(self, cluster: str) -> None:
        """Another machine orders the cluster's jobs now."""
        self.on_outdated(cluster)

    def trouble(self, cluster: str, text: str) -> None:
        """Whether the cluster can be asked: for readers."""
        try:
            self._world.book.store.set_trouble(cluster, text)
        except IndexFault as fault:
            log.error("%s", fault)

    def catch_up(self, jobs: Iterable[Job]) -> None:
        """Takes in at once what the journals of these jobs' runs say by now.

        A run's journal has a line before anything follows from it: before the script's first command, before a step's first task. So whatever
        these ask for is judged by a state in which they could ask.
        """
        runs = {run_of(self._world.book.components(job)[0]): job for job in jobs if job.state in states.ALLOCATED}
        for run in runs:
            backend = self._world.backends[run.cluster]
            if isinstance(backend, HasJournals):
                backend.catch_up(run)
        if self._lines and runs:
            self.flush()

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_at(max(self._rested, self._loop.time()), self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        began = self._loop.time()
        self.flush()
        ended = self._loop.time()
        self._rested = ended + self.rest * (ended - began)

    def flush(self) -> None:
        """Commits all lines that came; then, and only then, runs that have ended are let go."""
        self._scheduled = False
        lines, over = self._lines, list[Run]()
        try:
            with self._world.book.change() as change:
                for run, event in lines:
                    if self._take(change, run, event):
                        over.append(run)
        except IndexFault as fault:
            log.error("%s", fault)
            self._scheduled = True
            self._loop.call_later(RETRY, self.flush)
            return
        except Exception:
            # An error of this program in one job's line must not keep the lines of all other jobs from being taken in.
            if len(lines) > 1:
                self._one_by_one()
            else:
                log.exception("the line %r is passed over", lines)
                self._lines = self._lines[len(lines) :]
            return
        self._lines = self._lines[len(lines) :]
        crash.point("observed")
        for run in over:
            self._world.task(self._forget(run))

    def _one_by_one(self) -> None:
        lines, self._lines = self._lines, []
        for place, line in enumerate(lines):
            self._lines = [line]
            self.flush()
            if self._lines:  # it could not be written: it is tried again with the rest
                self._lines += lines[place + 1 :]
                return

    async def _forget(self, run: Run) -> None:
        crash.point("forget")
        await self._world.backends[run.cluster].forget(run)

    def _take(self, change: Change, run: Run, event: Mapping[str, Any]) -> bool:
        """Takes one line in; whether the run is over and can be forgotten."""
        found = self._world.book.find(run.job_id, run.cluster)
        job = change.get(found.key) if found is not None else None
        if job is None or job.restarts != run.restart or job.state not in states.ALLOCATED:
            # A line of a run whose end is committed: it may go.
            return event["kind"] in ("ended", "lost", "withdrawn") and job is not None
        number = int(event.get("n", 0))
        if number and number <= job.journal:
            return False
        handler = _HANDLERS.get(str(event["kind"]))
        if handler is None:
            log.warning("job %s: unknown line %r", run.job_id, event)
            return False
        if number:
            job = job.replace(journal=number)
        now = float(event.get("at") or self._world.clock())
        event = self._as_ended(job, event)
        after = job if event.get("component") else handler(self, change, job, event)
        if after.restarts == job.restarts and after.journal != job.journal:
            after = after.replace(journal=job.journal)
        change.put(after, now)
        if job.het_job_id:
            self._to_components(change, after, event, handler, now)
        over = after.restarts != run.restart or after.state not in states.ALLOCATED
        if over:
            change.drop_orders(after)
        return over

    def _as_ended(self, job: Job, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The loss of a run as the end that was ordered already, if one was."""
        if event["kind"] not in ("lost", "withdrawn"):
            return event
        ends = [order for order in self._world.book.orders_of(job) if order.kind == "end" and order.step is None]
        whole = [order.state for order in ends if not order.component]
        return {**event, "ordered": whole[-1] if whole else ""}

    def _to_components(
        self, change: Change, leader: Job, event: Mapping[str, Any], handler: Handler, now: float
    ) -> None:
        """A line of a heterogeneous job's run for the other components: for one of them, or for all that are left.

        A job that goes back into the queue goes with those that have ended before.
        """
        only = event.get("component")
        if only is None and event["kind"] in ("step", "step-end"):
            return  # the leader's own part of a step
        again = leader.state == states.PENDING
        for one in self._world.book.components(leader):
            current = change.get(one.key) or one
            if het.follows(current) and only in (None, current.het_offset):
                if current.state in states.ALLOCATED:
                    change.put(handler(self, change, current, event), now)
                elif again and current.state in states.TERMINAL:
                    change.put(running.requeued(current, self._world.cluster_of(current), now), now)

    def _started(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        self._withdrawals.pop(job.key, None)
        return running.started(job, float(event["at"]))

    def _step(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        change.step(
            job,
            Step(
                job_id=job.job_id,
                restart=job.restarts,
                step_id=str(event["step"]),
                name=str(event.get("name") or ""),
                nodes=tuple(event.get("nodes") or ()),
                tasks=int(event.get("tasks") or 1),
                cpus=int(event.get("cpus") or 1),
                memory=int(event.get("memory") or 0),
                gpus=int(event.get("gpus") or 0),
                time_limit=event.get("limit"),
                distribution=str(event.get("distribution") or ""),
                srun=str(event.get("srun") or ""),
                start_time=float(event["at"]),
            ),
        )
        return job

    def _step_end(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        wanted = str(event["step"])
        before = self._world.book.store.step(job, wanted)
        step = before or Step(job_id=job.job_id, restart=job.restarts, step_id=wanted)
        uid = event.get("cancelled_by")
        change.step(
            job,
            step.replace(
                state=str(event.get("state") or states.COMPLETED),
                exit_status=int(event.get("status") or 0),
                cancelled_by=int(uid) if uid is not None else None,
                end_time=float(event["at"]),
                usage=running.usage(event),
            ),
        )
        return job

    def _ending(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        return running.ending(job, str(event.get("state") or ""))

    def _ended(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        if event.get("detail"):
            log.warning("job %s: %s", job.job_id, event["detail"])
        end = het.end_of(job, event)
        after = running.ended(job, end, self._world.cluster_of(job))
        if end.get("state") == states.PREEMPTED and after.state not in states.TERMINAL:
            change.put(running.preempted(job, end), float(end.get("at", 0)))  # accounting has the run that made way
        return after

    def _part_ended(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        return running.ended(job, event, self._world.cluster_of(job))

    def _lost(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        cluster, said = self._world.cluster_of(job), str(event.get("detail") or "")
        return running.lost(job, str(event["ordered"]), cluster, float(event["at"]), said)

    def _resized(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        return running.resized(job, event["nodes"], float(event["at"]))

    def _withdrawn(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        if any(order.kind == "end" and order.step is None for order in self._world.book.orders_of(job)):
            return self._lost(change, job, event)
        # Taken back again and again it is tried ever more seldom: making a run and removing it costs the cluster as much as running it.
        tries = self._withdrawals[job.key] = self._withdrawals.get(job.key, 0) + 1
        pause = min(running.REQUEUE_DELAY * 2.0 ** min(tries - 1, 10), LONGEST_PAUSE)
        why = str(event.get("reason") or "")
        return running.waits_again(job, self._world.cluster_of(job), float(event["at"]), pause, why)

    def _placed(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        nodes = [str(name) for name in event["nodes"]]
        free = self._free_gpus(change, job, nodes) if job.shares[0].gpus else {}
        return running.placed(job, nodes, free, planned=bool(event.get("planned")))

    def _free_gpus(self, change: Change, job: Job, nodes: Sequence[str]) -> dict[str, list[int]]:
        """The GPUs of these nodes that no other job holds."""
        cluster = self._world.cluster_of(job)
        found = {node.name: list(range(node.gpus - node.others_gpus)) for node in cluster.nodes if node.name in nodes}
        for one in self._world.book.active(job.cluster):
            other = change.get(one.key) or one
            if other.key != job.key and other.state in states.ALLOCATED:
                for share in other.shares:
                    if share.name in found:
                        found[share.name] = [gpu for gpu in found[share.name] if gpu not in share.gpus]
        return found

    def _waits(self, change: Change, job: Job, event: Mapping[str, Any]) -> Job:
        return job.replace(reason=str(event["reason"]), system_comment=str(event.get("detail") or ""))


Handler = Callable[[Observing, Change, Job, Mapping[str, Any]], Job]
_HANDLERS: dict[str, Handler] = {
    "started": Observing._started,
    "step": Observing._step,
    "step-end": Observing._step_end,
    "ending": Observing._ending,
    "ended": Observing._ended,
    "part-ending": Observing._ending,
    "part-ended": Observing._part_ended,
    "lost": Observing._lost,
    "withdrawn": Observing._withdrawn,
    "placed": Observing._placed,
    "waits": Observing._waits,
    "resized": Observing._resized,
}


TakeIn = Callable[[str], Awaitable[None]]


async def recover(world: World, launch: Callable[[Job], None], order: Callable[[Job], None], take_in: TakeIn) -> None:
    """After a start: tells every backend what the index believes to run, and asks again for what may not have been asked.

    ``take_in(cluster)`` makes records of the jobs that the cluster alone knows. This machine is waited for; a cluster that does not answer soon is looked at when it does, and starts nothing until then.
    """
    tasks = {
        name: asyncio.ensure_future(_recover(world, name, launch, order, take_in))
        for name, backend in world.backends.items()
        if not isinstance(backend, Unopened)
    }
    world.unseen.update(world.backends)
    here = [task for name, task in tasks.items() if world.clusters[name].backend == "local"]
    if here:
        await asyncio.wait(here)
    if tasks:
        await asyncio.wait(tasks.values(), timeout=PATIENCE if len(here) < len(tasks) else None)
    for name, task in tasks.items():
        if task.done():
            task.result()
        else:
            why = "another machine orders its jobs" if world.looks_on(name) else "it does not answer"
            log.info("cluster %s: %s; others go on without it", name, why)
            world.task(_later(task))


async def _later(task: asyncio.Task[None]) -> None:
    try:
        await task
    finally:
        task.cancel()  # where the controller ends before the cluster has answered


async def _recover(
    world: World, name: str, launch: Callable[[Job], None], order: Callable[[Job], None], take_in: TakeIn
) -> None:
    """One cluster's part. A run of whose journal nothing was taken in may never have reached its backend: starting it again
    is harmless.
    """
    backend = world.backends[name]
    if isinstance(backend, KeepsJobs):
        for job in world.book.active(name):
            backend.keep(job)
        await backend.ordering()  # until then what another machine does is shown
        await take_in(name)
    allocated = [job for job in world.book.active(name) if job.state in states.ALLOCATED]
    runs = [job for job in allocated if not het.follows(job)]
    await backend.recover([(run_of(job), job.journal) for job in runs])
    world.unseen.discard(name)
    for before in runs:
        now = world.book.jobs.get(before.key)
        if now is None or now.restarts != before.restarts or now.state not in states.ALLOCATED:
            continue  # by now the cluster has told what has become of it elsewhere
        if not now.journal:
            launch(now)
        else:
            order(now)
    await take_in(name)
    world.seen()
