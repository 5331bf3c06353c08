"""What a heterogeneous job is told about its components (as Slurm 22.05.8 tells it)."""

from __future__ import annotations

from typing import Any

from shim.core.environ.het import het_allocation_environment, het_batch_environment, step_group_variables
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from tests.core.placement.shapes import cluster, job

ON = cluster().replace(def_mem_per_cpu=None)


def components(kind: str = "batch") -> list[Job]:
    requests: list[dict[str, Any]] = [
        {"ntasks": 2, "cpus_per_task": 2, "distribution": "cyclic", "name": "front", "mem_per_node": 100},
        {
            "min_nodes": 2,
            "max_nodes": 2,
            "gpus_per_node": "1",
            "threads_per_core": 1,
            "name": "back",
            "partition": "gpu",
        },
    ]
    shares = (
        (NodeShare(name="n1", cpus=4, tasks=2, host="n1"),),
        tuple(NodeShare(name=name, cpus=1, tasks=1, gpus=(0,), host=name) for name in ("n3", "n4")),
    )
    return [
        job(JobRequest(kind=kind, work_dir="/w", **request), on=ON, shares=own).replace(
            job_id=7 + offset,
            het_job_id=7,
            het_offset=offset,
            het_size=2,
            partition=request.get("partition", "debug"),
        )
        for offset, (request, own) in enumerate(zip(requests, shares))
    ]


def of_group(found: dict[str, str], suffix: str) -> dict[str, str]:
    return {name[: -len(suffix)]: value for name, value in found.items() if name.endswith(suffix)}


def test_a_batch_script() -> None:
    found = het_batch_environment(components(), ON)
    assert (found["SLURM_HET_SIZE"], found["SLURM_PACK_SIZE"]) == ("2", "2")
    assert of_group(found, "_HET_GROUP_0") == {
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_DISTRIBUTION": "cyclic",
        "SLURM_JOB_CPUS_PER_NODE": "4",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "front",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_PARTITION": "debug",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_NPROCS": "2",
        "SLURM_NTASKS": "2",
        "SLURM_TASKS_PER_NODE": "2",
    }
    second = of_group(found, "_HET_GROUP_1")
    assert (second["SLURM_JOB_NODELIST"], second["SLURM_JOB_CPUS_PER_NODE"]) == ("n[3-4]", "1(x2)")
    assert (second["SLURM_GPUS_PER_NODE"], second["SLURM_THREADS_PER_CORE"]) == ("1", "1")
    assert "SLURM_NTASKS" not in second, "only for a component that asked"
    older = of_group(found, "_PACK_GROUP_1")
    assert older == {name: value for name, value in second.items() if name != "SLURM_THREADS_PER_CORE"}


def test_what_a_batch_script_has_of_the_first_component() -> None:
    found = het_batch_environment(components(), ON)
    assert (found["SLURM_JOB_ID"], found["SLURM_JOB_NODELIST"], found["SLURM_NTASKS"]) == ("7", "n1", "2")
    assert found["SLURM_MEM_PER_NODE"] == "100"
    assert not {"SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION"} & set(found), "its options only under its number"


def test_salloc() -> None:
    found = het_allocation_environment(components("alloc"), ON)
    plain = {name for name in found if "_GROUP_" not in name}
    assert plain == {
        "SLURM_CLUSTER_NAME",
        "SLURM_CONF",
        "SLURM_HET_SIZE",
        "SLURM_JOB_ID",
        "SLURM_NPROCS",
        "SLURM_NTASKS",
        "SLURM_PACK_SIZE",
        "SLURM_SUBMIT_DIR",
        "SLURM_SUBMIT_HOST",
    }
    assert found["SLURM_NTASKS"] == "2", "of those that asked"
    second = of_group(found, "_HET_GROUP_1")
    assert (second["SLURM_JOBID"], second["SLURM_NNODES"], second["SLURM_NODELIST"]) == ("8", "2", "n[3-4]")
    assert second["SLURM_NODE_ALIASES"] == "(null)"


def test_tasks_of_srun_outside_a_job() -> None:
    found = step_group_variables(components("run"), ON)
    assert of_group(found, "_PACK_GROUP_1") == {
        "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
        "SLURM_JOB_ID": "8",
        "SLURM_JOB_NODELIST": "n[3-4]",
        "SLURM_JOB_PARTITION": "gpu",
    }
    assert not of_group(found, "_HET_GROUP_1")
