"""Nothing is left behind: what is refused is tried again, and no write comes after a removal."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes import lease, names, tickets
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.errors import ApiError
from shim.core.model import states
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.stage import RUN
from tests.control.backends.kubernetes.test_adopting import JOB, Homes, ended, homes

__all__ = ["homes"]
DOWN = ApiError(0, "Timeout", "the API server does not answer in time")


def left(homes: Homes) -> list[str]:
    return [path for path in homes.cluster.objects if "slurm-7" in path or "/leases/" in path]


async def handed_over(homes: Homes) -> tuple[KubernetesBackend, KubernetesBackend, str]:
    """Two homes that are both open: the first was away, the second carries on with its job. And what the Lease is called."""
    await (await homes.begun()).close()
    second = await homes.taken()
    await second.orphans()
    await second.adopt(RUN)
    watchers = list(homes.cluster.watchers)
    first = await homes.open("a", [(RUN, 1)])
    homes.cluster.watchers += watchers
    return first, second, f"leases/{names.lease(first._site.owner)}"


def enter(homes: Homes, name: str) -> None:
    """What is called from here on is this home's."""
    os.environ["SHIM_STATE_DIR"] = str(homes.folder / name)


@pytest.mark.parametrize("word", ["get", "put", "post"])
def test_a_sign_of_life_that_is_under_way_leaves_no_lease_when_both_homes_let_go(
    homes: Homes, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    async def inside() -> None:
        first, second, name = await handed_over(homes)
        await first.forget(RUN)
        await asyncio.sleep(5)
        assert f"DELETE {name}" in homes.cluster.said
        (estate,) = second._estates.adopted.values()
        reached = asyncio.Event()
        work = getattr(homes.cluster, word)

        async def slow(path: str, *words: Any) -> Any:
            if "/leases" in path and not reached.is_set():
                reached.set()
                await asyncio.sleep(60)
            return await work(path, *words)

        monkeypatch.setattr(homes.cluster, word, slow)
        sign = asyncio.ensure_future(estate.lease.renew())
        await reached.wait()
        enter(homes, "b")
        homes.cluster.vanish(JOB)
        await second.forget(RUN)
        await asyncio.sleep(300)
        await asyncio.wait([sign])
        assert sign.exception() is None or isinstance(sign.exception(), lease.TakenOver)
        assert left(homes) == []
        assert second._estates.adopted == {}
        await second.close()
        await first.close()

    clock.run(inside())


def test_an_object_that_cannot_be_removed_now_is_removed_later(homes: Homes) -> None:
    async def inside() -> None:
        home = await homes.begun()
        ended(homes)
        await asyncio.sleep(5)
        homes.cluster.refusals["DELETE jobs/slurm-7"] = DOWN
        await home.forget(RUN)
        await asyncio.sleep(300)
        assert JOB in homes.cluster.objects
        with pytest.raises(BackendError, match="not removed yet"):
            await homes.start(home)
        assert tickets.known("k8s") == [RUN]  # the next controller would find it
        homes.cluster.refusals.clear()
        await asyncio.sleep(100)
        assert tickets.known("k8s") == []
        await home.close()
        assert left(homes) == []

    clock.run(inside())


@pytest.mark.parametrize("stuck", [False, True])
def test_another_try_waits_for_pods_of_the_one_before_but_not_for_ever(homes: Homes, stuck: bool) -> None:
    async def inside() -> None:
        home = await homes.begun()
        pod = homes.cluster.pod(0)
        del pod["metadata"]["ownerReferences"]  # the garbage collector has not heard of the Job's end
        homes.cluster.changed(pod)
        ended(homes)
        await asyncio.sleep(5)
        name = pod["metadata"]["name"]
        homes.cluster.refusals[f"DELETE pods/{name}"] = DOWN
        await home.forget(RUN)
        await asyncio.sleep(30)
        assert tickets.known("k8s") == []
        with pytest.raises(BackendError, match="not removed yet"):
            await homes.start(home)
        if not stuck:
            homes.cluster.refusals.clear()
        await asyncio.sleep(30)
        assert any(name in path for path in homes.cluster.pods()) == stuck
        await homes.start(home)
        await home.close()

    clock.run(inside())


def test_an_error_while_a_run_is_let_go_leaves_nothing_of_it(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        home = await homes.begun()
        ended(homes)
        await asyncio.sleep(5)

        async def fail() -> None:
            raise KeyError("do")

        life = home._lives[RUN]
        monkeypatch.setattr(life, "forget", fail)
        await home.forget(RUN)
        await asyncio.sleep(5)
        await life.close()
        await home.close()
        assert left(homes) == []

    clock.run(inside())


def test_the_lease_of_a_name_before_is_removed_when_that_can_be_done(homes: Homes) -> None:
    async def inside() -> None:
        first, second, name = await handed_over(homes)
        homes.cluster.refusals[f"DELETE {name}"] = DOWN
        await first.forget(RUN)
        await asyncio.sleep(5)
        await first.close()
        first = await homes.open("a")
        await asyncio.sleep(5)
        assert f"DELETE {name}" not in homes.cluster.said
        homes.cluster.refusals.clear()
        await asyncio.sleep(60)
        assert f"DELETE {name}" in homes.cluster.said
        await first.close()
        await second.close()

    clock.run(inside())


def test_a_lease_that_nobody_needs_is_removed_when_that_can_be_done(homes: Homes) -> None:
    async def inside() -> None:
        first, second, name = await handed_over(homes)
        await first.forget(RUN)
        await asyncio.sleep(300)
        assert left(homes)  # the second home has it, and knows that the owner needs it no more
        enter(homes, "b")
        homes.cluster.refusals[f"DELETE {name}"] = DOWN
        ended(homes)
        await asyncio.sleep(5)
        await second.forget(RUN)
        await asyncio.sleep(60)
        assert len(second._estates.adopted) == 1
        homes.cluster.refusals.clear()
        await asyncio.sleep(100)
        assert second._estates.adopted == {}
        assert left(homes) == []
        await second.close()
        await first.close()

    clock.run(inside())


def test_a_home_that_has_let_its_job_go_never_removes_it(homes: Homes) -> None:
    async def inside() -> None:
        first, second, _name = await handed_over(homes)
        for _ in range(2):  # the second time it has another name, and there is no ticket
            await first.forget(RUN)
            await asyncio.sleep(5)
        assert JOB in homes.cluster.objects
        assert [path for path in homes.cluster.objects if path.endswith(first._site.owner)] == []
        await first.close()
        await second.close()

    clock.run(inside())


def test_a_lease_is_removed_by_a_controller_that_never_wrote_it(homes: Homes) -> None:
    async def inside() -> None:
        home = await homes.begun()
        ended(homes)
        await asyncio.sleep(5)
        await home.forget(RUN)
        await asyncio.sleep(5)
        await home._site.close()  # killed
        home = await homes.open("a")
        assert [path.split("/")[-1] for path in left(homes)] == [names.lease(home._site.owner)]
        await home.close()
        assert left(homes) == []

    clock.run(inside())


def test_a_run_whose_loss_is_seen_at_its_start_is_told(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def inside() -> None:
        await (await homes.begun()).close()
        await (await homes.taken()).close()
        read = homes.cluster.get

        async def get(path: str, query: Any = None) -> Any:
            if "/leases/" in path:
                raise DOWN
            return await read(path, query)

        monkeypatch.setattr(homes.cluster, "get", get)
        first = await homes.open("a", [(RUN, 0)])
        assert homes.told.kinds == []  # whose job it is cannot be known yet
        monkeypatch.setattr(homes.cluster, "get", read)
        await homes.start(first)
        assert (homes.told.kinds, homes.told.last["state"]) == (["waits", "ended"], states.CANCELLED)
        await first.close()

    clock.run(inside())


def test_the_secret_of_a_run_that_began_is_removed_when_that_can_be_done(homes: Homes) -> None:
    async def inside() -> None:
        homes.cluster.refusals["DELETE secrets/slurm-7"] = DOWN
        home = await homes.begun()
        await asyncio.sleep(60)
        assert homes.cluster.ticket() is not None
        await home.close()
        home = await homes.open("a", [(RUN, 1)])
        homes.cluster.refusals.clear()
        await asyncio.sleep(60)
        assert homes.cluster.ticket() is None
        await home.close()

    clock.run(inside())


def test_who_takes_a_run_over_that_began_sees_that_nothing_of_it_begins_again(homes: Homes) -> None:
    async def inside() -> None:
        homes.cluster.refusals["DELETE secrets/slurm-7"] = DOWN
        await (await homes.begun()).close()
        homes.cluster.refusals.clear()
        second = await homes.taken()
        await second.orphans()
        assert homes.cluster.ticket() is None
        await second.close()

    clock.run(inside())
