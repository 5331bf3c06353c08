"""Heterogeneous jobs in a pass: all components at once on nodes of their own, or none."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.scheduler import Plan, plan
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from tests.control.scheduler import test_one_machine as machine
from tests.control.scheduler.test_plan import CLUSTER, NOW, pending, running, started, whole


def components(first: int, *requests: dict[str, Any]) -> list[Job]:
    """The pending components of one job, with keys and ids from ``first`` on."""
    return [
        pending(first + offset, het_job_id=first, het_offset=offset, het_size=len(requests), **request)
        for offset, request in enumerate(requests)
    ]


def nodes_of(found: Plan) -> list[list[str]]:
    return [[share.name for share in shares] for _job, shares in found.starts]


@pytest.mark.parametrize(
    ("requests", "nodes"),
    [
        ([{"ntasks": 1}, {"ntasks": 2}], [["n1"], ["n2"]]),
        ([{"min_nodes": 2}, {"ntasks": 9}], [["n1", "n2"], ["n3", "n4"]]),
        # What another component names is not taken, whoever chooses first.
        ([{"ntasks": 1}, {"node_list": "n1"}], [["n2"], ["n1"]]),
        # The first would take a node that the second needs: then the choosy one chooses first.
        ([{"min_nodes": 3}, {"partition": "gpu"}], [["n1", "n2", "n3"], ["n4"]]),
        ([{"min_nodes": 2, "max_nodes": 2, "exclude": "n1"}, {"partition": "gpu"}], [["n2", "n3"], ["n4"]]),
        ([{"constraint": "slow"}, {"constraint": "slow"}, {"min_nodes": 2}], [["n3"], ["n4"], ["n1", "n2"]]),
    ],
)
def test_all_start_on_nodes_of_their_own(requests: list[dict[str, Any]], nodes: list[list[str]]) -> None:
    found = plan(components(1, *requests), CLUSTER, [], NOW)
    assert nodes_of(found) == nodes
    assert not found.reasons


def test_the_choosy_component_chooses_first_where_that_helps() -> None:
    narrow = CLUSTER.replace(partitions=tuple(one for one in CLUSTER.partitions if one.name in ("debug", "gpu")))
    jobs = components(1, {"ntasks": 1, "exclude": "n1,n2"}, {"ntasks": 1, "partition": "gpu", "exclude": "n4"})
    assert nodes_of(plan(jobs, narrow, [], NOW)) == [["n4"], ["n3"]]


def test_none_starts_while_one_has_no_room() -> None:
    busy = [running(9, whole("n1"), whole("n2"), whole("n3"), minutes=5)]
    found = plan([*components(1, {"ntasks": 16}, {"ntasks": 16}), pending(7)], CLUSTER, busy, NOW)
    assert found.reasons == {1: "Resources", 2: "Resources", 7: "Priority"}
    assert found.expected[1][0] == found.expected[2][0] == NOW + 300
    assert set(found.expected[1][1]).isdisjoint(found.expected[2][1])
    assert started(found) == {}, "all four nodes are kept for them"


def test_a_shorter_job_goes_before() -> None:
    busy = [running(9, whole("n1"), whole("n2"), whole("n3"), minutes=5)]
    found = plan([*components(1, {"ntasks": 16}, {"ntasks": 16}), pending(7, limit=4)], CLUSTER, busy, NOW)
    assert started(found) == {7: ["n4"]}


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"held": "user"}, {2: "JobHeldUser"}),
        ({"begin": int(NOW) + 60}, {2: "BeginTime"}),
        ({"job_id": 2, "dependency": "afterok:5(unfulfilled)"}, {2: "Dependency"}),
    ],
)
def test_one_that_may_not_start_keeps_all(fields: dict[str, Any], reasons: dict[int, str]) -> None:
    first, second = components(1, {"ntasks": 1}, {"ntasks": 1})
    request = {name: fields[name] for name in ("begin",) if name in fields}
    own = {name: value for name, value in fields.items() if name not in request}
    second = second.replace(request=second.request.replace(**request), **own)
    found = plan([first, second], CLUSTER, [], NOW)
    assert not found.starts
    assert found.reasons == reasons


def test_one_that_can_never_start() -> None:
    found = plan([*components(1, {"ntasks": 1}, {"min_nodes": 9}), pending(7)], CLUSTER, [], NOW)
    assert found.reasons == {1: "Resources", 2: "PartitionNodeLimit"}
    assert not found.expected
    assert started(found) == {7: ["n1"]}, "what waits for ever keeps nothing"


def test_an_incomplete_job_does_not_start() -> None:
    assert not plan(components(1, {"ntasks": 1}, {"ntasks": 1})[:1], CLUSTER, [], NOW).starts


def test_more_nodes_than_there_are() -> None:
    found = plan(components(1, {"min_nodes": 4}, {"ntasks": 1}), CLUSTER, [], NOW)
    assert found.reasons == {1: "Resources", 2: "Resources"}
    assert not found.expected


def test_licences_are_counted_together() -> None:
    both = components(1, {"licenses": "matlab:1"}, {"licenses": "matlab:2"})
    assert plan(both, CLUSTER, [], NOW).reasons == {1: "Licenses", 2: "Licenses"}
    assert len(plan(components(1, {"licenses": "matlab"}, {"licenses": "matlab"}), CLUSTER, [], NOW).starts) == 2


def test_the_turn_is_the_first_components() -> None:
    ahead = components(1, {"ntasks": 16}, {"ntasks": 16})
    found = plan([pending(5, ntasks=32), *ahead], CLUSTER, [], NOW)
    assert started(found) == {1: ["n1", "n2"], 2: ["n3", "n4"]}
    assert found.reasons == {5: "Resources"}


def test_one_machine_holds_them_together() -> None:
    """Two virtual nodes of one machine have its CPUs and its memory once, unless nobody else is there."""

    def pair(**request: Any) -> list[Job]:
        return [
            machine.pending(1 + offset, **request).replace(het_job_id=1, het_offset=offset, het_size=2)
            for offset in (0, 1)
        ]

    cluster: Cluster = machine.MACHINE
    assert nodes_of(plan(pair(ntasks=2), cluster, [], NOW)) == [["node1"], ["node2"]]
    beside = [machine.running(9, NodeShare(name="node1", cpus=1))]
    assert plan(pair(ntasks=1), cluster, beside, NOW).reasons == {1: "Resources", 2: "Resources"}
