"""What partitions allow, and what they make of a job: the words of slurm.conf, as measured."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.admission.feasibility import pending_reason
from shim.core.admission.partition_rules import apply_partition_rules
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
    ],
)
def test_accounts_and_qos_keep_jobs_waiting(of: Cluster, fields: dict[str, Any], why: str | None) -> None:
    assert refused(of, **fields) == ""
    assert reason(of, **fields) == why


def test_enforced_limits() -> None:
    assert refused(cluster(enforce=True, allow_accounts="a")) == ACCOUNT
    now = FAILED + "Requested partition configuration not available now"
    assert refused(cluster(enforce=True, deny_accounts="a"), account="a") == now
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
    assert kept({}, mem_per_node=3000) == JobRequest(kind="batch", partition="p", mem_per_node=3000)
