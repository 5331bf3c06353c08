"""A machine is lost, another one of the same user carries on with its jobs; one that comes back leaves them alone."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Order, Run, Taking
from shim.control.backends.kubernetes import estate, lease, names, tickets
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.backend import STARTS_END, KubernetesBackend
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.settings import texts
from shim.core.model import states
from shim.core.model.cluster import Cluster, Node, Partition
from tests.contract.support import spec_of
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, SECRETS, FakeCluster, Killed
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.stage import RUN, Told

JOB = f"{JOBS}/slurm-7"
DURATION = 300
SHAPE = Cluster(
    name="k8s",
    backend="kubernetes",
    nodes=(Node(name="n1", cpus=4, memory=4096), Node(name="n2", cpus=4, memory=4096)),
    partitions=(Partition(name="all", nodes=("n1", "n2"), default=True),),
    settings=texts({"image": "python", "lease": DURATION}),
)


class Homes:
    """Two machines of one user, one at a time: ``cluster`` is what they share."""

    def __init__(self, cluster: FakeCluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        self.told = Told()
        self.folder = folder
        self._monkeypatch = monkeypatch

    async def open(self, name: str, runs: Any = ()) -> KubernetesBackend:
        """The backend of this home's controller, just started."""
        self._monkeypatch.setenv("SHIM_STATE_DIR", str(self.folder / name))
        self.cluster.watchers.clear()
        self.told = Told()
        backend = KubernetesBackend(SHAPE)
        await backend.open(self.told)
        await backend.recover(runs)
        return backend

    async def start(self, backend: KubernetesBackend) -> None:
        spec, environment = spec_of(backend, SHAPE, str(self.folder), job_id=7, nodes=2)
        request = spec.job.request.replace(work_dir="/nowhere")
        job = spec.job.replace(request=request, stdout=str(self.folder / "slurm-7.out"), state=states.CONFIGURING)
        await backend.start(spec.replace(job=job, script=True), environment, b"#!/bin/sh\n")

    async def begun(self, name: str = "a") -> KubernetesBackend:
        """A home whose job runs."""
        backend = await self.open(name)
        await self.start(backend)
        self.cluster.leader = FakeLeader(tickets.TicketFolder(RUN).key())
        self.cluster.leader.line("started")
        self.cluster.run("n1", "n2")
        await asyncio.sleep(1)
        assert self.told.kinds == ["started"]
        return backend

    async def taken(self, name: str = "b") -> KubernetesBackend:
        """Another home, which has taken over what there is."""
        backend = await self.open(name)
        assert [left for _owner, left in (await backend.take_over()).waits] == [DURATION]
        await asyncio.sleep(DURATION)
        assert len((await backend.take_over()).taken) == 1
        return backend


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Homes:
    cluster = FakeCluster()

    async def load(*_where: str | None) -> Access:
        return cluster.access

    monkeypatch.setattr(estate, "Reflector", FakeReflector)
    monkeypatch.setattr(Access, "load", load)
    return Homes(cluster, tmp_path, monkeypatch)


def ended(homes: Homes, state: str = states.COMPLETED) -> None:
    """The leader has ended with a record, unheard."""
    line = {"n": 2, "at": 5.0, "kind": "ended", "state": state, "status": 0}
    homes.cluster.leader = None
    message = json.dumps({"started": 2.0, "ended": line})
    homes.cluster.state(0, "terminated", exitCode=0, message=message)


def test_a_running_job_is_carried_on_with_its_output_and_its_end(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.begun()
        assert homes.cluster.leader is not None
        leader = homes.cluster.leader
        await first.close()
        second = await homes.taken()
        (orphan,) = await second.orphans()
        job = orphan.job
        assert (orphan.run, job.job_id, job.nodes, job.state, job.request.requeue) == (RUN, 7, 2, "CONFIGURING", False)
        assert job.name == "job"
        assert job.stdout == f"{os.path.dirname(os.path.dirname(job.stdout))}/k8s/slurm-7.out"
        assert str(homes.folder / "b") in job.stdout
        await second.adopt(RUN)
        await asyncio.sleep(1)
        assert homes.told.kinds == ["started"]
        leader.print(b"hello\n")
        leader.say({"do": "output-end", "stream": "stdout"})
        leader.line("ended", state=states.COMPLETED, status=0)
        await asyncio.sleep(1)
        assert homes.told.kinds == ["started", "ended"]
        assert Path(job.stdout).read_bytes() == b"hello\n"
        await second.forget(RUN)
        await asyncio.sleep(5)
        assert JOB not in homes.cluster.objects
        assert f"{SECRETS}/slurm-7-kept" not in homes.cluster.objects
        await second.close()

    clock.run(inside())


def test_a_job_that_ended_meanwhile_is_found_with_its_end(homes: Homes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        ended(homes)
        homes.cluster.printed = b"from the log\n"
        second = await homes.taken()
        (orphan,) = await second.orphans()
        await second.adopt(RUN)
        await asyncio.sleep(1)
        assert homes.told.kinds == ["started", "ended"]
        assert homes.told.last["state"] == states.COMPLETED
        assert Path(orphan.job.stdout).read_bytes() == b"from the log\n"
        await second.close()

    clock.run(inside())


async def _over(homes: Homes) -> KubernetesBackend:
    """A home that has carried on with a job to its end, which is committed."""
    await (await homes.begun()).close()
    ended(homes)
    backend = await homes.taken()
    assert len(await backend.orphans()) == 1
    await backend.adopt(RUN)
    await asyncio.sleep(1)
    assert homes.told.kinds[-1] == "ended"
    return backend


def test_a_run_that_is_over_and_seen_for_a_while_yet_is_no_orphan_again(homes: Homes) -> None:
    async def inside() -> None:
        backend = await _over(homes)
        homes.cluster.watchers.clear()  # they lag
        await backend.forget(RUN)
        await asyncio.sleep(5)
        assert await backend.orphans() == []
        assert tickets.known("k8s") == []
        await backend.close()

    clock.run(inside())


def test_a_run_that_ends_while_orphans_are_looked_for_is_none(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        backend = await _over(homes)
        life = backend._lives.pop(RUN)  # as it is before a new controller follows it
        ask = backend._site.objects.secret

        async def meanwhile(name: str) -> dict[str, bytes] | None:
            found = await ask(name)
            backend._lives.setdefault(RUN, life)
            await backend.forget(RUN)
            await asyncio.sleep(5)
            return found

        monkeypatch.setattr(backend._site.objects, "secret", meanwhile)
        assert await backend.orphans() == []
        assert tickets.known("k8s") == []
        await backend.close()

    clock.run(inside())


def test_a_machine_that_gives_signs_of_life_keeps_its_jobs(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.begun()
        first_home = first._estates.home.lease
        second = await homes.open("b")
        for _ in range(4):
            (wait,) = (await second.take_over()).waits
            await asyncio.sleep(DURATION / 2)
            await first_home.renew()
        assert wait[1] == DURATION
        assert (await second.take_over()).taken == ()
        await second.close()
        await first.close()

    clock.run(inside())


def test_of_two_that_want_a_job_one_has_it(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        second = await homes.open("b")
        third = await homes.open("c")
        for backend in (second, third):
            await backend.take_over()
        await asyncio.sleep(DURATION)
        read = homes.cluster.get
        quicker: list[Taking] = []

        async def get(path: str, query: Any = None) -> Any:
            found = await read(path, query)
            if "/leases/" in path and not quicker:
                quicker.append(Taking())
                quicker.append(await third.take_over())  # between the read and the write of the other
            return found

        monkeypatch.setattr(homes.cluster, "get", get)
        slower = await second.take_over()
        assert (len(quicker[1].taken), slower.taken) == (1, ())
        assert "quicker" in slower.notes[0]
        assert await second.orphans() == []
        await second.close()
        await third.close()

    clock.run(inside())


def test_another_user_s_jobs_are_not_seen(homes: Homes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        homes.cluster.user = "joe"
        second = await homes.open("b")
        await second.take_over()
        await asyncio.sleep(DURATION)
        assert await second.take_over() == Taking()
        await second.close()

    clock.run(inside())


@pytest.mark.parametrize("journal", [0, 1])
def test_a_machine_that_comes_back_leaves_its_jobs_alone_and_begins_anew(homes: Homes, journal: int) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        second = await homes.taken()
        await second.orphans()
        await second.adopt(RUN)
        await second.close()
        writes = len(homes.cluster.said)
        first = await homes.open("a", [(RUN, journal)])
        before = first._site.owner
        await homes.start(first)
        assert homes.told.kinds == ["waits", "ended"]
        assert homes.told.last["state"] == states.CANCELLED
        await first.forget(RUN)
        await asyncio.sleep(5)
        assert first._site.owner != before
        # A start that waited for its turn meanwhile: nothing here tells any more that the run has begun.
        await homes.start(first)
        assert tickets.known("k8s") == []
        assert homes.cluster.said[writes:] == [f"DELETE leases/{names.lease(before)}"]
        assert JOB in homes.cluster.objects
        await asyncio.sleep(STARTS_END)
        assert first._told_lost == set()
        await first.close()
        # The one that carries on with them still does.
        second = await homes.open("b", [(RUN, 1)])
        await asyncio.sleep(DURATION)
        ended(homes)
        await asyncio.sleep(5)
        assert homes.told.last["state"] == states.COMPLETED
        await second.forget(RUN)
        await asyncio.sleep(5)
        assert [path for path in homes.cluster.objects if "slurm-7" in path or "/leases/" in path] == []
        await second.close()

    clock.run(inside())


def test_a_start_makes_nothing_of_a_run_that_is_told_to_be_another_machine_s_meanwhile(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken back, is started again, and its old life is let go: this takes a while, and the home has begun anew by then."""

    async def inside() -> None:
        first = await homes.open("a")
        post = homes.cluster.post

        async def slow(path: str, body: Any, query: Any = None) -> Any:
            if path.endswith("/services"):
                first._tell_lost(RUN)
            return await post(path, body, query)

        monkeypatch.setattr(homes.cluster, "post", slow)
        with pytest.raises(BackendError, match="another machine") as refused:
            await homes.start(first)
        assert refused.value.transient
        assert (tickets.known("k8s"), [path for path in homes.cluster.objects if "slurm-7" in path]) == ([], [])
        await first.close()

    clock.run(inside())


def test_a_machine_that_slept_asks_before_it_writes(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        first = await homes.begun()
        told, folder = homes.told, os.environ["SHIM_STATE_DIR"]
        assert first._estates._signs is not None
        first._estates._signs.cancel()  # nothing moves in it
        awake, watchers = lease.now, list(homes.cluster.watchers)
        second = await homes.taken()
        await second.orphans()
        writes = len(homes.cluster.said)
        monkeypatch.setenv("SHIM_STATE_DIR", folder)
        homes.cluster.watchers += watchers
        monkeypatch.setattr(lease, "now", lambda: awake() + DURATION)
        assert homes.cluster.leader is not None
        leader, homes.cluster.leader = homes.cluster.leader, None
        await leader.close()
        await first.order(RUN, Order(number=1, kind="end", state=states.CANCELLED, uid=0))
        await asyncio.sleep(30)
        assert told.kinds == ["started", "waits", "ended"]
        assert [one for one in homes.cluster.said[writes:] if not one.startswith("PUT leases/")] == []
        assert JOB in homes.cluster.objects
        await first.close()
        await second.close()

    clock.run(inside())


def test_a_kill_at_any_moment_of_taking_over_is_made_good(homes: Homes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        second = await homes.open("b")
        await second.take_over()
        await asyncio.sleep(DURATION)
        homes.cluster.kill_after = len(homes.cluster.said) + 1
        with pytest.raises(Killed):  # the Lease was written, and nobody heard that it was
            await second.take_over()
        homes.cluster.kill_after = 0
        await second.close()
        second = await homes.open("b")
        (orphan,) = await second.orphans()
        assert not orphan.known
        await second.close()
        second = await homes.open("b")  # it has a ticket, and no record
        (orphan,) = await second.orphans()
        assert orphan.known
        assert JOB in homes.cluster.objects
        await second.close()

    clock.run(inside())


def test_a_machine_that_was_noted_and_not_taken_keeps_its_jobs(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.begun()
        owner = first._site.owner
        await first.close()
        second = await homes.open("b")
        second._estates._note({owner: second._site.owner})  # killed before the Lease was written
        await second.close()
        second = await homes.open("b")
        assert await second.orphans() == []
        assert second._estates._noted() == {}
        assert JOB in homes.cluster.objects
        await second.close()

    clock.run(inside())


def test_a_lease_that_was_taken_and_not_noted_is_taken_again(homes: Homes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        second = await homes.taken()
        await second.close()
        os.unlink(homes.folder / "b" / os.uname().nodename / "pods" / "k8s" / "adopted")
        second = await homes.open("b")
        assert len((await second.take_over()).taken) == 1
        await second.close()

    clock.run(inside())


def test_a_run_that_has_not_begun_is_followed_and_ends_if_it_is_taken_back(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.open("a")
        await homes.start(first)
        key = tickets.TicketFolder(RUN).key()
        await first.close()
        second = await homes.taken()
        (orphan,) = await second.orphans()
        assert orphan.script == b"#!/bin/sh\n"
        assert tickets.TicketFolder(RUN).key() == key
        await second.adopt(RUN)
        homes.cluster.unschedulable(0, "0/2 nodes are available")
        await asyncio.sleep(600)
        assert [one["kind"] for one in homes.told.ends] == []  # it waits for its nodes: it could not be queued again
        await asyncio.sleep(700)
        assert [one["state"] for one in homes.told.ends] == [states.BOOT_FAIL]
        assert JOB not in homes.cluster.objects
        await second.close()

    clock.run(inside())


def test_a_job_that_was_never_let_go_has_ended(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.open("a")
        homes.cluster.refusals["POST secrets/slurm-7"] = Killed()
        with pytest.raises(Killed):
            await homes.start(first)
        await first.close()
        second = await homes.taken()
        (orphan,) = await second.orphans()
        assert (orphan.job.state, orphan.known) == (states.CANCELLED, False)
        assert (await second.orphans())[0].known
        await second.forget(RUN)
        await asyncio.sleep(1)
        assert JOB not in homes.cluster.objects
        assert await second.orphans() == []
        await second.close()

    clock.run(inside())


def test_without_its_secrets_a_job_s_state_and_end_are_found(homes: Homes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        homes.cluster.vanish(f"{SECRETS}/slurm-7-kept")
        homes.cluster.objects[JOB]["metadata"]["creationTimestamp"] = "2026-11-22T05:00:00Z"
        homes.cluster.state(0, "running", startedAt="2026-11-22T05:00:07Z")
        second = await homes.taken()
        (orphan,) = await second.orphans()
        assert (orphan.job.nodes, orphan.job.submit_time, orphan.job.name) == (2, 1795323600.0, "sbatch")
        await second.adopt(RUN)
        assert homes.told.lines == [{"kind": "started", "at": 1795323607.0}]
        ended(homes, states.FAILED)
        await asyncio.sleep(5)
        assert homes.told.last["state"] == states.FAILED
        await second.close()

    clock.run(inside())


@pytest.mark.parametrize("text", [b"", b"[]", b'{"job": 3}', b'{"job": {"submit_time": "x", "request": {}}}', b"\xff"])
def test_a_record_that_cannot_be_read_is_done_without(homes: Homes, text: bytes) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        kept = homes.cluster.objects[f"{SECRETS}/slurm-7-kept"]
        kept["data"]["record.json"] = base64.b64encode(text).decode()
        second = await homes.taken()
        (orphan,) = await second.orphans()
        assert (orphan.job.job_id, orphan.job.nodes) == (7, 2)
        await second.close()

    clock.run(inside())


def test_where_leases_are_forbidden_jobs_run_as_without(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        read = homes.cluster.get

        async def get(path: str, query: Any = None) -> Any:
            if "/leases" in path:
                raise ApiError(403, "Forbidden", "you may not")
            return await read(path, query)

        monkeypatch.setattr(homes.cluster, "get", get)
        first = await homes.begun()
        await first.close()
        second = await homes.open("b")
        with pytest.raises(BackendError, match="you may not"):
            await second.take_over()
        await second.close()

    clock.run(inside())


def test_a_lease_that_was_refused_once_is_asked_for_again(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        refusals = {"GET": 1, "PUT": 0}
        read, write, passed = homes.cluster.get, homes.cluster.put, 0.0

        async def get(path: str, query: Any = None) -> Any:
            if "/leases/" in path and refusals["GET"]:
                refusals["GET"] -= 1
                raise ApiError(403, "Forbidden", "exceeded quota")
            return await read(path, query)

        async def put(path: str, body: Any) -> Any:
            if refusals["PUT"]:
                raise ApiError(403, "Forbidden", "the namespace is being ended")
            return await write(path, body)

        real = lease.now
        monkeypatch.setattr(lease, "now", lambda: real() + passed)
        monkeypatch.setattr(homes.cluster, "get", get)
        monkeypatch.setattr(homes.cluster, "put", put)
        first = await homes.begun()
        own = first._estates.home.lease
        assert own.unused and own.path not in homes.cluster.objects
        passed = 61.0
        await own.hold()
        assert not own.unused and own.path in homes.cluster.objects
        refusals["PUT"], passed = 1, 61.0 + DURATION
        with pytest.raises(ApiError, match="being ended"):
            await own.hold()  # whoever may have Leases could take it meanwhile
        await first.close()

    clock.run(inside())


def test_a_home_without_jobs_leaves_no_lease(homes: Homes) -> None:
    async def inside() -> None:
        first = await homes.begun()
        ended(homes)
        await asyncio.sleep(5)
        await first.forget(RUN)
        await asyncio.sleep(5)
        await first.close()
        assert [path for path in homes.cluster.objects if "/leases/" in path] == []
        assert Run(cluster="k8s", job_id=7) not in tickets.known("k8s")

    clock.run(inside())


def test_while_the_cluster_says_nothing_no_run_is_lost(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeReflector):
        def start(self) -> None:
            """Nothing comes."""

    async def inside() -> None:
        await (await homes.begun()).close()
        monkeypatch.setattr(estate, "Reflector", Silent)
        first = await homes.open("a", [(RUN, 1)])
        await asyncio.sleep(3600)
        assert homes.told.lines == []
        assert JOB in homes.cluster.objects
        await first.close()

    clock.run(inside())
