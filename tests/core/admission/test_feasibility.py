"""Whether a request can start on an idle partition: each limit at its edge."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.admission.feasibility import (
    all_cpus,
    exceeds,
    fits_when_idle,
    pending_reason,
    reason_in_partition,
    unavailable_nodes,
    usable_nodes,
)
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.request import INFINITE, JobRequest

SMALL = Node(name="n1", cpus=8, sockets=2, cores_per_socket=4, memory=16000, tmp_disk=100, features=("small",))
LARGE = SMALL.replace(cpus=16, cores_per_socket=8, memory=32000, tmp_disk=500, features=("large",))
NODES = tuple((SMALL if number < 3 else LARGE).replace(name=f"n{number}") for number in range(1, 5))
NAMES = tuple(node.name for node in NODES)


def cluster(**limits: Any) -> Cluster:
    return Cluster(name="c", nodes=NODES, partitions=(Partition(name="p", nodes=NAMES, default=True, **limits),))


def reason(limits: dict[str, Any], **fields: Any) -> str | None:
    of = cluster(**limits)
    return reason_in_partition(JobRequest(**fields), of, of.partitions[0], None)


@pytest.mark.parametrize(
    ("limits", "fields", "expected"),
    [
        ({}, {"ntasks": 48}, None),
        ({}, {"ntasks": 49}, "PartitionConfig"),
        ({"max_cpus_per_node": 10}, {"ntasks": 36}, None),
        ({"max_cpus_per_node": 10}, {"ntasks": 37}, "PartitionConfig"),
        ({}, {"min_nodes": 4}, None),
        ({}, {"min_nodes": 5}, "PartitionNodeLimit"),
        ({"max_nodes": 9}, {"min_nodes": 5}, "PartitionNodeLimit"),
        ({"max_nodes": 2}, {"min_nodes": 2}, None),
        ({"max_nodes": 2}, {"min_nodes": 3}, "PartitionNodeLimit"),
        ({"max_nodes": 2}, {"ntasks": 32}, None),  # on both large nodes
        ({"max_nodes": 2}, {"ntasks": 33}, "PartitionConfig"),
        ({"max_nodes": 2}, {"constraint": "huge"}, "BadConstraints"),
        ({"min_nodes": 2}, {}, None),  # without -N the least that the partition gives
        ({"min_nodes": 2}, {"min_nodes": 1, "max_nodes": 2}, None),
        ({"min_nodes": 2}, {"min_nodes": 1, "max_nodes": 1}, "PartitionNodeLimit"),
        ({"max_time": 60}, {"time_limit": 60}, None),
        ({"max_time": 60}, {"time_limit": 61}, "PartitionTimeLimit"),
        ({"max_time": 60}, {"time_limit": 61, "time_min": 60}, None),
        ({"max_mem_per_node": 32000}, {"mem_per_node": 0}, None),
        ({"max_mem_per_node": 31999}, {"mem_per_node": 0}, "MaxMemPerLimit"),
        ({"max_mem_per_node": 4000}, {"mem_per_node": 4000}, None),
        ({"max_mem_per_node": 4000}, {"mem_per_node": 4001}, "MaxMemPerLimit"),
        ({"max_mem_per_node": 1000}, {"mem_per_cpu": 1000}, None),
        ({"max_mem_per_node": 6400}, {"mem_per_cpu": 400, "exclusive": "node"}, None),  # of sixteen CPUs
        ({"max_mem_per_node": 6399}, {"mem_per_cpu": 400, "exclusive": "node"}, "MaxMemPerLimit"),
        ({"max_nodes": 1}, {}, None),
        ({"max_mem_per_node": 4000}, {"mem_per_cpu": 1000, "cpus_per_task": 2, "ntasks_per_node": 2}, None),
        ({"max_mem_per_node": 3999}, {"mem_per_cpu": 1000, "cpus_per_task": 2, "ntasks_per_node": 2}, "MaxMemPerLimit"),
        ({"state": "DOWN"}, {}, "PartitionDown"),
        ({"state": "INACTIVE"}, {}, "PartitionInactive"),
        ({}, {"constraint": "small", "ntasks": 16}, None),
        ({}, {"constraint": "small", "ntasks": 17}, "BadConstraints"),
    ],
)
def test_the_reason_in_a_partition(limits: dict[str, Any], fields: dict[str, Any], expected: str | None) -> None:
    assert reason(limits, **fields) == expected


def test_a_partition_that_is_gone_keeps_a_job_waiting() -> None:
    assert pending_reason(JobRequest(partition="gone"), cluster()) == "PartitionConfig"
    assert pending_reason(JobRequest(partition="gone,p"), cluster()) is None
    assert pending_reason(JobRequest(), Cluster(name="empty")) == "PartitionConfig"


def test_limits_of_time() -> None:
    assert [exceeds(limit, 60) for limit in (None, 60, 61, INFINITE)] == [False, False, True, True]
    assert not exceeds(INFINITE, None)


def test_all_cpus() -> None:
    of = cluster(max_cpus_per_node=10)
    assert all_cpus(of, of.partitions[0]) == 36


def test_nodes_by_disk_and_sockets() -> None:
    of = cluster()

    def names(**fields: Any) -> str:
        return " ".join(node.name for node in usable_nodes(JobRequest(**fields), of, of.partitions[0]))

    assert names() == "n1 n2 n3 n4"
    assert names(tmp_disk=100) == "n1 n2 n3 n4"
    assert names(tmp_disk=101) == names(cores_per_socket=5) == "n3 n4"
    assert names(sockets_per_node=3) == names(threads_per_core=2) == ""


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        # Neighbours are looked for among all nodes, not among as many as the job takes.
        ({"contiguous": True, "exclude": "n2", "min_nodes": 2}, True),
        ({"contiguous": True, "exclude": "n[2-3]", "min_nodes": 2}, False),
        ({"constraint": "small*1&large*2", "min_nodes": 3}, True),
        ({"constraint": "small*3", "min_nodes": 3}, False),
        ({"exclude": "n[3-4]", "ntasks": 16}, True),
        ({"exclude": "n[3-4]", "ntasks": 17}, False),
        ({"node_list": "n4", "min_nodes": 1}, True),
        ({"node_list": "n2,n4", "ntasks": 24}, True),
        ({"ntasks": 40}, True),
        ({"min_nodes": 1, "max_nodes": 2, "ntasks": 32}, True),
        ({"min_nodes": 1, "max_nodes": 2, "ntasks": 33}, False),
    ],
)
def test_what_fits_when_idle(fields: dict[str, Any], fits: bool) -> None:
    of = cluster()
    assert fits_when_idle(JobRequest(**fields), of, of.partitions[0]) == fits


def test_nodes_that_are_out_of_service() -> None:
    out = tuple(node.replace(state="DRAIN") if node.name == "n4" else node for node in NODES)
    of = cluster().replace(nodes=out)

    def why(**fields: Any) -> str | None:
        return unavailable_nodes(JobRequest(**fields), of, of.partitions[0])

    assert why() is None
    assert why(node_list="n4") == "ReqNodeNotAvail, UnavailableNodes:n4"
    assert why(min_nodes=3) is None
    assert (why(min_nodes=4) or "").startswith("Nodes required for job are DOWN, DRAINED or reserved")
