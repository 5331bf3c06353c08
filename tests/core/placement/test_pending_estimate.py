"""What squeue %D %C and scontrol NumNodes/NumCPUs/NumTasks show of pending jobs: the measured table."""

from __future__ import annotations

import pytest

from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.request import JobRequest
from shim.core.placement.pending_estimate import pending_estimate
from tests.core.placement.shapes import cluster

N1 = {"min_nodes": 1, "max_nodes": 1}
N2 = {"min_nodes": 2, "max_nodes": 2}


@pytest.mark.parametrize(
    ("options", "num_nodes", "nodes", "cpus", "tasks"),
    [
        ({}, "1", 1, 1, 1),
        (N2, "2-2", 2, 2, 2),
        ({"min_nodes": 2, "max_nodes": 4}, "2-4", 2, 1, 2),
        ({"min_nodes": 1, "max_nodes": 4, "ntasks": 6}, "1-4", 1, 6, 6),
        ({"ntasks": 4}, "1", 1, 4, 4),
        ({"ntasks": 9}, "2", 2, 9, 9),
        ({"ntasks": 33}, "5", 5, 33, 33),
        ({**N2, "ntasks": 5}, "2-2", 2, 5, 5),
        ({"min_nodes": 4, "max_nodes": 4, "ntasks": 2}, "2-2", 2, 2, 2),
        ({"cpus_per_task": 4}, "1", 1, 4, 1),
        ({"ntasks": 3, "cpus_per_task": 4}, "2", 2, 12, 3),
        ({**N2, "ntasks_per_node": 3}, "2-2", 2, 6, 6),
        ({"ntasks_per_node": 2}, "1", 1, 2, 2),
        ({"ntasks_per_node": 2, "ntasks": 6}, "3", 3, 6, 6),
        ({**N1, "ntasks_per_node": 4, "ntasks": 2}, "1-1", 1, 2, 2),
        ({**N2, "ntasks_per_node": 2, "ntasks": 5}, "2-2", 2, 5, 5),
        ({**N2, "ntasks_per_node": 2, "cpus_per_task": 2}, "2-2", 2, 8, 4),
        ({"exclusive": "node"}, "1", 1, 1, 1),
        ({**N2, "exclusive": "node"}, "2-2", 2, 2, 2),
        ({**N1, "ntasks": 20, "overcommit": True}, "1-1", 3, 1, 20),
        ({**N1, "ntasks": 20}, "1-1", 3, 20, 20),
        ({"min_cpus": 4}, "1", 1, 1, 1),
        ({"min_nodes": 1024, "max_nodes": 1024}, "1024-1024", 1024, 1024, 1024),
        ({"node_list": "n2"}, "1", 1, 1, 1),
        ({"node_list": "n[1-2]"}, "2", 2, 2, 2),
        ({"node_list": "n1,n3", "min_nodes": 3, "max_nodes": 3}, "3-3", 3, 3, 3),
        ({"node_list": "n[1-2]", "ntasks": 3}, "2", 2, 3, 3),
        ({"gpus": "8"}, "1", 1, 1, 1),
        ({"ntasks": 4, "gpus_per_task": "2"}, "1", 1, 4, 4),
        ({"gpus": "4", "gpus_per_task": "2"}, "1", 1, 2, 2),
        ({"gpus": "4", "gpus_per_node": "2"}, "2-2", 2, 1, 2),
        ({"gres": "gpu:1", "gpus": "2"}, "2-2", 2, 1, 2),
        ({"gpus": "2", "cpus_per_gpu": 2}, "1", 1, 1, 1),
        ({"gpus": "2", "ntasks_per_gpu": 2}, "1", 1, 4, 4),
        ({"min_nodes": 0, "ntasks": 4, "ntasks_per_gpu": 2}, "1", 1, 4, 4),
    ],
)
def test_measured_needs(options, num_nodes, nodes, cpus, tasks):
    found = pending_estimate(JobRequest(**options), cluster())
    assert (found.num_nodes, found.nodes, found.cpus, found.tasks) == (num_nodes, nodes, cpus, tasks)


@pytest.mark.parametrize(
    ("options", "num_nodes", "nodes"),
    [
        ({"ntasks": 1, "cpus_per_task": 2}, "2", 1),  # the rest of 1 / 128 tasks is counted once more
        ({"ntasks": 64, "cpus_per_task": 8}, "2", 2),
        ({"ntasks": 10, "cpus_per_task": 2}, "2", 1),
        ({"ntasks": 2, "cpus_per_task": 4, "ntasks_per_node": 2}, "1", 1),
        ({"ntasks": 1, "cpus_per_task": 8, **N1}, "1-1", 1),
        ({"ntasks": 3, "ntasks_per_node": 2}, "1", 2),
        ({"cpus_per_task": 12}, "1", 1),
        ({"cpus_per_task": 288}, "1", 2),
        ({"ntasks": 384, "cpus_per_task": 2}, "3", 3),
    ],
)
def test_scontrol_guesses_otherwise_than_squeue_on_large_nodes(options, num_nodes, nodes):
    large = Cluster(
        name="large",
        nodes=(Node(name="a1", cpus=256), Node(name="h1", cpus=128)),
        partitions=(Partition(name="all", nodes=("a1", "h1"), default=True),),
    )
    found = pending_estimate(JobRequest(**options), large)
    assert (found.num_nodes, found.nodes) == (num_nodes, nodes)


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ({}, 0),
        ({"gres": "gpu:a100:2"}, 2),
        ({**N2, "gpus_per_node": "2"}, 4),
        ({**N2, "gpus": "3"}, 3),
        ({"ntasks": 4, "gpus_per_task": "2"}, 8),
        ({"gpus_per_socket": "1", "sockets_per_node": 2}, 2),
        ({"ntasks": 6, "ntasks_per_gpu": 2}, 3),
    ],
)
def test_gpus_of_the_job(options, gpus):
    assert pending_estimate(JobRequest(**options), cluster()).gpus == gpus


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1),
        ({"cpus_per_task": 4}, 4),
        ({"ntasks_per_node": 2}, 2),
        ({"ntasks_per_node": 2, "cpus_per_task": 2, **N2}, 4),
        ({"min_cpus": 4}, 4),
    ],
)
def test_min_cpus_per_node(options, expected):
    assert pending_estimate(JobRequest(**options), cluster()).min_cpus_per_node == expected


def test_a_cluster_without_nodes_or_partitions():
    assert pending_estimate(JobRequest(ntasks=3), Cluster(name="empty")).nodes == 3
    assert pending_estimate(JobRequest(ntasks=3, partition="gone,debug"), cluster()).nodes == 1


def test_cpus_of_a_task_as_slurm_keeps_them():
    for cpus, kept in ((65534, 1), (65535, 65535), (65536, 1), (65538, 2), (70000, 4464)):
        found = pending_estimate(JobRequest(ntasks=2, cpus_per_task=cpus), cluster())
        assert (found.cpus, found.cpus_per_task) == (2 * cpus, kept)
    of_gpus = pending_estimate(JobRequest(ntasks=2, gpus_per_task="2", cpus_per_gpu=2), cluster())
    assert (of_gpus.cpus, of_gpus.cpus_per_task, of_gpus.min_cpus_per_node) == (2, 4, 4)


def two_partitions() -> Cluster:
    """Nodes of 2 × 4 cores with two threads each in the default partition; a small one in another."""
    return Cluster(
        name="mixed",
        nodes=(
            Node(name="a1", cpus=16, sockets=2, cores_per_socket=4, threads_per_core=2),
            Node(name="a2", cpus=4, cores_per_socket=4),
            Node(name="b1", cpus=2, cores_per_socket=2),
        ),
        partitions=(
            Partition(name="large", nodes=("a1", "a2"), default=True),
            Partition(name="small", nodes=("b1",)),
        ),
    )


@pytest.mark.parametrize(
    ("options", "nodes", "guessed"),
    [
        ({"ntasks": 16}, 1, 1),
        ({"ntasks": 17}, 2, 2),
        ({"ntasks": 16, "partition": "large,small"}, 1, 1),
        ({"ntasks": 16, "partition": "small,large"}, 8, 8),  # the first partition of a list counts
        ({"ntasks": 16, "partition": "small", "ntasks_per_core": 1}, 8, 8),
        ({"ntasks": 16, "ntasks_per_core": 1}, 2, 2),  # the most cores of a node: 2 × 4
        ({"ntasks": 16, "ntasks_per_core": 2}, 1, 1),
        (
            {"ntasks": 2, "cpus_per_task": 3, "partition": "small"},
            3,
            2,
        ),  # a task needs more than a node: one node for each
    ],
)
def test_the_largest_node_of_the_partition_counts(options, nodes, guessed):
    found = pending_estimate(JobRequest(**options), two_partitions())
    assert (found.nodes, found.guessed_nodes) == (nodes, guessed)


def test_a_partition_that_is_named_counts_before_the_requests_own():
    made = two_partitions()
    request = JobRequest(ntasks=16, partition="large")
    assert pending_estimate(request, made, made.partitions[1]).nodes == 8
