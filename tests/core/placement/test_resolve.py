"""A request completed: what each rule makes of what the user left open."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.model.cluster import Cluster, Partition
from shim.core.model.request import JobRequest
from shim.core.placement.resolve import MemoryRule, memory_rule, resolve

N2 = {"min_nodes": 2, "max_nodes": 2}
ARBITRARY = {"node_list": "n3,n1,n3", "distribution": "arbitrary"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"min_nodes": 1, "max_nodes": None, "ntasks": None, "cpus": 1, "min_cpus": 1, "fixed_nodes": False}),
        # -N: a number, a range, a range without end; never more nodes than tasks
        ({"min_nodes": 2}, {"min_nodes": 2, "max_nodes": 2, "fixed_nodes": True}),
        ({"min_nodes": 2, "max_nodes": 0}, {"min_nodes": 2, "max_nodes": None}),
        ({"min_nodes": 2, "max_nodes": 4, "ntasks": 2}, {"min_nodes": 2, "max_nodes": 4}),
        ({"min_nodes": 3, "max_nodes": 4, "ntasks": 2}, {"min_nodes": 2, "max_nodes": 2}),
        ({"min_nodes": 3, "max_nodes": 0, "ntasks": 2}, {"min_nodes": 3, "max_nodes": None}),  # a partition's MinNodes
        ({"min_nodes": 3, "max_nodes": 4, "ntasks": 2, "node_list": "n1"}, {"min_nodes": 3, "max_nodes": 4}),
        ({"node_list": "n[1-3]"}, {"min_nodes": 3, "max_nodes": 3, "required": ("n1", "n2", "n3"), "ntasks": None}),
        ({"node_list": "n[1-3]", "ntasks": 5}, {"min_nodes": 3, "max_nodes": None}),
        ({"node_list": "n1,n1", "exclude": "n[2-3]"}, {"required": ("n1",), "excluded": ("n2", "n3")}),
        # nodes by GPUs, unless -N says how many
        ({"gpus": "4", "gpus_per_node": "2"}, {"min_nodes": 2, "max_nodes": 2, "fixed_nodes": True, "cpus": 1}),
        ({"min_nodes": 3, "gpus": "6", "gpus_per_node": "2"}, {"min_nodes": 3, "max_nodes": 3}),
        ({"gpus": "a:4,b:2", "gpus_per_node": "a:2,b:2"}, {"min_nodes": 2}),
        ({"gpus": "1", "gpus_per_node": "2"}, {"min_nodes": 1}),
        ({"gres": "gpu:1,shard:3", "gpus_per_node": "2"}, {"node_gpus": (("", 2),), "node_gres": (("shard", 3),)}),
        ({"gpus_per_socket": "2"}, {"node_gpus": (("", 2),)}),
        ({"gpus_per_socket": "2", "sockets_per_node": 3}, {"node_gpus": (("", 6),)}),
        # tasks
        (
            {"ntasks_per_node": 3, **N2},
            {"ntasks": 6, "each_node": 3, "tasks_per_node": 3, "min_cpus": 3, "one_node": 3},
        ),
        ({"ntasks_per_node": 3, "ntasks": 4, **N2}, {"ntasks": 4, "each_node": None, "tasks_per_node": 3}),
        ({"ntasks_per_node": 3, "ntasks": 1}, {"min_cpus": 1, "one_node": 3}),
        ({"ntasks_per_node": 3, "overcommit": True}, {"min_cpus": 1}),
        ({"ntasks_per_node": 3, "cpus_per_task": 2}, {"min_cpus": 6, "one_node": 6}),
        ({"ntasks_per_node": 3, "cpus_per_task": 2, "min_cpus": 7}, {"min_cpus": 7}),
        ({"gpus": "6", "gpus_per_task": "2"}, {"ntasks": 3, "task_gpus": (("", 2),)}),
        ({"gpus": "1", "gpus_per_task": "2"}, {"ntasks": 1}),
        ({"ntasks_per_gpu": 2, "gpus": "3"}, {"ntasks": 6}),
        ({"ntasks_per_gpu": 2, "gpus": "2", "ntasks": 3}, {"ntasks": 4, "cpus": 3}),
        ({"ntasks_per_gpu": 2, "gpus_per_node": "2", **N2}, {"ntasks": 8, "job_gpus": (), "each_node": 4}),
        ({"ntasks_per_gpu": 2, "ntasks": 5}, {"job_gpus": (("", 3),)}),
        ({"ntasks_per_gpu": 2, **N2}, {"ntasks": 4}),
        ({"ntasks_per_gpu": 2, "min_nodes": 2}, {"ntasks": 4}),
        ({"ntasks_per_gpu": 2, "min_nodes": 2, "max_nodes": 3}, {"ntasks": None}),
        ({"ntasks_per_gpu": 2, "gpus": "4", "min_nodes": 2, "max_nodes": 3}, {"min_nodes": 2, "max_nodes": 2}),
        ({"ntasks_per_gpu": 2, "gpus": "4", "min_nodes": 1, "max_nodes": 3}, {"min_nodes": 1, "max_nodes": 3}),
        # -m arbitrary: srun's tasks are the words of the list; a batch job gets the nodes only
        ({"kind": "run", **ARBITRARY}, {"ntasks": 3, "required": ("n3", "n1")}),
        ({"kind": "run", **ARBITRARY, "ntasks": 1}, {"ntasks": 1, "required": ("n3",)}),
        ({"kind": "batch", **ARBITRARY}, {"ntasks": None, "required": ("n3", "n1")}),
        ({"kind": "run", "node_list": "n3,n1,n3"}, {"ntasks": None}),
        # --spread-job: up to a node a task
        ({"spread_job": True, "ntasks": 5}, {"min_nodes": 1, "max_nodes": 5}),
        ({"spread_job": True, "ntasks": 5, "max_nodes": 3}, {"max_nodes": 3}),
        ({"spread_job": True, "ntasks": 1, "node_list": "n[1-3]"}, {"min_nodes": 3, "max_nodes": 3}),
        ({"spread_job": True, "ntasks": 5, "gpus": "2"}, {"max_nodes": None}),
        # %C of a pending job
        ({"ntasks": 3, "cpus_per_task": 2}, {"cpus": 6}),
        ({"ntasks": 3, "cpus_per_task": 2, "overcommit": True, **N2}, {"cpus": 2}),
        ({"overcommit": True, "cpus_per_task": 3, **N2}, {"cpus": 2}),
        ({"overcommit": True, "node_list": "n[1-3]", "min_nodes": 1}, {"cpus": 3}),
        ({"cpus_per_task": 3, **N2}, {"cpus": 6}),
        ({"cpus_per_task": 3, "min_nodes": 2, "max_nodes": 4}, {"cpus": 3}),
        ({"node_list": "n[1-3]", "min_nodes": 1, "max_nodes": 4}, {"cpus": 3}),
        ({"node_list": "n[1-3]"}, {"cpus": 3}),
        ({"exclusive": "node"}, {"whole": True}),
        ({"exclusive": "user"}, {"whole": False}),
    ],
)
def test_resolve(options: dict[str, Any], expected: dict[str, Any]) -> None:
    found = resolve(JobRequest(**options))
    assert {name: getattr(found, name) for name in expected} == expected


def test_whether_generic_resources_are_asked_for() -> None:
    for options in ({"gpus": "1"}, {"gpus_per_node": "1"}, {"ntasks": 2, "gpus_per_task": "1"}, {"gres": "shard:1"}):
        assert resolve(JobRequest(**options)).has_gres  # type: ignore[arg-type]
    assert not resolve(JobRequest(ntasks=2, gres="gpu:0")).has_gres


@pytest.mark.parametrize(
    ("options", "partition", "cluster", "rule"),
    [
        ({}, {}, {}, MemoryRule()),
        ({"mem_per_node": 5, "mem_per_cpu": 6}, {}, {}, MemoryRule(per_node=5)),
        ({"mem_per_cpu": 6}, {"def_mem_per_node": 7}, {}, MemoryRule(per_cpu=6)),
        ({"mem_per_cpu": 0}, {}, {}, MemoryRule(per_node=0)),
        ({"mem_per_gpu": 8}, {}, {"def_mem_per_cpu": 7}, MemoryRule(per_gpu=8)),
        ({}, {"def_mem_per_cpu": 1}, {"def_mem_per_cpu": 2}, MemoryRule(per_cpu=1)),
        ({}, {}, {"def_mem_per_cpu": 2}, MemoryRule(per_cpu=2)),
        ({}, {}, {"def_mem_per_node": 3}, MemoryRule(per_node=3)),
        ({}, {"def_mem_per_node": 4}, {"def_mem_per_cpu": 2}, MemoryRule(per_node=4)),
        ({}, {"def_mem_per_node": 0}, {"def_mem_per_cpu": 2}, MemoryRule()),
        ({"mem_per_node": 5}, {}, {"counts_memory": False}, MemoryRule()),
    ],
)
def test_memory_rule(
    options: dict[str, Any], partition: dict[str, Any], cluster: dict[str, Any], rule: MemoryRule
) -> None:
    within = Partition(name="p", nodes=(), **partition)
    assert memory_rule(JobRequest(**options), Cluster(name="c", **cluster), within) == rule


def test_memory_that_is_charged() -> None:
    assert MemoryRule(per_node=5).of(100, 2, 3) == 5
    assert MemoryRule(per_node=0).of(100, 2, 3) == 100
    assert MemoryRule(per_cpu=7, per_gpu=11).of(100, 2, 3) == 47
    assert MemoryRule().of(100, 2, 3) == 0
