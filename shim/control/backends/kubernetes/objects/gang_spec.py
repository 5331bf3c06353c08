"""What the pods of one run have in common, and what its objects are made from."""

from __future__ import annotations

from shim.control.backends.kubernetes.objects import names
from shim.core.value import Value

Choices = tuple[tuple[str, ...], ...]


class Placement(Value):
    """Where pods may be placed. ``on``: hosts of which the job has all, "" for none named; ``not_on``: hosts to stay away from.

    ``choices``: sets of features; a node must have all of one of them. ``alone``: on nodes without other pods of ours.
    """

    on: tuple[str, ...] = ()
    not_on: tuple[str, ...] = ()
    choices: Choices = ()
    gpu_type: str = ""
    alone: bool = False
    tmp_disk: int = 0  # MiB that a node must have left for it


class Gang(Value):
    """What the pods of one run have in common. ``cpus``, ``memory`` (MiB) and ``gpus`` are those of its largest share."""

    job_id: int
    restart: int = 0
    record: str = ""  # uid of the job's record
    number: int = 0  # the run's in it
    nodes: int
    cpus: int
    memory: int = 0
    gpus: int = 0
    place: Placement = Placement()
    limit: int | None = None  # seconds
    kill_wait: int = 30
    user: tuple[int, int] | None = None  # uid and gid; None: the image's or the platform's
    groups: tuple[int, ...] = ()
    work_dir: str = ""
    staged: bool = False
    folders: tuple[str, ...] = ()  # that the output goes to and no pod has
    image: str = ""
    command: tuple[str, ...] = ()
    digest: str = ""
    pod_group: bool = False
    jobless: bool = False  # its one pod needs no Job around it
    passwd: bool = False  # the Secret has passwd and group
    _nested = {"place": Placement}

    @property
    def stem(self) -> str:
        """The name of its Job."""
        return names.stem(self.job_id, self.number)

    @property
    def ticket(self) -> str:
        """The name of the Secret that its pods mount, and of its PodGroup."""
        return names.ticket(self.job_id, self.number)

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.job_id, self.restart, self.record, self.number)


def code_name(digest: str) -> str:
    """The name of the ConfigMap with this digest's code."""
    return f"slurm-agent-{digest[:12]}"
