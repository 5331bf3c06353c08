"""A cluster and a queue to look at: four nodes of two kinds, two partitions, jobs of two users in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shim.control.index.opening import open_store
from shim.control.index.store import Store
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare, Step
from shim.core.model.request import JobRequest

NOW = 1_795_196_163.0  # 2026-11-20 17:36:03 UTC
START = NOW - 8


def cluster() -> Cluster:
    """n1, n2: untyped GPUs, fast; n3, n4: a100, slow. Partitions debug (default, all) and gpu (n3, n4, two hours)."""
    nodes = tuple(
        Node(
            name=f"n{number}",
            address="127.0.0.1",
            cpus=8,
            sockets=2,
            cores_per_socket=4,
            memory=16000,
            gres=(Gres(name="gpu", type="" if number < 3 else "a100", count=4),),
            features=("fast" if number < 3 else "slow", "cpu"),
        )
        for number in range(1, 5)
    )
    return Cluster(
        name="ref",
        nodes=nodes,
        partitions=(
            Partition(name="debug", nodes=("n1", "n2", "n3", "n4"), default=True),
            Partition(name="gpu", nodes=("n3", "n4"), max_time=120, default_time=30),
        ),
        def_mem_per_cpu=1000,
    )


def request(**fields: Any) -> JobRequest:
    """A request of alice's, submitted in her folder."""
    return JobRequest(**{"name": "job", "work_dir": "/home/alice/w", **fields})


def job(job_id: int, **fields: Any) -> Job:
    """A waiting job of alice's."""
    values: dict[str, Any] = {
        "job_id": job_id,
        "cluster": "ref",
        "uid": 1001,
        "gid": 1001,
        "user": "alice",
        "group": "alice",
        "submit_host": "localhost",
        "alloc_sid": 443,
        "partition": "debug",
        "priority": 1000,
        "submit_time": START,
        "eligible_time": START,
        "request": request(),
        "stdout": f"/home/alice/w/slurm-{job_id}.out",
    }
    return Job(**{**values, **fields})


def running(job_id: int, nodes: str = "n1", each: int = 1, **fields: Any) -> Job:
    """A job that runs on these nodes (``n1,n2``), with ``each`` CPUs and as many GB on every one."""
    names = nodes.split(",")
    values: dict[str, Any] = {
        "state": "RUNNING",
        "start_time": START,
        "shares": tuple(NodeShare(name=name, cpus=each, memory=1000 * each) for name in names),
        "nodes": len(names),
        "cpus": each * len(names),
        "tasks": len(names),
    }
    return job(job_id, **{**values, **fields})


def queue() -> list[Job]:
    """Six jobs: two run for alice and one for bob, the others wait for one reason each."""
    bob: dict[str, Any] = {"uid": 1002, "gid": 1002, "user": "bob", "group": "bob"}
    return [
        running(
            1,
            "n1,n2",
            request=request(name="runner", comment="my comment", constraint="fast", gres="gpu:1"),
            shares=(
                NodeShare(name="n1", cpus=3, memory=3000, gpus=(0,), gpu_types=("",)),
                NodeShare(name="n2", cpus=1, memory=1000, gpus=(0,), gpu_types=("",)),
            ),
            cpus=4,
            tasks=4,
            time_limit=10,
            end_time=START + 600,
            priority=1312,
        ),
        running(
            2,
            request=request(name="a_very_long_job_name_that_overflows", work_dir="/home/bob/w"),
            time_limit=36 * 60,
            end_time=START + 36 * 3600,
            priority=1140,
            **bob,
        ),
        job(
            3,
            request=request(name="pend", exclusive="node", mem_per_node=2048, nice=10, exclude="n1", node_list="n2"),
            time_limit=30,
            nodes=3,
            cpus=3,
            tasks=3,
            priority=1411,
            start_time=START + 600,
        ),
        job(
            4,
            request=request(name="arr"),
            array_job_id=4,
            array_tasks="0-3%1",
            array_spec="0-3%1",
            reason="BeginTime",
            time_limit=2880,
            start_time=START + 3600,
            priority=1140,
        ),
        job(
            5,
            request=request(name="held", ntasks=3, cpus_per_task=2, mem_per_cpu=500, work_dir="/home/bob/w"),
            reason="JobHeldUser",
            held="user",
            nodes=2,
            cpus=6,
            tasks=3,
            priority=0,
            eligible_time=0,
            time_limit=-1,
            **bob,
        ),
        running(6, request=request(name="onerun"), time_limit=-1, priority=1140),
    ]


STEPS = {
    1: (
        Step(job_id=1, step_id="batch", name="batch", nodes=("n1",), start_time=START),
        Step(job_id=1, step_id="0", name="sleep", nodes=("n1", "n2"), tasks=4, cpus=4, start_time=START + 1),
    ),
    2: (Step(job_id=2, step_id="batch", name="batch", nodes=("n1",), start_time=START),),
}


def write_index(path: str | Path, jobs: list[Job], steps: dict[int, tuple[Step, ...]] | None = None) -> None:
    """An index with these jobs, as a controller would have left it."""
    store: Store = open_store(str(path))
    with store.transaction():
        for one in jobs:
            kept = store.add_job(one)
            for step in (steps or {}).get(one.job_id, ()):
                store.save_step(kept.key, step)
    store.close()
