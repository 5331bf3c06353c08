"""What is known of all clusters at one moment, whoever told it: the index, or a real Slurm's commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shim.core.model.job import Job
from shim.core.value import Value

# The columns of a job, by squeue's letters (%i, %P …), and TARGET: its id as commands take it, of an array what waits of it.
TARGET = "target"
Cells = Mapping[str, str]


class Entry:
    """A job in the list. What the list is sorted and filtered by is here; the rest is worked out for jobs that are shown.

    ``key``: by what the job is known from one moment to the next. ``start`` of a job that waits is when it is expected to start, 0 = unknown.
    """

    __slots__ = ("cluster", "job_id", "key", "name", "partition", "priority", "start", "state", "submit", "user")

    def __init__(
        self,
        cluster: str,
        job_id: int,
        key: str,
        name: str,
        user: str,
        partition: str,
        state: str,
        priority: int,
        submit: float,
        start: float,
    ) -> None:
        self.cluster = cluster
        self.job_id = job_id
        self.key = key
        self.name = name
        self.user = user
        self.partition = partition
        self.state = state
        self.priority = priority
        self.submit = submit
        self.start = start

    def cells(self, now: float) -> Cells:
        """Its columns at that time."""
        raise NotImplementedError

    def job(self) -> Job | None:
        """Its record; None for a job of a real Slurm."""
        return None


class NodeLine(Value):
    """A node and what is in use of it. Memory in MiB."""

    cluster: str
    name: str
    state: str  # as sinfo's %t
    cpus: int = 0
    cpus_used: int = 0
    memory: int = 0
    memory_used: int = 0
    gpus: int = 0
    gpus_used: int = 0


class ClusterLine(Value):
    """A cluster: the sums of its nodes; of nodes that are one machine, of the machine."""

    name: str
    backend: str = "local"
    cpus: int = 0
    cpus_used: int = 0
    memory: int = 0
    memory_used: int = 0
    gpus: int = 0
    gpus_used: int = 0


class Span(Value):
    """A job's last run, from when to when it held what. ``end`` 0: it runs."""

    start: float
    end: float = 0
    cpus: int = 1
    gpus: int = 0


class Snapshot(Value):
    """All of it. ``troubles``: what cannot be asked, so that what is shown of it may be old."""

    now: float
    clusters: Sequence[ClusterLine] = ()
    nodes: Sequence[NodeLine] = ()
    entries: Sequence[Entry] = ()
    spans: Sequence[Span] = ()
    troubles: Sequence[str] = ()


def total(
    name: str, backend: str, nodes: Sequence[NodeLine], *, one_machine: bool, one_set_of_gpus: bool
) -> ClusterLine:
    """The sums of a cluster's nodes."""
    cpus, memory, gpus = ([getattr(node, what) for node in nodes] for what in ("cpus", "memory", "gpus"))
    used = [node.cpus_used for node in nodes]
    return ClusterLine(
        name=name,
        backend=backend,
        cpus=max(cpus, default=0) if one_machine else sum(cpus),
        cpus_used=max(used, default=0) if one_machine else sum(used),
        memory=max(memory, default=0) if one_machine else sum(memory),
        memory_used=sum(node.memory_used for node in nodes),
        gpus=max(gpus, default=0) if one_set_of_gpus else sum(gpus),
        gpus_used=sum(node.gpus_used for node in nodes),
    )
