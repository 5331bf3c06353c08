"""The Lease that says which of a user's machines orders the user's jobs."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.cluster.lease import SCHEMA, Lease, identity, is_dead
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import FakeCluster

PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/slurm-controller"


class Machine:
    """One that wants the Lease."""

    def __init__(self, cluster: FakeCluster, name: str, duration: int = 60) -> None:
        self.lost = 0

        def lose() -> None:
            self.lost += 1

        self.lease = Lease(cluster.access, "default", name, duration, lose, asyncio.get_running_loop().time)
        self.lease.start()

    @property
    def holds(self) -> bool:
        return self.lease.held.is_set()


def test_one_has_it_and_the_next_when_it_is_given_back() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        first = Machine(cluster, "first")
        await asyncio.sleep(1)
        second = Machine(cluster, "second")
        await asyncio.sleep(300)
        assert (first.holds, second.holds) == (True, False)
        await first.lease.close()
        await asyncio.sleep(5)
        assert second.holds
        await second.lease.close()

    clock.run(inside())


def test_a_machine_that_is_silent_for_the_whole_duration_loses_it_and_hears_so() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        first = Machine(cluster, "first")
        await asyncio.sleep(1)
        cluster.refusals["PUT leases/slurm-controller"] = ApiError(500, "InternalError", "no way there")
        second = Machine(cluster, "second")
        await asyncio.sleep(55)
        cluster.refusals.clear()
        assert not second.holds
        cluster.before["PUT leases/slurm-controller"] = lambda: None
        first.lease._closing.set()  # its machine sleeps
        await asyncio.sleep(70)
        assert second.holds
        first.lease._closing.clear()
        assert not await first.lease.take()
        assert (first.lost, first.holds) == (1, False)
        await second.lease.close()

    clock.run(inside())


def test_a_silent_holder_has_lost_it_at_the_end_of_the_duration_not_a_look_later() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        spec: dict[str, Any] = {"holderIdentity": "silent", "leaseDurationSeconds": 60}
        cluster._put("ADDED", PATH, {"metadata": {"uid": "u"}, "spec": spec})
        machine = Machine(cluster, "first")
        await asyncio.sleep(59)
        assert not machine.holds
        await asyncio.sleep(2)
        assert machine.holds
        await machine.lease.close()

    clock.run(inside())


def test_who_has_lost_it_unheard_does_not_give_back_anothers() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        machine = Machine(cluster, "first")
        await asyncio.sleep(1)
        spec: dict[str, Any] = {"holderIdentity": "second", "leaseDurationSeconds": 60}
        cluster._put("MODIFIED", PATH, {"metadata": {"uid": "u"}, "spec": spec})
        await machine.lease.close()
        assert cluster.objects[PATH]["spec"]["holderIdentity"] == "second"

    clock.run(inside())


def test_of_two_that_take_it_at_the_same_time_one_has_it() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        machines = [Machine(cluster, name) for name in ("first", "second")]
        await asyncio.sleep(1)
        assert sorted(one.holds for one in machines) == [False, True]
        for one in machines:
            await one.lease.close()

    clock.run(inside())


def test_one_that_a_later_version_holds_is_left_alone() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        spec: dict[str, Any] = {"holderIdentity": "", "leaseDurationSeconds": 1}
        cluster._put("ADDED", PATH, {"metadata": {"annotations": {SCHEMA: "3"}, "uid": "u"}, "spec": spec})
        machine = Machine(cluster, "first")
        await asyncio.sleep(300)
        assert not machine.holds
        await machine.lease.close()

    clock.run(inside())


def test_where_leases_are_refused_everybody_goes_on_and_asks_again() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        text = 'leases is forbidden: User "me" cannot create resource "leases"'
        cluster.refusals["POST leases/slurm-controller"] = ApiError(403, "Forbidden", text)
        machine = Machine(cluster, "first")
        await asyncio.sleep(5)
        assert machine.holds
        cluster.refusals.clear()
        await asyncio.sleep(30)
        assert cluster.objects[PATH]["spec"]["holderIdentity"] == "first"
        await machine.lease.close()

    clock.run(inside())


def test_a_process_of_this_machine_that_has_ended_holds_nothing() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        own = identity("owner")
        words = own.split(".")
        assert not is_dead(own)
        assert not is_dead("another.machine.1.5")
        assert not is_dead("of-a-version-before")
        assert is_dead(".".join([*words[:2], str(os.getpid()), "1"]))  # the pid is another process' by now
    finally:
        child.kill()
        child.wait()
    assert is_dead(".".join([*words[:2], str(child.pid), "1"]))
