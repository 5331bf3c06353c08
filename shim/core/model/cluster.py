"""Clusters, their nodes and partitions as configured. Which job holds what of a node is recorded in the jobs."""

from __future__ import annotations

from shim import SLURM_VERSION
from shim.core.value import Value


class Gres(Value):
    """A generic resource of a node: ``gpu``, type ``a100`` (or empty), how many."""

    name: str
    type: str = ""
    count: int = 1


NO_END = float(1 << 40)  # a time that is known to come, but not when


class Others(Value):
    """A part of what is in use of a node by what is no job of ours. CPUs in thousandths, memory in MiB.

    ``until``: when it ends at the latest (epoch seconds); ``NO_END``: some day; 0: never. Who has a higher ``priority`` may take its place.
    """

    until: float = 0.0
    priority: int = 0
    cpus: int = 0
    memory: int = 0
    gpus: int = 0


class Node(Value):
    """A node. Memory and disk in MiB. ``state`` is the administrator's part: "", "DRAIN", "DOWN", "DOWN+DRAIN".

    ``cloud``: it is not there yet, and will be once a job wants it.
    """

    name: str
    address: str = ""
    cpus: int = 1
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    memory: int = 1
    tmp_disk: int = 0
    weight: int = 1
    gres: tuple[Gres, ...] = ()
    features: tuple[str, ...] = ()
    state: str = ""
    reason: str = ""
    reason_user: str = ""  # who gave it, and when
    reason_uid: int | None = None
    reason_time: float = 0
    comment: str = ""
    extra: str = ""
    others_cpus: int = 0  # in use by what is no job of ours: other programs on a shared cluster
    others_memory: int = 0
    others_gpus: int = 0
    others: tuple[Others, ...] = ()  # the same in parts, where some of it ends or makes way
    cloud: bool = False
    _nested = {"gres": Gres, "others": Others}

    @property
    def gpus(self) -> int:
        """How many GPUs the node has, of all types."""
        return sum(gres.count for gres in self.gres if gres.name == "gpu")


class Partition(Value):
    """A partition. ``nodes``: names in order. Times in minutes; None = infinite / no default."""

    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    state: str = "UP"
    max_time: int | None = None
    default_time: int | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    def_mem_per_cpu: int | None = None
    def_mem_per_node: int | None = None
    max_mem_per_cpu: int | None = None
    max_mem_per_node: int | None = None
    priority_tier: int = 1
    oversubscribe: str = "NO"
    alloc_nodes: str = "ALL"  # the hosts from which jobs may be submitted, a hostlist
    allow_groups: str = "ALL"
    allow_accounts: str = "ALL"
    deny_accounts: str = ""
    allow_qos: str = "ALL"
    deny_qos: str = ""
    hidden: bool = False
    root_only: bool = False
    disable_root_jobs: bool = False
    req_resv: bool = False
    max_cpus_per_node: int | None = None  # that all of its jobs together may use of a node
    lln: bool = False  # the least loaded nodes first
    note: str = ""  # why it has no nodes
    priority: int = 0  # of its jobs' pods, beside those of others
    preempts: bool = False  # its jobs take the place of what has a lower priority
    settings: dict[str, str] = {}  # the backend's own words (node_selector, overlay …), as JSON text


class Cluster(Value):
    """A cluster as configured: the unit that ``-M`` names."""

    name: str
    backend: str = "local"
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    max_array_size: int = 1001
    max_jobs: int = 10000
    first_job_id: int = 1  # 0 while it is not settled
    # Of its job ids: where each range begins and ends, rising; the ranges are used one after the other.
    id_ranges: tuple[int, ...] = (1, 1 << 62)
    kill_wait: int = 30  # seconds from TERM to KILL
    output_wait: int = 2  # seconds for which a start waits for the folder of the job's output
    min_job_age: int = 300  # seconds an ended job stays in squeue -t all
    inactive_limit: int = 0
    def_mem_per_cpu: int | None = None  # MiB; None = memory is charged only to jobs that ask
    def_mem_per_node: int | None = None
    max_mem_per_cpu: int | None = None
    max_mem_per_node: int | None = None
    counts_memory: bool = True  # False: as SelectTypeParameters without MEMORY: no job waits for memory
    enforce_part_limits: bool = False
    enforce_in_all: bool = True  # of several partitions all must allow the job; False: any of them
    licenses: tuple[Gres, ...] = ()
    gres_types: tuple[str, ...] = ()  # GresTypes: names that may be asked for, beside what nodes have
    over_time: int = 0  # minutes
    mpi_default: str = "none"  # of steps that name no --mpi
    mail_prog: str = ""  # what sends the mails of --mail-type: called with -s SUBJECT USER
    mail_server: str = ""  # HOST[:PORT]: takes them by SMTP in place of mail_prog; with neither none are sent
    mail_domain: str = ""  # of a --mail-user without "@"
    requeue: bool = True
    elastic: bool = False  # not configured: its nodes grow to what jobs ask for (core/admission/elastic.py)
    accounting: bool = True  # False: as a site without AccountingStorageType, which knows no QOS and no other clusters
    retention: int = 30  # days for which ended jobs are kept; 0: for ever. The same for all clusters
    operators: tuple[str, ...] | None = None  # names (policy.operates)
    settings: dict[str, str] = {}
    _nested = {"nodes": Node, "partitions": Partition, "licenses": Gres}

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        return None

    def partition(self, name: str) -> Partition | None:
        """The partition of that name."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        return None

    @property
    def one_machine(self) -> bool:
        """Whether its nodes are one machine, whose CPUs, memory and GPUs are counted once (``share = "machine"``)."""
        return self.settings.get("share") == "machine"

    @property
    def one_set_of_gpus(self) -> bool:
        """Whether a GPU index is the same device on every node, and has one owner."""
        return self.settings.get("share") in ("machine", "devices")

    @property
    def version(self) -> str:
        """The Slurm that its nodes and commands say they are."""
        return self.settings.get("slurm_version", SLURM_VERSION)

    @property
    def default_partition(self) -> Partition | None:
        """The partition of jobs that name none: the one marked default, else none."""
        for partition in self.partitions:
            if partition.default:
                return partition
        return None
