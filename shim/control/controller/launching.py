"""Starting a run that is committed: everything its agents need, handed to the backend."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence

from shim.control import paths, starter
from shim.control.backends.base import Backend, BackendError
from shim.control.controller import crash, spool
from shim.control.controller.world import World, log, run_of
from shim.control.index.errors import IndexFault
from shim.control.lifecycle import running
from shim.core.environ import export
from shim.core.environ.het import het_batch_environment
from shim.core.environ.job import batch_environment
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.spec import RunNode, RunSpec

# The machine's troubles, not the job's: a folder on the network whose credentials are over can be read again later.
_PASSING = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.ESTALE,
    errno.EACCES,
    errno.EPERM,
    errno.EKEYEXPIRED,
)
RETRY = 1.0  # seconds until what could not be written is tried again
IN_A_ROW = 60.0  # seconds within which one failed start follows another
LONGEST_PAUSE = 10.0  # seconds between two tries to start a job; the first ones follow sooner


class Launcher:
    """Starts runs, one task each; afterwards their orders can be passed on."""

    def __init__(self, world: World, changed: Callable[[], None]) -> None:
        self._world = world
        self._changed = changed
        self.complete: Callable[[Job], Awaitable[Job]] = _as_it_is
        self._under_way: set[int] = set()
        self._tries: dict[int, tuple[float, int, str]] = {}  # when, how often in a row, and why a job was not started

    def launch(self, job: Job) -> None:
        """Starts the job's run in the background. The job is committed as CONFIGURING, or was before a restart."""
        if job.key not in self._under_way:
            self._under_way.add(job.key)
            self._world.task(self._start(job))

    async def _start(self, job: Job) -> None:
        world = self._world
        try:
            await self._ask(job)
            self._tries.pop(job.key, None)
            self._in_its_place(job)
        except BackendError as error:
            self._failed(job, error)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _PASSING:
                # It may have been started before: the row stays as it is, and it is tried again.
                self._noted(job, BackendError(str(error), transient=True))
                asyncio.get_running_loop().call_later(RETRY, self._again, job)
            else:
                log.warning("job %s cannot be started: %s", job.job_id, error)
                self._failed(job, BackendError(str(error)))
        except Exception as error:
            # Of this program, or of a machine that is at its end: nobody knows how far it came, so the row stays as it is here too.
            log.exception("job %s", job.job_id)
            pause = self._noted(job, BackendError(f"{type(error).__name__}: {error}", transient=True))
            asyncio.get_running_loop().call_later(pause, self._again, job)
        finally:
            self._under_way.discard(job.key)
        for order in world.book.orders_of(job):
            await world.backends[job.cluster].order(run_of(job), order)

    def _in_its_place(self, job: Job) -> None:
        """A job that was queued again after its end is held by its cluster from here on: what is removed there is not handed in once more."""
        current, place = self._world.book.jobs.get(job.key), self._world.place(job.cluster)
        if current is not None and place and not current.place:
            try:
                with self._world.book.change() as change:
                    change.put(current.replace(place=place), self._world.clock())
            except IndexFault as fault:
                log.error("%s", fault)

    def _again(self, job: Job) -> None:
        current = self._world.book.jobs.get(job.key)
        if current is not None and current.restarts == job.restarts and current.state in states.ALLOCATED:
            self.launch(current)

    async def _ask(self, job: Job) -> None:
        world = self._world
        job = await self.complete(job)
        if job.uid != world.uid and not job.origin:
            raise BackendError(f"it is a job of uid {job.uid}, and would run as uid {world.uid}")
        key = world.book.spool_key(job)
        submission = spool.read(key)
        script = spool.script(key) if submission.has_script else None
        backend = world.backends[job.cluster]
        components = world.book.components(job) if job.het_job_id else []
        spec, environment = run_spec(job, world.cluster_of(job), backend, submission, components)
        spec = spec.replace(barred=world.barred(job))
        crash.point("start")
        await backend.start(spec, environment, script, paths.job_spool(key))
        crash.point("start-asked")

    def _failed(self, job: Job, error: BackendError) -> None:
        world = self._world
        now = world.clock()
        current = world.book.jobs.get(job.key)
        if current is None or current.restarts != job.restarts or current.state not in states.ALLOCATED:
            return
        pause = self._noted(job, error)
        cluster = world.cluster_of(job)
        ended = [order.state for order in world.book.orders_of(job) if order.kind == "end" and order.step is None]
        try:
            with world.book.change() as change:
                for one in world.book.components(current):
                    if one.state not in states.ALLOCATED:
                        continue
                    if ended:
                        change.put(running.lost(one, ended[-1], cluster, now), now)
                    else:
                        change.put(self._not_started(one, error, pause, cluster, now), now)
                change.drop_orders(current)
        except IndexFault as fault:
            # The row still says CONFIGURING: the start is tried again, here or by the next controller.
            log.error("%s", fault)
            asyncio.get_running_loop().call_later(RETRY, self.launch, current)
        self._changed()

    def _noted(self, job: Job, error: BackendError) -> float:
        """Seconds until the job should be tried again. What stays the same is logged once."""
        now = self._world.clock()
        self._tries = {key: tried for key, tried in self._tries.items() if now - tried[0] < IN_A_ROW}
        _at, tries, text = self._tries.pop(job.key, (now, 0, ""))
        if text != str(error):
            log.warning("job %s was not started: %s", job.job_id, error)
        if error.transient:
            self._tries[job.key] = (now, tries + 1, str(error))
        return min(running.REQUEUE_DELAY * 2.0 ** min(tries, 10), LONGEST_PAUSE)

    @staticmethod
    def _not_started(job: Job, error: BackendError, pause: float, cluster: Cluster, now: float) -> Job:
        if error.transient:
            return running.waits_again(job, cluster, now, pause, str(error))
        return running.recurring(running.not_started(job, error.reason, now, str(error)), cluster, now)

    def order(self, job: Job) -> None:
        """Passes on what is wanted of the job's run; while it is being started that happens right afterwards."""
        job = self._world.book.leader(job)
        if job.key not in self._under_way:
            self._world.task(self._pass_on(job))

    async def _pass_on(self, job: Job) -> None:
        backend = self._world.backends.get(job.cluster)
        if backend is not None and job.cluster not in self._world.unseen:
            for order in self._world.book.orders_of(job):
                crash.point("order")
                await backend.order(run_of(job), order)


async def _as_it_is(job: Job) -> Job:
    return job


def run_spec(
    job: Job, cluster: Cluster, backend: Backend, submission: spool.Submission, components: Sequence[Job] = ()
) -> tuple[RunSpec, dict[str, str]]:
    """The spec of a job's run, and the complete environment of its batch script. ``components``: of a heterogeneous job, all."""
    commands = backend.commands()
    parts = components or (job,)
    shares = [share for part in parts for share in part.shares]
    nodes = []
    for share in shares:
        node = cluster.node(share.name)
        nodes.append(
            RunNode(name=share.name, host=share.host or share.name, address=node.address if node is not None else "")
        )
    # What the agents need of it: thousands of other nodes would be read by each of them.
    own = {share.name for share in shares}
    used = {part.partition for part in parts}
    cluster_of_run = cluster.replace(
        nodes=tuple(node for node in cluster.nodes if node.name in own),
        partitions=tuple(one.replace(nodes=()) for one in cluster.partitions if one.name in used),
    )
    spec = RunSpec(
        job=job,
        cluster=cluster_of_run,
        nodes=tuple(nodes),
        script=submission.has_script,
        limit=running.limit_seconds(job, cluster),
        components=tuple(components),
        limits=tuple(running.limit_seconds(one, cluster) for one in components),
        isolate=cluster.settings.get("isolation", "none"),
        commands=commands,
        news=tuple(starter.argv()),
        memory=tuple(share.memory for share in shares),
        rlimits=submission.rlimits,
    )
    user = export.apply_export(
        submission.environment, job.request.export, export.login_environment(job), job.request.get_user_env
    )
    variables = het_batch_environment(parts, cluster) if job.het_job_id else batch_environment(job, cluster)
    return spec, export.prepend_path(export.completed(user, variables), commands)
