"""Which jobs start and why the others wait, on four nodes of eight CPUs and four GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shim.control.scheduler import Plan, plan
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import INFINITE, JobRequest

NOW = 1_800_000_000.0
YEAR = 365 * 86400

NODES = tuple(
    Node(
        name=f"n{number}",
        cpus=8,
        sockets=2,
        cores_per_socket=4,
        memory=16000,
        gres=(Gres(name="gpu", type="a100" if number > 2 else "", count=4),),
        features=("slow",) if number > 2 else ("fast",),
    )
    for number in range(1, 5)
)
CLUSTER = Cluster(
    name="ref",
    nodes=NODES,
    partitions=(
        Partition(name="debug", nodes=("n1", "n2", "n3", "n4"), default=True),
        Partition(name="gpu", nodes=("n3", "n4"), max_time=120, default_time=30),
        Partition(name="urgent", nodes=("n1", "n2", "n3", "n4"), priority_tier=10),
        Partition(name="narrow", nodes=("n1", "n2", "n3", "n4"), max_nodes=1),
        Partition(name="down", nodes=("n1",), state="DOWN"),
    ),
    licenses=(Gres(name="matlab", count=2),),
)


def pending(key: int, *, limit: int | None = 10, partition: str = "debug", **fields: Any) -> Job:
    """A pending job; fields of the job itself by their name, all others are the request's."""
    own = {name: fields.pop(name) for name in list(fields) if name in Job._defaults and name != "dependency"}
    own.setdefault("priority", 1000 - key)
    return Job(key=key, job_id=key, partition=partition, time_limit=limit, request=JobRequest(**fields), **own)


def running(key: int, *shares: NodeShare, minutes: float | None = 10, **fields: Any) -> Job:
    end = NOW + minutes * 60 if minutes is not None else 0
    return pending(key, **fields).replace(state="RUNNING", shares=shares, end_time=end)


def whole(name: str) -> NodeShare:
    return NodeShare(name=name, cpus=8)


def started(found: Plan) -> dict[int, list[str]]:
    return {job.key: [share.name for share in shares] for job, shares in found.starts}


ALL_BUSY = (running(90, *(whole(f"n{number}") for number in range(1, 5))),)


def test_an_idle_cluster_starts_jobs_in_order() -> None:
    found = plan([pending(2, ntasks=4), pending(1, min_nodes=2, max_nodes=2)], CLUSTER, [], NOW)
    assert [job.key for job, _ in found.starts] == [1, 2]
    assert started(found)[1] == ["n1", "n2"]
    assert (found.reasons, found.expected) == ({}, {})
    assert found.starts[0][0].partition == "debug"


def test_priority_then_submission_decide() -> None:
    jobs = [
        pending(1, exclusive="node", min_nodes=4, max_nodes=4, priority=5, submit_time=10),
        pending(2, exclusive="node", min_nodes=4, max_nodes=4, priority=5, submit_time=9),
        pending(3, exclusive="node", min_nodes=4, max_nodes=4, priority=7, submit_time=30),
    ]
    found = plan(jobs, CLUSTER, [], NOW)
    assert list(started(found)) == [3]
    assert found.expected[2][0] < found.expected[1][0]


def test_a_higher_tier_goes_first() -> None:
    jobs = [
        pending(1, exclusive="node", min_nodes=4, max_nodes=4),
        pending(2, exclusive="node", min_nodes=4, max_nodes=4, partition="urgent"),
    ]
    assert list(started(plan(jobs, CLUSTER, [], NOW))) == [2]


def test_resources_for_the_first_and_priority_behind_it() -> None:
    found = plan([pending(key) for key in (1, 2, 3)], CLUSTER, ALL_BUSY, NOW)
    assert found.starts == []
    assert found.reasons == {1: "Resources", 2: "Priority", 3: "Priority"}
    assert found.expected[1] == (NOW + 600, ("n1",))


def test_each_partition_has_its_first() -> None:
    busy = [running(90, whole("n3"), whole("n4"))]
    found = plan([pending(1, partition="gpu"), pending(2, min_nodes=4, max_nodes=4)], CLUSTER, busy, NOW)
    assert found.reasons == {1: "Resources", 2: "Resources"}


def test_out_of_turn_a_job_gets_its_shortest_time() -> None:
    busy = [running(90, whole("n1"), whole("n2"), whole("n3"), minutes=30)]
    wide = pending(1, min_nodes=4, max_nodes=4, exclusive="node")
    long, open_end = pending(2, limit=60, time_min=20), pending(3, limit=INFINITE, time_min=31)
    short = pending(4, limit=5, time_min=20)
    found = plan([wide, long, open_end, short], CLUSTER, busy, NOW)
    assert {job.key: job.time_limit for job, _ in found.starts} == {2: 20, 4: 5}
    assert found.reasons[3] == "Priority"
    alone = plan([long, open_end], CLUSTER, busy, NOW)
    assert {job.key: job.time_limit for job, _ in alone.starts} == {2: 60, 3: INFINITE}
    elsewhere = pending(5, limit=60, time_min=20, partition="narrow")
    found = plan([wide, elsewhere], CLUSTER, busy, NOW)
    assert not found.starts  # it would take the room that the first one waits for


def test_a_short_job_fills_the_gap_and_a_long_one_does_not() -> None:
    busy = [running(90, whole("n1"), whole("n2"), whole("n3"), minutes=30)]
    wide = pending(1, min_nodes=4, max_nodes=4, exclusive="node")
    found = plan([wide, pending(2, limit=31), pending(3, limit=30)], CLUSTER, busy, NOW)
    assert started(found) == {3: ["n4"]}
    assert found.reasons == {1: "Resources", 2: "Priority"}
    assert found.expected[1] == (NOW + 1800, ("n1", "n2", "n3", "n4"))
    assert found.expected[2][0] == NOW + 1800 + 600


def test_a_long_job_may_start_beside_a_reservation() -> None:
    busy = [running(90, whole("n1"), minutes=30)]
    wide = pending(1, node_list="n1", ntasks=8)
    found = plan([wide, pending(2, limit=INFINITE, min_nodes=3, max_nodes=3)], CLUSTER, busy, NOW)
    assert started(found) == {2: ["n2", "n3", "n4"]}


def test_jobs_without_a_limit_last_a_year() -> None:
    busy = [running(90, *(whole(f"n{number}") for number in range(1, 5)), minutes=None)]
    found = plan([pending(1, limit=None)], CLUSTER, busy, NOW)
    assert found.expected[1][0] == NOW + YEAR


def test_a_job_past_its_end_is_soon_gone() -> None:
    busy = [running(90, *(whole(f"n{number}") for number in range(1, 5)), minutes=-1)]
    assert plan([pending(1)], CLUSTER, busy, NOW).expected[1][0] == NOW + 30


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"held": "user"}, "JobHeldUser"),
        ({"held": "admin"}, "JobHeldAdmin"),
        ({"held": "user", "reason": "job requeued in held state"}, "job requeued in held state"),
        ({"begin": int(NOW) + 1}, "BeginTime"),
        ({"min_nodes": 9, "max_nodes": 9}, "PartitionNodeLimit"),
        ({"ntasks": 33}, "PartitionConfig"),
        ({"partition": "gpu", "limit": 121}, "PartitionTimeLimit"),
        ({"partition": "down"}, "PartitionDown"),
        ({"partition": "nosuch"}, "PartitionConfig"),
        ({"partition": "narrow", "ntasks": 9}, "PartitionConfig"),
        ({"constraint": "fast", "min_nodes": 3, "max_nodes": 3}, "BadConstraints"),
    ],
)
def test_jobs_that_cannot_start_say_why_and_block_nobody(fields: dict[str, Any], reason: str) -> None:
    found = plan([pending(1, **fields), pending(2)], CLUSTER, [], NOW)
    assert found.reasons == {1: reason}
    assert list(started(found)) == [2]


@pytest.mark.parametrize(
    ("reason", "shown"), [("None", "Dependency"), ("DependencyNeverSatisfied", "DependencyNeverSatisfied")]
)
def test_what_is_left_of_a_dependency(reason: str, shown: str) -> None:
    job = pending(1).replace(dependency="afterok:7(unfulfilled)", reason=reason)
    found = plan([job, pending(2)], CLUSTER, [], NOW)
    assert found.reasons == {1: shown}
    assert list(started(found)) == [2]


def test_drained_nodes_are_not_used_and_named_when_asked_for() -> None:
    cluster = CLUSTER.replace(nodes=(*NODES[:3], NODES[3].replace(state="DRAIN")))
    jobs = [
        pending(1, node_list="n4"),
        pending(2, min_nodes=4, max_nodes=4),
        pending(3, min_nodes=3, max_nodes=3),
    ]
    found = plan(jobs, cluster, [], NOW)
    assert found.reasons[1] == "ReqNodeNotAvail, UnavailableNodes:n4"
    assert found.reasons[2].startswith("Nodes required for job are DOWN, DRAINED")
    assert started(found) == {3: ["n1", "n2", "n3"]}


def test_a_list_of_partitions_takes_the_one_that_fits_first() -> None:
    busy = [running(90, whole("n3"), whole("n4"))]
    found = plan([pending(1, partition="gpu,debug")], CLUSTER, busy, NOW)
    assert started(found) == {1: ["n1"]}
    assert found.starts[0][0].partition == "debug"
    assert plan([pending(1, partition="gpu,debug")], CLUSTER, [], NOW).starts[0][0].partition == "gpu"


def test_a_list_of_partitions_leaves_out_those_whose_limit_is_too_short() -> None:
    found = plan([pending(1, partition="gpu,debug", limit=180)], CLUSTER, [], NOW)
    assert found.starts[0][0].partition == "debug"


def test_without_a_limit_of_its_own_the_partitions_counts() -> None:
    busy = [running(90, whole("n3"), minutes=60)]
    wide = pending(1, partition="gpu", min_nodes=2, max_nodes=2, exclusive="node")
    found = plan([wide, pending(2, partition="gpu", limit=None)], CLUSTER, busy, NOW)
    assert list(started(found)) == [2]  # its 30 minutes end before the reservation


def test_node_lists_features_and_gpus() -> None:
    jobs = [
        pending(1, node_list="n2"),
        pending(2, constraint="slow"),
        pending(3, gres="gpu:a100:4", exclude="n3"),
        pending(4, gres="gpu:a100:1", node_list="n4"),
    ]
    found = plan(jobs, CLUSTER, [], NOW)
    assert started(found) == {1: ["n2"], 2: ["n3"], 3: ["n4"]}
    assert found.starts[2][1][0].gpus == (0, 1, 2, 3)
    assert found.reasons == {4: "Resources"}


def test_memory_that_was_asked_for_is_counted() -> None:
    busy = [running(90, NodeShare(name="n1", cpus=1, memory=15000))]
    found = plan([pending(1, node_list="n1", mem_per_node=2000), pending(2, node_list="n1")], CLUSTER, busy, NOW)
    assert list(started(found)) == [2]
    assert found.reasons == {1: "Resources"}


def test_disks_and_sockets_restrict_the_nodes() -> None:
    cluster = CLUSTER.replace(nodes=(*NODES[:3], NODES[3].replace(tmp_disk=500, threads_per_core=2)))
    jobs = [pending(1, tmp_disk=100), pending(2, threads_per_core=2), pending(3, tmp_disk=501)]
    found = plan(jobs, cluster, [], NOW)
    assert started(found) == {1: ["n4"], 2: ["n4"]}
    assert found.reasons == {3: "PartitionConfig"}


def test_licenses() -> None:
    busy = [running(90, NodeShare(name="n1"), licenses="matlab")]
    jobs = [pending(1, licenses="matlab:2"), pending(2, licenses="matlab"), pending(3)]
    found = plan(jobs, CLUSTER, busy, NOW)
    # The second must not overtake the first for ever, though one licence is free.
    assert found.reasons == {1: "Licenses", 2: "Licenses"}
    assert list(started(found)) == [3]
    assert list(started(plan(jobs, CLUSTER, [], NOW))) == [1, 3]


def array(key: int, tasks: str, **fields: Any) -> Job:
    return pending(key, array_job_id=key, array_tasks=tasks, array_spec=tasks, **fields)


def tasks_of(found: Plan) -> list[tuple[int, int | None]]:
    return [(job.key, job.array_task_id) for job, _ in found.starts]


def test_an_array_starts_as_many_tasks_as_fit() -> None:
    found = plan([array(1, "0-5", exclusive="node"), pending(2)], CLUSTER, [], NOW)
    assert tasks_of(found) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert found.reasons == {1: "Resources", 2: "Priority"}


def test_the_limit_of_an_array() -> None:
    runs = [running(90, NodeShare(name="n1"), array_job_id=1, array_task_id=0)]
    found = plan([array(1, "1-9%3"), pending(2)], CLUSTER, runs, NOW)
    assert tasks_of(found) == [(1, 1), (1, 2), (2, None)]
    assert found.reasons == {1: "JobArrayTaskLimit"}


def test_a_whole_array_starts_and_nothing_waits() -> None:
    found = plan([array(1, "3,7")], CLUSTER, [], NOW)
    assert tasks_of(found) == [(1, 3), (1, 7)]
    assert found.reasons == {}


def test_a_separated_task_keeps_the_arrays_limit() -> None:
    runs = [running(90, NodeShare(name="n1"), array_job_id=1, array_task_id=0)]
    requeued = pending(2, array_job_id=1, array_task_id=4, array_spec="0-5%1")
    assert plan([requeued], CLUSTER, runs, NOW).reasons == {2: "JobArrayTaskLimit"}
    assert tasks_of(plan([requeued], CLUSTER, [], NOW)) == [(2, 4)]


def shares_of(found: Plan) -> Sequence[NodeShare]:
    return [share for _, shares in found.starts for share in shares]


def test_a_long_queue_is_looked_through_to_its_end() -> None:
    wide = [pending(key, ntasks=8, min_nodes=4, max_nodes=4, exclusive="node", limit=60) for key in range(1, 300)]
    small = pending(300, limit=5)
    busy = [running(90, whole("n1"), minutes=10)]
    found = plan([*wide, small], CLUSTER, busy, NOW)
    assert list(started(found)) == [300]
    assert set(found.reasons) == set(range(1, 300))
    assert [found.expected[key][0] for key in (1, 2, 3)] == [NOW + 600, NOW + 4200, NOW + 7800]
    assert len(shares_of(found)) == 1


def test_the_jobs_of_a_partition_use_no_more_of_a_node_than_it_allows() -> None:
    capped = CLUSTER.replace(
        partitions=(
            *CLUSTER.partitions,
            Partition(name="few", nodes=("n1", "n2"), max_cpus_per_node=3),
        )
    )
    jobs = [pending(key, partition="few", ntasks=2) for key in (1, 2, 3, 4)]
    found = plan([*jobs, pending(5, ntasks=5, node_list="n1")], capped, [], NOW)
    assert started(found) == {1: ["n1"], 2: ["n1", "n2"], 3: ["n2"], 5: ["n1"]}
    assert found.reasons == {4: "Resources"}
    assert found.expected[4] == (NOW + 600, ("n1",))
    busy = running(9, NodeShare(name="n1", cpus=3), partition="few")
    assert started(plan(jobs[:1], capped, [busy], NOW)) == {1: ["n2"]}
    others = running(9, NodeShare(name="n1", cpus=3), partition="debug")
    assert started(plan(jobs[:1], capped, [others], NOW)) == {1: ["n1"]}


DENIALS: list[tuple[dict[str, Any], int, str, bool]] = [
    ({"root_only": True}, 1001, "login", False),
    ({"root_only": True}, 0, "login", True),
    ({"disable_root_jobs": True}, 0, "login", False),
    ({"disable_root_jobs": True}, 1001, "login", True),
    ({"alloc_nodes": "login[2-3]"}, 1001, "login1", False),
    ({"alloc_nodes": "login[2-3]"}, 1001, "login3", True),
    ({"req_resv": True}, 1001, "login", False),
    ({"allow_groups": "staff,other"}, 1002, "login", False),
    ({"allow_groups": "staff,other"}, 1001, "login", True),
    ({"allow_groups": "staff,other"}, 0, "login", True),
    ({"allow_accounts": "phys"}, 1001, "login", True),  # no account was named
    ({"state": "INACTIVE"}, 1001, "login", False),
    ({"state": "DRAIN"}, 1001, "login", True),  # it takes no new jobs, and starts those that wait
]


@pytest.mark.parametrize(("closed", "uid", "host", "may"), DENIALS)
def test_a_partition_that_is_not_for_the_user_starts_none_of_his_jobs(
    closed: dict[str, Any], uid: int, host: str, may: bool
) -> None:
    first = Partition(name="first", nodes=("n1", "n2"), priority_tier=20, **closed)
    cluster = CLUSTER.replace(partitions=(first, *CLUSTER.partitions))
    members = {1001: ("users", "staff")}
    theirs = {"uid": uid, "submit_host": host}
    jobs = [
        pending(1, partition="first", **theirs),
        pending(2, partition="debug,first", **theirs),
        pending(3, partition="first", **theirs, array_job_id=3, array_tasks="0-1", array_spec="0-1"),
        pending(4, partition="first", **theirs, restarts=1),
        pending(5, partition="first", **theirs, het_job_id=5, het_size=1),
    ]
    for beside in ([], [pending(9, partition="first", uid=0 if uid else 1001, submit_host="login3")]):
        # What another user may, of the same shape and before them in the queue, counts for nobody else.
        found = plan([*beside, *jobs], cluster, [], NOW, members=lambda uid: members.get(uid, ()))
        places = {job.key: job.partition for job, _ in found.starts if job.key != 9}
        if may:
            assert places == dict.fromkeys((1, 2, 3, 4, 5), "first")
        else:
            assert places == {2: "debug"}
            reason = "PartitionInactive" if "state" in closed else "PartitionConfig"
            assert {key: found.reasons[key] for key in (1, 3, 4, 5)} == dict.fromkeys((1, 3, 4, 5), reason)


def test_the_accounts_of_jobs_of_the_same_shape_are_told_apart() -> None:
    first = Partition(name="first", nodes=("n1", "n2"), deny_accounts="phys")
    cluster = CLUSTER.replace(partitions=(first, *CLUSTER.partitions), accounting=True)
    jobs = [pending(1, partition="first", account="chem"), pending(2, partition="first", account="phys")]
    assert list(started(plan(jobs, cluster, [], NOW))) == [1]
    assert list(started(plan([jobs[1]], cluster, [], NOW))) == []


def test_groups_of_nobody_are_known_unless_they_can_be_asked() -> None:
    cluster = CLUSTER.replace(partitions=(Partition(name="first", nodes=("n1",), allow_groups="staff"),))
    assert plan([pending(1, partition="first", uid=1001)], cluster, [], NOW).reasons == {1: "PartitionConfig"}
    # Submitted on another machine: its groups were looked at there.
    elsewhere = pending(1, partition="first", uid=1001, origin="others")
    assert list(started(plan([elsewhere], cluster, [], NOW))) == [1]


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ("down,closed", "PartitionConfig"),
        ("closed,down", "PartitionDown"),
        ("narrow,closed", "PartitionConfig"),
        ("closed,narrow", "PartitionNodeLimit"),
        ("gpu,closed", "BadConstraints"),  # it allows the job, but has not the nodes
        ("down,urgent", "BadConstraints"),
    ],
)
def test_of_several_partitions_the_last_that_was_looked_at_gives_the_reason(partitions: str, reason: str) -> None:
    closed = Partition(name="closed", nodes=("n1",), root_only=True)
    cluster = CLUSTER.replace(partitions=(*CLUSTER.partitions, closed))
    job = pending(1, partition=partitions, uid=1001, min_nodes=2, max_nodes=2, constraint="fast&slow")
    assert plan([job], cluster, [], NOW).reasons == {1: reason}
