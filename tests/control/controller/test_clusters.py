"""Several clusters under one controller: where submissions go, ids, one machine under two names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from shim.control import paths
from shim.control.backends.base import BackendError, Observer, Progress, Run
from shim.control.channel import ChannelClosed
from shim.control.controller import observing
from shim.control.controller.operations import moving
from shim.control.controller.operations.submitting import submitted
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.job import Job
from tests.control.controller.fakes import CLUSTER, NOW, Bench, Client, Clock, FakeBackend, submission

OTHER = Cluster(
    name="other",
    max_array_size=10,
    nodes=(Node(name="o1", cpus=8, memory=8000), Node(name="o2", cpus=8, memory=8000)),
    partitions=(Partition(name="debug", nodes=("o1", "o2"), default=True), Partition(name="gpu", nodes=("o2",))),
)
MACHINE = {"share": "machine"}

Test = Callable[[Bench, FakeBackend], Coroutine[Any, Any, None]]


def two(first: Cluster = CLUSTER, second: Cluster = OTHER) -> Callable[[Test], Callable[[Path], None]]:
    """Runs an asynchronous test with a bench of two clusters; the second one's backend is its other argument."""

    def made(test: Test) -> Callable[[Path], None]:
        def run(state_dir: Path) -> None:
            async def inside() -> None:
                backend = FakeBackend(second)
                box = await Bench(FakeBackend(first), Clock(), backend).open()
                try:
                    await test(box, backend)
                finally:
                    await box.close()

            asyncio.run(inside())

        run.__name__ = test.__name__
        return run

    return made


async def went(box: Bench, cluster: str | None = None, home: str | None = None, **request: Any) -> str:
    reply = await box.ask("submit", **submission(**request), cluster=cluster, home=home)
    return str(reply["cluster"])


@two()
async def test_a_submission_goes_where_it_is_told_or_where_its_partition_is(box: Bench, other: FakeBackend) -> None:
    assert await went(box) == "local"
    assert await went(box, "other") == "other"
    assert await went(box, partition="gpu") == "other"
    assert await went(box, partition="debug") == "local"
    assert await went(box, partition="debug,gpu") == "other", "it has both"
    assert await went(box, home="other") == "other"
    assert await went(box, home="other", partition="debug") == "other"
    assert await went(box, "local", home="other") == "local"
    assert await went(box, home="gone") == "local"
    with pytest.raises(ShimError, match="No cluster 'nosuch' known by database"):
        await went(box, "nosuch")
    with pytest.raises(ShimError, match="invalid partition specified: nosuch"):
        await went(box, partition="nosuch")


@two()
async def test_of_several_named_clusters_the_one_that_starts_the_job_first_gets_it(
    box: Bench, other: FakeBackend
) -> None:
    assert await went(box, "other,local") == "other"
    assert await went(box, "local,other", ntasks=8, min_nodes=1, max_nodes=1) == "other", "only there it fits"
    assert await went(box, "local,other", min_nodes=4, exclusive="node", time_limit=60) == "local"
    assert await went(box, "local,other", ntasks=1) == "other"
    assert await went(box, "all", ntasks=1) == "other"
    with pytest.raises(ShimError):
        await went(box, "local,other", min_nodes=50)


@two()
async def test_ids_of_clusters_never_meet(box: Bench, other: FakeBackend) -> None:
    ids = [await box.submit(), int((await box.ask("submit", **submission(), cluster="other"))["job_id"])]
    assert ids == [1, 2]
    assert [run.job_id for run in other.starts] == [2]
    assert [run.job_id for run in box.backend.starts] == [1]
    box.controller.world.book.forget_before(NOW + 1)
    assert box.job(2).cluster == "other"


@two(CLUSTER.replace(id_ranges=(1, 5000)), OTHER.replace(first_job_id=5000, id_ranges=(5000, 9000)))
async def test_each_range_has_its_own_sequence(box: Bench, other: FakeBackend) -> None:
    there = submission()
    found = [
        await box.submit(),
        (await box.ask("submit", **there, cluster="other"))["job_id"],
        await box.submit(),
        (await box.ask("submit", **submission(array="0-1"), cluster="other"))["job_id"],
    ]
    assert found == [1, 5000, 2, 5001]
    assert sorted(run.job_id for run in other.starts) == [5000, 5001, 5002]


@two(CLUSTER.replace(settings=MACHINE), OTHER.replace(settings=MACHINE))
async def test_two_clusters_on_one_machine_count_it_once(box: Bench, other: FakeBackend) -> None:
    first = await box.submit(ntasks=4)
    waits = int((await box.ask("submit", **submission(ntasks=6), cluster="other"))["job_id"])
    assert (box.job(first).state, box.job(waits).state) == ("CONFIGURING", "PENDING")
    trial = await box.ask("submit", **submission(ntasks=4), cluster="other", test_only=True)
    assert trial["processors"] == 4
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert box.job(waits).state == "CONFIGURING"


@two()
async def test_a_target_can_be_one_cluster_s_only(box: Bench, other: FakeBackend) -> None:
    job_id = await box.submit()
    wrong = {"job_id": job_id, "cluster": "other"}
    assert await box.results("cancel", wrong) == ["Invalid job id specified"]
    assert await box.results("hold", wrong) == ["Invalid job id specified"]
    assert await box.results("cancel", {"job_id": job_id, "cluster": "local"}, client=Client()) == [None]


@two()
async def test_a_pending_job_moves_with_its_id_and_runs_once_there(box: Bench, other: FakeBackend) -> None:
    held = await box.submit(hold=True, node_list="node2", partition="debug")
    reply = await box.ask("move", job_id=held, cluster="other")
    assert reply == {"job_id": held, "cluster": "other", "notes": ["--nodelist=node2: given up, other has other nodes"]}
    assert (box.job(held).cluster, box.job(held).reason, box.job(held).held) == ("other", "JobHeldUser", "user")
    assert (await box.ask("move", job_id=held, cluster="other"))["notes"] == []
    assert await box.results("release_job", {"job_id": held}) == [None]
    assert [run.job_id for run in other.starts] == [held]
    assert box.backend.starts == []
    assert [node.name for node in next(iter(other.specs.values())).nodes] == ["o1"]
    with pytest.raises(ShimError, match=f"only a pending job can be moved: {held} is CONFIGURING"):
        await box.ask("move", job_id=held, cluster="local")


@two()
async def test_a_job_that_waits_for_resources_starts_where_it_is_moved_to(box: Bench, other: FakeBackend) -> None:
    await box.submit(min_nodes=4, exclusive="node")
    waits = await box.submit(time_limit=10)
    assert box.job(waits).state == "PENDING"
    await box.ask("move", job_id=waits, cluster="other")
    assert (box.job(waits).state, box.job(waits).time_limit) == ("CONFIGURING", 10)
    assert len(box.backend.starts) == 1


@two()
async def test_a_whole_array_moves_and_a_dependency_finds_its_job(box: Bench, other: FakeBackend) -> None:
    first = await box.submit(hold=True)
    array = await box.submit(array="0-2", dependency=f"afterok:{first}")
    await box.ask("move", job_id=array, cluster="other")
    assert (box.job(array).cluster, box.job(array).reason) == ("other", "Dependency")
    await box.results("release_job", {"job_id": first})
    box.backend.tell(first, "started")
    box.backend.tell(first, "ended", state="COMPLETED", status=0)
    await box.settle()
    assert sorted(job.array_label for job in box.store.jobs()) == [f"{array}_{task}" for task in range(3)]
    assert {run.cluster for run in other.starts} == {"other"}
    with pytest.raises(ShimError, match="only a pending job can be moved"):
        await box.ask("move", job_id=array, cluster="local")


@two(second=OTHER.replace(partitions=(OTHER.partitions[0].replace(allow_groups="nobody-is-in-it"),)))
async def test_a_partition_for_other_groups_is_closed_to_moved_jobs_too(box: Bench, other: FakeBackend) -> None:
    held = await box.submit(hold=True)
    refused = "error: Batch job submission failed: User's group not permitted to use this partition"
    for ask in (
        box.ask("submit", **submission(hold=True), cluster="other"),
        box.ask("move", job_id=held, cluster="other"),
        box.ask("move", Client(uid=0), job_id=held, cluster="other"),  # the job's owner counts, not who moves it
    ):
        with pytest.raises(ShimError) as error:
            await ask
        assert error.value.lines == (refused,)
    assert box.job(held).cluster == "local"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "names_of", lambda uid: {"nobody-is-in-it"} if uid == 1001 else set())
        await box.ask("move", job_id=held, cluster="other")
    assert box.job(held).cluster == "other"


@two()
async def test_what_cannot_be_moved_is_said(box: Bench, other: FakeBackend) -> None:
    held = await box.submit(hold=True, partition="debug")
    with pytest.raises(ShimError, match="Invalid job id specified"):
        await box.ask("move", job_id=99, cluster="other")
    with pytest.raises(ShimError, match="Access/permission denied"):
        await box.ask("move", Client(uid=1002), job_id=held, cluster="other")
    with pytest.raises(ShimError, match="No cluster 'nosuch'"):
        await box.ask("move", job_id=held, cluster="nosuch")
    big = await box.submit(hold=True, array="0-20")
    with pytest.raises(ShimError, match="Invalid job array specification"):
        await box.ask("move", job_id=big, cluster="other")
    assert box.job(big).cluster == "local"
    gpu = (await box.ask("submit", **submission(hold=True, partition="gpu")))["job_id"]
    notes = (await box.ask("move", job_id=gpu, cluster="local"))["notes"]
    assert notes == ["--partition=gpu: not on local; its debug partition is used"]
    assert box.job(gpu).partition == "debug"


class Shared(FakeBackend):
    """A backend whose ids are given out elsewhere, and that keeps what a job needs as it is now."""

    def __init__(self) -> None:
        super().__init__(OTHER.replace(first_job_id=9000, id_ranges=(9000, 1 << 62)))
        self.next = 9000
        self.refusal = ""

    async def reserve(self, first: int) -> range:
        self.next = max(self.next, first) + 10
        return range(self.next - 10, self.next)

    async def try_out(self, job: Job, spool: str, progress: Progress) -> list[str]:
        if self.refusal:
            raise BackendError(self.refusal)
        Path(spool, "staged").write_text(job.array_label)
        return ["staged"]


def test_a_job_gets_an_id_of_the_cluster_whose_ids_are_shared(state_dir: Path) -> None:
    async def inside() -> None:
        shared = Shared()
        box = await Bench(FakeBackend(), Clock(), shared).open()
        try:
            array = await box.submit(array="0-1", hold=True)
            shared.refusal = "no such image"
            with pytest.raises(ShimError, match="other: no such image"):
                await box.ask("move", job_id=array, cluster="other")
            assert box.job(array).cluster == "local"
            shared.refusal = ""
            reply = await box.ask("move", job_id=array, cluster="other")
            there = reply["job_id"]
            assert (there >= 9000, reply["notes"]) == (True, ["staged"])
            job = box.job(there)
            assert (job.array_job_id, job.array_label, job.cluster) == (there, f"{there}_[0-1]", "other")
            assert Path(paths.job_spool(job.key), "staged").read_text() == f"{array}_[0-1]"
            assert await box.results("release_job", {"job_id": array}) == ["Invalid job id specified"]
            await box.results("release_job", {"job_id": there})
            assert {run.job_id for run in shared.starts} == {there, there + 1}

            first = await box.submit(hold=True)
            chained = await box.submit(dependency=f"afterok:{first}")
            with pytest.raises(ShimError, match=f"job {chained} depends on job {first}"):
                await box.ask("move", job_id=first, cluster="other")
        finally:
            await box.close()

    asyncio.run(inside())


def test_a_cluster_with_its_most_jobs_is_asked_for_no_more_and_a_trial_says_so(state_dir: Path) -> None:
    """MaxJobCount. A job that the cluster holds by now is none that could still be refused."""

    async def inside() -> None:
        full = Shared()
        full.cluster = full.cluster.replace(max_jobs=1)
        box = await Bench(FakeBackend(), Clock(), full).open()
        try:
            assert await went(box, "other", hold=True) == "other"
            full.refusal = "it was asked"
            for more in ({}, {"test_only": True}):
                with pytest.raises(ShimError, match="submission failed: Resource temporarily unavailable"):
                    await box.ask("submit", **submission(), cluster="other", **more)
            assert await went(box, "other,local") == "local"
            world = box.controller.world
            assert submitted(world, Client(), submission(), full.cluster, first=9105).job_id == 9105
        finally:
            await box.close()

    asyncio.run(inside())


class Shapeless(Shared):
    """A cluster that tells its nodes when somebody needs them."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.cluster = self.cluster, self.cluster.replace(nodes=(), partitions=())
        self.problem_of_shape = ""

    async def shaped(self) -> Cluster:
        if self.problem_of_shape:
            raise BackendError(self.problem_of_shape)
        return self.whole


def test_a_submission_waits_for_the_nodes_of_its_cluster(state_dir: Path) -> None:
    async def inside() -> None:
        late = Shapeless()
        box = await Bench(FakeBackend(), Clock(), late).open()
        try:
            assert await went(box, "other", cpus_per_task=8) == "other"
            reply = await box.ask("submit", **submission(), cluster="other", test_only=True)
            assert reply["nodes"]
            late.problem_of_shape = "the cluster has not told its nodes yet"
            with pytest.raises(ShimError, match="submission failed: the cluster has not told its nodes yet"):
                await went(box, "other")
        finally:
            await box.close()

    asyncio.run(inside())


class Silent(FakeBackend):
    """A cluster that does not say what runs there until it is told to."""

    def __init__(self) -> None:
        super().__init__(OTHER.replace(backend="kubernetes"))
        self.answers = asyncio.Event()

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        await self.answers.wait()
        await super().recover(runs)


def test_a_cluster_that_does_not_answer_at_a_start_holds_up_no_other(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "PATIENCE", 0.0)

    async def inside() -> None:
        silent = Silent()
        box = await Bench(FakeBackend(), Clock(), silent).open()
        try:
            here = await box.submit()
            there = (await box.ask("submit", **submission(), cluster="other"))["job_id"]
            cancelled = (await box.ask("submit", **submission(), cluster="other"))["job_id"]
            assert (box.job(here).state, box.job(there).state) == ("CONFIGURING", "PENDING")
            assert await box.results("cancel", {"job_id": cancelled}) == [None]
            assert silent.starts == [], "what runs there is not known: nothing is started"
            silent.answers.set()
            await box.settle()
            assert [run.job_id for run in silent.starts] == [there]
        finally:
            await box.close()
        # The same with a run that the index knows: its orders are passed on when the cluster answers.
        silent.answers.clear()
        silent.tell(there, "started")
        again = await Bench(box.backend, box.clock, silent).open()
        try:
            await again.results("cancel", {"job_id": there})
            assert again.job(there).state == "COMPLETING"
            assert silent.orders_of(there) == []
            silent.answers.set()
            await again.settle()
            assert [order.kind for order in silent.orders_of(there)] == ["end"]
            assert len(silent.starts) == 1
        finally:
            await again.close()

    asyncio.run(inside())


class Missing(FakeBackend):
    """A cluster whose kubeconfig is not there; until it is."""

    problem_of_opening = "no kubeconfig"

    async def open(self, observer: Observer) -> Cluster:
        if self.problem_of_opening:
            raise ShimError(f"error: cluster {self.cluster.name}: {self.problem_of_opening}")
        return await super().open(observer)


def test_a_cluster_that_cannot_be_opened_refuses_only_its_own_use(state_dir: Path) -> None:
    async def inside() -> None:
        missing, here = Missing(OTHER), FakeBackend()
        box = await Bench(here, Clock(), missing).open()
        try:
            first = await box.submit()
            assert box.job(first).state == "CONFIGURING"
            held = await box.submit(hold=True)
            for ask in (
                box.ask("submit", **submission(), cluster="other"),
                box.ask("submit", **submission(), cluster="other", test_only=True),
                box.ask("submit", **submission(partition="gpu")),
                box.ask("move", job_id=held, cluster="other"),
            ):
                with pytest.raises(ShimError, match=r"^error: cluster other: no kubeconfig$"):
                    await ask
            assert await went(box, "other,local") == "local"
            reader = open_reader(paths.index_path())
            assert reader is not None
            assert reader.troubles() == [("other", "no kubeconfig")]
            missing.problem_of_opening = ""
            with pytest.raises(ChannelClosed):  # its client asks the next controller
                await box.ask("submit", **submission(), cluster="other")
        finally:
            await box.close()
        box = await Bench(here, Clock(), missing).open()
        try:
            assert await went(box, "other") == "other"
        finally:
            await box.close()

    asyncio.run(inside())


def test_jobs_of_a_cluster_that_cannot_be_opened_are_not_lost(state_dir: Path) -> None:
    async def inside() -> None:
        here, other = FakeBackend(), Missing(OTHER)
        other.problem_of_opening = ""
        box = await Bench(here, Clock(), other).open()
        job_id = int((await box.ask("submit", **submission(), cluster="other"))["job_id"])
        other.tell(job_id, "started")
        await box.settle()
        await box.close()
        other.problem_of_opening = "no kubeconfig"
        box = await Bench(here, Clock(), other).open()
        assert box.job(job_id).state == "RUNNING"
        assert await box.results("cancel", {"job_id": job_id}) == [None]
        await box.close()
        other.problem_of_opening = ""
        box = await Bench(here, Clock(), other).open()
        assert [order.kind for order in other.orders_of(job_id)] == ["end"]
        other.tell(job_id, "ended", state="CANCELLED", status=15)
        await box.settle()
        assert box.job(job_id).state == "CANCELLED"
        await box.close()

    asyncio.run(inside())


class Told:
    """A configuration that remembers where it was told to be."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.files: list[tuple[Any, ...]] = []
        self.stated: list[dict[str, str] | None] = []

    def changed(self, stated: dict[str, str] | None) -> bool:
        self.stated.append(stated)
        return False


@two()
async def test_only_its_own_user_says_where_the_configuration_is(box: Bench, other: FakeBackend) -> None:
    told = Told()
    box.controller._configured = told  # type: ignore[assignment]
    mine = {"SHIM_CONFIG": "/mine"}
    uid = box.controller.world.uid
    for client in (Client(uid, admin=True), Client(uid + 1, admin=True)):
        assert await box.ask("reconfigure", client, configuration=mine) == {"kept": []}
    assert told.stated == [mine, None]
    with pytest.raises(ShimError, match="slurm_reconfigure error: Invalid user id"):
        await box.ask("reconfigure", Client(uid + 1))
