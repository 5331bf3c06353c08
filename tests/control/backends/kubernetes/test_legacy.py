"""Runs that the version before has started: followed to their end, and never begun again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from shim.control.backends.base import BackendError, Order
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.run.legacy import Legacy
from shim.core.model import states
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster
from tests.control.backends.kubernetes.fakeleader import FakeLeader
from tests.control.backends.kubernetes.stage import RUN, SETTINGS, Stage

LABELS = {names.MANAGED: names.MANAGER, names.JOB_ID: "7", names.RESTART: "0", "slurm-shim.io/submission": "s"}


async def begun(*kinds: str, seen: int = 1) -> tuple[Stage, Legacy, FakeLeader]:
    """A run of one pod that runs, as the version before has left it."""
    cluster = FakeCluster()
    stage = await Stage(cluster).open(1)
    template = {"metadata": {"labels": LABELS}, "spec": {}}
    await cluster.post(
        JOBS, {"metadata": {"name": "slurm-7", "labels": LABELS}, "spec": {"completions": 1, "template": template}}
    )
    cluster.run("n1")
    path = Path(run_folders.ensure(RUN, b"k" * 32))
    (path / "ticket").write_text(json.dumps({"submission": "s", "made": True, "torn": True}))
    leader = cluster.leader = FakeLeader(b"k" * 32)
    for kind in kinds:
        leader.line(kind)
    one = Legacy(stage.site, RUN, 1, SETTINGS, stage.told, seen)
    stage.driver.poke = one.poke  # type: ignore[method-assign]
    await asyncio.sleep(1)
    return stage, one, leader


async def end(stage: Stage, one: Legacy) -> None:
    await one.close()
    await stage.end()


def test_it_is_followed_to_its_end_and_its_objects_go() -> None:
    async def inside() -> None:
        stage, one, leader = await begun("started")
        leader.line("ended", state="COMPLETED", status=0)
        await asyncio.sleep(1)
        assert stage.told.last["state"] == "COMPLETED"
        await one.forget()
        await asyncio.sleep(1)
        assert one.done.is_set()
        assert f"{JOBS}/slurm-7" not in stage.cluster.objects
        assert run_folders.known("k8s") == []
        await end(stage, one)

    clock.run(inside())


@pytest.mark.parametrize("how", ["gone", "silent", "cancelled"])
def test_one_that_is_gone_is_told_so_and_not_begun_again(how: str) -> None:
    async def inside() -> None:
        stage, one, _leader = await begun("started")
        if how == "gone":
            stage.cluster.vanish(stage.cluster.pods()[0])
        else:
            stage.cluster.blackout()
        if how == "cancelled":
            one.order(Order(number=1, kind="end", state="CANCELLED"))
        one.poke()
        await asyncio.sleep(SETTINGS.node_wait - 30)
        assert [line["kind"] for line in stage.told.ends] == {"gone": ["lost"], "silent": [], "cancelled": ["ended"]}[
            how
        ]
        await asyncio.sleep(60)
        assert len(stage.told.ends) == 1
        assert not [one for one in stage.cluster.said if "slurm-7-r" in one]
        await end(stage, one)

    clock.run(inside())


def test_the_next_run_waits_until_its_pods_have_ended() -> None:
    async def inside() -> None:
        stage, one, _leader = await begun("started")
        stage.job = stage.job.replace(restarts=1, state=states.PENDING)
        with pytest.raises(BackendError, match="still there"):
            await stage.start(restart=1)
        stage.cluster.state(0, "terminated", exitCode=0)
        await stage.start(restart=1)
        assert (stage.register.run, stage.register.restart) == (1, 1)  # its names are another's
        await end(stage, one)

    clock.run(inside())
