"""Jobs of a machine that is gone become records here, once, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import BackendError, Orphan, Run, Taking
from shim.control.controller.operations import adopting as operations
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from tests.control.controller.fakes import NOW, Bench, Client, Clock, FakeBackend

PODS = Cluster(
    name="pods",
    nodes=(Node(name="p1", cpus=4, memory=8000),),
    partitions=(Partition(name="pods", nodes=("p1",), default=True),),
)
RUN = Run(cluster="pods", job_id=7)
JOB = Job(
    cluster="pods",
    job_id=7,
    state=states.CONFIGURING,
    request=JobRequest(name="lost", work_dir="/tmp", requeue=False),
    partition="pods",
    shares=(NodeShare(name="p1"),),
    submit_time=NOW - 100,
)
SEVEN = [{"job_id": 7}]


class Adopter(FakeBackend):
    """Has taken over ``lost``."""

    def __init__(self) -> None:
        super().__init__(PODS)
        self.lost = [Orphan(run=RUN, job=JOB, script=b"#!/bin/sh\n")]
        self.found = Taking(taken=("owner",), waits=(("other", 12.5),), notes=("a note",))
        self.adopted: list[Run] = []

    async def take_over(self) -> Taking:
        await asyncio.sleep(0)
        return self.found

    async def orphans(self) -> list[Orphan]:
        await asyncio.sleep(0)
        return [one for one in self.lost if one.run not in self.adopted]

    async def adopt(self, run: Run) -> None:
        self.adopted.append(run)
        self.journals[run] = []


Test = Callable[[Bench, Adopter], Coroutine[Any, Any, None]]


def adopting(*, later: bool) -> Callable[[Test], Callable[[Path], None]]:
    """Runs a test with a bench; ``later``: there is nothing to be taken in when its controller starts."""

    def made(test: Test) -> Callable[[Path], None]:
        def run(state_dir: Path) -> None:
            async def inside() -> None:
                backend = Adopter()
                lost, backend.lost = backend.lost, [] if later else backend.lost
                box = await Bench(FakeBackend(), Clock(), backend).open()
                backend.lost = lost
                try:
                    await test(box, backend)
                finally:
                    await box.close()

            asyncio.run(inside())

        run.__name__ = test.__name__
        return run

    return made


@adopting(later=True)
async def test_a_lost_job_becomes_one_of_the_user_who_asks(box: Bench, backend: Adopter) -> None:
    reply = await box.ask("adopt", Client(1001))
    assert [(job["job_id"], job["uid"]) for job in reply["jobs"]] == [(7, 1001)]
    assert (reply["waits"], reply["notes"]) == ([["pods", "other", 12.5]], ["cluster pods: a note"])
    assert box.labels() == ["7 CONFIGURING None"]
    backend.tell(7, "started", at=NOW - 90)
    await box.settle()
    assert (box.job(7).state, box.job(7).start_time) == ("RUNNING", NOW - 90)
    assert (await box.ask("script", job_id=7))["script"] == "#!/bin/sh\n"
    assert await box.results("requeue", *SEVEN) == ["Requested operation is presently disabled"]
    backend.tell(7, "ended", state=states.NODE_FAIL, status=0)
    await box.settle()
    assert box.job(7).state == states.NODE_FAIL  # and not in the queue again
    assert (backend.starts, backend.forgotten) == ([], [RUN])


@adopting(later=True)
async def test_asking_twice_at_once_makes_one_record(box: Bench, backend: Adopter) -> None:
    replies = await asyncio.gather(*(box.ask("adopt", cluster="pods") for _ in range(3)))
    assert sum(len(reply["jobs"]) for reply in replies) == 1
    assert box.labels() == ["7 CONFIGURING None"]


@adopting(later=False)
async def test_what_a_killed_controller_took_over_is_taken_in_by_the_next(box: Bench, backend: Adopter) -> None:
    assert backend.adopted == [RUN]
    assert box.labels() == ["7 CONFIGURING None"]


@adopting(later=True)
async def test_of_a_job_whose_end_is_committed_the_rest_is_removed(box: Bench, backend: Adopter) -> None:
    await box.ask("adopt")
    backend.tell(7, "ended", state=states.COMPLETED, status=0)
    await box.settle()
    backend.adopted.clear()  # a controller was killed before its backend had removed everything
    backend.lost = [one.replace(known=True) for one in backend.lost]
    assert (await box.ask("adopt"))["jobs"] == []
    assert backend.forgotten == [RUN, RUN]


@adopting(later=True)
async def test_a_job_whose_number_is_another_s_here_is_left_alone(box: Bench, backend: Adopter) -> None:
    with box.controller.world.book.change() as change:
        change.add(JOB.replace(state=states.COMPLETED, end_time=NOW), NOW)
    assert (await box.ask("adopt"))["jobs"] == []
    assert (backend.adopted, backend.forgotten) == ([], [])


@adopting(later=True)
async def test_where_there_is_nothing_to_adopt_that_is_said(box: Bench, backend: Adopter) -> None:
    with pytest.raises(ShimError, match='cluster "local" is none'):
        await box.ask("adopt", cluster="local")

    async def refused() -> Taking:
        raise BackendError("you may not")

    backend.take_over = refused  # type: ignore[method-assign]
    with pytest.raises(ShimError, match="error: cluster pods: you may not"):
        await box.ask("adopt")


@adopting(later=True)
async def test_an_allocation_ends_without_its_command(box: Bench, backend: Adopter) -> None:
    backend.lost = [one.replace(job=JOB.replace(request=JOB.request.replace(kind="salloc"))) for one in backend.lost]
    await box.ask("adopt")
    key = box.job(7).key
    box.controller.allocations._give_up([key])
    await box.settle()
    assert [order.kind for order in backend.orders_of(7)] == ["end"]


@adopting(later=True)
async def test_a_job_that_never_began_is_recorded_and_forgotten(box: Bench, backend: Adopter) -> None:
    backend.lost = [one.replace(job=JOB.replace(state=states.CANCELLED, end_time=NOW)) for one in backend.lost]
    await box.ask("adopt")
    assert box.job(7).state == states.CANCELLED
    assert (backend.adopted, backend.forgotten) == ([], [RUN])


@adopting(later=True)
async def test_a_cluster_that_has_not_told_what_runs_there_is_waited_for(box: Bench, backend: Adopter) -> None:
    box.controller.world.unseen.add("pods")
    asked = asyncio.ensure_future(box.ask("adopt"))
    await asyncio.sleep(0)
    assert not asked.done()
    box.controller.world.unseen.clear()
    assert [job["job_id"] for job in (await asked)["jobs"]] == [7]


@adopting(later=True)
async def test_a_cluster_that_never_tells_is_named(box: Bench, backend: Adopter) -> None:
    box.controller.world.unseen.add("pods")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "ANSWER", 0.0)
        with pytest.raises(ShimError, match="cluster pods does not answer"):
            await box.ask("adopt")
