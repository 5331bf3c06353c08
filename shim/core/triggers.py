"""Programs that are to run when something happens (strigger): what each waits for, what it is told, and how it is listed. Pure."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.model import states
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job

JOB, NODE, CONTROLLER = "job", "node", "slurmctld"
FINI, TIME, DOWN, UP, DRAINED, RECONFIG = "fini", "time", "down", "up", "drained", "reconfig"
FAILURE, RESUMED = "primary_slurmctld_failure", "primary_slurmctld_resumed_operation"
OF_JOBS = (FINI, TIME)
OF_NODES = (DOWN, UP, DRAINED, RECONFIG)
OF_CONTROLLER = (FAILURE, RESUMED)
ANY = "*"
HEADER = f"{'TRIG_ID':>7} {'RES_TYPE':<9} {'RES_ID':>7} {'TYPE':<35} {'OFFSET':>6} {'USER':<8} {'FLAGS':<5} PROGRAM"


class Trigger(Value):
    """One trigger. ``nodes``: a host list, or ANY; ``job_id``: the job, also of one that waits for the job's nodes.

    ``fired``: what it is told, once that has happened and only ``offset`` is waited for, until ``due`` (epoch seconds).
    """

    id: int
    type: str
    cluster: str = ""
    job_id: int = 0
    nodes: str = ANY
    offset: int = 0
    uid: int = 0
    user: str = ""
    permanent: bool = False
    program: str = ""
    fired: str = ""
    due: float = 0

    @property
    def kind(self) -> str:
        """``job``, ``node`` or ``slurmctld``."""
        return CONTROLLER if self.type in OF_CONTROLLER else JOB if self.job_id else NODE

    @property
    def target(self) -> str:
        """What it waits on, as listed."""
        return str(self.job_id) if self.job_id else self.nodes

    def line(self) -> str:
        """Its line in the listing."""
        flags = "PERM" if self.permanent else ""
        return f"{self.id:>7} {self.kind:<9} {self.target:>7} {self.type:<35} {self.offset:>6} {self.user:<8} {flags:<5} {self.program}"

    def same(self, other: Trigger) -> bool:
        """Whether the two want the same."""
        return (self.type, self.cluster, self.target, self.uid, self.program) == (
            other.type,
            other.cluster,
            other.target,
            other.uid,
            other.program,
        )

    def wants(self, event: str, cluster: str, nodes: Collection[str], held: Collection[str] = ()) -> list[str]:
        """Of the nodes to which that happened those that it waits on; ``held``: the nodes of its job."""
        if self.type != event or self.fired or (self.cluster and self.cluster != cluster):
            return []
        if self.job_id:
            return [name for name in nodes if name in held]
        if self.nodes == ANY:
            return list(nodes)
        named = set(hostlist.expand(self.nodes))
        return [name for name in nodes if name in named]


def time_of_limit(trigger: Trigger, job: Job) -> float | None:
    """When a trigger on the job's time limit is due; None while the job does not run, or has no limit."""
    if trigger.type != TIME or job.state not in (states.RUNNING, states.SUSPENDED) or not job.end_time:
        return None
    return job.end_time + trigger.offset


def out_of_service(cluster: Cluster, busy: Collection[str]) -> tuple[set[str], set[str]]:
    """The nodes that are down, and those that are drained: to be drained and ``busy`` no more."""
    down = {node.name for node in cluster.nodes if "DOWN" in node.state}
    draining = {node.name for node in cluster.nodes if "DRAIN" in node.state}
    return down, draining - set(busy)


def listed(triggers: Sequence[Trigger], *, header: bool) -> list[str]:
    """The listing; nothing at all where there are none."""
    return [*([HEADER] if header and triggers else []), *(one.line() for one in triggers)]
