"""SKYPILOT_*: the variables that scripts written for SkyPilot read, with the values of a Slurm job.

Sizes are the job's, never a step's; ranks are those of nodes, in the order of the node list, so that line NODE_RANK of
NODE_IPS is the node itself. Variables of SkyPilot's setup phase, its services and its API server have no meaning here.
"""

from __future__ import annotations

import time

from shim.core import jsonlite
from shim.core.formats.array_spec import ArraySpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job

_ANY_INDEX = 1 << 32


def skypilot_environment(job: Job, cluster: Cluster, node_index: int = 0) -> dict[str, str]:
    """The variables on node ``node_index`` of ``job``. Addresses are those of the cluster's nodes, else their names."""
    task_id = _task_id(job, cluster)
    rank, count = _place_in_array(job)
    variables = {
        "SKYPILOT_NODE_RANK": str(node_index),
        "SKYPILOT_NODE_IPS": "\n".join(_addresses(job, cluster)),
        "SKYPILOT_NUM_NODES": str(len(job.shares)),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(len(job.shares[node_index].gpus)),
        "SKYPILOT_TASK_ID": task_id,
        "SKYPILOT_TASK_IDS": task_id,
        "SKYPILOT_INTERNAL_JOB_ID": str(job.job_id),
        "SKYPILOT_MANAGED_JOB_ID": str(job.job_id),
        "SKYPILOT_JOB_RANK": str(rank),
        "SKYPILOT_NUM_JOBS": str(count),
        "SKYPILOT_USER": job.user,
        "SKYPILOT_CLUSTER_INFO": jsonlite.dumps(
            {
                "cluster_name": job.request.name or "",
                "cloud": "Kubernetes" if cluster.backend == "kubernetes" else "Slurm",
                "region": cluster.name,
                "zone": job.partition,
            }
        ),
    }
    if cluster.backend == "kubernetes":
        share = job.shares[node_index]
        variables["SKYPILOT_POD_NODE_TYPE"] = "worker" if node_index else "head"
        variables["SKYPILOT_POD_CPU_CORE_LIMIT"] = str(share.cpus)
        if share.memory:
            variables["SKYPILOT_POD_MEMORY_BYTES_LIMIT"] = str(share.memory << 20)
            variables["SKYPILOT_POD_MEMORY_GB_LIMIT"] = f"{share.memory / 1024:g}"
    return variables


def _addresses(job: Job, cluster: Cluster) -> list[str]:
    found = []
    for share in job.shares:
        if share.host and share.host != share.name:
            found.append(share.host)  # the host has an address of its own in the job; the node's address is another one
            continue
        node = cluster.node(share.name)
        found.append((node.address if node is not None else "") or share.name)
    return found


def _task_id(job: Job, cluster: Cluster) -> str:
    """A text that embeds the job id and stays the same over requeues."""
    when = time.strftime("%Y-%m-%d-%H-%M-%S", time.localtime(job.submit_time))
    return f"sky-{when}-{int(job.submit_time % 1 * 1000000):06d}_{cluster.name}_{job.job_id}"


def _place_in_array(job: Job) -> tuple[int, int]:
    """The position among an array's tasks (not the index) and their number; 0 of 1 for a plain job."""
    if job.array_task_id is None or not job.array_spec:
        return 0, 1
    spec = ArraySpec.parse(job.array_spec, _ANY_INDEX)
    return sum(index < job.array_task_id for index in spec), len(spec)
