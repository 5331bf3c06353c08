"""What a request means in numbers: the rules by which Slurm completes what the user left open.

sbatch and its controller derive task counts from ``--ntasks-per-node`` and the GPU options, node counts from node lists
and from ``--gpus`` with ``--gpus-per-node``. Everything that is left open is None, so that "asked for" and "got" stay apart.
"""

from __future__ import annotations

from shim.core import hostlist
from shim.core.layout import gpus
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.layout.gpus import Demand
    from shim.core.model.request import JobRequest


class JobDemand(Value):
    """A request, completed. Per-node and per-job GPUs are demands (``core.layout.gpus``)."""

    min_nodes: int = 1
    max_nodes: int | None = None  # None: as many as it takes
    fixed_nodes: bool = False  # the user said how many (-N), or --gpus / --gpus-per-node say it
    ntasks: int | None = None  # None: one per node, and SLURM_NTASKS is not set
    cpus_per_task: int = 1
    tasks_per_node: int | None = None  # at most
    each_node: int | None = None  # exactly: --ntasks-per-node without -n and --ntasks-per-gpu give every node so many
    one_node: int = (
        1  # CPUs that a node must have, though the job may get less: of --ntasks-per-node, or of all tasks by GPUs
    )
    min_cpus: int = 1  # per node: of --mincpus, -c and --ntasks-per-node the most
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


def job_demand(request: JobRequest) -> JobDemand:
    """The numbers behind ``request``."""
    named = hostlist.expand(request.node_list) if request.node_list else []
    required = tuple(dict.fromkeys(named))
    arbitrary = bool(required) and (request.distribution or "").startswith("arbitrary")
    if arbitrary:
        # Which task runs where is the step's business; the job gets these nodes, and CPUs on them as any other job.
        required = required[: request.ntasks]
    node_gpus, node_gres = gpus.gres_demand(request.gres)
    if request.gpus_per_node:
        node_gpus = gpus.gpu_demand(request.gpus_per_node)
    elif request.gpus_per_socket:
        node_gpus = gpus.times(gpus.gpu_demand(request.gpus_per_socket), request.sockets_per_node or 1)
    job_gpus = gpus.gpu_demand(request.gpus)
    task_gpus = gpus.gpu_demand(request.gpus_per_task)

    min_nodes, max_nodes = request.min_nodes, request.max_nodes
    fixed = min_nodes is not None
    derived_from_gpus = False
    if min_nodes is None and job_gpus and node_gpus:
        shared = [(count, dict(node_gpus)[kind]) for kind, count in job_gpus if kind in dict(node_gpus)]
        if shared:
            min_nodes = max_nodes = max(1, max(whole // (each or 1) for whole, each in shared))
            fixed = derived_from_gpus = True
    if fixed and max_nodes is None:
        max_nodes = min_nodes
    elif fixed and min_nodes:
        max_nodes = max_nodes or None  # ``-N 2-0`` is at least two
    if min_nodes is None:
        min_nodes = max(1, len(required))
        max_nodes = len(required) if required and request.ntasks is None and not job_gpus else None
        if request.spread_job and not job_gpus:
            max_nodes = max(request.max_nodes or request.ntasks or 1, len(required))
    ntasks = _ntasks(request, min_nodes, job_gpus, node_gpus, task_gpus)
    if arbitrary and request.ntasks is None and request.kind == "run":
        ntasks = len(named)
    if ntasks is not None and fixed and not derived_from_gpus and not required and ntasks < min_nodes:
        min_nodes = ntasks  # "can't run 2 processes on 4 nodes, setting nnodes to 2"
        max_nodes = ntasks if max_nodes is not None else None
    if request.ntasks_per_gpu and not job_gpus and not node_gpus and ntasks:
        job_gpus = (("", -(-ntasks // request.ntasks_per_gpu)),)

    cpus_per_task = request.task_cpus
    per_node = 1 if request.ntasks == 1 else request.ntasks_per_node or 1
    each_node = request.ntasks_per_node if request.ntasks is None else None
    one_node = cpus_per_task * (request.ntasks_per_node or 1)
    if request.ntasks_per_gpu and ntasks:
        each = gpus.total(node_gpus) * request.ntasks_per_gpu or ntasks // min_nodes
        if min_nodes > 1 or node_gpus:
            each_node, max_nodes = each, min_nodes if min_nodes > 1 else max_nodes
        else:
            one_node = each * cpus_per_task
    return JobDemand(
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        fixed_nodes=fixed,
        ntasks=ntasks,
        cpus_per_task=cpus_per_task,
        tasks_per_node=request.ntasks_per_node or None,
        each_node=each_node,
        one_node=one_node,
        min_cpus=max(request.min_cpus or 1, cpus_per_task if request.overcommit else per_node * cpus_per_task),
        cpus=max(
            _shown_cpus(request, min_nodes, max_nodes, ntasks, request.cpus_per_task or 1, derived_from_gpus),
            len(required) if ntasks is None and fixed else 0,
        ),
        node_gpus=node_gpus,
        node_gres=node_gres,
        job_gpus=job_gpus,
        task_gpus=task_gpus,
        cpus_per_gpu=request.cpus_per_gpu or 0,
        tasks_per_socket=request.ntasks_per_socket or None,
        tasks_per_core=request.ntasks_per_core or None,
        overcommit=request.overcommit,
        whole=request.exclusive == "node",
        required=required,
        excluded=tuple(hostlist.expand(request.exclude)) if request.exclude else (),
    )


def _ntasks(request: JobRequest, min_nodes: int, job_gpus: Demand, node_gpus: Demand, task_gpus: Demand) -> int | None:
    wanted = gpus.total(job_gpus) or gpus.total(node_gpus) * min_nodes
    if request.ntasks_per_gpu and wanted:
        return request.ntasks_per_gpu * wanted  # -n says nothing then
    if request.ntasks is not None:
        return request.ntasks
    if request.ntasks_per_node:
        return request.ntasks_per_node * min_nodes
    if task_gpus and job_gpus:
        return max(1, gpus.total(job_gpus) // gpus.total(task_gpus))
    if request.ntasks_per_gpu and request.min_nodes and request.max_nodes in (None, min_nodes):
        return request.ntasks_per_gpu * min_nodes
    return None


def _shown_cpus(
    request: JobRequest, min_nodes: int, max_nodes: int | None, ntasks: int | None, per_task: int, from_gpus: bool
) -> int:
    """``%C`` of a pending job. A range (``-N 2-4``) without tasks shows 1, measured; so do nodes derived from GPUs."""
    if request.overcommit:
        return min_nodes
    if ntasks is not None:
        return (request.ntasks or ntasks) * per_task
    if not min_nodes:
        return 0
    ranged = request.min_nodes is not None and max_nodes not in (None, min_nodes)
    return per_task if ranged or from_gpus else min_nodes * per_task
