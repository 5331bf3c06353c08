"""A request resolved: the numbers that follow from it by the rules with which Slurm completes what the user left open.

sbatch and its controller derive task counts from ``--ntasks-per-node`` and the GPU options, node counts from node lists
and from ``--gpus`` with ``--gpus-per-node``. Everything that is left open is None, so that "asked for" and "got" stay apart.
"""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.placement import gpus
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Partition
    from shim.core.model.request import JobRequest
    from shim.core.placement.gpus import Demand


class ResolvedRequest(Value):
    """A request with all numbers that follow from it; None: left open. GPUs are demands (``core.placement.gpus``)."""

    min_nodes: int = 1
    max_nodes: int | None = None  # None: as many as it takes
    fixed_nodes: bool = False  # the user said how many (-N), or --gpus / --gpus-per-node say it
    ntasks: int | None = None  # None: one per node, and SLURM_NTASKS is not set
    cpus_per_task: int = 1
    tasks_per_node: int | None = None  # at most
    each_node: int | None = None  # exactly: --ntasks-per-node without -n and --ntasks-per-gpu give every node so many
    # CPUs that a node must have, though the job may get less: of --ntasks-per-node, or of all tasks by GPUs.
    one_node: int = 1
    min_cpus: int = 1  # per node: of --mincpus, -c and --ntasks-per-node the most
    least_cpus: int = 1  # the same without --mincpus
    cpus: int = 1  # of the job, as shown while pending
    node_gpus: Demand = ()  # per node
    node_gres: Demand = ()  # other resources per node: (name, count)
    job_gpus: Demand = ()
    task_gpus: Demand = ()
    cpus_per_gpu: int = 0
    tasks_per_socket: int | None = None
    tasks_per_core: int | None = None
    overcommit: bool = False
    whole: bool = False  # --exclusive: every CPU and GPU of the nodes
    required: tuple[str, ...] = ()  # -w
    excluded: tuple[str, ...] = ()  # -x

    @property
    def has_gres(self) -> bool:
        """Whether GPUs or other such resources are asked for."""
        return bool(self.node_gpus or self.node_gres or self.job_gpus or self.task_gpus)


class _Gpus(Value):
    """GPUs and other such resources, by what each of them is asked for."""

    per_node: Demand = ()
    per_job: Demand = ()
    per_task: Demand = ()
    gres: Demand = ()  # other resources, per node


def resolve(request: JobRequest) -> ResolvedRequest:
    """The numbers behind ``request``."""
    named = hostlist.expand(request.node_list) if request.node_list else []
    arbitrary = bool(named) and (request.distribution or "").startswith("arbitrary")
    required = tuple(dict.fromkeys(named))
    if arbitrary:
        # Which task runs where is the step's business; the job gets these nodes, and CPUs on them as any other job.
        required = required[: request.ntasks]
    asked = _gpus(request)
    by_gpus = _nodes_by_gpus(request, asked)
    fixed = request.min_nodes is not None or by_gpus is not None
    min_nodes, max_nodes = _node_range(request, asked, by_gpus, len(required))
    ntasks = _ntasks(request, min_nodes, asked, len(named) if arbitrary else None)
    min_nodes, max_nodes = _without_idle_nodes(request, min_nodes, max_nodes, ntasks, required)
    each_node, one_node = _load_of_nodes(request, min_nodes, ntasks, asked)
    if request.ntasks_per_gpu and ntasks and min_nodes > 1:
        max_nodes = min_nodes
    return ResolvedRequest(
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        fixed_nodes=fixed,
        ntasks=ntasks,
        cpus_per_task=request.task_cpus,
        tasks_per_node=request.ntasks_per_node or None,
        each_node=each_node,
        one_node=one_node,
        min_cpus=max(request.min_cpus or 1, _least_cpus(request)),
        least_cpus=_least_cpus(request),
        cpus=_shown_cpus(request, min_nodes, max_nodes, ntasks, by_gpus, len(required)),
        node_gpus=asked.per_node,
        node_gres=asked.gres,
        job_gpus=asked.per_job or _gpus_of_tasks(request, asked, ntasks),
        task_gpus=asked.per_task,
        cpus_per_gpu=request.cpus_per_gpu or 0,
        tasks_per_socket=request.ntasks_per_socket or None,
        tasks_per_core=request.ntasks_per_core or None,
        overcommit=request.overcommit,
        whole=request.exclusive == "node",
        required=required,
        excluded=tuple(hostlist.expand(request.exclude)) if request.exclude else (),
    )


def _gpus(request: JobRequest) -> _Gpus:
    """--gres, and the GPU options, which win over it."""
    per_node, gres = gpus.gres_demand(request.gres)
    if request.gpus_per_node:
        per_node = gpus.gpu_demand(request.gpus_per_node)
    elif request.gpus_per_socket:
        per_node = gpus.scale(gpus.gpu_demand(request.gpus_per_socket), request.sockets_per_node or 1)
    per_job, per_task = gpus.gpu_demand(request.gpus), gpus.gpu_demand(request.gpus_per_task)
    return _Gpus(per_node=per_node, per_job=per_job, per_task=per_task, gres=gres)


def _nodes_by_gpus(request: JobRequest, asked: _Gpus) -> int | None:
    """How many nodes --gpus with --gpus-per-node means, where the user does not say how many."""
    if request.min_nodes is not None:
        return None
    each = dict(asked.per_node)
    shared = [count // each[kind] for kind, count in asked.per_job if kind in each]  # no demand is of 0
    return max(1, *shared) if shared else None


def _node_range(request: JobRequest, asked: _Gpus, by_gpus: int | None, listed: int) -> tuple[int, int | None]:
    """The least number of nodes and the most; None: as many as it takes. ``listed``: nodes that --nodelist requires."""
    if by_gpus is not None:
        return by_gpus, by_gpus
    least, most = request.min_nodes, request.max_nodes
    if least is not None:
        if most is None:
            return least, least
        return least, (most or None) if least else most  # ``-N 2-0`` is at least two
    least = max(1, listed)
    if request.spread_job and not asked.per_job:
        return least, max(most or request.ntasks or 1, listed)
    return least, listed if listed and request.ntasks is None and not asked.per_job else None


def _ntasks(request: JobRequest, min_nodes: int, asked: _Gpus, named: int | None) -> int | None:
    """The number of tasks; None: one per node. ``named``: how many nodes -m arbitrary names, one for each task."""
    if named is not None and request.ntasks is None and request.kind == "run":
        return named
    wanted = gpus.total(asked.per_job) or gpus.total(asked.per_node) * min_nodes
    if request.ntasks_per_gpu and wanted:
        return request.ntasks_per_gpu * wanted  # -n says nothing then
    if request.ntasks is not None:
        return request.ntasks
    if request.ntasks_per_node:
        return request.ntasks_per_node * min_nodes
    if asked.per_task and asked.per_job:
        return max(1, gpus.total(asked.per_job) // gpus.total(asked.per_task))
    if request.ntasks_per_gpu and request.min_nodes and request.max_nodes in (None, min_nodes):
        return request.ntasks_per_gpu * min_nodes
    return None


def _without_idle_nodes(
    request: JobRequest, least: int, most: int | None, ntasks: int | None, required: tuple[str, ...]
) -> tuple[int, int | None]:
    """The numbers of nodes, where -N says more than there are tasks: "can't run 2 processes on 4 nodes, setting nnodes to 2"."""
    by_partition = request.max_nodes == 0  # its MinNodes, or no limit at all: not -N
    if request.min_nodes is None or by_partition or required or ntasks is None or ntasks >= least:
        return least, most
    return ntasks, None if most is None else ntasks


def _load_of_nodes(request: JobRequest, min_nodes: int, ntasks: int | None, asked: _Gpus) -> tuple[int | None, int]:
    """``each_node`` and ``one_node`` of the demand: tasks that every node runs, and CPUs that a node must have."""
    each_node = request.ntasks_per_node if request.ntasks is None else None
    one_node = request.task_cpus * (request.ntasks_per_node or 1)
    if request.ntasks_per_gpu and ntasks:
        by_gpus = gpus.total(asked.per_node) * request.ntasks_per_gpu or ntasks // max(1, min_nodes)
        if min_nodes > 1 or asked.per_node:
            return by_gpus, one_node
        return each_node, by_gpus * request.task_cpus
    return each_node, one_node


def _gpus_of_tasks(request: JobRequest, asked: _Gpus, ntasks: int | None) -> Demand:
    """The GPUs that --ntasks-per-gpu means, where no other option counts them."""
    if not request.ntasks_per_gpu or asked.per_node or not ntasks:
        return ()
    return (("", -(-ntasks // request.ntasks_per_gpu)),)


def _least_cpus(request: JobRequest) -> int:
    """CPUs of each node that the tasks need which --ntasks-per-node puts on it."""
    together = 1 if request.overcommit or request.ntasks == 1 else request.ntasks_per_node or 1
    return together * request.task_cpus


def _shown_cpus(
    request: JobRequest, min_nodes: int, max_nodes: int | None, ntasks: int | None, by_gpus: int | None, listed: int
) -> int:
    """``%C`` of a pending job. A range (``-N 2-4``) without tasks shows 1, measured; so do nodes derived from GPUs."""
    per_task = request.cpus_per_task or 1
    if ntasks is not None:
        return min_nodes if request.overcommit else (request.ntasks or ntasks) * per_task
    fixed = request.min_nodes is not None or by_gpus is not None
    least = listed if fixed else 0
    if request.overcommit or not min_nodes:
        return max(min_nodes, least)
    ranged = request.min_nodes is not None and max_nodes not in (None, min_nodes)
    return max(per_task if ranged or by_gpus is not None else min_nodes * per_task, least)


class MemoryRule(Value):
    """MiB per node (0 = all of the node), per CPU or per GPU; None where it does not count."""

    per_node: int | None = None
    per_cpu: int | None = None
    per_gpu: int | None = None

    def of(self, node_memory: int, cpus: int, gpus: int) -> int:
        """MiB on a node with ``node_memory`` for so many CPUs and GPUs; 0 = not charged."""
        if self.per_node is not None:
            return self.per_node or node_memory
        return (self.per_cpu or 0) * cpus + (self.per_gpu or 0) * gpus


def memory_rule(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> MemoryRule:
    """What a job is charged: what it wants, on a cluster that counts memory."""
    return wanted_memory(request, cluster, partition) if cluster.counts_memory else MemoryRule()


def wanted_memory(request: JobRequest, cluster: Cluster, partition: Partition | None = None) -> MemoryRule:
    """What the request says, else the default of its partition or cluster, else nothing: memory is not charged."""
    if request.mem_per_node is not None:
        return MemoryRule(per_node=request.mem_per_node)
    if request.mem_per_cpu is not None:
        return MemoryRule(per_cpu=request.mem_per_cpu) if request.mem_per_cpu else MemoryRule(per_node=0)
    if request.mem_per_gpu is not None:
        return MemoryRule(per_gpu=request.mem_per_gpu)
    for source in (partition, cluster):
        if source is not None and source.def_mem_per_cpu is not None:
            return MemoryRule(per_cpu=source.def_mem_per_cpu)
        if source is not None and source.def_mem_per_node is not None:
            return MemoryRule(per_node=source.def_mem_per_node or None)
    return MemoryRule()
