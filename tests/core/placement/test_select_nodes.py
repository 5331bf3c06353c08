"""Where jobs go on the reference cluster, as measured, and what must hold for any request."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.core.model.cluster import Cluster, Gres, Partition
from shim.core.model.request import JobRequest
from shim.core.placement.capacity import NodeFree
from shim.core.placement.select_nodes import select_nodes
from tests.core.placement.shapes import NODES, cluster, idle, node, placed

N2 = {"min_nodes": 2, "max_nodes": 2}
ALL = (0, 1, 2, 3)

# A request, and for each of its nodes in order n1, n2 …: CPUs, tasks, GPUs.
MEASURED = [
    ({}, [(1, 1, ())]),
    ({"ntasks": 4}, [(4, 4, ())]),
    ({"ntasks": 9}, [(8, 8, ()), (1, 1, ())]),
    ({**N2}, [(1, 1, ()), (1, 1, ())]),
    ({**N2, "ntasks": 4}, [(3, 3, ()), (1, 1, ())]),
    ({**N2, "ntasks": 5}, [(4, 4, ()), (1, 1, ())]),
    ({"min_nodes": 3, "max_nodes": 3, "ntasks": 8}, [(6, 6, ()), (1, 1, ()), (1, 1, ())]),
    ({"min_nodes": 2, "max_nodes": 3, "ntasks": 6}, [(4, 4, ()), (1, 1, ()), (1, 1, ())]),
    ({"min_nodes": 1, "max_nodes": 4, "ntasks": 6}, [(3, 3, ()), (1, 1, ()), (1, 1, ()), (1, 1, ())]),
    ({"min_nodes": 2, "max_nodes": 4}, [(1, 1, ())] * 4),
    ({"min_nodes": 2, "max_nodes": 4, "ntasks": 6, "use_min_nodes": True}, [(5, 5, ()), (1, 1, ())]),
    ({"ntasks": 3, "cpus_per_task": 4}, [(8, 2, ()), (4, 1, ())]),
    ({"cpus_per_task": 3}, [(3, 1, ())]),
    ({**N2, "ntasks": 6, "cpus_per_task": 2}, [(8, 4, ()), (4, 2, ())]),
    ({**N2, "ntasks": 3, "cpus_per_task": 2}, [(4, 2, ()), (2, 1, ())]),
    ({**N2, "ntasks_per_node": 3}, [(3, 3, ()), (3, 3, ())]),
    ({"ntasks_per_node": 2, "ntasks": 6}, [(2, 2, ())] * 3),
    ({"min_nodes": 2, "max_nodes": 4, "ntasks_per_node": 2}, [(2, 2, ())] * 4),
    ({**N2, "ntasks": 5, "ntasks_per_node": 2}, None),
    ({"ntasks": 3, "ntasks_per_socket": 1}, [(2, 2, ()), (1, 1, ())]),
    ({"min_cpus": 4}, [(4, 4, ())]),
    ({**N2, "ntasks": 3, "min_cpus": 4}, [(4, 2, ()), (4, 1, ())]),
    ({"ntasks": 5, "spread_job": True}, [(2, 2, ()), (1, 1, ()), (1, 1, ()), (1, 1, ())]),
    ({"ntasks": 9, "spread_job": True}, [(6, 6, ()), (1, 1, ()), (1, 1, ()), (1, 1, ())]),
    ({**N2, "ntasks": 5, "spread_job": True}, [(4, 4, ()), (1, 1, ())]),
    ({"spread_job": True}, [(1, 1, ())]),
    ({"exclusive": "node"}, [(8, 8, ALL)]),
    ({**N2, "ntasks": 3, "exclusive": "node"}, [(8, 2, ALL), (8, 1, ALL)]),
    ({**N2, "ntasks": 2, "cpus_per_task": 3, "exclusive": "node"}, [(8, 1, ALL), (8, 1, ALL)]),
    ({"min_nodes": 1, "max_nodes": 1, "ntasks": 10, "overcommit": True}, [(1, 10, ())]),
    ({**N2, "ntasks": 5, "overcommit": True}, [(1, 3, ()), (1, 2, ())]),
    ({"min_nodes": 1, "max_nodes": 1, "ntasks": 20}, None),
    ({"ntasks": 33}, None),
    ({"gres": "gpu:2"}, [(1, 1, (0, 1))]),
    ({"gpus": "3"}, [(1, 1, (0, 1, 2))]),
    ({"gpus": "8"}, [(1, 1, ALL), (1, 1, ALL)]),
    ({**N2, "gpus": "4"}, [(1, 1, (0, 1, 2)), (1, 1, (0,))]),
    ({**N2, "gpus": "3"}, [(1, 1, (0, 1)), (1, 1, (0,))]),
    # Fewer GPUs than nodes, measured: one too few leaves the first node without; with still fewer every node gives all of its own.
    ({"ntasks": 9, "gpus": "1"}, [(8, 8, ()), (1, 1, (0,))]),
    ({"ntasks": 20, "gpus": "2"}, [(8, 8, ()), (8, 8, (0,)), (4, 4, (0,))]),
    ({"ntasks": 32, "gpus": "3"}, [(8, 8, ()), (8, 8, (0,)), (8, 8, (0,)), (8, 8, (0,))]),
    ({"ntasks": 32, "gpus": "5"}, [(8, 8, (0, 1)), (8, 8, (0,)), (8, 8, (0,)), (8, 8, (0,))]),
    ({"ntasks": 20, "gpus": "1"}, [(8, 8, ALL), (8, 8, ALL), (4, 4, ALL)]),
    ({"ntasks": 32, "gpus": "2"}, [(8, 8, ALL)] * 4),
    ({"ntasks": 4, "gpus": "6"}, [(3, 3, ALL), (1, 1, (0, 1))]),
    ({"gpus": "4", "gpus_per_node": "2"}, [(1, 1, (0, 1)), (1, 1, (0, 1))]),
    ({"gres": "gpu:1", "gpus": "2"}, [(1, 1, (0,)), (1, 1, (0,))]),
    ({"ntasks": 4, "gpus_per_task": "1"}, [(4, 4, ALL)]),
    ({**N2, "ntasks": 4, "gpus_per_task": "1"}, [(3, 3, (0, 1, 2)), (1, 1, (0,))]),
    ({"ntasks": 2, "gpus_per_task": "3"}, [(1, 1, (0, 1, 2)), (1, 1, (0, 1, 2))]),
    ({"gpus": "4", "gpus_per_task": "2"}, [(2, 2, ALL)]),
    ({"gpus": "2", "ntasks_per_gpu": 2}, [(4, 4, (0, 1))]),
    ({"ntasks": 6, "ntasks_per_gpu": 2}, [(6, 6, (0, 1, 2))]),
    # --ntasks-per-gpu: of a number of nodes each has as many tasks as another.
    ({**N2, "ntasks": 4, "ntasks_per_gpu": 2}, [(2, 2, (0,))] * 2),
    ({**N2, "gpus": "5", "ntasks_per_gpu": 2}, [(5, 5, ALL), (5, 5, (0,))]),
    ({"min_nodes": 3, "max_nodes": 3, "gpus": "4", "ntasks_per_gpu": 2}, None),
    ({"min_nodes": 2, "max_nodes": 3, "ntasks": 6, "ntasks_per_gpu": 2}, [(3, 3, (0, 1)), (3, 3, (0,))]),
    ({"node_list": "n1,n2", "gpus": "4", "ntasks_per_gpu": 2}, [(4, 4, (0, 1, 2)), (4, 4, (0,))]),
    ({"ntasks": 8, "gpus_per_node": "2", "ntasks_per_gpu": 2}, [(4, 4, (0, 1))] * 2),
    ({"ntasks": 3, "gpus": "2", "ntasks_per_gpu": 2}, [(4, 4, (0, 1))]),
    # Without one, a node that has CPUs for all of them must be there.
    ({"ntasks": 5, "ntasks_per_gpu": 1}, [(4, 4, ALL), (1, 1, (0,))]),
    ({"ntasks": 8, "ntasks_per_gpu": 2, "cpus_per_task": 2}, None),
    ({"gpus": "5", "ntasks_per_gpu": 2}, None),
    ({"gpus": "2", "cpus_per_gpu": 2}, [(4, 4, (0, 1))]),
    ({"gpus": "2", "cpus_per_gpu": 2, "ntasks": 3}, [(4, 3, (0, 1))]),
    ({"gres": "gpu:5"}, None),
    ({"gres": "gpu:5,gpu:1"}, [(1, 1, (0,))]),
    # CPUs are counted, not whole tasks: one node or the other has a task more than it has CPUs for.
    ({"ntasks": 5, "cpus_per_task": 5}, [(8, 2, ()), (5, 1, ()), (5, 1, ()), (5, 1, ())]),
    ({"ntasks": 5, "cpus_per_task": 7}, None),
    ({"ntasks": 3, "cpus_per_task": 3}, [(6, 2, ()), (3, 1, ())]),
    ({"ntasks": 4, "cpus_per_task": 3}, [(8, 3, ()), (3, 1, ())]),
    ({"ntasks": 9, "cpus_per_task": 3}, [(8, 3, ()), (8, 3, ()), (6, 2, ()), (3, 1, ())]),
    ({"ntasks": 10, "cpus_per_task": 3}, [(8, 3, ()), (8, 3, ()), (6, 2, ()), (6, 2, ())]),
    ({"min_nodes": 4, "ntasks": 8, "cpus_per_task": 3}, [(8, 3, ()), (6, 2, ()), (6, 2, ()), (3, 1, ())]),
    (
        {"min_nodes": 2, "max_nodes": 4, "ntasks": 7, "cpus_per_task": 3},
        [(8, 3, ()), (6, 2, ()), (3, 1, ()), (3, 1, ())],
    ),
    ({"min_nodes": 1, "ntasks": 2, "cpus_per_task": 5}, None),
    ({"ntasks": 4, "cpus_per_task": 3, "exclusive": "node"}, [(8, 2, ALL), (8, 2, ALL)]),
    # With GPUs whole tasks are counted.
    ({"ntasks": 5, "cpus_per_task": 3, "gres": "gpu:1"}, [(6, 2, (0,)), (6, 2, (0,)), (3, 1, (0,))]),
    ({"ntasks": 10, "cpus_per_task": 3, "gpus": "4"}, None),
    ({"gpus": "3", "cpus_per_gpu": 4}, [(8, 8, (0, 1)), (4, 4, (0,))]),
    ({"gpus": "3", "cpus_per_gpu": 4, "min_nodes": 1}, None),
    ({"ntasks": 4, "gpus_per_task": "1", "cpus_per_gpu": 4}, [(8, 2, (0, 1)), (8, 2, (0, 1))]),
    # --ntasks-per-node is room on each node, however few tasks there are.
    ({"ntasks": 7, "ntasks_per_node": 2}, [(2, 2, ())] * 4),
    ({"ntasks": 3, "ntasks_per_node": 4, "min_nodes": 2}, [(4, 4, ())] * 2),
    ({"ntasks": 5, "ntasks_per_node": 4, "overcommit": True}, [(1, 4, ())] * 2),
    ({"ntasks_per_socket": 5}, None),
    ({"ntasks": 33, "ntasks_per_socket": 4, "overcommit": True}, [(1, 33, ())]),
    ({"min_cpus": 5, "overcommit": True}, [(1, 1, ())]),
    ({"min_cpus": 5, "cpus_per_task": 2, "ntasks": 3, "overcommit": True}, [(2, 3, ())]),
    ({"gres": "gpu:3", "cpus_per_gpu": 2, "overcommit": True}, [(1, 1, (0, 1, 2))]),
    ({"exclusive": "node", "cpus_per_gpu": 2}, [(8, 8, ALL)]),
    ({"exclusive": "node", "cpus_per_gpu": 3}, None),
    ({"ntasks_per_socket": 3, "cpus_per_task": 2}, [(2, 1, ())]),
    ({"min_cpus": 4, "ntasks": 10}, [(6, 6, ()), (4, 4, ())]),
    ({"gres": "shard:1"}, None),
    # A range of nodes: CPUs for the least of them, then one for each of the others; tasks are dealt round over these.
    ({"min_nodes": 2, "max_nodes": 3, "ntasks": 10}, [(7, 7, ()), (2, 2, ()), (1, 1, ())]),
    ({"min_nodes": 1, "max_nodes": 3, "ntasks": 13}, [(7, 7, ()), (5, 5, ()), (1, 1, ())]),
    ({"min_nodes": 2, "max_nodes": 4, "ntasks": 20}, [(8, 8, ()), (7, 7, ()), (4, 4, ()), (1, 1, ())]),
    ({"min_nodes": 1, "max_nodes": 4, "ntasks_per_node": 3}, [(3, 3, ())] * 3),  # not more nodes than tasks
    ({"min_nodes": 2, "max_nodes": 3, "gpus": "4"}, [(1, 1, (0, 1, 2)), (1, 1, (0,))]),  # GPUs: as few as have them
    ({"min_nodes": 1, "max_nodes": 3, "gpus": "4"}, [(1, 1, ALL)]),
    ({"min_nodes": 2, "max_nodes": 4, "gpus": "9", "ntasks": 12}, [(7, 7, ALL), (4, 4, ALL), (1, 1, (0,))]),
    ({"min_nodes": 1, "max_nodes": 4, "gpus_per_task": "1", "ntasks": 6}, [(4, 4, ALL), (2, 2, (0, 1))]),
    ({"min_nodes": 2, "max_nodes": 4, "gpus_per_node": "1"}, [(1, 1, (0,))] * 4),
    ({"ntasks_per_node": 1, "exclude": "n[2-3]", "gpus": "6"}, None),
    ({"ntasks_per_socket": 2, "cpus_per_task": 4}, [(4, 1, ())]),
    ({"ntasks_per_socket": 4, "cpus_per_task": 3, "ntasks": 3}, None),
    # A single task takes its own CPUs only; but those of all that --ntasks-per-node allows must be there.
    ({"ntasks": 1, "ntasks_per_node": 3}, [(1, 3, ())]),
    ({"ntasks": 1, "ntasks_per_node": 3, "cpus_per_task": 3}, None),
    ({"ntasks_per_node": 4, "cpus_per_task": 4, "overcommit": True}, None),
    (
        {"spread_job": True, "max_nodes": 9, "ntasks": 9, "cpus_per_task": 2, "node_list": "n3"},
        [(8, 4, ()), (2, 1, ()), (6, 3, ()), (2, 1, ())],
    ),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_cpus": 5}, [(5, 5, ())]),
        ({"min_cpus": 8}, [(8, 8, ())]),
        ({"min_cpus": 9}, None),
        ({"ntasks": 8, "min_cpus": 5}, [(4, 4, ()), (4, 4, ())]),
        ({**N2, "ntasks": 2, "min_cpus": 5}, [(5, 1, ()), (5, 1, ())]),
        ({"cpus_per_task": 5}, None),
        ({"ntasks": 2, "cpus_per_task": 5, "min_cpus": 6}, None),
        ({"ntasks_per_node": 5}, None),
        ({"exclusive": "node"}, None),
    ],
)
def test_max_cpus_per_node_bounds_the_tasks_and_not_mincpus(options, expected):
    capped = Partition(name="capped", nodes=tuple(one.name for one in NODES), max_cpus_per_node=4)
    found = placed(options, partition=capped)
    assert found == (expected and {f"n{number}": share for number, share in enumerate(expected, 1)})


@pytest.mark.parametrize(("options", "expected"), MEASURED)
def test_measured_places(options, expected):
    found = placed(options)
    assert found == (expected and {f"n{number}": share for number, share in enumerate(expected, 1)})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"node_list": "n3,n1", "ntasks": 2}, ["n1", "n3"]),
        ({"node_list": "n[1-2]"}, ["n1", "n2"]),
        ({"node_list": "n1,n3", "min_nodes": 3, "max_nodes": 3}, ["n1", "n2", "n3"]),
        ({"node_list": "n3", "ntasks": 17}, ["n2", "n3", "n4"]),
        ({"node_list": "n2", "ntasks": 9}, ["n2", "n3"]),
        ({"node_list": "n4", **N2}, ["n3", "n4"]),
        ({"node_list": "n1,n3", "contiguous": True}, ["n1", "n2", "n3"]),
        ({"node_list": "n1,gone", "contiguous": True}, None),
        ({"exclusive": "node", "mem_per_cpu": 3000}, None),  # of whole nodes all CPUs have their memory
        ({"exclusive": "node", "mem_per_cpu": 2000}, ["n1"]),
        ({"node_list": "n1", "exclude": "n1"}, None),
        ({"exclude": "n1", **N2}, ["n2", "n3"]),
        ({"exclude": "n[1-4]"}, None),
        ({"constraint": "slow"}, ["n3"]),
        ({"constraint": "slow&fast"}, None),
        ({"constraint": "slow|fast"}, ["n1"]),
        ({"constraint": "[slow|fast]", "ntasks": 16}, ["n3", "n4"]),
        ({"constraint": "[fast|slow]", "ntasks": 17}, None),
        ({"constraint": "fast*1&slow*2", "min_nodes": 3, "max_nodes": 3}, ["n1", "n3", "n4"]),
        ({"constraint": "slow*3", "min_nodes": 3, "max_nodes": 3}, None),
        ({"constraint": "slow&("}, None),
        ({"prefer": "slow"}, ["n3"]),
        ({"prefer": "slow", "constraint": "cpu", "ntasks": 17}, ["n1", "n2", "n3"]),
        ({"contiguous": True, "exclude": "n2", **N2}, ["n3", "n4"]),
        # Neighbours: the smallest set of them that is enough, or else the largest.
        ({"exclude": "n2", "ntasks": 9}, ["n3", "n4"]),
        ({"exclude": "n3", "ntasks": 9}, ["n1", "n2"]),
        ({"exclude": "n2", **N2}, ["n3", "n4"]),
        ({"exclude": "n2", "min_nodes": 1, "max_nodes": 2}, ["n1", "n3"]),
        ({"exclude": "n3", "min_nodes": 1, "max_nodes": 2}, ["n1", "n4"]),
        ({"exclude": "n3", "node_list": "n4", **N2}, ["n1", "n4"]),
        ({"exclude": "n2", "gpus": "5"}, ["n3", "n4"]),
        ({"exclude": "n2", "gpus_per_task": "3", "ntasks": 2}, ["n3", "n4"]),
        ({"node_list": "n3", "gpus": "5"}, ["n3", "n4"]),
        ({"node_list": "n3", "spread_job": True, "ntasks": 2, "max_nodes": 2}, ["n1", "n3"]),
        ({"spread_job": True, "ntasks": 5, "gpus": "6"}, ["n1", "n2"]),
        ({"gpus_per_node": "a100:2", **N2}, ["n3", "n4"]),
        ({"gpus": "a100:1"}, ["n3"]),
        ({"gres": "gpu:h100:1"}, None),
    ],
)
def test_which_nodes(options, expected):
    found = placed(options)
    assert (found and list(found)) == expected


@pytest.mark.parametrize(("most", "names"), [(2, ["n1", "n2"]), (3, ["n1", "n2", "n3"]), (1, None)])
def test_a_range_of_nodes_ends_at_what_the_partition_gives_to_one_job(most: int, names: list[str] | None):
    shape = cluster()
    limited = shape.partitions[0].replace(max_nodes=most)
    found = select_nodes(JobRequest(min_nodes=2, max_nodes=4), shape, idle(), limited)
    assert (found and [share.name for share in found]) == names


def test_within_the_limit_of_nodes_the_largest_nodes_are_taken():
    """The first two nodes have too few CPUs free, others enough: the limit is no reason to wait."""
    shape = cluster()
    limited = shape.partitions[0].replace(max_nodes=2)
    found = select_nodes(JobRequest(ntasks=14), shape, idle(n1=4), limited)
    assert found is not None
    assert [share.name for share in found] == ["n2", "n3"]
    assert select_nodes(JobRequest(ntasks=17), shape, idle(), limited) is None


def test_the_largest_set_is_filled_first():
    found = placed({"exclude": "n2", "ntasks": 17})
    assert found == {"n1": (1, 1, ()), "n3": (8, 8, ()), "n4": (8, 8, ())}
    found = placed({"exclude": "n2", "gpus": "9"})
    assert [len(own) for _, _, own in found.values()] == [4, 4, 1]  # in the cluster's order


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_nodes": 1}, "8"),
        ({"ntasks": 9}, "56"),
        (N2, "56"),
        ({"ntasks": 17}, "123"),
        ({"ntasks": 25}, "1238"),
        ({"ntasks": 33}, "12356"),
        ({"min_nodes": 3, "max_nodes": 3}, "123"),
        ({"node_list": "n2", **N2}, "28"),  # a smaller set counts more than to be near
        ({"node_list": "n2", "ntasks": 9}, "28"),
        ({"node_list": "n2", "ntasks": 17}, "123"),
        ({"node_list": "n6", "ntasks": 17}, "568"),
    ],
)
def test_sets_of_neighbours(options, expected):
    nodes = tuple(node(number) for number in range(1, 9))
    free = [one for one in idle(nodes) if one.node.name not in ("n4", "n7")]  # n[1-3], n[5-6], n8
    shares = select_nodes(JobRequest(**options), cluster(nodes), free)
    assert "".join(share.name[1:] for share in shares) == expected


def test_nodes_of_little_weight_first():
    nodes = tuple(node(number).replace(weight=2 if number < 3 else 1) for number in range(1, 6))
    shares = select_nodes(JobRequest(ntasks=25), cluster(nodes), idle(nodes))
    assert [share.name for share in shares] == ["n1", "n3", "n4", "n5"]


def test_an_arbitrary_list_is_a_list_of_nodes():
    assert placed({"distribution": "arbitrary", "node_list": "n2,n1,n2", "ntasks": 3}) == {
        "n1": (2, 2, ()),
        "n2": (1, 1, ()),
    }
    assert placed({"distribution": "arbitrary", "node_list": "n2,n1", "ntasks": 5}) == {
        "n1": (4, 4, ()),
        "n2": (1, 1, ()),
    }
    assert list(placed({"distribution": "arbitrary", "node_list": "n2,n1", "ntasks": 17})) == ["n1", "n2", "n3"]


def test_a_spread_job_has_nodes_for_its_gpus():
    assert placed({"spread_job": True, "gpus": "8"}) is not None


def test_light_nodes_are_taken_first():
    nodes = (node(1, weight=5), node(2, weight=1), node(3, weight=1))
    assert list(placed({}, cluster(nodes))) == ["n2"]
    assert list(placed({**N2}, cluster(nodes))) == ["n2", "n3"]


def test_a_roomy_pair_is_found_behind_a_full_node():
    free = idle(n1=1)
    assert placed({**N2, "ntasks": 10}, free=free) == {"n2": (8, 8, ()), "n3": (2, 2, ())}
    assert placed({**N2, "ntasks": 5}, free=free) == {"n1": (1, 1, ()), "n2": (4, 4, ())}


def test_exclusive_needs_an_idle_node():
    assert list(placed({"exclusive": "node"}, free=idle(n1=7))) == ["n2"]


@pytest.mark.parametrize(
    ("options", "on", "expected"),
    [
        ({"ntasks": 3}, {}, 3000),
        ({"ntasks": 3}, {"def_mem_per_cpu": None}, 0),
        ({"ntasks": 3}, {"def_mem_per_cpu": None, "def_mem_per_node": 500}, 500),
        ({"ntasks": 3, "mem_per_node": 2048}, {}, 2048),
        ({"mem_per_node": 0}, {}, 16000),
        ({"ntasks": 3, "mem_per_cpu": 100}, {"def_mem_per_cpu": None}, 300),
        ({"gpus": "2", "mem_per_gpu": 500}, {}, 1000),
        ({"exclusive": "node"}, {}, 8000),
    ],
)
def test_memory(options, on, expected):
    shares = select_nodes(JobRequest(**options), cluster(**on), idle())
    assert shares is not None
    assert shares[0].memory == expected


@pytest.mark.parametrize(
    ("options", "nodes", "uncounted"),
    [
        ({"ntasks": 8, "mem_per_cpu": 2001}, 2, 1),
        ({"ntasks": 7, "mem_per_cpu": 2001, "min_nodes": 1}, 1, 1),
        ({"ntasks": 8, "mem_per_cpu": 2001, "min_nodes": 1}, 0, 1),
        ({"ntasks": 8, "mem_per_cpu": 4001}, 3, 1),
        ({"cpus_per_task": 6, "mem_per_cpu": 3000}, 0, 1),
        ({"gpus": "4", "mem_per_gpu": 5000}, 2, 1),
        ({"gpus": "12", "mem_per_gpu": 5000}, 4, 3),
        ({"gpus_per_task": "1", "ntasks": 4, "mem_per_gpu": 5000}, 2, 1),
        ({"gres": "gpu:4", "mem_per_gpu": 5000}, 0, 1),
    ],
)
def test_memory_needs_nodes_where_it_is_counted(options, nodes, uncounted):
    assert len(placed(options) or ()) == nodes
    assert len(placed(options, cluster(counts_memory=False)) or ()) == uncounted


def test_memory_limits_the_tasks_of_a_node():
    assert placed({"ntasks": 4, "mem_per_cpu": 8000}) == {"n1": (2, 2, ()), "n2": (2, 2, ())}
    assert placed({"mem_per_node": 16001}) is None


def test_the_partition_gives_the_default_memory():
    partition = Partition(name="small", def_mem_per_cpu=10)
    shares = select_nodes(JobRequest(ntasks=2), cluster(), idle(), partition)
    assert shares is not None
    assert shares[0].memory == 20


class TestOneMachine:
    """Virtual nodes of one machine: a GPU index is one device."""

    machine = cluster(settings={"share": "machine"})

    def test_nodes_of_a_job_get_different_gpus(self):
        found = placed({**N2, "gres": "gpu:2"}, self.machine)
        assert [share[2] for share in found.values()] == [(0, 1), (2, 3)]

    def test_they_share_what_does_not_suffice(self):
        found = placed({**N2, "gres": "gpu:3"}, self.machine)
        assert [share[2] for share in found.values()] == [(0, 1, 2), (0, 1, 3)]
        found = placed({**N2, "gres": "gpu:4"}, self.machine)
        assert [share[2] for share in found.values()] == [ALL, ALL]


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


requests = st.builds(
    JobRequest,
    min_nodes=optional(st.integers(1, 5)),
    max_nodes=st.none(),
    ntasks=optional(st.integers(1, 20)),
    cpus_per_task=optional(st.integers(1, 9)),
    ntasks_per_node=optional(st.integers(1, 9)),
    mem_per_cpu=optional(st.integers(0, 4000)),
    gpus=optional(st.sampled_from(["1", "5", "a100:2", "0"])),
    gpus_per_node=optional(st.sampled_from(["1", "a100:3"])),
    gpus_per_task=optional(st.sampled_from(["1", "2"])),
    cpus_per_gpu=optional(st.integers(1, 4)),
    min_cpus=optional(st.integers(1, 9)),
    node_list=optional(st.sampled_from(["n1", "n[2-3]", "n9", "n4,n1"])),
    exclude=optional(st.sampled_from(["n1", "n[2-3]"])),
    constraint=optional(st.sampled_from(["fast", "[fast|slow]", "slow*2"])),
    exclusive=optional(st.just("node")),
    overcommit=st.booleans(),
    contiguous=st.booleans(),
    spread_job=st.booleans(),
    distribution=optional(st.sampled_from(["cyclic", "arbitrary"])),
)
frees = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 16000), st.sets(st.integers(0, 3))), min_size=4, max_size=4
)


@given(requests, frees, st.booleans())
@example(
    JobRequest(ntasks=1, mem_per_cpu=1, node_list="n[2-3]"), [(0, 0, set()), *[(1, 1, set())] * 2, (0, 0, set())], False
)
def test_never_more_than_is_free(request, amounts, machine):
    free = [
        NodeFree(node=one, cpus=cpus, memory=memory, gpus=tuple(sorted(gpus)))
        for one, (cpus, memory, gpus) in zip(NODES, amounts, strict=True)
    ]
    on: Cluster = cluster(settings={"share": "machine"} if machine else {})
    shares = select_nodes(request, on, free)
    if shares is None:
        return
    by_name = {one.node.name: one for one in free}
    names = [share.name for share in shares]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for share in shares:
        have = by_name[share.name]
        assert 1 <= share.cpus <= have.cpus
        assert share.memory <= have.memory
        assert set(share.gpus) <= set(have.gpus)
        assert len(share.gpus) == len(set(share.gpus)) == len(share.gpu_types)
    if request.ntasks is not None:
        tasks = sum(share.tasks for share in shares)
        # Commands name no more nodes than there are tasks, but an update can: then each node that must be has one.
        wanted = max(request.ntasks, len(shares))
        assert tasks >= wanted if request.ntasks_per_node else tasks == wanted
        assert len(shares) <= request.ntasks or request.node_list or request.constraint == "slow*2"
    if request.ntasks is not None and not request.overcommit and not request.ntasks_per_node:
        # One task of a node may have fewer CPUs than it wants, but some. With --ntasks-per-node as many are shown as may be there, not as are.
        assert all(share.cpus > (share.tasks - 1) * (request.cpus_per_task or 1) for share in shares)


def test_least_loaded_nodes_first_where_the_partition_says_so() -> None:
    """LLN: the node with the fewest CPUs in use, whatever its size or place."""
    free = [NodeFree(node=one, cpus=left, memory=one.memory) for one, left in zip(NODES, (3, 7, 5, 8))]
    for lln, name in ((True, "n4"), (False, "n1")):
        partition = Partition(name="p", nodes=tuple(one.name for one in NODES), lln=lln)
        shares = select_nodes(JobRequest(), cluster(), free, partition)
        assert shares is not None
        assert [share.name for share in shares] == [name]


@pytest.mark.parametrize(
    ("wanted", "nodes", "found"),
    [
        # As Slurm 22.05.8 did on such nodes: a node without one of the types is none of the job's.
        ("a:2,b:2", 1, [("n3", (0, 1, 2, 3))]),
        ("a:2,b:2", 2, None),
        ("a:3,b:3", 3, None),
        ("a:6", None, [("n1", (0, 1, 2, 3)), ("n3", (0, 1))]),
        ("b:5", None, [("n2", (0, 1, 2, 3)), ("n3", (2,))]),
    ],
)
def test_gpus_of_several_types(wanted: str, nodes: int | None, found: list[tuple[str, tuple[int, ...]]] | None) -> None:
    kinds = ({"a": 4}, {"b": 4}, {"a": 2, "b": 2})
    typed = [
        one.replace(gres=tuple(Gres(name="gpu", type=kind, count=count) for kind, count in held.items()))
        for one, held in zip(NODES, kinds)
    ]
    free = [NodeFree(node=one, cpus=8, memory=one.memory, gpus=(0, 1, 2, 3)) for one in typed]
    shares = select_nodes(JobRequest(gpus=wanted, min_nodes=nodes), cluster().replace(nodes=tuple(typed)), free)
    assert (shares and [(share.name, share.gpus) for share in shares]) == found
