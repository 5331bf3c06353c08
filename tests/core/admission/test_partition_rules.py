"""What partitions allow, and what they make of a job: the words of slurm.conf, as measured."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.admission.feasibility import pending_reason
from shim.core.admission.partition_rules import (
    Access,
    apply_partition_rules,
    is_operator,
    partitions_of,
    restricted_partitions,
    that_take_jobs,
)
from shim.core.admission.refusals import check_request
from shim.core.errors import RequestError
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.request import JobRequest

NODES = tuple(Node(name=f"n{number}", cpus=16, memory=64000) for number in range(1, 5))
NAMES = tuple(node.name for node in NODES)
FAILED = "error: Batch job submission failed: "
ACCOUNT = FAILED + "Invalid account or account/partition combination specified"


def cluster(accounting: bool = False, enforce: bool = False, in_all: bool = True, **limits: Any) -> Cluster:
    partitions = (Partition(name="p", nodes=NAMES, **limits), Partition(name="free", nodes=NAMES, default=True))
    return Cluster(
        name="c",
        nodes=NODES,
        partitions=partitions,
        accounting=accounting,
        enforce_part_limits=enforce,
        enforce_in_all=in_all,
    )


def refused(of: Cluster, uid: int = 1001, groups: tuple[str, ...] = ("users",), **fields: Any) -> str:
    request = JobRequest(**{"kind": "batch", "partition": "p", **fields})
    try:
        check_request(request, of, uid, 0, lambda: groups)
    except RequestError as error:
        return error.lines[-1]
    return ""


def reason(of: Cluster, **fields: Any) -> str | None:
    return pending_reason(JobRequest(**{"kind": "batch", "partition": "p", **fields}), of)


def test_who_may_use_a_partition() -> None:
    denied = FAILED + "Access/permission denied"
    assert refused(cluster(root_only=True)) == denied
    assert refused(cluster(root_only=True), uid=0) == ""
    assert refused(cluster(disable_root_jobs=True), uid=0) == denied
    assert refused(cluster(disable_root_jobs=True)) == ""
    assert refused(cluster(req_resv=True)) == denied
    wrong = FAILED + "User's group not permitted to use this partition"
    assert refused(cluster(allow_groups="staff,admin")) == wrong
    assert refused(cluster(allow_groups="staff,users")) == ""
    assert refused(cluster(allow_groups="staff"), uid=0) == ""


@pytest.mark.parametrize(
    ("operators", "root", "named", "by_uid", "owner", "other"),
    [
        (None, True, False, False, True, False),
        ((), True, False, False, False, False),
        (("ann", "1002"), True, True, True, True, False),
    ],
)
def test_operators(
    operators: tuple[str, ...] | None, root: bool, named: bool, by_uid: bool, owner: bool, other: bool
) -> None:
    users = ((0, "root"), (1001, "ann"), (1002, "bob"), (1003, "me"), (1004, "eve"))
    assert [is_operator(operators, uid, name, 1003) for uid, name in users] == [root, named, by_uid, owner, other]


def test_where_a_partition_is_used_from() -> None:
    (partition, *_) = cluster(alloc_nodes="login[1-2]").partitions
    found = {host: Access(1001, None, host).problem(JobRequest(), partition) for host in ("login2", "login3", "")}
    assert found == {"login2": "", "login3": "Access/permission denied", "": ""}
    for text, problem in (("All", ""), ("login[", "Access/permission denied")):
        assert Access(1001, None, "any").problem(JobRequest(), partition.replace(alloc_nodes=text)) == problem


def test_a_reservation_opens_a_partition_that_requires_one() -> None:
    (partition, *_) = cluster(req_resv=True).partitions
    assert Access(1001, None).problem(JobRequest(reservation="r"), partition) == ""


def test_groups_that_nobody_knows_keep_nobody_out() -> None:
    (partition, *_) = cluster(allow_groups="staff").partitions
    assert Access(1001, None).problem(JobRequest(), partition) == ""


def test_partitions_by_tier() -> None:
    tiers = tuple(Partition(name=name, priority_tier=tier) for name, tier in (("a", 1), ("b", 5), ("c", 1)))
    of = Cluster(name="c", partitions=tiers)
    assert [one.name for one in partitions_of(JobRequest(partition="c,a,b,gone,a"), of)] == ["b", "c", "a"]
    assert partitions_of(JobRequest(), of) == []
    assert [one.name for one in partitions_of(JobRequest(), cluster())] == ["free"]


def test_partitions_that_not_everybody_sees() -> None:
    tiers = (Partition(name="a", hidden=True), Partition(name="b", allow_groups="staff"), Partition(name="c"))
    assert restricted_partitions(Cluster(name="c", partitions=tiers)) == {"a": "", "b": "staff"}


def test_another_partition_will_do_unless_limits_are_enforced() -> None:
    assert refused(cluster(root_only=True), partition="p,free") == ""
    assert refused(cluster(root_only=True, enforce=True), partition="p,free").endswith("denied")


@pytest.mark.parametrize(
    "of, fields, why",
    [
        (
            cluster(allow_accounts="a,b"),
            {"account": "a"},
            "Job's account not known, so it can't use this partition (p allows a,b)",
        ),
        (cluster(allow_accounts="a,b"), {}, None),
        (cluster(True, allow_accounts="a,b"), {"account": "a"}, None),
        (
            cluster(True, allow_accounts="a,b"),
            {"account": "c"},
            "Job's account not permitted to use this partition (p allows a,b not c)",
        ),
        (cluster(deny_accounts="a"), {"account": "a"}, None),
        (
            cluster(True, deny_accounts="a"),
            {"account": "a"},
            "Job's account not permitted to use this partition (p denies a including a)",
        ),
        (cluster(allow_qos="q"), {"qos": "r"}, None),
        (
            cluster(True, allow_qos="q"),
            {"qos": "r"},
            "Job's QOS not permitted to use this partition (p allows q not r)",
        ),
        (cluster(True, deny_qos="q"), {"qos": "r"}, None),
        (cluster(True, deny_qos="q"), {}, None),
        (cluster(deny_qos="q"), {"qos": "q"}, None),
        (
            cluster(True, deny_qos="q,r"),
            {"qos": "r"},
            "Job's QOS not permitted to use this partition (p denies q,r including r)",
        ),
        (cluster(True, allow_qos="q,r"), {"qos": "r"}, None),
        (cluster(True, allow_qos="q,r"), {}, None),
    ],
)
def test_accounts_and_qos_keep_jobs_waiting(of: Cluster, fields: dict[str, Any], why: str | None) -> None:
    assert refused(of, **fields) == ""
    assert reason(of, **fields) == why


def test_enforced_limits() -> None:
    assert refused(cluster(enforce=True, allow_accounts="a")) == ACCOUNT
    now = FAILED + "Requested partition configuration not available now"
    assert refused(cluster(enforce=True, deny_accounts="a"), account="a") == now
    assert refused(cluster(True, enforce=True, deny_accounts="a"), account="a") == ACCOUNT
    assert refused(cluster(True, enforce=True, deny_qos="q"), qos="q") == FAILED + "Invalid qos specification"
    memory = FAILED + "Memory required by task is not available"
    assert refused(cluster(enforce=True, max_mem_per_node=2000), mem_per_cpu=3000) == memory
    time = FAILED + "Requested time limit is invalid (missing or exceeds some limit)"
    assert refused(cluster(enforce=True, max_time=60), partition="p,free", time_limit=61) == time
    assert refused(cluster(enforce=True, in_all=False, max_time=60), partition="p,free", time_limit=61) == ""
    assert refused(cluster(enforce=True, state="DOWN")) == ""


def test_cpus_of_a_node() -> None:
    wrong = FAILED + "Requested node configuration is not available"
    of = cluster(max_cpus_per_node=8)
    assert refused(of, cpus_per_task=9) == wrong
    assert refused(of, ntasks=20, min_nodes=1, max_nodes=1) == wrong
    assert refused(of, cpus_per_task=8) == refused(of, ntasks=20) == ""


def test_what_a_partition_makes_of_a_job() -> None:
    def kept(limits: dict[str, Any], **fields: Any) -> JobRequest:
        of = cluster(**limits)
        return apply_partition_rules(JobRequest(kind="batch", partition="p", **fields), of, of.partitions[0])

    assert kept({"oversubscribe": "EXCLUSIVE"}).exclusive == "node"
    assert kept({"oversubscribe": "EXCLUSIVE"}, oversubscribe=True).exclusive is None
    assert kept({"oversubscribe": "FORCE:4"}).oversubscribe
    assert not kept({"oversubscribe": "FORCE:4"}, exclusive="node").oversubscribe
    assert (kept({"min_nodes": 2}).min_nodes, kept({"min_nodes": 2}, min_nodes=1).min_nodes) == (2, 1)
    more = kept({"max_mem_per_cpu": 1000}, mem_per_cpu=2500, cpus_per_task=2)
    assert (more.cpus_per_task, more.mem_per_cpu) == (6, 834)
    assert kept({"max_mem_per_cpu": 1000}, mem_per_node=3000).min_cpus == 3
    assert kept({"max_mem_per_cpu": 1000}, mem_per_node=3001, min_cpus=2).min_cpus == 4
    assert kept({"max_mem_per_cpu": 1000}, mem_per_node=3000, min_cpus=8).min_cpus == 8
    assert kept({"max_mem_per_cpu": 1000}, mem_per_node=1000).min_cpus is None
    assert kept({"max_mem_per_cpu": 1000}, mem_per_cpu=1000).cpus_per_task is None
    assert kept({"min_nodes": 2}, ntasks=1).max_nodes == 0
    assert kept({"min_nodes": 1}).min_nodes is None
    assert kept({"oversubscribe": "YES"}) == kept({})
    assert kept({}, mem_per_node=3000) == JobRequest(kind="batch", partition="p", mem_per_node=3000)


LARGE, SMALL = ("n1", "n2", "n3", "n4"), ("n1",)
FOUR = tuple(Node(name=name, cpus=8, memory=16000) for name in LARGE)
LACKING = FAILED + "Requested node configuration is not available"
CONFIG = FAILED + "Requested partition configuration not available now"
COUNT = FAILED + "Node count specification invalid"
CLOSED = FAILED + "Required partition not available (inactive or drain)"
DENIED = FAILED + "Access/permission denied"
TIME = FAILED + "Requested time limit is invalid (missing or exceeds some limit)"
MINIMUM = FAILED + "Invalid time-min specification (exceeds job's time or other limits)"


def mode(enforced: bool, in_all: bool) -> Cluster:
    """Partitions with one property each, under one EnforcePartLimits."""
    partitions = (
        Partition(name="all", nodes=LARGE, default=True),
        Partition(name="one", nodes=SMALL),
        Partition(name="short", nodes=LARGE, max_time=60, max_nodes=2),
        Partition(name="default", nodes=LARGE, max_time=90, default_time=30),
        Partition(name="wide", nodes=LARGE, min_nodes=3),
        Partition(name="memory", nodes=LARGE, max_mem_per_node=2000),
        Partition(name="root", nodes=LARGE, root_only=True),
        Partition(name="down", nodes=LARGE, max_time=60, state="DOWN"),
        Partition(name="drain", nodes=LARGE, state="DRAIN"),
    )
    return Cluster(name="c", nodes=FOUR, partitions=partitions, enforce_part_limits=enforced, enforce_in_all=in_all)


@pytest.mark.parametrize(
    ("partition", "fields", "no", "any_of_them", "all_of_them"),
    [
        ("short,all", {"min_nodes": 3}, "", "", COUNT),
        ("all,short", {"time_limit": 90}, "", "", TIME),
        ("short,wide", {"min_nodes": 1, "max_nodes": 2}, "", "", COUNT),
        ("all,wide", {}, "", "", CONFIG),
        ("all,memory", {}, "", "", CONFIG),  # no --mem is all of a node
        ("memory", {}, "", CONFIG, CONFIG),
        ("down", {"tmp_disk": 1}, LACKING, LACKING, LACKING),
        ("one,down", {"min_nodes": 4}, "", "", COUNT),  # the last one that is tried is down: the job waits
        ("down,short", {"min_nodes": 3}, "", CONFIG, COUNT),
        ("root,all", {}, "", DENIED, DENIED),
        ("all,root", {}, "", CLOSED, DENIED),
        ("short,root", {"min_nodes": 3}, "", DENIED, COUNT),
        ("root", {}, DENIED, DENIED, DENIED),
        ("drain,root", {"min_nodes": 1}, "", DENIED, DENIED),
        ("drain", {}, CLOSED, CLOSED, CLOSED),
        (
            "root,short",
            {"time_min": 1},
            MINIMUM,
            DENIED,
            DENIED,
        ),  # what one allows after one that denies does not count
        ("default,all", {"time_min": 31}, MINIMUM, MINIMUM, MINIMUM),  # the first one's DefaultTime
        ("all,default", {"time_min": 31}, "", "", ""),
        ("short,all", {"time_min": 61}, "", "", ""),
    ],
)
def test_several_partitions_under_each_mode(
    partition: str, fields: dict[str, Any], no: str, any_of_them: str, all_of_them: str
) -> None:
    modes = (mode(False, True), mode(True, False), mode(True, True))
    found = tuple(refused(one, partition=partition, **fields) for one in modes)
    assert found == (no, any_of_them, all_of_them)


@pytest.mark.parametrize(
    ("names", "left"),
    [("off,p", "p"), ("p,off", "p"), ("off", ""), ("nosuch,p", "nosuch,p"), ("off,off", ""), ("p,down", "p,down")],
)
def test_partitions_that_take_no_jobs_are_left_out(names: str, left: str) -> None:
    others = (Partition(name="off", state="INACTIVE"), Partition(name="down", state="DOWN"))
    assert that_take_jobs(names, Cluster(name="c", partitions=(Partition(name="p"), *others))) == left


def test_memory_of_a_cpu_above_the_limit_brings_more_cpus() -> None:
    limited = Cluster(name="c", partitions=(Partition(name="p", max_mem_per_cpu=500),))
    kept = apply_partition_rules(JobRequest(mem_per_cpu=1200), limited, limited.partitions[0])
    assert (kept.cpus_per_task, kept.mem_per_cpu) == (3, 400)
