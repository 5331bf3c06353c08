"""What the agents of one run are given: ``spec.json`` in the run folder.

A **run** is one start of one job: (cluster, job id, restart count). Its folder, here or in a pod, holds

    spec.json   this value; on one machine with ``key`` and ``environment`` in it: each file of a short run counts
    key         the run's secret, 32 bytes as hex (0600)
    environment.json   the batch environment, complete
    slurm_script  the batch script's copy      journal   what happened (leader only), JSON lines
    lock.<i>    held (flock) by agent i; the leader holds the journal
    leader.sock   the leader's socket, or ``leader``: where it listens, a JSON address

Tasks find the folder by ``SHIM_RUN_DIR`` in their environment.
"""

from __future__ import annotations

from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.value import Value

UNMET = "slurm-shim: "  # how a line begins in which a pod says why it does not find its leader
SCRIPT = "slurm_script"  # Slurm's name for it: scripts look at the basename of $0


class RunNode(Value):
    """One node of a run. ``name`` as users see it, ``host`` as it resolves inside the job, ``address`` its IP."""

    name: str
    host: str
    address: str = ""


class Returns(Value):
    """What comes back from a copy of the working directory: so much, as long as somebody may come for it."""

    bytes: int = 0  # 0: nothing does
    files: int = 0
    wait: int = 0  # seconds that the first pod stays for files that nobody has fetched


class RunSpec(Value):
    """Everything the agents of a run need; no secret is in it.

    ``job`` carries the request, the shares and the ids; ``cluster`` the limits (kill_wait). ``limit`` is the time limit in
    seconds from the start (None: unlimited); the leader keeps it. Of a heterogeneous job ``components`` has every component, the
    first one being ``job``, ``limits`` their time limits, and ``nodes`` those of all components, in that order. ``isolate``: node names resolve by a mount and UTS
    namespace per node ("namespaces") or are addresses ("addresses"); "none" in pods. ``private`` is the folder with the files
    that the namespaces mount (hosts, profile). ``commands`` is our command folder. ``news`` is the argv that starts a
    controller, run by a leader that has news and sees no controller.
    """

    job: Job
    cluster: Cluster
    nodes: tuple[RunNode, ...] = ()
    script: bool = False  # a batch script is there (file SCRIPT)
    components: tuple[Job, ...] = ()
    limit: int | None = None  # seconds
    limits: tuple[int | None, ...] = ()
    isolate: str = "none"
    private: str = ""
    commands: str = ""
    own: dict[str, str] = {}  # variables of ours that every task gets, whatever --export leaves of its caller's
    news: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()  # MiB enforced per node; 0 = not enforced
    rlimits: dict[str, tuple[int, int]] = {}  # RLIMIT_ name -> (soft, hard) of the submitter
    listen: str = "unix"  # how the leader listens: "unix" (in the run folder) or "tcp:<port>" (all addresses; in pods)
    barrier: int = 60  # seconds in which all agents must have found the leader
    leader: str = ""  # the full DNS name of the leader's pod; the others' differ in the first label, their ``host``
    heartbeat: int = 0  # seconds between two signs of life of agents on different machines; 0: one machine, no need
    grace: int = 300  # seconds of silence after which a node is lost (SlurmdTimeout)
    complain: int = 0  # seconds after which a pod that has not found the leader prints why (UNMET); 0: never
    encrypted: bool = False  # agents on different machines speak to each other in secret
    staged: bool = False  # the working directory comes with the run: the ticket's stage.tar.gz, or pushed to the leader
    returns: Returns = Returns()
    told_names: bool = False  # what the nodes are called outside is what their agents tell (``job.shares`` has a guess)
    record: str = ""  # uid of the record in the cluster that decides whether the run begins; "": nobody is to be asked
    run: int = 0  # its number in that record
    barred: tuple[str, ...] = ()  # nodes that operators keep the job from: for backends whose cluster chooses the nodes
    echo_output: bool = False  # the leader copies the batch script's output to its own stdout (kubectl logs)
    _nested = {"job": Job, "components": Job, "cluster": Cluster, "nodes": RunNode, "returns": Returns}

    @property
    def parts(self) -> tuple[Job, ...]:
        """The components; a plain job is its own only one."""
        return self.components or (self.job,)

    def component_of(self, index: int) -> int:
        """The number of the component that node ``index`` belongs to."""
        for number, job in enumerate(self.parts):
            if index < len(job.shares):
                return number
            index -= len(job.shares)
        raise IndexError("no such node")

    def nodes_of(self, component: int) -> range:
        """The indexes of a component's nodes."""
        first = sum(len(job.shares) for job in self.parts[:component])
        return range(first, first + len(self.parts[component].shares))

    @property
    def apart(self) -> bool:
        """Whether the agents are on different machines: a connection that ends before the start may then come back."""
        return self.listen != "unix"

    @property
    def name(self) -> str:
        """``7.0``: job id and restart count; names the folder."""
        return f"{self.job.job_id}.{self.job.restarts}"
