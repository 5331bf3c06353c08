"""A small cluster and jobs for tests of the life cycle."""

from __future__ import annotations

from typing import Any

from shim.control.lifecycle.submission import Submitter, submitted
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest

NOW = 1_700_000_000.0

CLUSTER = Cluster(
    name="local",
    nodes=tuple(Node(name=f"node{number}", cpus=8, memory=16000, features=("fast",)) for number in range(1, 5)),
    partitions=(
        Partition(name="debug", nodes=("node1", "node2", "node3", "node4"), default=True),
        Partition(name="gpu", nodes=("node3", "node4"), default_time=30, max_time=120),
    ),
    settings={"share": "machine", "requeue_delay": "1"},
)
WHO = Submitter(uid=1001, gid=1001, user="alice", group="alice", host="here")
SHARES = (NodeShare(name="node1", host="node1", cpus=1, tasks=1),)


def a_job(job_id: int = 7, **request: Any) -> Job:
    """A freshly submitted job, with a key."""
    request.setdefault("name", "job.sh")
    request.setdefault("work_dir", "/home/alice")
    return submitted(JobRequest(**request), CLUSTER, WHO, job_id, NOW).replace(key=job_id)
