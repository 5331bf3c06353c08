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
