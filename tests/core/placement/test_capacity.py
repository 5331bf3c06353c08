"""What a job's tasks can have of one node: each limit at its edge."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.model.cluster import Cluster, Gres, Node
from shim.core.model.request import JobRequest
from shim.core.placement.capacity import NodeFree, cap_gpus, gpu_limit, usable_cpus
from shim.core.placement.resolve import memory_rule, resolve

NODE = Node(
    name="n1",
    cpus=8,
    sockets=2,
    cores_per_socket=4,
    memory=16000,
    gres=(Gres(name="gpu", type="a100", count=2), Gres(name="shard", count=1), Gres(name="shard", type="x", count=2)),
)
THREADS = NODE.replace(cpus=16, threads_per_core=2)
FREE = NodeFree(node=NODE, cpus=8, memory=16000, gpus=(0, 1))
N20 = {"ntasks": 20, "overcommit": True}


def usable(options: dict[str, Any], free: NodeFree) -> int:
    request = JobRequest(**options)
    return usable_cpus(resolve(request), memory_rule(request, Cluster(name="c")), free)


@pytest.mark.parametrize(
    ("options", "free", "cpus"),
    [
        ({}, {}, 8),
        ({}, {"cpus": 3}, 3),
        ({}, {"cpus": 0}, 0),
        ({"cpus_per_task": 3}, {}, 8),  # CPUs count, not tasks
        ({"cpus_per_task": 3, "gres": "gpu:1"}, {}, 6),  # but with GPUs
        ({"cpus_per_task": 3}, {"cpus": 2}, 0),
        ({"min_cpus": 8}, {}, 8),
        ({"min_cpus": 8}, {"cpus": 7}, 0),
        ({"mem_per_node": 4000}, {"memory": 4000}, 8),
        ({"mem_per_node": 4000}, {"memory": 3999}, 0),
        ({"mem_per_node": 0}, {}, 8),
        ({"mem_per_node": 0}, {"memory": 15999}, 0),
        ({"mem_per_cpu": 4000}, {}, 4),
        ({"mem_per_cpu": 4000}, {"memory": 3999}, 0),
        ({"mem_per_cpu": 4000, "cpus_per_task": 5}, {}, 0),
        ({"exclusive": "node"}, {}, 8),
        ({"exclusive": "node"}, {"cpus": 7}, 0),
        ({"exclusive": "user"}, {"cpus": 7}, 7),
        ({"ntasks_per_node": 2, "cpus_per_task": 2}, {}, 4),
        ({"ntasks_per_node": 2, "cpus_per_task": 2}, {"cpus": 3}, 0),
        (
            {"ntasks_per_node": 3, "cpus_per_task": 3, "ntasks": 1},
            {},
            0,
        ),  # one task; but the node has no room for three
        ({"ntasks_per_node": 2, "cpus_per_task": 4, "ntasks": 1}, {"cpus": 5}, 5),
        (N20, {}, 20),
        ({**N20, "cpus_per_task": 2}, {}, 40),
        ({"overcommit": True}, {}, 1),
        ({**N20, "ntasks_per_node": 5}, {}, 5),
        ({**N20, "ntasks_per_node": 8}, {}, 8),
        ({**N20, "ntasks_per_node": 9}, {}, 0),
        ({"ntasks_per_socket": 1}, {}, 2),
        ({"ntasks_per_socket": 1, "cpus_per_task": 2}, {}, 4),
        ({"ntasks_per_socket": 4}, {}, 8),
        ({"ntasks_per_socket": 5}, {}, 0),
        ({**N20, "ntasks_per_socket": 1}, {}, 20),
        ({**N20, "ntasks_per_socket": 5}, {}, 0),
        ({"ntasks_per_socket": 4, "cpus_per_task": 2}, {}, 8),
        ({"ntasks_per_socket": 4, "cpus_per_task": 3}, {}, 0),
        ({"ntasks_per_socket": 4, "cpus_per_task": 3, **N20}, {}, 60),
        ({"ntasks_per_socket": 8}, {"node": THREADS, "cpus": 16}, 16),
        ({"ntasks_per_core": 1}, {"node": THREADS, "cpus": 16}, 8),
        ({"ntasks_per_core": 2}, {"node": THREADS, "cpus": 16}, 16),
        ({"ntasks_per_core": 1, **N20}, {}, 20),
        ({"gpus_per_node": "2"}, {}, 8),
        ({"gpus_per_node": "2"}, {"gpus": (1,)}, 0),
        ({"gpus_per_node": "a100:2"}, {}, 8),
        ({"gpus_per_node": "v100:1"}, {}, 0),
        ({"gpus_per_node": "2", "cpus_per_gpu": 4}, {}, 8),
        ({"gpus_per_node": "2", "cpus_per_gpu": 5}, {}, 0),
        ({"gpus_per_node": "2", "mem_per_gpu": 8000}, {}, 8),
        ({"gpus_per_node": "2", "mem_per_gpu": 8001}, {}, 0),
        ({"exclusive": "node", "gpus_per_node": "1", "cpus_per_gpu": 4}, {}, 8),
        ({"exclusive": "node", "gpus_per_node": "1", "cpus_per_gpu": 5}, {}, 0),  # with both of its GPUs
        ({"exclusive": "node", "gpus_per_node": "1", "cpus_per_gpu": 5}, {"gpus": (0,)}, 8),
        ({"gres": "shard:3"}, {}, 8),
        ({"gres": "shard:4"}, {}, 0),
        ({"gres": "tape:1"}, {}, 0),
        ({"gpus": "1"}, {}, 8),
        ({"gpus": "1"}, {"gpus": ()}, 0),
        ({"gpus": "a100:1"}, {}, 8),
        ({"gpus": "v100:1"}, {}, 0),
        ({"gpus_per_task": "1", "ntasks": 4}, {}, 2),
        ({"gpus_per_task": "1", "ntasks": 4, "cpus_per_task": 3}, {}, 6),
        ({"gpus_per_task": "1", "ntasks": 4, "cpus_per_gpu": 3}, {"cpus": 5}, 3),
        ({"gpus_per_task": "1", "ntasks": 4, "mem_per_gpu": 9000}, {}, 1),
        ({"gpus_per_task": "2", "ntasks": 4}, {}, 1),
        ({"gpus_per_task": "3", "ntasks": 4}, {}, 0),
    ],
)
def test_usable_cpus(options: dict[str, Any], free: dict[str, Any], cpus: int) -> None:
    assert usable(options, FREE.replace(**free)) == cpus


def test_gpus_that_have_the_cpus_and_the_memory() -> None:
    for options, limit in (({}, 2), ({"cpus_per_gpu": 8}, 1), ({"mem_per_gpu": 16001}, 0), ({"mem_per_gpu": 16000}, 1)):
        request = JobRequest(gpus="2", **options)
        assert gpu_limit(resolve(request), memory_rule(request, Cluster(name="c")), FREE) == limit


def test_of_some_gpus_those_of_the_named_types_are_kept() -> None:
    types = ["a", "b", "c"]
    assert cap_gpus((("c", 1),), types, 2) == ["c", "a"]
    assert cap_gpus((("", 1), ("b", 1)), types, 1) == ["b"]
    assert cap_gpus((("", 1),), types, 2) == ["a", "b"]
