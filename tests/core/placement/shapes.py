"""The cluster that the measured facts come from: four nodes of 8 CPUs, 16000 MB and 4 GPUs, two of them of a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.core.placement.capacity import NodeFree
from shim.core.placement.select_nodes import select_nodes


def node(number: int, **changes: Any) -> Node:
    """``n1`` … ``n4``: the first two fast, the others slow with a100 GPUs."""
    fast = number < 3
    return Node(
        name=f"n{number}",
        address=f"10.0.0.{number}",
        cpus=8,
        sockets=2,
        cores_per_socket=4,
        memory=16000,
        gres=(Gres(name="gpu", type="" if fast else "a100", count=4),),
        features=("fast" if fast else "slow", "cpu"),
    ).replace(**changes)


NODES = tuple(node(number) for number in range(1, 5))


def cluster(nodes: tuple[Node, ...] = NODES, **changes: Any) -> Cluster:
    """The cluster ``ref``: DefMemPerCPU=1000 unless changed."""
    names = tuple(one.name for one in nodes)
    debug = Partition(name="debug", nodes=names, default=True)
    gpu = Partition(name="gpu", nodes=names[2:], max_time=120)
    return Cluster(name="ref", nodes=nodes, partitions=(debug, gpu), def_mem_per_cpu=1000).replace(**changes)


def idle(nodes: tuple[Node, ...] = NODES, **cpus: int) -> list[NodeFree]:
    """The nodes as they are free; ``n1=3`` leaves three CPUs of that node."""
    return [
        NodeFree(node=one, cpus=cpus.get(one.name, one.cpus), memory=one.memory, gpus=tuple(range(one.gpus)))
        for one in nodes
    ]


def placed(
    options: Mapping[str, Any],
    on: Cluster | None = None,
    free: list[NodeFree] | None = None,
    partition: Partition | None = None,
) -> Any:
    """Where a request goes: {node: (CPUs, tasks, GPUs)}; None when it cannot start."""
    on = on or cluster()
    shares = select_nodes(JobRequest(**options), on, idle(on.nodes) if free is None else free, partition)
    return shares and {share.name: (share.cpus, share.tasks, share.gpus) for share in shares}


def job(request: JobRequest | None = None, on: Cluster | None = None, **changes: Any) -> Job:
    """A started job of bob's with this request."""
    on = on or cluster()
    request = request or JobRequest()
    shares = changes.pop("shares", None)
    if shares is None:
        shares = select_nodes(request, on, idle(on.nodes))
        assert shares is not None
    return Job(
        cluster="ref",
        job_id=218,
        uid=1002,
        gid=1002,
        user="bob",
        submit_host="vm",
        request=request,
        partition="debug",
        state="RUNNING",
        shares=shares,
        submit_time=1000000000.25,
    ).replace(**changes)


def shares(*cpus: int, memory_per_cpu: int = 0, gpus: tuple[int, ...] = ()) -> tuple[NodeShare, ...]:
    """Shares of n1, n2 … with so many CPUs each."""
    return tuple(
        NodeShare(
            name=f"n{number}",
            cpus=count,
            memory=count * memory_per_cpu,
            gpus=gpus,
            gpu_types=("",) * len(gpus),
        )
        for number, count in enumerate(cpus, 1)
    )
