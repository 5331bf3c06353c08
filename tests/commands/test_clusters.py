"""Two clusters in one configuration: one queue by default, one listing each with -M, as Slurm titles them."""

from __future__ import annotations

import os

import pytest

from shim.control import site
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from tests import reference
from tests.commands.conftest import World

HEADER = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
OTHER = Cluster(
    name="other",
    nodes=(Node(name="o1", cpus=2, memory=4000), Node(name="n1", cpus=2, memory=4000)),
    partitions=(Partition(name="batch", nodes=("o1", "n1"), default=True, max_time=90),),
    licenses=(Gres(name="matlab", count=3),),
)


@pytest.fixture
def two(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The reference queue, and three jobs on another cluster."""
    monkeypatch.setattr(site, "clusters", lambda: (reference.cluster(), OTHER))
    there = {"cluster": "other", "partition": "batch"}
    world.index(
        [
            *reference.queue(),
            reference.running(11, "o1", request=reference.request(name="there"), **there),
            reference.job(12, request=reference.request(name="waits"), **there),
            reference.job(13, state="COMPLETED", end_time=reference.NOW - 9, **there),
        ],
        {**reference.STEPS, 11: (reference.STEPS[2][0].replace(job_id=11, nodes=("o1",)),)},
    )
    return world


def test_the_default_queue_has_the_jobs_of_all_clusters(two: World) -> None:
    lines = two.run("squeue", "-o", "%i %P %l %N").lines
    assert lines == [
        "JOBID PARTITION TIME_LIMIT NODELIST",
        "12 batch 1:30:00 ",
        "11 batch 1:30:00 o1",
        "3 debug 30:00 ",
        "4_[0-3%1] debug 2-00:00:00 ",
        "5 debug UNLIMITED ",
        "1 debug 10:00 n[1-2]",
        "2 debug 1-12:00:00 n1",
        "6 debug UNLIMITED n1",
    ]
    assert two.run("squeue", "-hj11", "-o", "%i").lines == ["11"]
    assert "          11.batch" in "".join(f"   {line}\n" for line in two.run("squeue", "-s").lines)


def test_named_clusters_are_listed_one_by_one(two: World) -> None:
    assert two.run("squeue", "-M", "other").lines == [
        "CLUSTER: other",
        HEADER,
        "                12     batch    waits    alice PD       0:00      1 (None)",
        "                11     batch    there    alice  R       0:08      1 o1",
    ]
    both = two.run("squeue", "-M", "other,ref").lines
    assert [line for line in both if not line.startswith(" ")] == ["CLUSTER: other", "", "CLUSTER: ref"]
    assert two.run("squeue", "-M", "all").lines[0] == "CLUSTER: ref"
    long = two.run("squeue", "-l", "-M", "other,ref").lines
    assert (long[0], long[1]) == ("Fri Nov 20 17:36:03 2026", "CLUSTER: other")
    assert long.count(long[0]) == 1


def test_without_headers_a_column_names_the_cluster(two: World) -> None:
    lines = two.run("squeue", "-h", "-M", "other,ref", "-t", "R").lines
    assert lines[0] == "other                      11     batch    there    alice  R       0:08      1 o1"
    assert [line.split()[0] for line in lines] == ["other", "ref", "ref", "ref"]
    assert two.run("squeue", "-h", "-M", "other", "-t", "R", "-o", "%i").lines == ["11"]
    assert two.run("squeue", "-h", "-M", "other,ref", "-t", "R", "-o", "%i").lines == ["11", "1", "2", "6"]


def test_a_job_that_one_cluster_does_not_know_hides_no_other(two: World) -> None:
    result = two.run("squeue", "-h", "-M", "other,ref", "-j", "11", "-o", "%i")
    assert (result.code, result.lines) == (1, ["11"])
    assert result.err == "slurm_load_jobs error: Invalid job id specified\n"


def test_slurm_clusters_is_minus_m(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    assert two.run("squeue").lines[0] == "CLUSTER: other"
    assert two.run("sinfo", "-o", "%P %N").lines == ["CLUSTER: other", "PARTITION NODELIST", "batch* n1,o1"]
    assert two.run("sinfo", "-M", "ref", "-h", "-o", "%R").lines == ["debug", "gpu"]
    assert [line.split()[0] for line in two.run("scontrol", "-o", "show", "jobs").lines] == [
        "JobId=11",
        "JobId=12",
        "JobId=13",
    ]


def test_sinfo_shows_all_clusters_in_one_table(two: World) -> None:
    assert two.run("sinfo", "-o", "%9P %.5D %N").lines == [
        "PARTITION NODES NODELIST",
        "debug*        4 n[1-4]",
        "gpu           2 n[3-4]",
        "batch*        2 n1,o1",
    ]
    named = two.run("sinfo", "-M", "ref,other", "-o", "%R").lines
    assert named == ["CLUSTER: ref", "PARTITION", "debug", "gpu", "", "CLUSTER: other", "PARTITION", "batch"]
    assert two.run("sinfo", "-p", "batch", "-ho", "%R").lines == ["batch"]


def test_scontrol_looks_in_all_clusters_and_minus_m_in_one(two: World) -> None:
    assert "JobId=11 JobName=there" in two.run("scontrol", "show", "job", "11").out
    assert "   RunTime=00:00:08 TimeLimit=01:30:00 " in two.run("scontrol", "show", "job", "11").out
    assert two.run("scontrol", "-M", "ref", "show", "job", "11").code == 1
    assert two.run("scontrol", "-o", "show", "node", "n1").out.count("NodeName=n1 ") == 2
    assert two.run("scontrol", "-o", "show", "nodes").out.count("NodeName=") == 6
    assert two.run("scontrol", "-o", "-M", "other", "show", "node", "n2").lines == ["Node n2 not found"]
    assert two.run("scontrol", "-o", "show", "partition", "batch").out.startswith("PartitionName=batch ")
    assert two.run("scontrol", "-M", "ref", "show", "partition", "batch").lines == ["Partition batch not found"]
    assert two.run("scontrol", "show", "licenses").lines[0] == "LicenseName=matlab"
    several = two.run("scontrol", "-M", "ref,other", "show", "config")
    assert several.err == "scontrol: fatal: Only one cluster can be used at a time with scontrol\n"


def test_actions_go_to_the_named_cluster_alone(two: World) -> None:
    two.run("scancel", "11")
    two.run("scancel", "-M", "other,ref", "11")
    two.run("scancel", "-M", "other", "-n", "waits,pend")
    two.run("scontrol", "-M", "other", "hold", "12")
    two.run("scontrol", "-M", "other", "hold", "jobname=waits,pend")
    plain = {"job_id": 11, "task": None, "step": None}
    assert [fields["targets"] for _, fields in two.calls[:3]] == [
        [plain],
        [{**plain, "cluster": "other"}, {**plain, "cluster": "ref"}],
        [{"job_id": 12, "task": None, "step": None, "cluster": "other"}],
    ]
    assert two.calls[3][1]["targets"] == [{"job_id": 12, "task": None, "step": None, "cluster": "other"}]
    own = os.getuid() == 1001  # only the caller's jobs are found by name
    assert [len(fields["targets"]) for _, fields in two.calls[4:]] == ([1] if own else [])
