"""A job and a step as the index records them."""

from __future__ import annotations

from shim.core.model.request import JobRequest
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.model.usage import Usage

# Where jobs come from that the index knows from their cluster alone.
OWN = "own"  # another machine of this user
OTHERS = "others"  # another user of the same place
SPECIAL_EXIT = "special_exit"  # among a request's texts: held after scontrol requeuehold State=SpecialExit


class NodeShare(Value):
    """What a job holds of one node. Memory in MiB (0 = not charged); ``gpus``: device indexes there.

    ``name`` is the node's name as sinfo shows it; ``host`` the name that resolves inside the job (same when empty).
    ``planned``: the node is where there is room, but the cluster has yet to choose: nobody is shown it.
    """

    name: str
    cpus: int = 1
    tasks: int = 1
    memory: int = 0
    gpus: tuple[int, ...] = ()
    gpu_types: tuple[str, ...] = ()  # parallel to gpus; "" = untyped
    host: str = ""
    planned: bool = False


class _Usage:
    """Reads a ``Usage``. Its module is loaded with the first record that has one: most commands that list jobs see none."""

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Usage:
        from shim.core.model.usage import Usage

        return Usage.from_dict(data)


class Job(Value):
    """One job record: a plain job, an array task, or the rest of an array that has not started.

    Times are seconds since the epoch (float), 0 = not yet. ``exit_status`` and ``derived_status`` are raw wait
    statuses (256 * code + signal). ``held``: "", "user", "admin".
    """

    key: int = 0  # the index's own key: never shown
    cluster: str = "local"
    job_id: int
    array_job_id: int = 0  # 0 = no array
    array_task_id: int | None = None  # a started (or separated) task
    array_tasks: str | None = None  # what is still pending of the array: "0-3%2" (None = not the array's rest)
    array_spec: str | None = None  # the whole array as submitted, for SLURM_ARRAY_TASK_COUNT/MIN/MAX/STEP
    het_job_id: int = 0  # the id of the first component of a heterogeneous job; 0 = none
    het_offset: int = 0  # which component this is
    het_size: int = 0  # how many there are; their ids follow one another
    uid: int = 0
    gid: int = 0
    user: str = ""
    group: str = ""
    submit_host: str = ""
    submit_line: str = ""
    alloc_sid: int = 0  # the submitter's session (AllocNode:Sid)
    request: JobRequest = JobRequest()
    state: str = "PENDING"
    reason: str = "None"
    held: str = ""
    partition: str = ""
    priority: int = 0
    dependency: str = ""  # what is left of it: "afterok:12(unfulfilled)"
    time_limit: int | None = None  # minutes; INFINITE; None = the partition decides at start
    submit_time: float = 0
    eligible_time: float = 0
    start_time: float = 0  # for a pending job: when it is expected to start, 0 = unknown
    end_time: float = 0  # for a running job: when its limit ends it, 0 = never
    suspend_time: float = 0
    resize_time: float = 0  # when it last gave up nodes
    last_sched: float = 0
    restarts: int = 0
    shares: tuple[NodeShare, ...] = ()
    cpus: int = 1  # allocated, or needed at least while pending
    nodes: int = 1  # the same
    tasks: int = 1
    exit_status: int = 0
    derived_status: int = 0
    cancelled_by: int | None = None  # uid
    stdout: str = ""  # expanded paths
    stderr: str = ""
    stdin: str = ""
    comment: str = ""
    system_comment: str = ""  # what the backend says of a job that does not start, or did not
    usage: Usage | None = None  # the batch script's
    script_status: int | None = None  # its raw wait status, where the job's is another: requeued, or a node was lost
    journal: int = 0  # the last line of the current run's journal that this record has taken in
    place: str = ""  # of a cluster that holds its jobs: what tells its ids from those of any other place; "" when that does not hold this one
    origin: str = ""  # OWN, OTHERS: from where a job came that was not submitted on this machine
    _nested = {"request": JobRequest, "shares": NodeShare, "usage": _Usage}

    @property
    def name(self) -> str:
        """The job's name as squeue shows it. A script on standard input has none of its own (and no SLURM_JOB_NAME)."""
        if self.request.name is not None:
            return self.request.name
        return "sbatch" if self.request.kind == "batch" else "(null)"

    @property
    def shown_state(self) -> str:
        """The state as squeue and scontrol show it."""
        special = self.state == "PENDING" and self.held and SPECIAL_EXIT in self.request.extra
        return "SPECIAL_EXIT" if special else self.state

    @property
    def array_label(self) -> str:
        """The id as users write it: ``12``, ``12_3``, ``12_[0-3%2]``, or ``12+1`` for a component."""
        if self.het_job_id:
            return f"{self.het_job_id}+{self.het_offset}"
        if self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.array_tasks is not None:
            return f"{self.array_job_id}_[{self.array_tasks}]"
        return str(self.job_id)


class Step(Value):
    """A step of a job: ``step_id`` is a number, or ``batch``/``extern`` (text)."""

    job_id: int
    restart: int = 0
    step_id: str = "0"
    name: str = ""
    state: str = "RUNNING"
    nodes: tuple[str, ...] = ()
    tasks: int = 1
    cpus: int = 1
    memory: int = 0  # MiB; 0 = not counted
    gpus: int = 0
    time_limit: int | None = None  # minutes, of its own; None, INFINITE: none
    distribution: str = ""  # as SLURM_DISTRIBUTION shows it
    srun: str = ""  # its srun's "host:pid"
    start_time: float = 0
    end_time: float = 0
    exit_status: int = 0
    cancelled_by: int | None = None
    usage: Usage | None = None
    _nested = {"usage": _Usage}
