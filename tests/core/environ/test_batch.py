"""The environment of batch scripts and of salloc's command, as measured option by option."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.environ.job import allocation_environment, batch_environment
from shim.core.model.job import NodeShare
from shim.core.model.request import JobRequest
from tests.core.placement.shapes import cluster, idle, job, select_nodes

N2 = {"min_nodes": 2, "max_nodes": 2}
GPU_NAMES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
# A script from standard input with no options has these and no others (beside SLURM_TASK_PID and SKYPILOT_*).
PLAIN = {
    "ENVIRONMENT": "BATCH",
    "HOSTNAME": "n1",
    "SLURMD_NODENAME": "n1",
    "SLURM_CLUSTER_NAME": "ref",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_CPUS_ON_NODE": "1",
    "SLURM_GTIDS": "0",
    "SLURM_JOBID": "218",
    "SLURM_JOB_CPUS_PER_NODE": "1",
    "SLURM_JOB_GID": "1002",
    "SLURM_JOB_ID": "218",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_JOB_PARTITION": "debug",
    "SLURM_JOB_UID": "1002",
    "SLURM_JOB_USER": "bob",
    "SLURM_LOCALID": "0",
    "SLURM_MEM_PER_CPU": "1000",
    "SLURM_NNODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_NODELIST": "n1",
    "SLURM_NODE_ALIASES": "(null)",
    "SLURM_PRIO_PROCESS": "0",
    "SLURM_PROCID": "0",
    "SLURM_SUBMIT_DIR": "/home/bob/w",
    "SLURM_SUBMIT_HOST": "vm",
    "SLURM_TASKS_PER_NODE": "1",
    "SLURM_TOPOLOGY_ADDR": "n1",
    "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    "SLURM_WORKING_CLUSTER": "ref:127.0.0.1:6817:9728:109",
}


def request(**options: Any) -> JobRequest:
    return JobRequest(**{"work_dir": "/home/bob/w", "name": "sbatch", **options})


def batch(options: dict[str, Any], **changes: Any) -> dict[str, str]:
    found = batch_environment(job(request(**options), **changes), cluster())
    return {name: value for name, value in found.items() if not name.startswith("SKYPILOT_")}


def test_no_options_from_standard_input():
    assert batch({}) == PLAIN


def gpus(text: str) -> dict[str, str]:
    return {**dict.fromkeys(GPU_NAMES, text), "SLURM_JOB_GPUS": text}


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (
            {"ntasks": 3},
            {
                "SLURM_NTASKS": "3",
                "SLURM_NPROCS": "3",
                "SLURM_CPUS_ON_NODE": "3",
                "SLURM_JOB_CPUS_PER_NODE": "3",
                "SLURM_TASKS_PER_NODE": "3",
            },
        ),
        (
            N2,
            {
                "SLURM_NNODES": "2",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
                "SLURM_TASKS_PER_NODE": "1(x2)",
                "SLURM_NODELIST": "n[1-2]",
                "SLURM_JOB_NODELIST": "n[1-2]",
            },
        ),
        (
            {**N2, "ntasks_per_node": 2},
            {
                "SLURM_NNODES": "2",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_NTASKS_PER_NODE": "2",
                "SLURM_NTASKS": "4",
                "SLURM_NPROCS": "4",
                "SLURM_CPUS_ON_NODE": "2",
                "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
                "SLURM_TASKS_PER_NODE": "2(x2)",
                "SLURM_NODELIST": "n[1-2]",
                "SLURM_JOB_NODELIST": "n[1-2]",
            },
        ),
        (
            {**N2, "ntasks": 3, "cpus_per_task": 2},
            {
                "SLURM_NNODES": "2",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_NTASKS": "3",
                "SLURM_NPROCS": "3",
                "SLURM_CPUS_PER_TASK": "2",
                "SLURM_CPUS_ON_NODE": "4",
                "SLURM_JOB_CPUS_PER_NODE": "4,2",
                "SLURM_TASKS_PER_NODE": "2,1",
                "SLURM_NODELIST": "n[1-2]",
                "SLURM_JOB_NODELIST": "n[1-2]",
            },
        ),
        (
            {"min_nodes": 3, "max_nodes": 3, "ntasks": 6, "distribution": "cyclic"},
            {
                "SLURM_NNODES": "3",
                "SLURM_JOB_NUM_NODES": "3",
                "SLURM_NTASKS": "6",
                "SLURM_NPROCS": "6",
                "SLURM_DISTRIBUTION": "cyclic",
                "SLURM_CPUS_ON_NODE": "4",
                "SLURM_JOB_CPUS_PER_NODE": "4,1(x2)",
                "SLURM_TASKS_PER_NODE": "4,1(x2)",
                "SLURM_NODELIST": "n[1-3]",
                "SLURM_JOB_NODELIST": "n[1-3]",
            },
        ),
        ({"mem_per_node": 2048}, {"SLURM_MEM_PER_CPU": None, "SLURM_MEM_PER_NODE": "2048"}),
        ({"mem_per_node": 0}, {"SLURM_MEM_PER_CPU": None}),
        ({"mem_per_cpu": 500}, {"SLURM_MEM_PER_CPU": "500"}),
        (
            {"exclusive": "node"},
            {
                **gpus("0,1,2,3"),
                "SLURM_GPUS_ON_NODE": "4",
                "SLURM_CPUS_ON_NODE": "8",
                "SLURM_JOB_CPUS_PER_NODE": "8",
                "SLURM_TASKS_PER_NODE": "8",
            },
        ),
        ({"gres": "gpu:2"}, {**gpus("0,1"), "SLURM_GPUS_ON_NODE": "2"}),
        ({"gpus": "3"}, {**gpus("0,1,2"), "SLURM_GPUS_ON_NODE": "3", "SLURM_GPUS": "3"}),
        (
            {"gpus_per_node": "a100:2", "node_list": "n3"},
            {
                **gpus("0,1"),
                "SLURM_GPUS_ON_NODE": "2",
                "SLURM_GPUS_PER_NODE": "a100:2",
                "SLURM_NODELIST": "n3",
                "SLURM_JOB_NODELIST": "n3",
                "SLURMD_NODENAME": "n3",
                "SLURM_TOPOLOGY_ADDR": "n3",
                "HOSTNAME": "n3",
            },
        ),
        (
            {"gpus_per_task": "1", "ntasks": 2},
            {
                **gpus("0,1"),
                "SLURM_GPUS_ON_NODE": "2",
                "SLURM_GPUS_PER_TASK": "1",
                "SLURM_NTASKS": "2",
                "SLURM_NPROCS": "2",
                "SLURM_CPUS_ON_NODE": "2",
                "SLURM_JOB_CPUS_PER_NODE": "2",
                "SLURM_TASKS_PER_NODE": "2",
            },
        ),
        (
            {"cpus_per_gpu": 2, "mem_per_gpu": 500, "gpus": "2"},
            {
                **gpus("0,1"),
                "SLURM_GPUS_ON_NODE": "2",
                "SLURM_GPUS": "2",
                "SLURM_CPUS_PER_GPU": "2",
                "SLURM_MEM_PER_GPU": "500",
                "SLURM_MEM_PER_CPU": None,
                "SLURM_CPUS_ON_NODE": "4",
                "SLURM_JOB_CPUS_PER_NODE": "4",
                "SLURM_TASKS_PER_NODE": "4",
            },
        ),
        (
            {"dependency": "afterok:1(unfulfilled)", "extra": {"dependency": "afterok:1:2"}},
            {"SLURM_JOB_DEPENDENCY": "afterok:1:2"},
        ),
        ({"open_mode": "a"}, {"SLURM_OPEN_MODE": "a"}),
        (
            {"extra": {"profile": "Energy,Task", "acctg-freq": "task=15"}},
            {"SLURM_PROFILE": "Energy,Task", "SLURM_ACCTG_FREQ": "task=15"},
        ),
        ({"name": "envjob"}, {"SLURM_JOB_NAME": "envjob"}),
        ({"name": "wrap"}, {"SLURM_JOB_NAME": "wrap"}),
        ({"name": "sbatch", "command": "/home/bob/sbatch"}, {"SLURM_JOB_NAME": "sbatch"}),
        ({"account": "research", "qos": "high"}, {"SLURM_JOB_ACCOUNT": "research", "SLURM_JOB_QOS": "high"}),
        (
            {"work_dir": "/tmp", "extra": {"submit_dir": "/home/bob/w"}},
            {"SLURM_SUBMIT_DIR": "/home/bob/w"},
        ),
        ({"distribution": "plane=4"}, {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "4"}),
    ],
)
def test_what_an_option_changes(options, changes):
    expected = {**PLAIN, **changes}
    assert batch(options) == {name: value for name, value in expected.items() if value is not None}


def test_an_array_task():
    found = batch({}, array_job_id=448, array_task_id=7, array_spec="5-7:2%1")
    assert {name: value for name, value in found.items() if "ARRAY" in name} == {
        "SLURM_ARRAY_JOB_ID": "448",
        "SLURM_ARRAY_TASK_ID": "7",
        "SLURM_ARRAY_TASK_COUNT": "2",
        "SLURM_ARRAY_TASK_MIN": "5",
        "SLURM_ARRAY_TASK_MAX": "7",
        "SLURM_ARRAY_TASK_STEP": "2",
    }


def test_a_requeued_job_counts_its_restarts():
    assert "SLURM_RESTART_COUNT" not in batch({})
    assert batch({}, restarts=1)["SLURM_RESTART_COUNT"] == "1"


def test_node_names_are_those_inside_the_job():
    shares = (NodeShare(name="node1", host="127.0.0.1"), NodeShare(name="node2", host="127.0.0.2"))
    found = batch({}, shares=shares)
    assert found["SLURM_JOB_NODELIST"] == found["SLURM_NODELIST"] == "127.0.0.1,127.0.0.2"
    assert found["HOSTNAME"] == found["SLURMD_NODENAME"] == found["SLURM_TOPOLOGY_ADDR"] == "127.0.0.1"


def test_memory_that_is_not_charged_is_not_shown():
    quiet = cluster(def_mem_per_cpu=None)
    assert "SLURM_MEM_PER_CPU" not in batch_environment(job(request(), quiet), quiet)


class TestAllocation:
    """salloc's command: the allocation, no ranks, no identity, no GPUs."""

    def environment(self, **options: Any) -> dict[str, str]:
        asked = request(kind="alloc", name="interactive", **options)
        return allocation_environment(job(asked), cluster())

    def test_plain(self):
        assert self.environment() == {
            "SLURM_CLUSTER_NAME": "ref",
            "SLURM_CONF": "/etc/slurm/slurm.conf",
            "SLURM_JOBID": "218",
            "SLURM_JOB_CPUS_PER_NODE": "1",
            "SLURM_JOB_ID": "218",
            "SLURM_JOB_NAME": "interactive",
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_PARTITION": "debug",
            "SLURM_NNODES": "1",
            "SLURM_NODELIST": "n1",
            "SLURM_NODE_ALIASES": "(null)",
            "SLURM_SUBMIT_DIR": "/home/bob/w",
            "SLURM_SUBMIT_HOST": "vm",
            "SLURM_TASKS_PER_NODE": "1",
        }

    def test_what_was_asked_is_added(self):
        plain = self.environment()
        found = self.environment(ntasks=2, gpus_per_task="1", cpus_per_task=2, mem_per_node=1024)
        assert {name: value for name, value in found.items() if plain.get(name) != value} == {
            "SLURM_CPUS_PER_TASK": "2",
            "SLURM_GPUS_PER_TASK": "1",
            "SLURM_JOB_CPUS_PER_NODE": "4",
            "SLURM_MEM_PER_NODE": "1024",
            "SLURM_NPROCS": "2",
            "SLURM_NTASKS": "2",
            "SLURM_TASKS_PER_NODE": "2",
        }


def test_a_range_of_nodes_with_tasks_per_node_counts_the_tasks_it_got():
    asked = request(min_nodes=2, max_nodes=4, ntasks_per_node=2)
    shares = select_nodes(asked, cluster(), idle())
    assert shares is not None
    assert batch_environment(job(asked, shares=shares), cluster())["SLURM_NTASKS"] == "8"


@pytest.mark.parametrize(
    ("options", "nodes", "tasks"),
    [
        ({"node_list": "n2,n1,n2", "ntasks": 3}, "n[1-2]", None),
        ({"node_list": "n4,n1,n3", "ntasks": 2}, "n[1,4]", None),
        ({"node_list": "n4,n1", "ntasks": 1}, "n4", "1"),
    ],
)
def test_an_arbitrary_list_has_no_layout(options: dict[str, Any], nodes: str, tasks: str | None) -> None:
    request = JobRequest(distribution="arbitrary", **options)
    started = job(request, shares=select_nodes(request, cluster(), idle()))
    batch = batch_environment(started, cluster())
    assert (batch["SLURM_ARBITRARY_NODELIST"], batch.get("SLURM_TASKS_PER_NODE")) == (nodes, tasks)
    assert "SLURM_TASKS_PER_NODE" in allocation_environment(started, cluster())
