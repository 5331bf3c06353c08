"""The stock of ids that several controllers share out: none is passed over, none is asked for twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shim.control.controller.ids import LOW, IdStock
from shim.control.index.opening import open_store
from shim.control.index.store import Store
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest


class Counter:
    """Gives blocks of ten, each after a while."""

    def __init__(self) -> None:
        self.following = 1

    async def reserve(self, first: int) -> range:
        for _ in range(3):
            await asyncio.sleep(0)
        begin = max(first, self.following)
        self.following = begin + 10
        return range(begin, begin + 10)


def test_no_id_is_passed_over_while_more_are_asked_for(tmp_path: Path) -> None:
    async def inside() -> list[int]:
        stock = IdStock(open_store(str(tmp_path / "index.db")), Cluster(name="k8s"), Counter())
        given, beside = [], []
        for _ in range(35):
            await stock.ensure()
            if len(stock) < LOW:
                beside.append(asyncio.create_task(stock.ensure(LOW)))
            given.append(stock.take())
            await asyncio.sleep(0)
        await asyncio.gather(*beside)
        return given

    assert asyncio.run(inside()) == list(range(1, 36))


def test_ids_lie_above_all_that_the_index_has_of_the_cluster(tmp_path: Path) -> None:
    """Also where the counter in the cluster was lost, or begins anew in another namespace."""

    async def first_id(store: Store, cluster: Cluster) -> int:
        stock = IdStock(store, cluster, Counter())
        await stock.ensure()
        return stock.take()

    store = open_store(str(tmp_path / "index.db"))
    for job_id, name in ((70, "k8s"), (64, "k8s"), (900, "other")):
        store.add_job(Job(job_id=job_id, cluster=name, request=JobRequest()))
    k8s = Cluster(name="k8s", first_job_id=5)
    assert asyncio.run(first_id(store, k8s)) == 71
    assert asyncio.run(first_id(store, Cluster(name="fresh", first_job_id=5))) == 5
    store.close()
