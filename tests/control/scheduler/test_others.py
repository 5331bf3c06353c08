"""What others use of nodes: it ends some day, and a job that waits for it is not passed by for ever."""

from __future__ import annotations

from typing import Any

from shim.control.scheduler import plan
from shim.core.model.cluster import NO_END, Cluster, Gres, Node, Others, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest

NOW = 1_700_000_000.0


def cluster(*others: tuple[Others, ...], cpus: int = 4, **partition: Any) -> Cluster:
    """A node for each tuple of parts that others use of it."""
    nodes = tuple(
        Node(
            name=f"n{number}",
            cpus=cpus,
            memory=8000,
            gres=(Gres(name="gpu", count=2),),
            others=parts,
            others_cpus=-(-sum(one.cpus for one in parts) // 1000),
            others_gpus=sum(one.gpus for one in parts),
        )
        for number, parts in enumerate(others, start=1)
    )
    names = tuple(node.name for node in nodes)
    return Cluster(name="c", nodes=nodes, partitions=(Partition(name="all", nodes=names, default=True, **partition),))


def job(key: int, nodes: int, cpus: int, minutes: int | None, **request: Any) -> Job:
    asked = JobRequest(min_nodes=nodes, max_nodes=nodes, min_cpus=cpus, time_limit=minutes, **request)
    return Job(
        cluster="c", job_id=key, key=key, submit_time=NOW + key, partition="all", time_limit=minutes, nodes=nodes,
        request=asked,
    )  # fmt: skip


def others(cpus: int = 4000, until: float = 0.0, **more: Any) -> tuple[Others, ...]:
    return (Others(cpus=cpus, until=until, **more),)


def started(found: Any) -> list[int]:
    return [one.job_id for one, _shares in found.starts]


def test_a_wide_job_waits_for_the_end_of_others_and_narrow_ones_do_not_pass_it() -> None:
    busy = cluster(others(until=NOW + 600), (), ())
    wide = job(1, 3, 4, 60)
    found = plan([wide, job(2, 1, 4, 30), job(3, 1, 4, 5)], busy, (), NOW)
    assert started(found) == [3], "it is over before the wide one begins; the other would be in its way"
    when, nodes = found.expected[1]
    assert (NOW + 600 <= when <= NOW + 660, nodes) == (True, ("n1", "n2", "n3"))


def test_nobody_waits_for_what_is_there_for_good() -> None:
    busy = cluster(others(), (), ())
    found = plan([job(1, 3, 4, 60), job(2, 1, 4, None)], busy, (), NOW)
    assert (started(found), found.expected) == ([2], {})


def test_others_of_whom_nobody_knows_when_they_end_are_taken_to_run_as_long_as_jobs_without_limit() -> None:
    busy = cluster(others(until=NO_END), (), ())
    found = plan([job(1, 3, 4, 60), job(2, 1, 4, 60), job(3, 1, 4, None)], busy, (), NOW)
    assert 2 in started(found)
    assert found.expected[1][0] > NOW + 300 * 86400


def test_parts_of_cpus_are_added_before_they_are_rounded() -> None:
    parts = tuple(Others(cpus=10, until=NOW + 60 * number) for number in range(1, 20))
    found = plan([job(1, 1, 3, 60)], cluster(parts), (), NOW)
    assert started(found) == [1]


def test_gpus_of_others_come_free_one_after_the_other() -> None:
    parts = (Others(cpus=10, gpus=1, until=NOW + 600), Others(cpus=10, gpus=1))
    found = plan([job(1, 1, 1, 60, gres="gpu:1"), job(2, 1, 1, 60, gres="gpu:2")], cluster(parts), (), NOW)
    assert NOW + 600 <= found.expected[1][0] <= NOW + 660
    assert 2 not in found.expected


def test_what_is_past_its_end_is_taken_to_be_gone_soon() -> None:
    found = plan([job(1, 1, 4, 60)], cluster(others(until=NOW - 500)), (), NOW)
    assert NOW < found.expected[1][0] <= NOW + 120


def ranked(*others: tuple[Others, ...], **high: Any) -> Cluster:
    """As ``cluster``, with a partition whose jobs send others away."""
    made = cluster(*others, priority=100)
    urgent = made.partitions[0].replace(name="urgent", default=False, **{"priority": 1000, "preempts": True, **high})
    return made.replace(partitions=(*made.partitions, urgent))


def urgent(key: int, nodes: int = 1, cpus: int = 4) -> Job:
    return job(key, nodes, cpus, 60, partition="urgent").replace(partition="urgent")


def test_a_job_that_sends_others_away_is_let_go_though_nothing_is_free() -> None:
    busy = ranked(others(priority=0), others(priority=1000))
    found = plan([job(1, 1, 4, 60), urgent(2), urgent(3)], busy, (), NOW)
    assert [(one.job_id, shares[0].name) for one, shares in found.starts] == [(2, "n1")]
    assert found.reasons[3] == "Resources", "who is as important as it, or was let go before it, stays"
    assert plan([urgent(2)], ranked(others(), preempts=False), (), NOW).starts == []


def test_a_job_that_sends_our_own_away() -> None:
    share = NodeShare(name="n1", cpus=4)
    low = job(1, 1, 4, None).replace(state="RUNNING", shares=(share,), start_time=NOW - 5)
    high = urgent(4).replace(state="RUNNING", shares=(share.replace(name="n2"),), start_time=NOW - 5)
    found = plan([urgent(2), urgent(3), job(5, 1, 4, 60)], ranked((), ()), (low, high), NOW)
    assert [(one.job_id, shares[0].name) for one, shares in found.starts] == [(2, "n1")]


def test_free_nodes_come_before_those_of_others() -> None:
    found = plan([urgent(1)], ranked(others(), ()), (), NOW)
    assert [shares[0].name for _one, shares in found.starts] == ["n2"]
