"""What squeue and scontrol both derive from a job record."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.lists import fold_ranks
from shim.core.formats.times import parse_seconds_any
from shim.core.formats.tres import gpu_count, parse_gres, show_gpus_field, show_gres_field, tres_text
from shim.core.model import states
from shim.core.model.request import INFINITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster, Node, Partition
    from shim.core.model.job import Job, NodeShare
    from shim.core.render.view import View

NO_TASK = 4294967294  # what %a is outside an array, and in the rest of one

# Slurm names a failed job's reason where it would list nodes for one that ended well.
_SHOWS_REASON = frozenset(
    (states.PENDING, states.FAILED, states.TIMEOUT, states.OUT_OF_MEMORY, states.DEADLINE, states.NODE_FAIL)
)

_SWITCH_WAIT = 300  # seconds


def or_null(text: str | None) -> str:
    """The text, or ``(null)`` for none."""
    return text if text else "(null)"


def switches(job: Job) -> tuple[str, int]:
    """How many switches the job asks for, and the seconds that it waits for them: Slurm has no job wait longer than max_switch_wait."""
    if not job.request.switches:
        return "0", 0
    count, at, wait = job.request.switches.partition("@")
    try:
        seconds = parse_seconds_any(wait) if at else -1
    except ValueError:
        seconds = -1
    return count, min(seconds, _SWITCH_WAIT) if seconds >= 0 else _SWITCH_WAIT


def label(job: Job) -> str:
    """The id as squeue shows it: of an array's rest no more than 31 characters, whatever stands there."""
    return job.array_label if job.array_tasks is None else job.array_label[:31]


def het_ids(job: Job) -> str:
    """The ids of all components: ``12-14``."""
    return f"{job.het_job_id}-{job.het_job_id + job.het_size - 1}"


def array_tasks(text: str) -> str:
    """The indexes of an array's rest, cut as Slurm cuts them (SLURM_BITSTR_LEN, 64)."""
    return text if len(text) < 64 else text[:60] + "..."


def nodelist(job: Job) -> str:
    """The job's nodes, folded; "" while it has none, or its cluster has yet to choose them."""
    names = [share.name for share in job.shares if not share.planned]
    # In the order of ranks inside the job, sorted outside, as everywhere in Slurm.
    return hostlist.fold(names) if len(names) < 2 else hostlist.fold_sorted(names)


def nodes_or_reason(job: Job) -> str:
    """``%R``: nodes of a job that has them and did not fail, else the reason in parentheses."""
    return f"({job.reason})" if job.state in _SHOWS_REASON else nodelist(job)


def time_used(job: Job, now: float) -> float:
    """Seconds that the job has run, or ran. 0 before its start, and where a clock went back."""
    if job.state == states.PENDING or not job.start_time:
        return 0
    if job.state in states.TERMINAL:
        until = job.end_time
    elif job.state == states.SUSPENDED and job.suspend_time:
        until = job.suspend_time
    else:
        until = now
    return max(0, int(until) - int(job.start_time))


def time_limit(job: Job, view: View) -> int:
    """Minutes; INFINITE for none. A job without a limit of its own has its partition's."""
    if job.time_limit is not None:
        return job.time_limit
    partition = partition_of(job, view.cluster)
    if partition is None:
        return INFINITE
    limit = partition.default_time
    if limit is None:
        limit = _tried(job, partition, view.cluster).max_time
    return INFINITE if limit is None else limit


def _tried(job: Job, first: Partition, cluster: Cluster | None) -> Partition:
    """Of the partitions that a job waits for, the one that slurmctld looked at last: it begins with the highest tier, and ends with the
    first that has the nodes, or (EnforcePartLimits=ALL) with the last.
    """
    if cluster is None or "," not in job.partition.strip(","):
        return first
    found = [cluster.partition(name) for name in job.partition.split(",")]
    tried = sorted((one for one in found if one is not None), key=lambda one: -one.priority_tier)
    return tried[-1 if cluster.enforce_part_limits and cluster.enforce_in_all else 0]


def end_time(job: Job, view: View) -> float:
    """When the job ended, will have to end, or is expected to; 0 = unknown. A running job without limit: 0."""
    if job.state in states.TERMINAL or job.state == states.COMPLETING:
        return job.end_time
    limit = time_limit(job, view)
    if limit == INFINITE:
        return 0
    return job.end_time or (job.start_time + 60 * limit if job.start_time else 0)


def eligible_time(job: Job) -> float:
    """Since when the job may start; for a held job the earliest possible time. 0 = unknown."""
    begin = float(job.request.begin)
    return job.eligible_time or (begin if begin >= int(job.submit_time) else 0.0)


# Reasons that come before a look at the nodes.
_UNTRIED = (
    *("BeginTime", "Dependency", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser"),
    *("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit"),
)


def partition_of(job: Job, cluster: Cluster | None) -> Partition | None:
    """The job's partition; of several that it may wait for, the first."""
    if cluster is None:
        return None
    return cluster.partition(job.partition.lstrip(",").partition(",")[0])


def min_memory(job: Job, view: View) -> tuple[int, bool]:
    """MiB asked for, and whether per CPU (else per node). The partition's or cluster's default for a job that did not ask."""
    request = job.request
    if request.mem_per_cpu:
        return request.mem_per_cpu, True
    if request.mem_per_node is not None or request.mem_per_cpu == 0:
        return request.mem_per_node or 0, False
    cluster = view.cluster
    for source in (partition_of(job, cluster), cluster):
        if source is not None and source.def_mem_per_cpu is not None:
            return source.def_mem_per_cpu, True
        if source is not None and source.def_mem_per_node is not None:
            return source.def_mem_per_node, False
    return 0, False


def min_cpus_per_node(job: Job) -> int:
    """The fewest CPUs that any node of the job must have."""
    request = job.request
    here = 1 if request.overcommit or request.ntasks == 1 else request.ntasks_per_node or 1
    return max(request.min_cpus or 1, request.task_cpus * here)


def tres_per_node(job: Job) -> str:
    """``gres:gpu:2`` from ``--gpus-per-node`` and ``--gres``; "" for none."""
    parts = (show_gpus_field(job.request.gpus_per_node), show_gres_field(job.request.gres))
    return ",".join(part for part in parts if part)


def gpu_total(job: Job) -> int:
    """GPUs the job has, or asks for in all."""
    if job.shares:
        return sum(len(share.gpus) for share in job.shares)
    request = job.request
    try:
        per_node = sum(count for name, _, count in parse_gres(request.gres or "") if name == "gpu")
        per_node += gpu_count(request.gpus_per_node) + gpu_count(request.gpus_per_socket) * (
            request.sockets_per_node or 1
        )
        whole = gpu_count(request.gpus)
        per_task = gpu_count(request.gpus_per_task)
    except ValueError:
        return 0
    return whole or per_node * job.nodes or per_task * job.tasks


def gres_held(share: NodeShare) -> str:
    """The GPUs that a job holds of a node, by type: ``gpu:a100:2(IDX:0-1)``; "" for none."""
    held: dict[str, list[int]] = {}
    for at, index in enumerate(share.gpus):
        held.setdefault((share.gpu_types[at : at + 1] or ("",))[0], []).append(index)
    return ",".join(
        f"gpu:{kind + ':' if kind else ''}{len(found)}(IDX:{fold_ranks(sorted(found))})"
        for kind, found in sorted(held.items())
    )


def memory_total(job: Job, view: View) -> int:
    """Memory of the whole job in MiB: what a job with nodes is charged, what a waiting job would need."""
    if job.shares:
        return sum(share.memory for share in job.shares)
    if job.request.mem_per_gpu:
        return job.request.mem_per_gpu * gpu_total(job)
    amount, per_cpu = min_memory(job, view)
    if amount:
        return amount * (job.cpus if per_cpu else _nodes_counted(job))
    # A job that does not say could get all of a node: so Slurm shows it while it waits.
    node = _first_node(job, view.cluster)
    return node.memory * _nodes_counted(job) if node else 0


def _nodes_counted(job: Job) -> int:
    """The number of nodes in TRES: for a waiting job the number it asked for, not the estimate of what it needs."""
    if job.shares:
        return job.nodes
    request = job.request
    if request.min_nodes != 0 and (request.node_list or (request.min_nodes is None and request.gpus)):
        from shim.core.placement.resolve import resolve

        return resolve(request).min_nodes
    return 1 if request.min_nodes is None else request.min_nodes


def tres(job: Job, view: View) -> str:
    """``cpu=4,mem=4000M,node=2,billing=4,gres/gpu=2``. GPUs are counted once the job has them."""
    if not job.cpus:
        return "(null)"
    return tres_text(
        job.cpus, memory_total(job, view), _nodes_counted(job), {"gpu": gpu_total(job) if job.shares else 0}
    )


def over_subscribe(job: Job) -> str:
    """OK, or what the user asked for: NO (exclusive), USER, MCS, YES."""
    exclusive = job.request.exclusive
    if exclusive in ("user", "mcs"):
        return exclusive.upper()
    if exclusive is not None:
        return "NO"
    return "YES" if job.request.oversubscribe else "OK"


def command(job: Job) -> str:
    """Path and arguments of the script, srun's program without its arguments; "" for a script from stdin or --wrap, and what salloc runs."""
    request = job.request
    if not request.command or request.kind == "alloc":
        return ""
    return request.command if request.kind == "run" else " ".join((request.command, *request.arguments))


def files(job: Job) -> tuple[str, str, str]:
    """Output, error and input of a batch job as Slurm shows them: %A %a %j %u %x replaced, every other letter as it was given.

    What the script really gets, with node names and padded numbers, is ``environ.filenames.job_files``.
    """
    request = job.request
    usual = "slurm-%A_%a.out" if job.array_job_id else "slurm-%j.out"
    # An empty name is one too: the directory.
    out = usual if request.stdout is None else request.stdout
    err = out if request.stderr is None else request.stderr
    return _path(job, out), _path(job, err), _path(job, "/dev/null" if request.stdin is None else request.stdin)


def files_asked(job: Job) -> tuple[str, str, str]:
    """The same as squeue shows them: as they were asked for; the usual one has the job's own id, a task's too."""
    request = job.request
    out = f"slurm-{job.job_id}.out" if request.stdout is None else request.stdout
    err = out if request.stderr is None else request.stderr
    return _from_root(job, out), _from_root(job, err), _from_root(job, request.stdin or "/dev/null")


def _from_root(job: Job, name: str) -> str:
    if name.lower() == "none":
        return "/dev/null"
    return name if name.startswith("/") else f"{job.request.work_dir}/{name}"


def _path(job: Job, pattern: str) -> str:
    if "%" in pattern:
        task = NO_TASK if job.array_task_id is None else job.array_task_id
        for letter, value in (
            ("%A", str(job.array_job_id or job.job_id)),
            ("%a", str(task)),
            ("%j", str(job.job_id)),
            ("%u", job.user),
            ("%x", job.name),
        ):
            pattern = pattern.replace(letter, value)
    return _from_root(job, pattern)


def num_nodes(job: Job, view: View) -> str:
    """scontrol's NumNodes: ``2-4`` or ``2-2`` of a job that waits and was given limits, else a number."""
    request = job.request
    nodes = nodes_counted(job, view)
    if job.state != states.PENDING or job.shares:
        return str(nodes)
    most = request.max_nodes if request.max_nodes is not None else request.min_nodes
    if not most and (request.node_list or request.gpus):
        most = _most_nodes(job, view)
    return f"{min(nodes, most)}-{most}" if most else str(nodes)


def nodes_counted(job: Job, view: View) -> int:
    """Nodes of the job. Of one that waits and that the scheduler has not tried to place (it is held, say) it is slurmctld's
    guess, in which -c and --ntasks-per-node have an odd say."""
    request = job.request
    if job.state != states.PENDING or job.shares or job.reason not in _UNTRIED or view.cluster is None:
        return job.nodes
    cpus = request.cpus_per_task or (request.cpus_per_gpu and request.gpus_per_task)
    shaping = (cpus, request.ntasks_per_node, request.ntasks_per_core, request.gpus, request.node_list)
    if not any(shaping):
        return job.nodes
    from shim.core.placement.pending_estimate import pending_estimate

    return pending_estimate(request, view.cluster, partition_of(job, view.cluster)).guessed_nodes


def _most_nodes(job: Job, view: View) -> int | None:
    if view.cluster is None:
        return None
    from shim.core.placement.pending_estimate import pending_estimate

    return pending_estimate(job.request, view.cluster, partition_of(job, view.cluster)).max_nodes


def exit_code(status: int) -> str:
    """``code:signal`` of a raw wait status."""
    return f"{status >> 8 & 0xFF}:{status & 0x7F}"


def _first_node(job: Job, cluster: Cluster | None) -> Node | None:
    partition = partition_of(job, cluster)
    if cluster is None or partition is None or not partition.nodes:
        return None
    return cluster.node(partition.nodes[0])
