"""Operations on jobs that the cluster keeps: the cluster has the wish before the command gets its answer.

If this machine orders the jobs, the operation is committed here and then written to the cluster. If another machine does, the
wish is checked against the records here and noted in the cluster; that machine carries it out by the same operation.
"""

from __future__ import annotations

from typing import Any

from shim.control.backends.base import BackendError, KeepsJobs, Order, Wanted
from shim.control.channel import ChannelClosed
from shim.control.controller.connection import Connection
from shim.control.controller.operations.targets import Target, Trial, records
from shim.control.controller.server import Operation
from shim.control.controller.world import World, log
from shim.control.index.errors import IndexFault
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.job import Job

OF_JOBS = ("cancel", "hold", "release_job", "requeue", "requeuehold", "suspend", "resume", "top", "update")
OF_ONE = ("notify", "update_step")
_SEEN = "wanted."  # and a cluster: the index's word for what was seen to lately
_MANY = 200


class Absent(Connection):
    """Who has noted what they want elsewhere, as an operation sees them."""

    def __init__(self, job: Job, operator: bool) -> None:
        self.uid, self.gid, self.pid, self.admin = job.uid, job.gid, 0, operator


async def ask_of_jobs(
    world: World, op: str, operation: Operation, connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """An operation with ``targets``, one result for each."""
    targets = [dict(one) for one in message.get("targets") or ()]
    far = [one for one in targets if _far(world, one)]
    near = [one for one in targets if one not in far]
    reply: dict[str, Any] = {"results": [], "ordered": []}
    if near or not far:
        reply = await operation(connection, {**message, "targets": near})
        await _write(world, op, reply, message)
    if far:
        results = await _want_all(world, op, operation, connection, {**message, "targets": far})
        told = {_name(one["target"]): one for one in [*reply["results"], *results]}
        reply = {**reply, "results": [told[_name(Target.from_dict(one).to_dict())] for one in targets]}
    return reply


async def ask_of_one(
    world: World, op: str, operation: Operation, connection: Connection, message: dict[str, Any]
) -> dict[str, Any]:
    """An operation with one ``target``, and no results."""
    target = dict(message["target"])
    if not _far(world, target):
        return await operation(connection, message)
    try:
        await operation(connection, {**message, "trial": True})
    except Trial:
        pass
    problem = await _want(world, op, target, {**message, "target": _bare(target)})
    if problem:
        raise ShimError(f"error: {problem}")
    return {}


def _name(target: dict[str, Any]) -> str:
    return repr(sorted(target.items()))


def _bare(target: dict[str, Any]) -> dict[str, Any]:
    """The target as any machine understands it: what a cluster is called is each configuration's own."""
    return {name: value for name, value in target.items() if name != "cluster"}


def _found(world: World, target: dict[str, Any]) -> list[Job]:
    return records(world.book, Target.from_dict(target))


def _far(world: World, target: dict[str, Any]) -> bool:
    found = _found(world, target)
    return bool(found) and world.looks_on(found[0].cluster)


async def _write(world: World, op: str, reply: dict[str, Any], message: dict[str, Any]) -> None:
    """Has the clusters that hold the jobs know what was just committed; a result says where that cannot be."""
    for result in reply["results"]:
        if result["error"]:
            continue
        found = _found(world, result["target"])
        backend = world.backends.get(found[0].cluster) if found else None
        if not isinstance(backend, KeepsJobs):
            continue
        try:
            await backend.written([job.job_id for job in found])
            ending = [job for job in found if job.state in states.ALLOCATED]
            if op == "cancel" and message.get("signal") is None and ending:
                target = _bare(result["target"])
                await backend.want(ending[0].job_id, op, {**_plain(message), "targets": [target]}, done=True)
        except BackendError as error:
            where = f"cluster {found[0].cluster}"
            result["error"] = f"{where} does not have it yet, and is told as soon as that can be: {error}"


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Of a message what its operation looks at."""
    return {name: message[name] for name in ("signal", "scope", "fields", "special", "incomplete") if name in message}


async def _want_all(
    world: World, op: str, operation: Operation, connection: Connection, message: dict[str, Any]
) -> list[dict[str, Any]]:
    try:
        reply = await operation(connection, {**message, "trial": True})
        results: list[dict[str, Any]] = reply["results"]  # nothing to be tried was among them
    except Trial as trial:
        results = trial.results
    for result in results:
        if result["error"]:
            continue
        wanted = {**_plain(message), "targets": [_bare(result["target"])]}
        problem = await _want(world, op, result["target"], wanted)
        if problem:
            result["error"] = problem
    return results


async def _want(world: World, op: str, target: dict[str, Any], message: dict[str, Any]) -> str:
    """Notes what is wanted; why it is not noted."""
    job = _found(world, target)[0]
    backend = world.backends[job.cluster]
    assert isinstance(backend, KeepsJobs)
    try:
        if not await backend.want(job.job_id, op, message):
            log.info("job %s: %s is noted for the machine that orders it", job.job_id, op)
    except BackendError as error:
        return f"cluster {job.cluster}: {error}"
    return ""


async def ask_to_end(world: World, job: Job, order: Order | None) -> None:
    """Notes that an allocation of this machine is at its end."""
    status = order.status if order is not None else 0
    released = order is not None and order.kind == "release"
    op = "release" if released and job.state in states.ALLOCATED else "cancel"
    message: dict[str, Any] = {"job_id": job.job_id, "status": status}
    if op == "cancel":
        message = {"targets": [{"job_id": job.job_id}]}
    problem = await _want(world, op, {"job_id": job.job_id, "cluster": job.cluster}, message)
    if problem:
        log.warning("job %s is not ended from here: %s", job.job_id, problem)


class Fulfilling:
    """Carries out what others have noted, each wish once, in the order in which they were noted."""

    def __init__(self, world: World, operations: dict[str, Operation]) -> None:
        self._world = world
        self._operations = operations
        self._busy: set[str] = set()
        self._again: set[str] = set()

    async def look(self, cluster: str) -> None:
        """Something was noted in the cluster."""
        self._again.add(cluster)
        if cluster in self._busy:
            return
        self._busy.add(cluster)
        try:
            while cluster in self._again:
                self._again.discard(cluster)
                await self._all(cluster)
        finally:
            self._busy.discard(cluster)

    async def _all(self, cluster: str) -> None:
        backend, store = self._world.backends[cluster], self._world.book.store
        assert isinstance(backend, KeepsJobs)
        for wanted in backend.wanted():
            job = self._world.book.find(wanted.job_id, cluster)
            if job is None:
                continue  # it is taken in soon, and this looked at again
            seen = (store.meta(_SEEN + cluster) or "").split()
            if wanted.id not in seen:
                await self._carry_out(job, wanted)
                try:
                    store.set_meta(_SEEN + cluster, " ".join([*seen, wanted.id][-_MANY:]))
                except IndexFault as fault:
                    log.error("%s", fault)
            backend.see_to(wanted)
            try:
                await backend.written([wanted.job_id])
            except BackendError as error:
                log.warning("job %s: %s", wanted.job_id, error)  # it is written later

    async def _carry_out(self, job: Job, wanted: Wanted) -> None:
        operation = self._operations.get(wanted.op)
        if operation is None or wanted.op not in (*OF_JOBS, *OF_ONE, "release"):
            log.warning("job %s: %r is wanted of it, which this version does not know", job.job_id, wanted.op)
            return
        try:
            reply = await operation(Absent(job, wanted.operator), self._of_here(job, wanted.message))
            errors = [one["error"] for one in reply.get("results", ()) if one["error"]]
        except (ShimError, IndexFault, ChannelClosed, KeyError, TypeError, ValueError) as error:
            errors = [str(error)]
        for text in errors:
            log.warning("job %s: %s was wanted of it elsewhere: %s", job.job_id, wanted.op, text)

    @staticmethod
    def _of_here(job: Job, message: dict[str, Any]) -> dict[str, Any]:
        """The message for the job of this index, and for no other."""
        own = {"job_id": job.array_job_id or job.het_job_id or job.job_id, "cluster": job.cluster}
        found = dict(message)
        if "job_id" in found:
            found["job_id"] = job.job_id
        for target in (*found.get("targets", ()), *([found["target"]] if "target" in found else ())):
            if target.get("job_id") not in (job.job_id, own["job_id"]):
                raise ValueError(f"the wish names job {target.get('job_id')}")
            target["cluster"] = job.cluster
        return found
