"""The environment of tasks: what a step adds, what stays the job's, what each task has of its own."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.environ.export import completed
from shim.core.environ.job import batch_environment
from shim.core.environ.step import step_environment, task_environment
from shim.core.model.job import Job
from shim.core.model.request import JobRequest, StepRequest
from shim.core.placement.step_values import ShareUse
from shim.core.placement.steps import step_layout
from tests.core.placement.shapes import cluster, job

USER = {"PATH": "/usr/bin:/bin", "HOME": "/home/bob"}


def tasks(made: Job, step: StepRequest, base: dict[str, str] | None = None) -> list[dict[str, str]]:
    """The complete environments of a step's tasks, by rank."""
    on = cluster()
    layout = step_layout(step, made, [ShareUse()] * len(made.shares))
    step = step.replace(comm_port=38515)
    if base is None:
        base = completed(USER, batch_environment(made, on))
    shared = step_environment(base, made, on, step, layout, 0)
    found = {}
    for position, ranks in enumerate(layout.ranks):
        for local, rank in enumerate(ranks):
            found[rank] = {**shared, **task_environment(made, on, step, layout, position, local)}
    return [found[rank] for rank in range(layout.ntasks)]


def batch_job(**options: Any) -> Job:
    return job(JobRequest(work_dir="/home/bob/w", **options))


def test_a_task_on_the_second_node():
    """sbatch -N2 --ntasks-per-node=2 -J envjob, its step's rank 3, against the batch script."""
    made = batch_job(min_nodes=2, max_nodes=2, ntasks_per_node=2, name="envjob")
    script = completed(USER, batch_environment(made, cluster()))
    task = tasks(made, StepRequest(ntasks=4, min_nodes=2, argv=("sh",)))[3]
    changed = {name: value for name, value in task.items() if script.get(name) != value}
    assert changed == {
        "SKYPILOT_NODE_RANK": "1",
        "SLURMD_NODENAME": "n2",
        "SLURM_DISTRIBUTION": "block",
        "SLURM_GTIDS": "2,3",
        "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0": "2(x2)",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_PROCID": "3",
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_SRUN_COMM_PORT": "38515",
        "SLURM_STEPID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_LAUNCHER_PORT": "38515",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_TOPOLOGY_ADDR": "n2",
        "SLURM_UMASK": "0022",
        "SRUN_DEBUG": "3",
    }
    assert set(script) <= set(task)


def test_a_smaller_step_describes_itself_and_keeps_the_jobs_lists():
    """srun -N1 -n2 -r1 in sbatch -N2 --ntasks-per-node=2 --gres=gpu:2."""
    made = batch_job(min_nodes=2, max_nodes=2, ntasks_per_node=2, gres="gpu:2")
    task = tasks(made, StepRequest(ntasks=2, min_nodes=1, relative=1, argv=("env",)))[1]
    expected = {
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_GTIDS": "0,1",
        "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": "n[1-2]",
        "SLURM_NPROCS": "2",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_PROCID": "1",
        "SLURM_STEP_GPUS": "0,1",
        "SLURM_STEP_NODELIST": "n2",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_TASKS_PER_NODE": "2",
        "SKYPILOT_NODE_RANK": "1",
        "SKYPILOT_NUM_NODES": "2",
    }
    assert {name: task[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("job_name", "step_name", "expected"),
    [("envjob", None, "envjob"), ("sbatch", None, "env"), ("envjob", "mine", "mine")],
)
def test_job_name(job_name, step_name, expected):
    made = batch_job(name=job_name)
    assert tasks(made, StepRequest(name=step_name, argv=("/usr/bin/env",)))[0]["SLURM_JOB_NAME"] == expected


@pytest.mark.parametrize(
    ("step", "variables"),
    [
        ({"label": True}, {"SLURM_LABELIO": "1"}),
        ({"quiet": True}, {"SRUN_DEBUG": "2"}),
        ({"verbose": 2}, {"SRUN_DEBUG": "5"}),
        ({"umask": 0o77}, {"SLURM_UMASK": "0077"}),
        ({"cpus_per_task": 2, "ntasks": 1}, {"SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_ON_NODE": "2"}),
        ({"ntasks": 1, "exact": True}, {"SLURM_CPUS_ON_NODE": "1", "SLURM_DISTRIBUTION": "cyclic"}),
        ({"distribution": "plane=2"}, {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"}),
        ({"distribution": "cyclic,nopack"}, {"SLURM_DISTRIBUTION": "cyclic,nopack"}),
        ({"distribution": "nopack"}, {"SLURM_DISTRIBUTION": "block,nopack"}),
        ({"preserve_env": True, "ntasks": 1}, {"SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "1"}),
        ({}, {"SLURM_LABELIO": None, "SLURM_CPUS_PER_TASK": None, "SLURM_DIST_PLANESIZE": None}),
    ],
)
def test_step_options(step, variables):
    made = batch_job(ntasks=3)
    task = tasks(made, StepRequest(**{"ntasks": 3, **step}))[0]
    assert {name: task.get(name) for name in variables} == variables


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"ntasks_per_gpu": 2}, ["0", "0", "1", "1"]),
        ({"gpu_bind": "single:1"}, ["0", "1", "2", "3"]),
        ({"gpu_bind": "verbose,single:3"}, ["0", "0", "0", "1"]),
        ({"gpu_bind": "map_gpu:3,0*2"}, ["3", "0", "0", "3"]),
        ({"gpu_bind": "map_gpu:7"}, ["0"] * 4),
        ({"gpu_bind": "mask_gpu:0x3,0xc"}, ["0,1", "2,3", "0,1", "2,3"]),
        ({"gpu_bind": "per_task:1"}, ["0", "1", "2", "3"]),
        ({"gpu_bind": "per_task:2"}, ["0,1", "2,3", "0", "0"]),
        ({"gpu_bind": "closest"}, ["0,1,2,3"] * 4),
        ({"gpu_bind": "none", "ntasks_per_gpu": 1}, ["0,1,2,3"] * 4),
    ],
)
def test_which_gpus_a_task_sees(options, seen):
    made = batch_job(ntasks=4, gres="gpu:4")
    step = {"ntasks": 4, "gpus": "2" if options == {"ntasks_per_gpu": 2} else None, **options}
    assert [task["CUDA_VISIBLE_DEVICES"] for task in tasks(made, StepRequest(**step))] == seen


class TestGpus:
    """Which GPUs a task sees, in a job that has four on its node."""

    made = batch_job(ntasks=4, gres="gpu:4")

    def seen(self, **step: Any) -> list[tuple[str | None, str | None, str | None]]:
        names = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
        found = tasks(self.made, StepRequest(**{"ntasks": 2, **step}))
        return [(task.get(names[0]), task.get(names[1]), task.get(names[2])) for task in found]

    def test_all_by_default(self):
        assert self.seen() == [("0,1,2,3", "0,1,2,3", "4")] * 2

    def test_fewer(self):
        assert self.seen(gres="gpu:1") == [("0", "0", "1")] * 2

    def test_none(self):
        assert self.seen(gres="none") == [("", None, None)] * 2

    def test_one_for_each_task(self):
        assert self.seen(gpus_per_task="1") == [("0", "0", "2"), ("1", "1", "2")]
        found = tasks(self.made, StepRequest(ntasks=2, gpus_per_task="2"))
        assert [task["SLURMD_TRES_BIND"] for task in found] == ["gpu:per_task:2"] * 2

    def test_the_jobs_gpus_are_those_of_the_tasks_node(self):
        request = JobRequest(min_nodes=2, max_nodes=2, gres="gpu:2")
        made = job(request, cluster(settings={"share": "machine"}))
        found = tasks(made, StepRequest(ntasks=2, min_nodes=2))
        assert [task["SLURM_JOB_GPUS"] for task in found] == ["0,1", "2,3"]
        assert [task["CUDA_VISIBLE_DEVICES"] for task in found] == ["0,1", "2,3"]

    def test_a_job_without_gpus_leaves_the_users_variables_alone(self):
        made = batch_job()
        base = {**USER, "CUDA_VISIBLE_DEVICES": "7"}
        assert tasks(made, StepRequest(), base)[0]["CUDA_VISIBLE_DEVICES"] == "7"
        assert "CUDA_VISIBLE_DEVICES" not in tasks(made, StepRequest(), USER)[0]


def test_srun_outside_a_job():
    made = batch_job(kind="run", name="env", ntasks=3, cpus_per_task=2, min_nodes=2, max_nodes=2)
    task = tasks(made, StepRequest(ntasks=3, cpus_per_task=2, min_nodes=2, argv=("env",)), USER)[2]
    slurm = {name for name in task if name.startswith("SLURM")}
    assert slurm == {
        "SLURMD_NODENAME",
        "SLURM_CLUSTER_NAME",
        "SLURM_CONF",
        "SLURM_CPUS_ON_NODE",
        "SLURM_CPUS_PER_TASK",
        "SLURM_GTIDS",
        "SLURM_JOBID",
        "SLURM_JOB_CPUS_PER_NODE",
        "SLURM_JOB_GID",
        "SLURM_JOB_ID",
        "SLURM_JOB_NAME",
        "SLURM_JOB_NODELIST",
        "SLURM_JOB_NUM_NODES",
        "SLURM_JOB_PARTITION",
        "SLURM_JOB_UID",
        "SLURM_JOB_USER",
        "SLURM_LAUNCH_NODE_IPADDR",
        "SLURM_LOCALID",
        "SLURM_NNODES",
        "SLURM_NODEID",
        "SLURM_NODELIST",
        "SLURM_NPROCS",
        "SLURM_NTASKS",
        "SLURM_PRIO_PROCESS",
        "SLURM_PROCID",
        "SLURM_SRUN_COMM_HOST",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_STEPID",
        "SLURM_STEP_ID",
        "SLURM_STEP_LAUNCHER_PORT",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_SUBMIT_DIR",
        "SLURM_SUBMIT_HOST",
        "SLURM_TASKS_PER_NODE",
        "SLURM_TOPOLOGY_ADDR",
        "SLURM_TOPOLOGY_ADDR_PATTERN",
        "SLURM_UMASK",
        "SLURM_WORKING_CLUSTER",
    }
    assert task["SLURM_JOB_NAME"] == "env"
    assert task["SLURMD_NODENAME"] == "n2"
    assert task["TMPDIR"] == "/tmp"
    assert "HOSTNAME" not in task
    assert "ENVIRONMENT" not in task


def test_srun_outside_a_job_repeats_what_was_asked_but_gpus():
    made = batch_job(kind="run", gpus="1", cpus_per_gpu=2, mem_per_node=100, distribution="block:cyclic", name="env")
    task = tasks(made, StepRequest(argv=("env",), gpus="1"), USER)[0]
    assert task["SLURM_DISTRIBUTION"] == "block:cyclic"
    assert task["SLURM_MEM_PER_NODE"] == "100"
    assert task["CUDA_VISIBLE_DEVICES"] == task["SLURM_STEP_GPUS"] == "0"
    assert not {"SLURM_GPUS", "SLURM_CPUS_PER_GPU", "SLURM_JOB_GPUS"} & set(task)
