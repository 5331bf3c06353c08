"""The cluster that nobody configured takes any reasonable job, and says what stands for what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.admission import elastic, feasibility, refusals
from shim.core.errors import RequestError
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.request import JobRequest


def cluster(gpus: int = 0) -> Cluster:
    names = tuple(f"node{number}" for number in range(1, 5))
    gres = (Gres(name="gpu", count=gpus),) if gpus else ()
    return Cluster(
        name="local",
        nodes=tuple(
            Node(name=name, address=f"127.0.0.{name[4:]}", cpus=2, cores_per_socket=2, memory=8000, gres=gres)
            for name in names
        ),
        partitions=(Partition(name="debug", nodes=names, default=True),),
        elastic=True,
    )


def taken(request: JobRequest, on: Cluster) -> tuple[JobRequest, Cluster, list[str]]:
    requests, said = elastic.adapted([request], on)
    grown = elastic.grown(on, requests)
    refusals.check_request(requests[0], grown, 1000, 0)
    assert feasibility.pending_reason(requests[0], grown) is None
    return requests[0], grown, said


REASONABLE: list[dict[str, Any]] = [
    {
        "partition": "a100",
        "min_nodes": 4,
        "max_nodes": 4,
        "ntasks_per_node": 8,
        "cpus_per_task": 8,
        "mem_per_node": 400_000,
    },
    {"partition": "cpu,debug", "ntasks": 128, "mem_per_cpu": 4000},
    {"ntasks": 1, "cpus_per_task": 32, "constraint": "rome&ib", "account": "p1", "qos": "high"},
    {"min_nodes": 16, "max_nodes": 16, "exclusive": "node", "licenses": "matlab:1", "reservation": "course"},
    {"gres": "lscratch:100", "node_list": "gpu[01-03]", "exclude": "bad7"},
    {"sockets_per_node": 2, "cores_per_socket": 8, "threads_per_core": 2, "ntasks": 4},
    {"node_list": "node[5-6]", "min_nodes": 2, "max_nodes": 2},
    {"min_nodes": 2, "max_nodes": 8, "ntasks": 48, "ntasks_per_node": 12},
    {"prefer": "fast", "constraint": "[rack1|rack2]", "min_nodes": 2, "max_nodes": 2},
]


@pytest.mark.parametrize("fields", REASONABLE)
def test_any_reasonable_job_can_start(fields: dict[str, Any]) -> None:
    taken(JobRequest(**fields), cluster())


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "nodes": st.integers(1, 8),
            "ntasks": st.integers(1, 200),
            "cpus_per_task": st.integers(1, 16),
            "ntasks_per_node": st.integers(1, 12),
            "mem_per_node": st.integers(1, 1_000_000),
            "mem_per_cpu": st.integers(1, 16_000),
            "min_cpus": st.integers(1, 64),
            "overcommit": st.just(True),
            "exclusive": st.just("node"),
            "contiguous": st.just(True),
            "exclude": st.sampled_from(["node1", "node[2-3]", "c7"]),
        },
    )
)
def test_sizes_within_the_bounds_always_fit(fields: dict[str, Any]) -> None:
    nodes = fields.pop("nodes", None)
    if "mem_per_cpu" in fields:
        fields.pop("mem_per_node", None)
    if "exclude" in fields:
        fields.pop("contiguous", None)  # what is left out may lie between any others
    if nodes is not None:
        fields.update(min_nodes=nodes, max_nodes=nodes)
    if "ntasks" in fields and "ntasks_per_node" in fields and nodes is not None:
        fields["ntasks"] = min(fields["ntasks"], nodes * fields["ntasks_per_node"])
    request = JobRequest(**fields)
    if request.ntasks is not None and request.cpus_per_task is not None and nodes:
        fields["cpus_per_task"] = min(request.cpus_per_task, max(1, elastic.MOST_CPUS * nodes // request.ntasks // 2))
    try:
        requests, _ = elastic.adapted([JobRequest(**fields)], cluster())
    except RequestError as refused:
        assert "up to 64 nodes of 256 CPUs" in str(refused)
        return
    taken(requests[0], cluster())


@pytest.mark.parametrize("state", ["DRAIN", "DOWN"])
@pytest.mark.parametrize("wanted", [{"min_nodes": 4}, {"min_nodes": 1, "cpus_per_task": 32}, {"ntasks": 64}])
def test_other_nodes_come_in_the_place_of_those_out_of_service(state: str, wanted: dict[str, Any]) -> None:
    whole = cluster()
    out = whole.replace(nodes=(whole.nodes[0].replace(state=state), *whole.nodes[1:]))
    request, grown, _ = taken(JobRequest(**wanted), out)
    assert feasibility.unavailable_nodes(request, grown, grown.partitions[0]) is None


def test_what_stands_for_what_is_said_once() -> None:
    request, _, said = taken(JobRequest(partition="a100", constraint="ib", gres="nvme:1"), cluster())
    assert (request.partition, request.constraint, request.gres) == (None, None, None)
    assert said == [
        'note: nobody has configured this cluster: partition "debug" stands for "a100"; --constraint=ib is met by every node;'
        " --gres=nvme is met by every node (shim init makes it strict)"
    ]


def test_nothing_is_said_of_what_is_there() -> None:
    request = JobRequest(partition="debug", ntasks=8, node_list="node2")
    assert elastic.adapted([request], cluster()) == ([request], [])
    small = cluster()
    assert elastic.grown(small, [JobRequest(ntasks=8)]) is small


@pytest.mark.parametrize(
    "fields", [{"gres": "gpu:a100:2"}, {"gpus": "2"}, {"gpus_per_node": "h100:2"}, {"gpus_per_task": "2"}]
)
def test_gpus_are_real_or_none(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refused:
        elastic.adapted([JobRequest(**fields)], cluster())
    assert refused.value.lines == (
        "error: 2 GPUs of a node asked for, and this machine has no GPUs; to pretend them (no device will be there), write to the"
        " configuration (shim init SCRIPT does): [clusters.local] gpus = 2",
        "error: Batch job submission failed: Requested node configuration is not available",
    )
    request, _, said = taken(JobRequest(**fields), cluster(gpus=2))
    assert "a100" not in f"{request.gres}{request.gpus_per_node}"
    kind = "a100" if "a100" in str(fields) else "h100" if "h100" in str(fields) else ""
    assert bool(said) == bool(kind)
    assert not kind or f"any GPU stands for {kind}" in said[0]


@pytest.mark.parametrize("fields", [{"min_nodes": 65, "max_nodes": 65}, {"cpus_per_task": 257}])
def test_above_the_bounds_it_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="up to 64 nodes of 256 CPUs"):
        elastic.adapted([JobRequest(**fields)], cluster())


def test_components_of_a_heterogeneous_job_have_nodes_of_their_own() -> None:
    requests = [JobRequest(min_nodes=3, max_nodes=3, cpus_per_task=4), JobRequest(min_nodes=4, max_nodes=4)]
    grown = elastic.grown(cluster(), requests)
    assert [node.name for node in grown.nodes] == [f"node{number}" for number in range(1, 8)]
    assert {node.cpus for node in grown.nodes} == {4}
    assert grown.partitions[0].nodes == tuple(node.name for node in grown.nodes)


def test_a_configured_cluster_is_strict() -> None:
    strict = cluster().replace(elastic=False)
    request = JobRequest(partition="a100", min_nodes=9)
    assert elastic.adapted([request], strict) == ([request], [])
    assert elastic.grown(strict, [request]) is strict
    assert elastic.all_nodes(strict) == list(strict.nodes)


def test_a_configured_cluster_does_not_grow() -> None:
    strict = cluster().replace(elastic=False)
    assert elastic.grown(strict, [JobRequest(min_nodes=9)]) is strict
    assert elastic.all_nodes(strict) == list(strict.nodes)


@pytest.mark.parametrize(
    ("fields", "nodes", "cpus"),
    [
        ({"min_nodes": 64, "max_nodes": 64}, 64, 2),  # the bounds themselves
        ({"cpus_per_task": 256}, 4, 256),
        ({"cpus_per_task": 2}, 4, 2),
        ({"cpus_per_task": 3}, 4, 3),
        ({"min_nodes": 1, "max_nodes": 1, "ntasks_per_node": 3, "cpus_per_task": 2}, 4, 6),
        ({"node_list": "node7"}, 7, 2),
        ({"exclude": "node1", "min_nodes": 4}, 5, 2),
        ({"sockets_per_node": 2, "cores_per_socket": 3, "threads_per_core": 2}, 4, 12),
    ],
)
def test_it_grows_to_what_is_asked_and_no_further(fields: dict[str, Any], nodes: int, cpus: int) -> None:
    _, grown, _ = taken(JobRequest(**fields), cluster())
    assert (len(grown.nodes), max(node.cpus for node in grown.nodes)) == (nodes, cpus)


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_next_such_job_finds_nodes_as_large_as_the_first(nodes: int) -> None:
    _, grown, _ = taken(JobRequest(min_nodes=nodes, max_nodes=nodes, cpus_per_task=8, mem_per_node=9000), cluster())
    assert [(node.cpus, node.memory) for node in grown.nodes] == [(8, 9000)] * 4


@pytest.mark.parametrize(
    ("fields", "memory"),
    [
        ({"mem_per_node": 8000}, 8000),
        ({"mem_per_node": 8001}, 8001),
        ({"mem_per_node": elastic.MOST_MEMORY + 1}, elastic.MOST_MEMORY),
        ({"mem_per_cpu": 9000}, 9000),
        ({"mem_per_cpu": 5000, "cpus_per_task": 2}, 10_000),
        ({"mem_per_cpu": 5000, "exclusive": "node"}, 10_000),  # for all CPUs of the node
        ({"mem_per_gpu": 9000}, 18_000),
    ],
)
def test_memory_grows_with_the_request(fields: dict[str, Any], memory: int) -> None:
    assert max(node.memory for node in elastic.grown(cluster(2), [JobRequest(**fields)]).nodes) == memory


def test_gpus_count_by_node() -> None:
    """The node with the most GPUs counts, and the GPUs of a whole job are divided by its nodes."""
    one = cluster()
    with_one = one.replace(nodes=(one.nodes[0].replace(gres=(Gres(name="gpu", count=2),)), *one.nodes[1:]))
    assert elastic.adapted([JobRequest(gpus="2")], with_one)[1] == []
    assert elastic.adapted([JobRequest(gpus="4", min_nodes=2, max_nodes=2)], with_one)[1] == []
    with pytest.raises(RequestError, match="3 GPUs of a node asked for, and this machine has 2 GPUs;"):
        elastic.adapted([JobRequest(gpus="5", min_nodes=2, max_nodes=2)], with_one)
    with pytest.raises(RequestError, match="1 GPU of a node asked for, and this machine has no GPUs;"):
        elastic.adapted([JobRequest(gpus="1")], one)
    assert max(node.cpus for node in elastic.grown(with_one, [JobRequest(gpus="2", cpus_per_gpu=3)]).nodes) == 6


def test_a_type_that_a_node_has_is_kept() -> None:
    one = cluster()
    gres = (Gres(name="gpu", type="a100", count=2),)
    typed = one.replace(nodes=tuple(node.replace(gres=gres) for node in one.nodes))
    requests, said = elastic.adapted([JobRequest(gpus="a100:1,h100:1", gres="gpu:a100:1,nvme:2")], typed)
    assert (requests[0].gpus, requests[0].gres) == ("a100:1,1", "gpu:a100:1")
    assert said == [
        "note: nobody has configured this cluster: --gres=nvme is met by every node; any GPU stands for h100"
        " (shim init makes it strict)"
    ]


def test_what_only_names_the_nodes_of_the_script_is_left_out() -> None:
    request = JobRequest(extra={"batch": "big", "comment": "kept"})
    assert elastic.adapted([request], cluster())[0][0].extra == {"comment": "kept"}


def test_a_list_with_an_error_is_left_for_the_refusal() -> None:
    requests, said = elastic.adapted([JobRequest(node_list="node[3-1]")], cluster())
    assert (requests[0].node_list, said) == ("node[3-1]", [])


def test_another_node_has_a_name_and_an_address_of_its_own() -> None:
    nodes = elastic.all_nodes(cluster())
    assert len(nodes) == elastic.MOST_NODES
    assert (nodes[4].name, nodes[4].address) == ("node5", "127.0.0.5")
    assert (nodes[63].name, nodes[63].address) == ("node64", "127.0.0.64")


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"cpus_per_task": 2}, (2, 1, 2, 1)),
        ({"cpus_per_task": 7}, (7, 1, 7, 1)),
        ({"sockets_per_node": 2, "cores_per_socket": 8, "threads_per_core": 2, "ntasks": 4}, (32, 2, 8, 2)),
        ({"sockets_per_node": 2, "cpus_per_task": 7}, (8, 2, 4, 1)),
        ({"cores_per_socket": 8}, (8, 1, 8, 1)),
        ({"threads_per_core": 2, "cpus_per_task": 7}, (8, 1, 4, 2)),
        ({"ntasks_per_node": 3, "cpus_per_task": 4}, (12, 1, 12, 1)),
    ],
)
def test_the_shape_that_a_node_grows_to(fields: dict[str, Any], shape: tuple[int, ...]) -> None:
    node = taken(JobRequest(min_nodes=1, max_nodes=1, **fields), cluster())[1].nodes[0]
    assert (node.cpus, node.sockets, node.cores_per_socket, node.threads_per_core) == shape


def test_the_disk_grows_with_the_request() -> None:
    assert taken(JobRequest(tmp_disk=5000), cluster())[1].nodes[0].tmp_disk == 5000


def test_cpus_grow_with_the_gpus_that_a_node_gives() -> None:
    request = JobRequest(gpus="4", cpus_per_gpu=3, min_nodes=2, max_nodes=2)
    assert taken(request, cluster(gpus=4))[1].nodes[0].cpus >= 6


def test_a_list_with_a_name_that_no_node_here_can_have_is_left_out() -> None:
    assert elastic.adapted([JobRequest(node_list="node5,gpu7")], cluster())[0][0].node_list is None
