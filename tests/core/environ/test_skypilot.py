"""SKYPILOT_* of a job."""

from __future__ import annotations

import json

from shim.core.environ.skypilot import skypilot_environment
from shim.core.model.job import NodeShare
from shim.core.model.request import JobRequest
from tests.core.placement.shapes import cluster, job


def test_a_job_on_two_nodes():
    made = job(JobRequest(min_nodes=2, max_nodes=2, gres="gpu:2", name="train"))
    found = skypilot_environment(made, cluster(), 1)
    task_id = found.pop("SKYPILOT_TASK_ID")
    assert json.loads(found.pop("SKYPILOT_CLUSTER_INFO")) == {
        "cluster_name": "train",
        "cloud": "Slurm",
        "region": "ref",
        "zone": "debug",
    }
    assert found == {
        "SKYPILOT_NODE_RANK": "1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SKYPILOT_NUM_NODES": "2",
        "SKYPILOT_NUM_GPUS_PER_NODE": "2",
        "SKYPILOT_TASK_IDS": task_id,
        "SKYPILOT_INTERNAL_JOB_ID": "218",
        "SKYPILOT_MANAGED_JOB_ID": "218",
        "SKYPILOT_JOB_RANK": "0",
        "SKYPILOT_NUM_JOBS": "1",
        "SKYPILOT_USER": "bob",
    }
    assert task_id.startswith("sky-2001-09-")
    assert task_id.endswith("-250000_ref_218")


def test_the_task_id_survives_a_requeue():
    first = job()
    again = first.replace(restarts=1, start_time=5.0)
    ids = [skypilot_environment(made, cluster())["SKYPILOT_TASK_ID"] for made in (first, again)]
    assert ids[0] == ids[1]


def test_the_rank_in_an_array_is_a_position():
    made = job(array_job_id=9, array_task_id=7, array_spec="3,5,7,9%2")
    found = skypilot_environment(made, cluster())
    assert (found["SKYPILOT_JOB_RANK"], found["SKYPILOT_NUM_JOBS"]) == ("2", "4")


def test_nodes_without_an_address_go_by_name():
    made = job(shares=(NodeShare(name="gone", host="gone.example"), NodeShare(name="n2")))
    assert skypilot_environment(made, cluster())["SKYPILOT_NODE_IPS"] == "gone.example\n10.0.0.2"


def test_pods_know_their_part():
    pods = cluster(backend="kubernetes")
    made = job(JobRequest(ntasks=2), pods)
    found = skypilot_environment(made, pods)
    assert found["SKYPILOT_POD_NODE_TYPE"] == "head"
    assert found["SKYPILOT_POD_CPU_CORE_LIMIT"] == "2"
    assert found["SKYPILOT_POD_MEMORY_BYTES_LIMIT"] == str(2000 << 20)
    assert found["SKYPILOT_POD_MEMORY_GB_LIMIT"] == "1.95312"
    assert json.loads(found["SKYPILOT_CLUSTER_INFO"])["cloud"] == "Kubernetes"
