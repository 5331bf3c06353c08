"""What the controller refuses, on the cluster on which Slurm's answers were measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.admission.feasibility import (
    fits_when_idle,
    idle_nodes,
    pending_reason,
    unavailable_nodes,
    usable_nodes,
)
from shim.core.admission.refusals import check_components, check_job_count, check_request
from shim.core.errors import RequestError
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.request import INFINITE, JobRequest
from shim.core.placement.select_nodes import select_nodes

NOW = 1_800_000_000
USER = 1001


def node(number: int, **changes: Any) -> Node:
    kind = "a100" if number > 2 else ""
    shape = {"cpus": 8, "sockets": 2, "cores_per_socket": 4, "memory": 16000, "tmp_disk": 1000}
    return Node(
        name=f"n{number}",
        gres=(Gres(name="gpu", type=kind, count=4),),
        features=("slow" if number > 2 else "fast", "cpu"),
        **{**shape, **changes},
    )


CLUSTER = Cluster(
    name="ref",
    nodes=tuple(node(number) for number in range(1, 5)),
    partitions=(
        Partition(name="debug", nodes=("n1", "n2", "n3", "n4"), default=True),
        Partition(name="gpu", nodes=("n3", "n4"), max_time=120, default_time=30),
        Partition(name="off", nodes=("n1",), state="INACTIVE"),
        Partition(name="down", nodes=("n1",), state="DOWN"),
        Partition(name="drained", nodes=("n1",), state="DRAIN"),
        Partition(name="staff", nodes=("n1",), root_only=True),
    ),
    def_mem_per_cpu=1000,
    licenses=(Gres(name="matlab", count=2),),
)


def refused(uid: int = USER, cluster: Cluster = CLUSTER, **fields: Any) -> tuple[str, ...] | None:
    try:
        check_request(JobRequest(**fields), cluster, uid, NOW)
    except RequestError as error:
        assert error.code == 1
        return error.lines
    return None


FAILED = "error: Batch job submission failed: "
CONFIGURATION = FAILED + "Requested node configuration is not available"


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            {"partition": "nosuch"},
            ("error: invalid partition specified: nosuch", FAILED + "Invalid partition name specified"),
        ),
        (
            {"partition": ""},
            ("error: invalid partition specified: (null)", FAILED + "Invalid partition name specified"),
        ),
        ({"partition": "off"}, (FAILED + "Required partition not available (inactive or drain)",)),
        ({"partition": "drained"}, (FAILED + "Required partition not available (inactive or drain)",)),
        ({"partition": "staff"}, (FAILED + "Access/permission denied",)),
        ({"min_nodes": 0}, (FAILED + "Node count specification invalid",)),
        ({"exclude": "[]"}, (FAILED + "Invalid node name specified",)),
        ({"cpus_per_task": 9}, ("error: CPU count per node can not be satisfied", CONFIGURATION)),
        ({"ntasks_per_node": 9, "min_nodes": 1}, ("error: CPU count per node can not be satisfied", CONFIGURATION)),
        ({"min_cpus": 9}, ("error: CPU count per node can not be satisfied", CONFIGURATION)),
        ({"ntasks": 9, "min_nodes": 1}, (CONFIGURATION,)),
        ({"ntasks": 8, "cpus_per_task": 2, "min_nodes": 1}, (CONFIGURATION,)),
        ({"ntasks": 17, "min_nodes": 1, "max_nodes": 2}, (CONFIGURATION,)),
        ({"mem_per_node": 999999}, ("error: Memory specification can not be satisfied", CONFIGURATION)),
        ({"mem_per_cpu": 17000}, ("error: Memory specification can not be satisfied", CONFIGURATION)),
        ({"tmp_disk": 999999}, ("error: Temporary disk specification can not be satisfied", CONFIGURATION)),
        (
            {"sockets_per_node": 3},
            ("error: Socket, core and/or thread specification can not be satisfied", CONFIGURATION),
        ),
        (
            {"threads_per_core": 2},
            ("error: Socket, core and/or thread specification can not be satisfied", CONFIGURATION),
        ),
        ({"gres": "gpu:9"}, (CONFIGURATION,)),
        ({"gres": "gpu:h100:1"}, (CONFIGURATION,)),
        ({"gres": "gpu:abc"}, (CONFIGURATION,)),
        ({"gres": "gpu:-1"}, (CONFIGURATION,)),
        ({"gpus": "100"}, (CONFIGURATION,)),
        ({"gpus": "abc"}, (CONFIGURATION,)),
        ({"gpus": "a100:9"}, (CONFIGURATION,)),
        ({"gpus_per_node": "9"}, (CONFIGURATION,)),
        ({"gpus_per_task": "9", "ntasks": 1}, (CONFIGURATION,)),
        ({"gpus_per_task": "1", "ntasks": 17}, (CONFIGURATION,)),
        ({"gres": "gpu:a100:1", "constraint": "fast"}, (CONFIGURATION,)),
        ({"exclude": "n[1-4]"}, (CONFIGURATION,)),
        ({"constraint": "fast&slow"}, (CONFIGURATION,)),
        ({"constraint": "nosuch"}, (FAILED + "Invalid feature specification",)),
        ({"constraint": "a&"}, (FAILED + "Invalid feature specification",)),
        ({"gres": "foo:1"}, ("error: Invalid generic resource (gres) specification",)),
        ({"gres": "nosuch:0x0"}, ("error: Invalid generic resource (gres) specification",)),
        ({"gres": "gpu:1,nosuch:1x"}, ("error: Invalid generic resource (gres) specification",)),
        ({"gres": "nosuch:+0"}, (FAILED + "Invalid Trackable RESource (TRES) specification",)),
        ({"gres": "nosuch:0,gpu:0x0"}, (FAILED + "Invalid Trackable RESource (TRES) specification",)),
        ({"gres": "gres:"}, (FAILED + "Invalid Trackable RESource (TRES) specification",)),
        ({"gres": "gpu:1,,gpu:2"}, (FAILED + "Invalid Trackable RESource (TRES) specification",)),
        ({"gres": "gpu=2"}, ("error: Invalid generic resource (gres) specification",)),
        ({"gpus": "a100:"}, ("error: Invalid generic resource (gres) specification",)),
        ({"node_list": "nosuch"}, (FAILED + "Invalid node name specified",)),
        ({"node_list": "n1,n9"}, (FAILED + "Invalid node name specified",)),
        ({"node_list": "n[3-1]"}, (FAILED + "Invalid node name specified",)),
        ({"exclude": "nosuch"}, (FAILED + "Invalid node name specified",)),
        ({"node_list": "n1", "exclude": "n1"}, (FAILED + "Invalid node name specified",)),
        ({"node_list": "n1", "partition": "gpu"}, (FAILED + "Requested node configuration is not available",)),
        ({"reservation": "nosuch"}, (FAILED + "Requested reservation is invalid",)),
        ({"licenses": "foo"}, (FAILED + "Invalid license specification",)),
        ({"licenses": "matlab:3"}, (FAILED + "Invalid license specification",)),
        ({"licenses": "matlab:x"}, (FAILED + "Invalid license specification",)),
        ({"array": "0-1001"}, (FAILED + "Invalid job array specification",)),
        ({"dependency": "foo:1"}, (FAILED + "Job dependency problem",)),
        ({"dependency": "expand:3"}, (FAILED + "Requested operation not supported on this system",)),
        ({"deadline": NOW - 1}, (FAILED + "Requested time limit is invalid (missing or exceeds some limit)",)),
        (
            {"time_min": 5, "time_limit": 3},
            (FAILED + "Invalid time-min specification (exceeds job's time or other limits)",),
        ),
        ({"nice": -1}, (FAILED + "Invalid --nice value",)),
    ],
)
def test_refused_with_slurms_text(fields: dict[str, Any], lines: tuple[str, ...]) -> None:
    assert refused(**fields) == lines


def test_batch_features_are_some_of_the_constraint() -> None:
    wrong = (FAILED + "Job --batch option is invalid or not a subset of --constraints",)
    assert refused(constraint="fast&cpu", extra={"batch": "fast"}) is None
    assert refused(constraint="fast|slow", extra={"batch": "fast|slow"}) is None
    assert refused(constraint="fast", extra={"batch": "fast,cpu"}) == wrong
    assert refused(constraint="fast", extra={"batch": "cpu"}) == wrong
    assert refused(extra={"batch": "fast"}) == wrong


def test_a_deadline_leaves_the_least_time() -> None:
    wrong = (FAILED + "Invalid time-min specification (exceeds job's time or other limits)",)
    assert refused(deadline=NOW + 60, time_min=10) == wrong
    assert refused(deadline=NOW + 660, time_min=10) is None
    assert refused(deadline=NOW + 600, time_min=10) is None
    assert refused(deadline=NOW + 599, time_min=10) == wrong
    assert refused(deadline=NOW) is None  # it has not passed yet
    assert refused(time_min=-1) == wrong


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"min_nodes": 9, "max_nodes": 9},
        {"ntasks": 1000},
        {"ntasks": 1000, "min_nodes": 9},
        {"ntasks": 33, "min_nodes": 1},
        {"ntasks": 17, "min_nodes": 1, "partition": "gpu"},
        {"ntasks": 16, "min_nodes": 2},
        {"ntasks": 9, "min_nodes": 1, "overcommit": True},
        {"partition": "gpu", "time_limit": 180},
        {"partition": "gpu", "min_nodes": 3},
        {"partition": "debug,gpu"},
        {"partition": "down"},
        {"dependency": "afterok:99999"},
        {"array": "0-1000"},
        {"gpus": "0"},
        {"gpus": "16"},
        {"gres": "gpu:0"},
        {"gres": "nosuch:0,gpu:1"},
        {"gres": "nosuch:x:0"},
        {"kind": "alloc", "hold": True, "immediate": 2},
        {"gres": ""},
        {"gres": "gpu:a100:2"},
        {"gpus_per_task": "1", "ntasks": 16},
        {"constraint": "fast|slow"},
        {"constraint": "[fast*2&slow*1]", "min_nodes": 3, "max_nodes": 3},
        {"constraint": "fast", "min_nodes": 5},
        {"mem_per_node": 0},
        {"mem_per_cpu": 16000},
        {"licenses": "matlab:2"},
        {"deadline": NOW + 300, "time_limit": 10},
        {"time_limit": INFINITE, "time_min": 5},
        {"account": "nosuch", "qos": "nosuch"},
        {"cpus_per_task": 9, "min_nodes": 4},
        {"cpus_per_task": 33, "mem_per_node": 16001},
        {"mem_per_node": 16001, "min_nodes": 5},
        {"gres": "gpu:5", "min_nodes": 5},
        {"gres": "gpu:5", "partition": "gpu", "time_limit": 180},
        {"ntasks_per_node": 9, "min_nodes": 4},
        {"cpus_per_task": 5, "ntasks": 5},
        {"exclude": "n[1-3]", "min_nodes": 1, "max_nodes": 3},
        {"node_list": "n[1-2]", "ntasks": 20},
    ],
)
def test_accepted_though_some_will_wait_for_ever(fields: dict[str, Any]) -> None:
    assert refused(**fields) is None


@pytest.mark.parametrize("fields", [{"cpus_per_task": 9}, {"mem_per_node": 10**9}, {"gpus_per_node": "t4:1"}])
def test_nodes_are_looked_for_when_a_job_may_start(fields: dict[str, Any]) -> None:
    assert refused(**fields) is not None
    assert refused(hold=True, **fields) is None


@pytest.mark.parametrize("text", ["none", "fast&none"])
def test_preferred_features_are_features_of_nodes(text: str) -> None:
    assert refused(prefer=text) == (FAILED + "Invalid preferred feature specification",)
    assert refused(prefer=f"&{text}") == (FAILED + "Invalid feature specification",)
    assert refused(prefer="fast&cpu") is None


def test_each_command_has_its_own_words() -> None:
    assert refused(kind="alloc", constraint="nosuch") == (
        "error: Job submit/allocate failed: Invalid feature specification",
    )
    assert refused(kind="run", gres="gpu:9") == (
        "error: Unable to allocate resources: Requested node configuration is not available",
    )


def test_root_may() -> None:
    assert refused(uid=0, partition="staff") is None


def test_a_better_priority_is_for_operators() -> None:
    assert refused(nice=-10) == (FAILED + "Invalid --nice value",)
    check_request(JobRequest(nice=-10), CLUSTER, USER, NOW, operator=True)


def test_no_default_partition() -> None:
    bare = CLUSTER.replace(partitions=(Partition(name="only", nodes=("n1",)),))
    assert refused(cluster=bare) == (FAILED + "No partition specified or system default partition",)
    assert refused(cluster=bare, partition="only") is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"min_nodes": 5}, "Node count specification invalid"),
        ({"partition": "gpu", "time_limit": 180}, "Requested time limit is invalid (missing or exceeds some limit)"),
        ({"ntasks": 33}, "More processors requested than permitted"),
    ],
)
def test_enforced_limits_refuse_at_once(fields: dict[str, Any], reason: str) -> None:
    strict = CLUSTER.replace(enforce_part_limits=True)
    assert refused(cluster=strict, **fields) == (FAILED + reason,)
    assert refused(cluster=strict, ntasks=32) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"min_nodes": 9, "max_nodes": 9}, "PartitionNodeLimit"),
        ({"partition": "gpu", "min_nodes": 3, "max_nodes": 3}, "PartitionNodeLimit"),
        ({"partition": "gpu", "time_limit": 180}, "PartitionTimeLimit"),
        ({"partition": "gpu", "time_limit": INFINITE}, "PartitionTimeLimit"),
        ({"partition": "gpu", "time_limit": 180, "time_min": 60}, None),
        ({"partition": "gpu,debug", "time_limit": 180}, None),
        ({"ntasks": 33}, "PartitionConfig"),
        ({"partition": "down"}, "PartitionDown"),
        ({"ntasks": 33, "partition": "gpu", "time_limit": 180, "min_nodes": 3}, "PartitionConfig"),
        ({"partition": "gpu", "time_limit": 180, "min_nodes": 3}, "PartitionNodeLimit"),
    ],
)
def test_why_an_accepted_request_waits(fields: dict[str, Any], reason: str | None) -> None:
    assert refused(**fields) is None
    assert pending_reason(JobRequest(**fields), CLUSTER) == reason


@pytest.mark.parametrize(
    "fields",
    [{"constraint": "fast", "min_nodes": 3, "max_nodes": 3}, {"exclude": "n1", "min_nodes": 4, "max_nodes": 4}],
)
def test_a_job_that_was_changed_may_have_no_place(fields: dict[str, Any]) -> None:
    assert pending_reason(JobRequest(**fields), CLUSTER) == "BadConstraints"


@pytest.mark.parametrize(
    "fields",
    [
        {"exclude": "n[1-3]", "min_nodes": 2},
        {"exclude": "n[1-3]", "min_nodes": 2, "max_nodes": 3},
        {"exclude": "n1", "min_nodes": 4},
        {"exclude": "n[1-3]", "ntasks": 9},
        {"constraint": "fast", "min_nodes": 3},
        {"constraint": "fast", "ntasks": 17},
        {"constraint": "[fast|slow]", "ntasks": 17},
        {"ntasks_per_node": 2, "ntasks": 16},
        {"ntasks_per_node": 1, "ntasks": 5},
        {"ntasks_per_node": 4, "ntasks": 9, "min_nodes": 2},
        {"ntasks_per_socket": 1, "ntasks": 9},
        {"ntasks_per_socket": 5},
        {"cpus_per_task": 7, "ntasks": 4, "exclude": "n1"},
        {"contiguous": True, "min_nodes": 3, "exclude": "n2"},
        {"node_list": "n[1-2]", "exclude": "n[3-4]", "ntasks": 17},
        {"cpus_per_gpu": 9, "gpus": "1"},
        {"mem_per_cpu": 3000, "cpus_per_task": 8},
        # With several partitions a limit is no way to wait.
        {"partition": "gpu,debug", "min_nodes": 5},
        {"partition": "gpu,debug", "ntasks": 33},
        {"partition": "debug,gpu", "exclude": "n[1-2]", "min_nodes": 3},
    ],
)
def test_refused_because_there_is_no_place(fields: dict[str, Any]) -> None:
    assert refused(**fields) == (CONFIGURATION,)


def test_of_several_partitions_one_tells_what_is_missing() -> None:
    lines = ("error: CPU count per node can not be satisfied", CONFIGURATION)
    assert refused(partition="gpu,debug", min_nodes=3, cpus_per_task=9) == lines
    assert refused(partition="gpu", min_nodes=3, cpus_per_task=9) is None
    assert refused(ntasks_per_node=4, ntasks=2, cpus_per_task=4) == lines
    assert refused(ntasks_per_node=9, ntasks=4) == lines


def test_memory_that_nobody_counts_is_refused_by_the_cpu_only() -> None:
    uncounted = CLUSTER.replace(counts_memory=False)
    assert refused(cluster=uncounted, mem_per_cpu=3000, cpus_per_task=8) is None
    assert refused(cluster=uncounted, mem_per_gpu=16001, gpus="1") is None
    lines = ("error: Memory specification can not be satisfied", CONFIGURATION)
    assert refused(cluster=uncounted, mem_per_cpu=16001) == lines
    assert refused(cluster=uncounted, mem_per_node=16001) == lines


def test_what_lies_between_neighbours_counts() -> None:
    assert refused(contiguous=True, node_list="n1,n3", min_nodes=2) == (FAILED + "Node count specification invalid",)
    assert refused(contiguous=True, node_list="n1,n3", min_nodes=3) is None


def test_memory_limits_make_wait() -> None:
    limited = CLUSTER.replace(max_mem_per_node=4000)
    assert pending_reason(JobRequest(mem_per_node=5000), limited) == "MaxMemPerLimit"
    assert pending_reason(JobRequest(mem_per_node=4000), limited) is None


def test_nodes_out_of_service() -> None:
    nodes = (*CLUSTER.nodes[:3], node(4, state="DRAIN"))
    cluster = CLUSTER.replace(nodes=nodes)
    debug = cluster.partitions[0]
    assert unavailable_nodes(JobRequest(node_list="n4"), cluster, debug) == "ReqNodeNotAvail, UnavailableNodes:n4"
    assert unavailable_nodes(JobRequest(node_list="n3"), cluster, debug) is None
    everything = unavailable_nodes(JobRequest(min_nodes=4, max_nodes=4), cluster, debug)
    assert everything is not None and everything.startswith("Nodes required for job are DOWN, DRAINED")
    assert unavailable_nodes(JobRequest(node_list="n4"), CLUSTER, debug) is None


TEXT = st.none() | st.text(alphabet="n14[]-,gpu:a0x_&|*()", max_size=10)


@given(
    st.fixed_dictionaries(
        {
            "partition": st.none() | st.sampled_from(["debug", "gpu", "debug,gpu", "x", "down"]),
            "node_list": TEXT,
            "exclude": TEXT,
            "constraint": TEXT,
            "gres": TEXT,
            "gpus": TEXT,
            "array": TEXT,
            "dependency": TEXT,
            "licenses": TEXT,
            "min_nodes": st.none() | st.integers(1, 6),
            "ntasks": st.none() | st.integers(1, 40),
            "cpus_per_task": st.none() | st.integers(1, 10),
        }
    )
)
def test_any_request_is_accepted_or_refused_in_words(fields: dict[str, Any]) -> None:
    if refused(**fields) is None:
        reason = pending_reason(JobRequest(**fields), CLUSTER)
        assert reason is None or reason.isprintable()


MANY = CLUSTER.replace(
    nodes=tuple(node(number).replace(features=("slow" if number > 6 else "fast", "cpu")) for number in range(1, 10)),
    partitions=(Partition(name="debug", nodes=tuple(f"n{number}" for number in range(1, 10)), default=True),),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "min_nodes": st.integers(1, 4),
            "ntasks": st.integers(1, 80),
            "cpus_per_task": st.integers(1, 9),
            "ntasks_per_node": st.integers(1, 9),
            "mem_per_cpu": st.sampled_from([1000, 3000, 17000]),
            "gpus": st.sampled_from(["1", "5", "37"]),
            "gres": st.sampled_from(["gpu:2", "gpu:a100:4"]),
            "exclusive": st.sampled_from([None, "node"]),
            "node_list": st.sampled_from(["n9", "n[2,8]"]),
            "exclude": st.sampled_from(["n[1-8]", "n[1-2]"]),
            "constraint": st.sampled_from(["fast", "slow", "[fast|slow]", "fast*2&slow*1"]),
            "contiguous": st.booleans(),
        },
    )
)
def test_a_few_nodes_of_each_kind_tell_whether_there_is_a_place(fields: dict[str, Any]) -> None:
    request = JobRequest(**fields)
    partition = MANY.partitions[0]
    everywhere = select_nodes(request, MANY, idle_nodes(usable_nodes(request, MANY, partition)), partition)
    assert fits_when_idle(request, MANY, partition) == (everywhere is not None)


def test_a_cluster_takes_its_most_jobs_and_no_more() -> None:
    """MaxJobCount; each component of a heterogeneous job is a job."""
    two = [JobRequest(kind="alloc"), JobRequest(kind="alloc")]
    check_job_count(2, two, CLUSTER.replace(max_jobs=4))
    with pytest.raises(RequestError) as refusal:
        check_job_count(3, two, CLUSTER.replace(max_jobs=4))
    assert refusal.value.lines == ("error: Job submit/allocate failed: Resource temporarily unavailable",)


@pytest.mark.parametrize(
    ("components", "reason"),
    [
        ([{"array": "1-2"}], ""),
        ([{"immediate": 0}], ""),
        ([{}, {}], ""),
        ([{"node_list": "n1"}, {"node_list": "n[2-3]"}], ""),
        ([{}, {"array": "1-2"}], "Invalid job array specification"),
        ([{"node_list": "n[1-2]"}, {"node_list": "n2"}], "Invalid node name specified"),
        ([{"immediate": 0}, {}], "Job can not start immediately"),
    ],
)
def test_components_that_may_not_be_submitted_together(components: list[dict[str, Any]], reason: str) -> None:
    requests = [JobRequest(**fields) for fields in components]
    if not reason:
        check_components(requests)
        return
    with pytest.raises(RequestError) as caught:
        check_components(requests)
    assert caught.value.lines == (FAILED + reason,)


def test_each_licence_must_be_there() -> None:
    assert refused(licenses="matlab:2") is None
    assert refused(licenses="matlab:1,nosuch:1") == (FAILED + "Invalid license specification",)


def test_nodes_that_are_named_may_be_neighbours() -> None:
    assert refused(contiguous=True, node_list="n[2-3]", min_nodes=2, max_nodes=2) is None
    assert refused(contiguous=True, node_list="n1,n3", min_nodes=2, max_nodes=2) == (
        FAILED + "Node count specification invalid",
    )


def test_resources_are_known_by_the_nodes_that_have_them_and_by_the_configuration() -> None:
    nvme = CLUSTER.nodes[0].replace(gres=(Gres(name="nvme", count=1),))
    cluster = CLUSTER.replace(nodes=(nvme, *CLUSTER.nodes[1:]), gres_types=("lustre",))
    assert refused(cluster=cluster, gres="nvme:1") is None
    assert refused(cluster=cluster, gres="lustre:1") == (CONFIGURATION,)


def test_enforced_numbers_of_nodes_at_their_edges() -> None:
    nodes = CLUSTER.partitions[0].replace(min_nodes=2, max_nodes=3)
    strict = CLUSTER.replace(enforce_part_limits=True, partitions=(nodes,))
    for number in range(1, 5):
        found = refused(cluster=strict, min_nodes=number, max_nodes=number)
        assert found == (None if number in (2, 3) else (FAILED + "Node count specification invalid",)), number
    assert refused(cluster=CLUSTER.replace(enforce_part_limits=True), min_nodes=4) is None


@pytest.mark.parametrize("in_all", [True, False])
def test_enforced_limits_of_time(in_all: bool) -> None:
    strict = CLUSTER.replace(enforce_part_limits=True, enforce_in_all=in_all)
    above = (FAILED + "Requested time limit is invalid (missing or exceeds some limit)",)
    assert refused(cluster=strict, partition="gpu", time_limit=120) is None
    assert refused(cluster=strict, partition="gpu", time_limit=121) == above
    assert refused(cluster=strict, partition="gpu,debug", time_limit=121) == (above if in_all else None)


def test_the_least_time_is_not_above_the_limit() -> None:
    above = (FAILED + "Invalid time-min specification (exceeds job's time or other limits)",)
    assert refused(partition="gpu", time_limit=60, time_min=60) is None
    assert refused(partition="gpu", time_limit=60, time_min=61) == above
    assert refused(partition="gpu", time_min=121) == above


def test_enforced_limits_of_several_partitions_and_of_their_defaults() -> None:
    strict = CLUSTER.replace(enforce_part_limits=True, enforce_in_all=False)
    names = CLUSTER.partitions[0].nodes
    two = tuple(Partition(name=name, nodes=names, max_nodes=most) for name, most in (("a", 2), ("b", 3)))
    for number in (2, 3, 4):
        found = refused(cluster=strict.replace(partitions=two), partition="a,b", min_nodes=number, max_nodes=number)
        assert found == (None if number < 4 else (FAILED + "Node count specification invalid",))
    short = strict.replace(partitions=(Partition(name="p", nodes=names, max_time=60, default_time=90, default=True),))
    assert refused(cluster=short) == (FAILED + "Requested time limit is invalid (missing or exceeds some limit)",)
    assert refused(cluster=short, time_min=30) is None


def test_a_partition_that_is_down_is_looked_at_all_the_same() -> None:
    names = CLUSTER.partitions[0].nodes
    down = Partition(name="p", nodes=names, state="DOWN", max_nodes=1, default=True)
    few = CLUSTER.replace(partitions=(down,))
    assert refused(cluster=few, min_nodes=2, max_nodes=2) is None  # more than it gives to a job: that may change
    assert pending_reason(JobRequest(min_nodes=2, max_nodes=2), few) == "PartitionDown"
    assert refused(cluster=few, mem_per_node=99999) is not None


def test_nodes_that_are_named_wait_where_a_partition_has_fewer() -> None:
    one = CLUSTER.replace(partitions=(Partition(name="p", nodes=("n1",), default=True),))
    assert refused(cluster=one, node_list="n1,n3") is None
    assert pending_reason(JobRequest(node_list="n1,n3"), one) == "PartitionNodeLimit"


def test_who_names_no_number_of_nodes_is_within_enforced_limits() -> None:
    most = CLUSTER.partitions[0].replace(max_nodes=3)
    assert refused(cluster=CLUSTER.replace(enforce_part_limits=True, partitions=(most,))) is None
