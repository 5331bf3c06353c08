"""Two machines beside one namespace: one orders the jobs, the other looks on, and both speak for their users."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes import backend as backends
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.run.register import GRANTED, Register, over
from shim.control.backends.kubernetes.settings import texts
from shim.control.backends.kubernetes.submit import accepting
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import OTHERS, OWN, Job
from shim.job.pod.asking import Member
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, SECRETS, FakeCluster
from tests.control.backends.kubernetes.stage import RECORD, Told
from tests.control.backends.kubernetes.test_backend import HANDED_IN, SCRIPT, SHAPE, job, start


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens the backend of a machine of that name; it has the Lease, or is told that another has."""

    async def open_on(
        name: str,
        told: Told | None = None,
        *,
        orders: bool = True,
        shape: Cluster = SHAPE,
        known: Sequence[Job] = (),
    ) -> KubernetesBackend:
        monkeypatch.setattr(backends, "identity", lambda owner: f"{name}.x.1.1")
        made = KubernetesBackend(shape)
        await made.open(told or Told())
        made._site.host = name
        for one in known:
            made.keep(one)
        await made.reserve(1)
        if orders:
            await made.recover([])
        else:
            made._coming = asyncio.ensure_future(made.recover([]))  # type: ignore[attr-defined]
            await asyncio.sleep(1)
        assert made.orders == orders
        return made

    return open_on


async def close(*opened: KubernetesBackend) -> None:
    for one in opened:
        coming = getattr(one, "_coming", None)
        if coming is not None:
            coming.cancel()
        await one.close()


async def shown(backend: KubernetesBackend, before: Job) -> Job:
    (found,) = await backend.shown([before])
    return found


def test_what_the_one_does_the_other_shows(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        told = Told()
        one, two = await there("one"), await there("two", told, orders=False)
        unknowns = told.unknowns
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        assert told.unknowns == unknowns + 1
        (kept,) = await two.kept()
        assert (kept.job.origin, kept.job.state, kept.script) == (OWN, states.PENDING, SCRIPT)
        two.keep(kept.job)
        await two.shown([kept.job])
        one.keep(job().replace(held="user", reason="JobHeldUser"))
        await one.written([7])
        assert (await shown(two, kept.job)).reason == "JobHeldUser"
        one.keep(job().replace(state=states.CANCELLED, end_time=5.0))
        await asyncio.sleep(5)
        assert RECORD not in cluster.objects
        ended = await shown(two, kept.job)
        assert (ended.state, ended.end_time) == (states.CANCELLED, 5.0)
        await close(two, one)

    clock.run(inside())


def test_a_job_whose_end_nobody_saw_here_never_runs_again(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        await one.close()
        cluster.vanish(RECORD)
        again = KubernetesBackend(SHAPE)
        await again.open(Told())
        await again.ordering()
        assert (await shown(again, job())).state == states.CANCELLED
        with pytest.raises(BackendError, match="its record is gone"):
            await again._accepting.ensure(job(), "/nowhere")
        await again.close()

    clock.run(inside())


def test_a_wish_is_in_the_record_and_is_seen_to_by_the_one_that_orders(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        told = Told()
        one, two = await there("one", told), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        asked = asyncio.ensure_future(two.want(7, "hold", {"targets": [{"job_id": 7}]}))
        await asyncio.sleep(1)
        assert told.wants == 1
        (wanted,) = one.wanted()
        assert (wanted.job_id, wanted.op, wanted.operator) == (7, "hold", False)
        one.keep(job().replace(held="user"))
        one.see_to(wanted)
        await one.written([7])
        assert await asked
        assert "wishes" not in cluster.objects[RECORD]["data"]
        assert one.wanted() == []
        await close(two, one)

    clock.run(inside())


def test_a_wish_waits_for_a_machine_that_is_off(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one, two = await there("one"), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        assert not await two.want(7, "hold", {"targets": [{"job_id": 7}]})
        await close(two, one)
        told = Told()
        three = await there("three", told)
        assert told.wants == 1
        assert [wanted.op for wanted in three.wanted()] == ["hold"]
        await three.close()

    clock.run(inside())


@pytest.mark.parametrize("error", [ApiError(409, "Conflict", "x"), ApiError(0, "Timeout", "no answer")])
def test_a_wish_that_meets_another_write_is_noted_once(cluster: FakeCluster, there: Any, error: ApiError) -> None:
    async def inside() -> None:
        one, two = await there("one"), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        if error.conflict:
            cluster.before["PUT configmaps/slurm-7"] = lambda: cluster.changed(
                cluster.objects[RECORD], RECORD.rpartition("/")[0]
            )
        else:
            cluster.silent_after = len(cluster.said) + 1
        await two.want(7, "hold", {})
        assert cluster.objects[RECORD]["data"]["wishes"].count('"op": "hold"') == 1
        await close(two, one)

    clock.run(inside())


def test_a_wish_for_a_cluster_that_does_not_answer_is_refused(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one, two = await there("one"), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        cluster.refusals["PUT configmaps/slurm-7"] = ApiError(403, "Forbidden", "no configmaps for you")
        with pytest.raises(BackendError, match="no configmaps for you"):
            await two.want(7, "hold", {})
        await close(two, one)

    clock.run(inside())


def test_of_others_jobs_one_who_looks_on_gets_no_more_than_the_record(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job().replace(user="root", uid=0), HANDED_IN, SCRIPT, "/nowhere")
        cluster.user = "system:serviceaccount:lab:bob"
        two = await there("two", orders=False)
        (kept,) = await two.kept()
        assert (kept.job.origin, kept.job.user, kept.job.uid) == (OTHERS, "jane", accepting.NOBODY)
        assert (kept.handed_in, kept.script, kept.job.request.export) == ({}, None, None)
        assert f"{SECRETS}/slurm-7-payload" in cluster.objects
        # Who may order it starts it as the one who submitted it.
        whole = await two.handed_in(kept.job)
        assert (whole.job.user, whole.job.uid, whole.script) == ("root", 0, SCRIPT)
        # Wishes of somebody else than its owner count for nothing, an operator's do.
        await two.want(7, "cancel", {})
        assert one.wanted() == []
        two._wishes.operates = True
        await two.want(7, "cancel", {})
        assert [wanted.operator for wanted in one.wanted()] == [True]
        await close(two, one)

    clock.run(inside())


def test_a_job_has_the_pods_that_its_own_machine_describes(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(work_dir="/srv/work"), HANDED_IN, SCRIPT, "/nowhere")
        await one.close()
        two = await there("two", shape=SHAPE.replace(settings=texts({"image": "another"})))
        await start(two)
        (container,) = cluster.objects[f"{JOBS}/slurm-7"]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "python"
        await two.close()

    clock.run(inside())


async def ended_meanwhile(there: Any) -> tuple[KubernetesBackend, Job]:
    """While machine "one", which accepted the job, is off, "two" takes it over and ends it: the backend of "two", and the job."""
    one = await there("one")
    await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
    await one.close()
    two = await there("two")
    (kept,) = await two.kept()
    two.keep(kept.job)
    ended: Job = kept.job.replace(state=states.CANCELLED, end_time=two._site.now())
    two.keep(ended)
    await asyncio.sleep(100)
    return two, ended


def test_the_end_of_a_job_waits_for_its_machine(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        two, _ended = await ended_meanwhile(there)
        assert cluster.objects[RECORD]["data"]["ended"] == states.CANCELLED
        again = await there("one", orders=False)
        ended = await shown(again, job())
        again.keep(ended)
        await asyncio.sleep(10)
        assert ended.state == states.CANCELLED
        assert RECORD not in cluster.objects
        await close(again, two)

    clock.run(inside())


def test_the_end_of_a_job_that_its_machine_knows_before_it_knows_the_cluster_is_taken_in(
    cluster: FakeCluster, there: Any
) -> None:
    async def inside() -> None:
        two, ended = await ended_meanwhile(there)
        assert RECORD in cluster.objects
        again = await there("one", orders=False, known=[ended])
        await asyncio.sleep(10)
        assert RECORD not in cluster.objects
        await close(again, two)

    clock.run(inside())


def test_an_end_that_its_machine_finds_while_it_follows_the_run_is_settled(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        await one.close()
        member = Member(index=0, pod="gone", node="n1", boot="before", checked=True)
        run = Register(run=0, state=GRANTED, nonce="nonce", members=(member,))

        def write(register: Register, state: str, ended: str = "") -> None:  # by another machine
            made = cluster.objects[RECORD]
            shown = json.dumps({**json.loads(made["data"]["job"]), "state": state})
            data = {**made["data"], "job": shown, "register": json.dumps(register.to_dict()), "ended": ended}
            cluster._put("MODIFIED", RECORD, {**made, "data": data})

        write(run, states.RUNNING)
        again = await there("one")
        (kept,) = await again.kept()
        again.keep(kept.job)
        await again.take_up(kept.run)
        write(over(run, states.COMPLETED), states.RUNNING, states.COMPLETED)
        ended = await shown(again, kept.job)
        again.keep(ended)
        await asyncio.sleep(1)
        await again.forget(kept.run)
        await asyncio.sleep(30)
        assert (ended.state, RECORD in cluster.objects) == (states.COMPLETED, False)
        await close(again)

    clock.run(inside())


def test_a_record_that_a_late_request_makes_anew_goes_though_the_one_before_was_ended_elsewhere(
    cluster: FakeCluster, there: Any
) -> None:
    async def inside() -> None:
        two, ended = await ended_meanwhile(there)
        late = copy.deepcopy(cluster.objects[RECORD])
        late["metadata"]["uid"], late["data"]["ended"] = "late", ""
        cluster.refusals["PUT configmaps/slurm-7"] = ApiError(503, "ServiceUnavailable", "not now")
        again = await there("one", orders=False, known=[ended])
        await shown(again, job())
        await two.close()
        await again._coming  # type: ignore[attr-defined]
        cluster.vanish(RECORD)
        cluster.objects[RECORD] = late  # the watch tells of it later
        cluster.refusals.clear()
        await asyncio.sleep(60)
        assert RECORD not in cluster.objects
        await close(again)

    clock.run(inside())


def test_the_end_of_a_job_whose_machine_never_comes_back_goes_after_a_week(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        await one.close()
        two = await there("two")
        (kept,) = await two.kept()
        two.keep(kept.job)
        two.keep(kept.job.replace(state=states.CANCELLED, end_time=two._site.now() - 8 * 86400))
        await asyncio.sleep(10)
        assert RECORD not in cluster.objects
        await two.close()

    clock.run(inside())


def test_a_job_of_another_place_is_no_job_of_this_one_that_has_its_id(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        elsewhere = job().replace(place="uid-of-another-namespace", state=states.RUNNING)
        one._index.clear()
        one.keep(elsewhere.replace(state=states.CANCELLED))
        await asyncio.sleep(10)
        assert "ended" not in cluster.objects[RECORD]["data"]  # what became of the one is nothing to the other
        (kept,) = await one.kept()
        assert kept.job.place == one.place
        (gone,) = await one.shown([elsewhere])
        assert gone.state == states.NODE_FAIL
        await one.close()

    clock.run(inside())


def test_a_machine_that_does_not_know_yet_where_it_is_takes_no_job_for_gone(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one, two = await there("one"), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        (kept,) = await two.kept()
        two._site.place = ""  # as just after its start
        assert [found for found in await two.shown([kept.job]) if found.state in states.TERMINAL] == []
        await close(two, one)

    clock.run(inside())


def test_what_becomes_of_a_job_while_it_is_recorded_is_told_afterwards(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        told = Told()
        one, two = await there("one"), await there("two", told, orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        (kept,) = await two.kept()
        one.keep(job().replace(held="user", reason="JobHeldUser"))
        await one.written([7])
        await two.kept()
        assert await two.shown([]) == []  # the index has not committed it yet
        unknowns = told.unknowns
        two.keep(kept.job)
        assert told.unknowns == unknowns + 1
        assert (await shown(two, kept.job)).reason == "JobHeldUser"
        two.keep(kept.job)
        assert told.unknowns == unknowns + 1
        await close(two, one)

    clock.run(inside())


def test_a_job_that_has_ended_and_whose_secret_is_gone_holds_up_no_others(cluster: FakeCluster, there: Any) -> None:
    async def inside() -> None:
        one = await there("one")
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        await one.accept(job().replace(job_id=8), {**HANDED_IN, "token": "another"}, SCRIPT, "/nowhere")
        made = cluster.objects[RECORD]
        cluster._put("MODIFIED", RECORD, {**made, "data": {**made["data"], "ended": states.FAILED}})
        cluster.vanish(f"{SECRETS}/slurm-7-payload")
        two = await there("two", orders=False)
        assert [(kept.job.job_id, kept.job.state) for kept in await two.kept()] == [
            (7, states.FAILED),
            (8, states.PENDING),
        ]
        await close(two, one)

    clock.run(inside())


@pytest.mark.parametrize("before", [states.COMPLETED, states.RUNNING])
def test_a_record_that_is_made_once_more_by_a_late_request_is_no_job(
    cluster: FakeCluster, there: Any, before: str
) -> None:
    async def inside() -> None:
        one, two = await there("one"), await there("two", orders=False)
        await one.accept(job(), HANDED_IN, SCRIPT, "/nowhere")
        (kept,) = await two.kept()
        known = kept.job.replace(state=before)
        two.keep(known)
        late = copy.deepcopy(cluster.objects[RECORD])
        cluster.vanish(RECORD)
        late["metadata"]["uid"] = "late"
        cluster._put("ADDED", RECORD, late)
        await asyncio.sleep(1)
        told = [found.state for found in await two.shown([known])]
        assert told == ([] if before == states.COMPLETED else [states.NODE_FAIL])
        await close(two, one)

    clock.run(inside())
