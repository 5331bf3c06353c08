"""The backend as controllers use it that follow each other: jobs accepted, started, found again, forgotten."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Kept, Order, Run
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.cluster import shape
from shim.control.backends.kubernetes.records.payload import parse
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.settings import texts
from shim.core.formats.array_spec import ArraySpec
from shim.core.model import states
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from tests.contract.support import spec_of
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, MAPS, SECRETS, FakeCluster, Killed
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.stage import RECORD, RUN, Told

SHAPE = Cluster(
    name="k8s",
    backend="kubernetes",
    nodes=(Node(name="n1", cpus=4, memory=4096), Node(name="n2", cpus=4, memory=4096)),
    partitions=(Partition(name="all", nodes=("n1", "n2"), default=True),),
    settings=texts({"image": "python", "mounts": [{"path": "/", "host_path": "/"}]}),
)
SCRIPT = b"#!/bin/sh\n"
HANDED_IN = {"environment": {"A": "1"}, "token": "t1", "has_script": True}


async def opened(runs: Any = (), told: Told | None = None) -> KubernetesBackend:
    """A backend as a controller has it that was just started, in a namespace whose jobs are numbered."""
    backend = KubernetesBackend(SHAPE)
    await backend.open(told or Told())
    await backend.reserve(1)
    await backend.recover(runs)
    return backend


def job(**fields: Any) -> Job:
    return Job(
        job_id=7, cluster="k8s", request=JobRequest(name="j", export="ALL,KEY=secret", **fields), submit_line="x"
    )


async def accept(backend: KubernetesBackend, one: Job | None = None, **handed_in: Any) -> int:
    return await backend.accept(one or job(), {**HANDED_IN, **handed_in}, SCRIPT, "/nowhere")


async def start(backend: KubernetesBackend, restart: int = 0) -> None:
    spec, environment = spec_of(backend, SHAPE, "", job_id=7, nodes=2)
    hosts = backend.hosts(spec.job.shares, spec.job.replace(restarts=restart))
    nodes = tuple(node.replace(host=share.host) for node, share in zip(spec.nodes, hosts))
    one = spec.job.replace(restarts=restart, state=states.CONFIGURING, shares=hosts)
    await backend.start(spec.replace(job=one, nodes=nodes), environment, SCRIPT)


def test_an_accepted_job_is_a_record_and_a_payload(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        cluster.said.clear()
        assert await accept(backend) == 7
        assert cluster.said == ["POST configmaps/slurm-7", "POST secrets/slurm-7-payload"]
        record, secret = cluster.objects[RECORD], cluster.objects[f"{SECRETS}/slurm-7-payload"]
        assert "secret" not in json.dumps(record)
        assert json.loads(record["data"]["job"])["job_id"] == 7
        payload = parse(secret)
        assert (payload.script, payload.handed_in["environment"], payload.job.request.export) == (
            SCRIPT,
            {"A": "1"},
            "ALL,KEY=secret",
        )
        assert secret["immutable"] is True
        assert secret["metadata"]["ownerReferences"][0]["uid"] == record["metadata"]["uid"]
        await backend.close()

    clock.run(inside())


@pytest.mark.parametrize("write", [1, 2])
def test_an_answer_that_is_lost_is_asked_for_again(cluster: FakeCluster, write: int) -> None:
    async def inside() -> None:
        backend = await opened()
        cluster.silent_after = len(cluster.said) + write
        assert await accept(backend) == 7
        assert f"{SECRETS}/slurm-7-payload" in cluster.objects
        await backend.close()

    clock.run(inside())


def test_a_submission_that_is_repeated_is_the_job_of_before(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        assert await accept(backend) == 7
        assert await accept(backend, job().replace(job_id=8)) == 7
        assert f"{MAPS}/slurm-8" not in cluster.objects
        await backend.close()

    clock.run(inside())


def test_what_is_told_as_not_accepted_is_not_in_the_cluster(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        cluster.refusals["POST secrets/slurm-7-payload"] = ApiError(403, "Forbidden", "exceeded quota: secrets")
        with pytest.raises(BackendError, match="exceeded quota"):
            await accept(backend)
        assert RECORD not in cluster.objects
        await backend.close()

    clock.run(inside())


async def kept(backend: KubernetesBackend) -> Kept:
    (found,) = await backend.kept()
    return found


def test_a_controller_that_knows_nothing_finds_the_jobs(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        assert await backend.kept() == []  # the index knows it
        await backend.close()
        told = Told()
        backend = await opened(told=told)
        found = await kept(backend)
        assert (found.job.state, found.script, found.token) == (states.PENDING, SCRIPT, "t1")
        assert found.job.request.export == "ALL,KEY=secret"
        assert found.handed_in["environment"] == {"A": "1"}
        await backend.close()

    clock.run(inside())


def test_a_job_that_has_ended_is_history_for_an_index_that_has_lost_it(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        await backend.close()
        cluster.objects[RECORD]["data"]["ended"] = "TIMEOUT"
        backend = await opened()
        found = await kept(backend)
        assert found.job.state == "TIMEOUT"
        backend.keep(found.job)
        await asyncio.sleep(5)
        assert RECORD not in cluster.objects
        await backend.close()

    clock.run(inside())


def test_a_job_of_another_machine_is_told_as_unknown_once(cluster: FakeCluster) -> None:
    async def inside() -> None:
        told = Told()
        backend, other = await opened(told=told), await opened()
        await accept(other)
        await asyncio.sleep(1)
        assert told.unknowns == 1
        assert (await kept(backend)).run == RUN
        await backend.close()
        await other.close()

    clock.run(inside())


def test_records_that_were_copied_from_elsewhere_are_left_alone(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        await backend.close()
        cluster.objects[f"{MAPS}/slurm-job-ids"]["metadata"]["uid"] = "restored"
        backend = await opened()
        assert await backend.kept() == []
        await backend.close()

    clock.run(inside())


def test_a_record_without_a_payload_was_never_accepted_and_goes(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        cluster.kill_after = len(cluster.said) + 1
        with pytest.raises(Killed):
            await accept(backend)
        cluster.kill_after = 0
        await backend.close()
        backend = await opened()
        backend._site.clock = asyncio.get_running_loop().time  # type: ignore[method-assign]
        assert await backend.kept() == []
        assert RECORD in cluster.objects
        await asyncio.sleep(700)
        assert await backend.kept() == []
        assert RECORD not in cluster.objects
        await backend.close()

    clock.run(inside())


def test_a_run_is_made_and_started_twice_is_started_once(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        cluster.said.clear()
        await start(backend)
        await start(backend)
        made = [one for one in cluster.said if "slurm-agent" not in one and "leases" not in one]
        assert made == [
            "POST services/slurm-nodes",
            "PUT configmaps/slurm-7",
            "POST jobs/slurm-7",
            "POST secrets/slurm-7-run",
        ]
        spec = json.loads(files(cluster)["spec.json"])
        assert (spec["record"], spec.get("run", 0)) == (cluster.objects[RECORD]["metadata"]["uid"], 0)
        await backend.close()
        assert run_folders.known("k8s") == [RUN]

    clock.run(inside())


def files(cluster: FakeCluster) -> dict[str, bytes]:
    import base64

    data = cluster.objects[f"{SECRETS}/slurm-7-run"]["data"]
    return {name: base64.b64decode(text) for name, text in data.items()}


def test_a_job_that_waited_in_a_version_before_gets_its_record_when_it_starts(
    cluster: FakeCluster, tmp_path: Any
) -> None:
    (tmp_path / "submission.json").write_text(json.dumps({"environment": {"B": "2"}, "has_script": True}))
    (tmp_path / "script").write_bytes(SCRIPT)

    async def inside() -> None:
        backend = await opened()
        spec, environment = spec_of(backend, SHAPE, "", job_id=7, nodes=2)
        hosts = backend.hosts(spec.job.shares, spec.job)
        nodes = tuple(node.replace(host=share.host) for node, share in zip(spec.nodes, hosts))
        one = spec.job.replace(state=states.CONFIGURING)
        await backend.start(spec.replace(job=one, nodes=nodes), environment, SCRIPT, str(tmp_path))
        assert f"{JOBS}/slurm-7" in cluster.objects
        assert parse(cluster.objects[f"{SECRETS}/slurm-7-payload"]).handed_in["environment"] == {"B": "2"}
        await backend.close()

    clock.run(inside())


def test_a_task_of_an_array_has_a_record_of_its_own_and_the_arrays_payload(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        array = job().replace(array_job_id=5, array_tasks="0-3", job_id=5)
        await accept(backend, array)
        spec, environment = spec_of(backend, SHAPE, "", job_id=7, nodes=2)
        one = spec.job.replace(state=states.CONFIGURING, array_job_id=5, array_task_id=2)
        hosts = backend.hosts(spec.job.shares, one)
        nodes = tuple(node.replace(host=share.host) for node, share in zip(spec.nodes, hosts))
        await backend.start(spec.replace(job=one, nodes=nodes), environment, SCRIPT)
        data = cluster.objects[RECORD]["data"]
        assert (data["payload"], data["submission"]) == ("slurm-5-payload", "t1.2")
        await backend.close()
        backend = await opened()
        found = {one.job.job_id: one for one in await backend.kept()}
        assert found[5].job.array_tasks == "0-1,3"
        assert sorted(found) == [5, 7]
        await backend.close()

    clock.run(inside())


def test_a_record_that_a_late_request_makes_when_its_job_has_ended_goes(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        late = copy.deepcopy(cluster.objects[RECORD])
        late["metadata"]["uid"] = "late"
        cluster.vanish(RECORD)
        backend.keep(job().replace(state=states.CANCELLED))
        cluster._put("ADDED", RECORD, late)
        await asyncio.sleep(30)
        assert RECORD not in cluster.objects
        await backend.close()

    clock.run(inside())


ARRAY = f"{MAPS}/slurm-5"


async def array_of_four(cluster: FakeCluster) -> KubernetesBackend:
    """A backend with the array 5, of the tasks 0 to 3."""
    backend = await opened()
    await accept(backend, job().replace(array_job_id=5, array_tasks="0-3", job_id=5))
    return backend


def given_elsewhere(cluster: FakeCluster, task: int, job_id: int, *, told: bool = True) -> None:
    """Another machine has given an id to a task of the array."""
    made = cluster.objects[ARRAY]
    rest = ArraySpec.parse(json.loads(made["data"]["job"])["array_tasks"]).without(task)
    shown = json.dumps({**json.loads(made["data"]["job"]), "array_tasks": str(rest)})
    data = {**made["data"], "job": shown, "given": json.dumps([{"task": task, "job_id": job_id}])}
    watchers = list(cluster.watchers)
    if not told:
        cluster.watchers.clear()
    cluster._put("MODIFIED", ARRAY, {**made, "data": data})
    cluster.watchers[:] = watchers


async def start_task(backend: KubernetesBackend, task: int, job_id: int = 7) -> None:
    spec, environment = spec_of(backend, SHAPE, "", job_id=job_id, nodes=2)
    one = spec.job.replace(state=states.CONFIGURING, array_job_id=5, array_task_id=task)
    hosts = backend.hosts(spec.job.shares, one)
    nodes = tuple(node.replace(host=share.host) for node, share in zip(spec.nodes, hosts))
    await backend.start(spec.replace(job=one, nodes=nodes), environment, SCRIPT)


def test_an_array_of_which_another_machine_has_begun_a_task_was_accepted(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        cluster.refusals["POST secrets/slurm-5-payload"] = ApiError(503, "ServiceUnavailable", "not now")
        cluster.before["POST secrets/slurm-5-payload"] = lambda: given_elsewhere(cluster, 2, 9)
        array = job().replace(array_job_id=5, array_tasks="0-3", job_id=5)
        assert await accept(backend, array) == 5
        assert ARRAY in cluster.objects
        await backend.close()

    clock.run(inside())


@pytest.mark.parametrize("told", [True, False])
def test_a_task_that_another_machine_has_given_an_id_is_not_started_under_a_second_one(
    cluster: FakeCluster, told: bool
) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        given_elsewhere(cluster, 2, 9, told=told)
        with pytest.raises(BackendError, match="another machine has given this task an id"):
            await start_task(backend, 2)
        assert RECORD not in cluster.objects
        await start_task(backend, 1)
        told_of = json.loads(cluster.objects[ARRAY]["data"]["given"])
        assert told_of == [{"job_id": 9, "task": 2}, {"job_id": 7, "task": 1}]
        assert json.loads(cluster.objects[ARRAY]["data"]["job"])["array_tasks"] == "0,3"
        await backend.close()

    clock.run(inside())


def test_a_task_that_was_given_an_id_by_a_machine_that_came_no_further_gets_its_record(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        await backend.close()
        given_elsewhere(cluster, 2, 7)
        backend = await opened()
        found = {one.job.job_id: one.job for one in await backend.kept()}
        assert (found[5].array_tasks, found[7].array_task_id, found[7].state) == ("0-1,3", 2, states.PENDING)
        assert cluster.objects[RECORD]["data"]["payload"] == "slurm-5-payload"
        await backend.close()

    clock.run(inside())


def test_tasks_that_end_while_their_array_is_written_leave_it_by_one_write(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        records, found = backend._site.records, []
        for job_id, task in ((7, 2), (8, 0), (9, 1)):
            found.append(job().replace(job_id=job_id, array_job_id=5, array_task_id=task))
            backend.keep(found[-1])
        await start_task(backend, 2)
        assert len(json.loads(cluster.objects[ARRAY]["data"]["given"])) == 3
        cluster.said.clear()
        async with records._turns.setdefault(5, asyncio.Lock()):
            leaving = [asyncio.ensure_future(records.release(one)) for one in found]
            await asyncio.sleep(1)
        await asyncio.gather(*leaving)
        assert "given" not in cluster.objects[ARRAY]["data"]
        assert cluster.said.count("PUT configmaps/slurm-5") == 1
        await backend.close()

    clock.run(inside())


def test_an_array_goes_though_a_task_of_it_was_cancelled_before_it_had_a_record(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        given_elsewhere(cluster, 2, 7)
        backend.keep(job().replace(array_job_id=5, array_task_id=2, state=states.CANCELLED))
        backend.keep(job().replace(job_id=5, array_job_id=5, array_tasks="0-1,3", state=states.CANCELLED))
        await asyncio.sleep(30)
        assert not [path for path in cluster.objects if "slurm-5" in path]
        await backend.close()

    clock.run(inside())


def test_a_task_does_not_run_with_the_payload_of_an_array_that_had_the_name_before(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        late = copy.deepcopy(cluster.objects[ARRAY])
        late["metadata"]["uid"] = "late"
        cluster._put("MODIFIED", ARRAY, late)
        with pytest.raises(BackendError, match="secret slurm-5-payload is of another record"):
            await start_task(backend, 2)
        await backend.close()

    clock.run(inside())


def test_no_record_of_a_task_is_made_anew_when_its_arrays_has_gone(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        given_elsewhere(cluster, 2, 7)
        for job_id, task in ((7, 2), (8, 0), (9, 1)):
            backend.keep(job().replace(job_id=job_id, array_job_id=5, array_task_id=task))
        await start_task(backend, 3, 5)
        assert "register" in cluster.objects[ARRAY]["data"]
        cluster.vanish(ARRAY)
        await asyncio.sleep(5)
        with pytest.raises(BackendError, match="another machine has removed it"):
            await start_task(backend, 2)
        await backend.close()

    clock.run(inside())


def test_a_tasks_record_that_a_late_request_makes_anew_is_no_job(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await array_of_four(cluster)
        await start_task(backend, 2)
        late = copy.deepcopy(cluster.objects[RECORD])
        late["metadata"]["uid"] = "late"
        del late["data"]["register"]
        await backend._site.records.release(backend._index[7])
        assert "given" not in cluster.objects[ARRAY]["data"]
        await backend.close()
        cluster._put("ADDED", RECORD, late)
        backend = await opened()
        assert [one.job.job_id for one in await backend.kept()] == [5]
        await backend.close()

    clock.run(inside())


def test_a_waiting_task_that_the_version_before_gave_an_id_is_a_job_and_starts(cluster: FakeCluster) -> None:
    """There no array's record said so."""

    async def inside() -> None:
        backend = await array_of_four(cluster)
        await start_task(backend, 2)
        before = copy.deepcopy(cluster.objects[RECORD])
        before["metadata"]["uid"] = "before"
        before["data"]["schema"] = "1"
        del before["data"]["register"]
        await backend._site.records.release(backend._index[7])
        await backend.close()
        for path in [path for path in cluster.objects if "slurm-7" in path]:
            del cluster.objects[path]
        cluster._put("ADDED", RECORD, before)
        backend = await opened()
        assert sorted(one.job.job_id for one in await backend.kept()) == [5, 7]
        assert "register" not in cluster.objects[RECORD]["data"]
        await start_task(backend, 2)
        assert "register" in cluster.objects[RECORD]["data"]
        await backend.close()

    clock.run(inside())


def test_a_change_of_a_waiting_job_reaches_its_record(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        backend.keep(job().replace(held="user"))
        backend.keep(job().replace(held="user", comment="new"))
        backend.keep(job().replace(held="user", comment="new", reason="Priority"))
        cluster.said.clear()
        await asyncio.sleep(5)
        assert [one for one in cluster.said if "leases" not in one] == ["PUT configmaps/slurm-7"]
        told = json.loads(cluster.objects[RECORD]["data"]["job"])
        assert (told["held"], told["comment"]) == ("user", "new")
        await backend.close()

    clock.run(inside())


def test_a_job_that_is_cancelled_while_it_waits_leaves_nothing(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        await accept(backend)
        backend.keep(job().replace(state=states.CANCELLED))
        await asyncio.sleep(5)
        assert RECORD not in cluster.objects
        assert f"{SECRETS}/slurm-7-payload" not in cluster.objects
        assert run_folders.known("k8s") == []
        await backend.close()

    clock.run(inside())


def test_a_run_whose_record_another_machine_has_removed_has_ended(cluster: FakeCluster) -> None:
    async def inside() -> None:
        told = Told()
        backend = await opened([(Run(cluster="k8s", job_id=9), 4)], told)
        assert (told.last["kind"], told.last["state"]) == ("ended", "NODE_FAIL")
        await backend.order(RUN, Order(number=1, kind="end"))
        await backend.close()

    clock.run(inside())


def test_blocks_of_ids_follow_each_other(cluster: FakeCluster) -> None:
    async def inside() -> None:
        backend = await opened()
        first, second = await backend.reserve(50), await backend.reserve(50)
        assert (first.start, second.start) == (50, first.stop)
        await backend.close()

    clock.run(inside())


def test_nodes_that_are_not_told_at_once_are_waited_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[FakeReflector] = []

    class Slow(FakeReflector):
        objects: dict[str, Any] = {}

        def start(self) -> None:
            nodes.append(self)

    monkeypatch.setattr(shape, "Reflector", Slow)

    async def inside() -> None:
        backend = KubernetesBackend(SHAPE.replace(nodes=(), partitions=()))
        assert (await backend.open(Told())).nodes == ()
        with pytest.raises(BackendError, match="not told its nodes"):
            await backend.shaped()
        assert not backend._site.node_is_gone("n1")
        nodes[0]._hooks["on_synced"]()
        await asyncio.sleep(60)
        with pytest.raises(
            BackendError, match="not told its nodes"
        ):  # all of them seem free: nobody knows the pods yet
            await backend.shaped()
        nodes[1]._hooks["on_synced"]()
        await asyncio.sleep(1)
        assert (await backend.shaped()).name == "k8s"
        assert backend._site.node_is_gone("n1")
        await backend.close()

    clock.run(inside())
