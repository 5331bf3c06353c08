"""What the Kubernetes backend asks of the API server, and what is lost where it may not. docs/kubernetes-role.yaml grants it."""

from __future__ import annotations

from shim.core.value import Value


class Permission(Value):
    """One verb on one resource. ``inside``: in the namespace, else in the whole cluster.

    ``vital``: no job can run without it. ``made_by_others``: what an administrator may have made instead.
    """

    verb: str
    resource: str
    lost: str
    group: str = ""
    subresource: str = ""
    inside: bool = True
    vital: bool = True
    made_by_others: str = ""

    @property
    def text(self) -> str:
        """``create pods/exec``."""
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


_NO_JOBS = "no job can run"
_NOT_SEEN = "what becomes of jobs is not seen"

NEEDED = (
    Permission(verb="create", resource="jobs", group="batch", lost=_NO_JOBS),
    Permission(verb="get", resource="jobs", group="batch", lost="a submission that was interrupted cannot be taken up"),
    Permission(verb="list", resource="jobs", group="batch", lost=_NOT_SEEN),
    Permission(verb="watch", resource="jobs", group="batch", lost=_NOT_SEEN),
    Permission(
        verb="delete", resource="jobs", group="batch", lost="no job can be cancelled, and all leave their objects"
    ),
    Permission(verb="list", resource="pods", lost=_NOT_SEEN),
    Permission(verb="watch", resource="pods", lost=_NOT_SEEN),
    Permission(
        verb="create",
        resource="pods",
        vital=False,
        lost="sbatch cannot ask whether a pod would be accepted, and tasks of arrays cost more requests",
    ),
    Permission(verb="delete", resource="pods", lost="a job that got only a part of its nodes cannot give them back"),
    Permission(verb="create", resource="secrets", lost=_NO_JOBS),
    Permission(verb="get", resource="secrets", lost="no other controller can carry on with a job"),
    Permission(verb="delete", resource="secrets", lost="what a job's earlier runs were given stays until the job ends"),
    Permission(
        verb="create",
        resource="configmaps",
        made_by_others="maps",
        lost="neither the agent's code nor job ids can be kept",
    ),
    Permission(verb="get", resource="configmaps", lost="neither job ids nor the records of jobs"),
    Permission(verb="update", resource="configmaps", lost="no job ids, and no job can start: its record decides that"),
    Permission(verb="list", resource="configmaps", lost="the records of jobs are not seen"),
    Permission(verb="watch", resource="configmaps", lost="the records of jobs are not seen"),
    Permission(verb="delete", resource="configmaps", lost="records of jobs that have ended stay in the namespace"),
    *(
        Permission(
            verb=verb,
            resource="leases",
            group="coordination.k8s.io",
            vital=False,
            lost="two machines of yours would both order the namespace's jobs",
        )
        for verb in ("get", "create", "update")
    ),
    Permission(verb="get", resource="services", vital=False, lost="whether Service slurm is there cannot be seen"),
    Permission(
        verb="create",
        resource="services",
        made_by_others="service",
        lost="pods have no host names; an administrator may make the Service slurm-nodes",
    ),
    Permission(
        verb="create",
        resource="pods",
        subresource="exec",
        lost="no job can start: its first pod asks for leave over this stream",
    ),
    Permission(
        verb="get",
        resource="pods",
        subresource="exec",
        vital=False,
        lost="the same where the API server is older than 1.35",
    ),
    *(
        Permission(
            verb=verb,
            resource="pods",
            subresource="portforward",
            vital=False,
            lost="jobs are reached by pods/exec, which costs their nodes five times as much",
        )
        for verb in ("get", "create")
    ),
    Permission(
        verb="get",
        resource="pods",
        subresource="log",
        vital=False,
        lost="the output of a job that ended while nobody followed it",
    ),
    Permission(
        verb="list",
        resource="events",
        vital=False,
        lost="quotas and volumes that hold a job up are not named",
    ),
)

# In the whole cluster: nodes, and what others use of them.
COUNTED = (
    Permission(
        verb="list", resource="nodes", inside=False, vital=False, lost="the configuration must describe the nodes"
    ),
    Permission(verb="list", resource="pods", inside=False, vital=False, lost="what others use is not seen"),
)
