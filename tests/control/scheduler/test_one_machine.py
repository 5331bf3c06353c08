"""Virtual nodes of one machine: CPUs, memory and GPUs are the machine's; a job alone may have more CPUs than there are."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.scheduler import Plan, plan
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.core.render.node_state import uses

NOW = 1_800_000_000.0
NAMES = ("node1", "node2", "node3", "node4")
MACHINE = Cluster(
    name="local",
    nodes=tuple(
        Node(name=name, cpus=2, cores_per_socket=2, memory=8000, gres=(Gres(name="gpu", count=4),)) for name in NAMES
    ),
    partitions=(Partition(name="local", nodes=NAMES, default=True),),
    settings={"share": "machine"},
)


def pending(key: int, **fields: Any) -> Job:
    return Job(key=key, job_id=key, partition="local", time_limit=10, priority=1000 - key, request=JobRequest(**fields))


def running(key: int, *shares: NodeShare) -> Job:
    return pending(key).replace(state="RUNNING", shares=shares, end_time=NOW + 600)


def started(found: Plan) -> list[int]:
    return [job.key for job, _ in found.starts]


def test_a_job_alone_may_overcommit_the_cpus() -> None:
    found = plan([pending(1, min_nodes=4, max_nodes=4), pending(2)], MACHINE, [], NOW)
    assert started(found) == [1]
    assert [share.name for share in found.starts[0][1]] == list(NAMES)
    assert found.reasons == {2: "Resources"}
    assert found.expected[2][0] == NOW + 600


@pytest.mark.parametrize(
    "fields", [{"min_nodes": 4, "max_nodes": 4, "exclusive": "node"}, {"ntasks": 8}, {"ntasks": 4, "cpus_per_task": 2}]
)
def test_what_fits_the_nodes_waits_for_an_idle_machine_only(fields: dict[str, Any]) -> None:
    assert started(plan([pending(1, **fields)], MACHINE, [], NOW)) == [1]
    found = plan([pending(1, **fields)], MACHINE, [running(90, NodeShare(name="node1", cpus=1))], NOW)
    assert found.starts == []
    assert found.expected[1][0] == NOW + 600


def test_cpus_are_counted_over_all_nodes() -> None:
    busy = [running(90, NodeShare(name="node1", cpus=1))]
    assert started(plan([pending(1), pending(2)], MACHINE, busy, NOW)) == [1]
    # Two nodes of one CPU each are two CPUs of the machine.
    assert started(plan([pending(1, min_nodes=2, max_nodes=2)], MACHINE, busy, NOW)) == []
    assert started(plan([pending(1, min_nodes=2, max_nodes=2)], MACHINE, [], NOW)) == [1]


def test_more_than_the_nodes_shape_never_starts() -> None:
    found = plan([pending(1, ntasks=9), pending(2)], MACHINE, [], NOW)
    assert found.reasons == {1: "PartitionConfig"}
    assert started(found) == [2]


def test_a_gpu_has_one_owner() -> None:
    busy = [running(90, NodeShare(name="node1", cpus=1, gpus=(0, 1)))]
    found = plan([pending(1, gres="gpu:2", node_list="node3")], MACHINE, busy, NOW)
    assert found.starts[0][1][0].gpus == (2, 3)
    assert plan([pending(1, gres="gpu:3")], MACHINE, busy, NOW).reasons == {1: "Resources"}


def test_memory_is_the_machines_and_only_for_those_who_ask() -> None:
    busy = [running(90, NodeShare(name="node1", cpus=1, memory=6000))]
    assert plan([pending(1, mem_per_node=3000)], MACHINE, busy, NOW).reasons == {1: "Resources"}
    assert started(plan([pending(1, mem_per_node=2000)], MACHINE, busy, NOW)) == [1]
    assert started(plan([pending(1)], MACHINE, busy, NOW)) == [1]
    assert found_memory(plan([pending(1)], MACHINE, busy, NOW)) == 0


def found_memory(found: Plan) -> int:
    return sum(share.memory for _, shares in found.starts for share in shares)


def test_a_node_that_is_gone_from_the_configuration_still_counts() -> None:
    busy = [running(90, NodeShare(name="node9", cpus=2, gpus=(0,)))]
    assert started(plan([pending(1)], MACHINE, busy, NOW)) == []


def test_nothing_overtakes_a_job_that_waits_for_the_idle_machine() -> None:
    busy = [running(90, NodeShare(name="node1", cpus=1))]
    wide, long_one, short = pending(1, ntasks=8), pending(2), pending(3).replace(time_limit=9)
    found = plan([wide, long_one.replace(time_limit=11), short], MACHINE, busy, NOW)
    assert started(found) == [3]
    assert found.reasons == {1: "Resources", 2: "Priority"}


def test_nodes_carry_what_they_show_unless_they_share_the_machine() -> None:
    nodes = MACHINE.replace(settings={"share": "devices"})
    jobs = [pending(key) for key in range(1, 10)]
    assert started(plan(jobs, nodes, [], NOW)) == list(range(1, 9))
    assert started(plan(jobs, MACHINE, [], NOW)) == [1, 2]


def test_a_device_has_one_owner_whatever_the_node() -> None:
    nodes = MACHINE.replace(settings={"share": "devices"})
    jobs = [pending(key, gres="gpu:3") for key in (1, 2)]
    assert started(plan(jobs, nodes, [], NOW)) == [1]
    own = nodes.replace(settings={})
    assert started(plan(jobs, own, [], NOW)) == [1, 2]


def test_sinfo_shows_that_the_nodes_are_one_machine() -> None:
    busy = [running(90, NodeShare(name="node1", cpus=1)).replace(cluster="local")]
    assert [use.cpus for use in uses(MACHINE, busy).values()] == [1, 1, 1, 1]
    assert [use.cpus for use in uses(MACHINE.replace(settings={}), busy).values()] == [1, 0, 0, 0]
