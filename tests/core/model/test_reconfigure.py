"""A configuration that changes under active jobs: what changes at once, what stays for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shim.core.model import reconfigure
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest


def cluster(name: str = "local", nodes: Sequence[str] = "ab", partitions: str = "p", **more: Any) -> Cluster:
    return Cluster(
        name=name,
        nodes=tuple(Node(name=one, cpus=8, memory=1000) for one in nodes),
        partitions=tuple(
            Partition(name=one, nodes=tuple(nodes), default=not place) for place, one in enumerate(partitions)
        ),
        **more,
    )


def job(number: int = 1, where: str = "", state: str = "RUNNING", partition: str = "p", **share: Any) -> Job:
    return Job(
        job_id=number,
        state=state,
        partition=partition,
        request=JobRequest(partition=partition),
        shares=tuple(NodeShare(name=one, **share) for one in where),
    )


def test_without_jobs_everything_changes() -> None:
    new = (cluster(nodes="c", partitions="q"), cluster("other"))
    found = reconfigure.reconfigure((cluster(), cluster("gone")), new, [])
    assert (found.clusters, found.offered, found.kept) == (new, {}, ())


def test_what_hinders_no_job_changes_at_once() -> None:
    new = cluster(nodes="abc", partitions="pq", kill_wait=5)
    found = reconfigure.reconfigure((cluster(),), (new,), [job(where="a"), job(2, state="PENDING")])
    assert (found.clusters, found.offered, found.kept) == ((new,), {}, ())


def test_a_node_that_a_job_runs_on_stays_for_it_and_is_in_no_partition() -> None:
    new = cluster(nodes="b")
    found = reconfigure.reconfigure((cluster(),), (new,), [job(7, where="a")])
    assert [node.name for node in found.clusters[0].nodes] == ["b", "a"]
    assert found.clusters[0].partitions == new.partitions
    assert found.offered == {"local": new}
    assert found.kept == ("node a of cluster local stays for job 7: configured no more",)
    again = reconfigure.reconfigure(found.clusters, (new,), [])
    assert (again.clusters, again.kept) == ((new,), ())


def test_nodes_that_stay_for_the_same_jobs_are_named_in_one_line() -> None:
    before, new = (cluster(nodes=[f"n{one}" for one in numbers]) for numbers in (range(1, 41), range(1, 3)))
    small = new.replace(nodes=tuple(node.replace(cpus=2) for node in new.nodes))
    wide = job(7).replace(shares=tuple(NodeShare(name=node.name, cpus=4) for node in before.nodes))
    found = reconfigure.reconfigure((before,), (small,), [wide])
    assert found.kept == (
        "nodes n[1-2] of cluster local stay as before: more than that is used by job 7",
        "nodes n[3-40] of cluster local stay for job 7: configured no more",
    )


def test_a_node_keeps_what_its_jobs_have_of_it() -> None:
    small = tuple(node.replace(cpus=2, memory=500) for node in cluster().nodes)
    new = cluster().replace(nodes=small)
    fits = reconfigure.reconfigure((cluster(),), (new,), [job(where="a", cpus=2, memory=500)])
    assert fits.clusters == (new,)
    for share in ({"cpus": 3}, {"memory": 501}, {"gpus": (0,)}):
        found = reconfigure.reconfigure((cluster(),), (new,), [job(where="a", **share)])
        assert [node.cpus for node in found.clusters[0].nodes] == [8, 2], share
        assert found.kept == ("node a of cluster local stays as before: more than that is used by job 1",)
    with_gpu = tuple(node.replace(gres=(Gres(name="gpu", count=1),)) for node in small)
    assert reconfigure.reconfigure((cluster(),), (new.replace(nodes=with_gpu),), [job(where="a", gpus=(0,))]).kept == ()
    machine = {"share": "machine"}
    one = reconfigure.reconfigure((cluster(),), (new.replace(settings=machine),), [job(where="a", cpus=8)])
    assert one.kept == (), "nodes that are one machine"


def test_a_partition_stays_for_those_who_wait_in_it_on_the_nodes_that_are_left() -> None:
    new = cluster(nodes="b", partitions="q")
    jobs = [job(number, state="PENDING") for number in range(1, 9)]
    found = reconfigure.reconfigure((cluster(),), (new,), jobs)
    assert [(one.name, one.nodes, one.default) for one in found.clusters[0].partitions] == [
        ("q", ("b",), True),
        ("p", ("b",), False),
    ]
    assert found.offered == {"local": new}
    assert found.kept == ("partition p of cluster local stays for jobs 1,2,3,4,5 and 3 more: it is configured no more",)


def test_a_cluster_stays_for_its_jobs() -> None:
    new = cluster("new")
    found = reconfigure.reconfigure((cluster(),), (new,), [job(state="PENDING")])
    assert found.clusters == (new, cluster())
    assert found.offered == {"local": None}
    assert found.kept == ("cluster local stays for job 1: it is configured no more",)


def test_where_a_cluster_is_cannot_change_under_its_jobs() -> None:
    pods = Cluster(name="local", backend="kubernetes", settings={"context": '"a"'})
    for was, new, why in (
        (cluster(), pods, "its backend cannot change from local to kubernetes under them"),
        (pods, pods.replace(settings={"context": '"b"'}), "its context cannot change under them"),
    ):
        found = reconfigure.reconfigure((was,), (new,), [job(state="PENDING")])
        assert found.clusters == (was,)
        assert found.offered == {"local": new}, "it is known by its new shape"
        assert found.blocked == {"local": f"it stays as it was for job 1: {why}"}
        assert found.kept == (f"cluster local: it stays as it was for job 1: {why}",)
        assert reconfigure.reconfigure((was,), (new,), []).clusters == (new,)
