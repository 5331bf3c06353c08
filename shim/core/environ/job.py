"""The variables of a job: for its batch script, for salloc's command, and the part that every step repeats.

Slurm sets many variables only when the option behind them was given (SLURM_NTASKS, SLURM_MEM_PER_NODE …): scripts test for
them, so nothing is invented here. Node names are the names that resolve inside the job.
"""

from __future__ import annotations

from shim.core.environ.skypilot import skypilot_environment
from shim.core.formats import hostlist, lists
from shim.core.formats.array_spec import ArraySpec, written_step
from shim.core.placement.resolve import memory_rule, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job, NodeShare
    from shim.core.model.request import JobRequest

_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_SAMPLING = (("profile", "PROFILE"), ("acctg-freq", "ACCTG_FREQ"))
_ANY_INDEX = 1 << 32  # an array that was accepted is not checked again


def host(share: NodeShare) -> str:
    """The node's name inside the job."""
    return share.host or share.name


def hosts(job: Job) -> list[str]:
    """The names of the job's nodes inside the job, in order."""
    return [host(share) for share in job.shares]


def batch_environment(job: Job, cluster: Cluster, node_index: int = 0) -> dict[str, str]:
    """Everything Slurm sets for a batch script on node ``node_index``, but SLURM_TASK_PID, which the agent knows.

    To be laid over the user's variables (``environ.export.apply_export``) with ``environ.export.completed``.
    """
    share = job.shares[node_index]
    name = host(share)
    variables = allocation_environment(job, cluster)
    if "SLURM_ARBITRARY_NODELIST" in variables and sum(each.tasks for each in job.shares) > 1:
        del variables["SLURM_TASKS_PER_NODE"]  # Slurm has no layout for it here: a list of nodes is none of tasks
    variables.update(memory_variables(job, cluster))
    variables.update(identity_variables(job, cluster))
    variables.update(
        ENVIRONMENT="BATCH",
        HOSTNAME=name,
        SLURMD_NODENAME=name,
        SLURM_CPUS_ON_NODE=str(share.cpus),
        SLURM_GTIDS="0",
        SLURM_LOCALID="0",
        SLURM_NODEID="0",
        SLURM_PROCID="0",
        SLURM_TOPOLOGY_ADDR=name,
        SLURM_TOPOLOGY_ADDR_PATTERN="node",
    )
    if share.gpus:
        variables.update(gpu_variables(share.gpus))
        variables["SLURM_JOB_GPUS"] = ",".join(map(str, share.gpus))
        variables["SLURM_GPUS_ON_NODE"] = str(len(share.gpus))
    variables.update(_array(job))
    variables.update(skypilot_environment(job, cluster, node_index))
    if job.restarts:
        variables["SLURM_RESTART_COUNT"] = str(job.restarts)
    return variables


def allocation_environment(job: Job, cluster: Cluster) -> dict[str, str]:
    """What salloc's command sees, on the submitting machine: the allocation, and what was asked; no GPUs, no ranks."""
    variables = common_variables(job, cluster)
    variables["SLURM_NODE_ALIASES"] = "(null)"
    variables["SLURM_TASKS_PER_NODE"] = lists.fold_counts(share.tasks for share in job.shares)
    variables["SLURM_NNODES"] = str(len(job.shares))
    variables.update(asked_variables(job))
    variables.update(asked_gpu_variables(job))
    if (job.request.distribution or "").startswith("arbitrary") and job.request.node_list:
        variables["SLURM_ARBITRARY_NODELIST"] = hostlist.fold_sorted(resolve(job.request).required)
    return variables


def common_variables(job: Job, cluster: Cluster) -> dict[str, str]:
    """The facts about a job that are the same in the batch script, in salloc's command and in every task."""
    nodelist = hostlist.fold(hosts(job))
    request = job.request
    variables = {
        "SLURM_CLUSTER_NAME": cluster.name,
        "SLURM_CONF": cluster.settings.get("slurm_conf") or "/etc/slurm/slurm.conf",
        "SLURM_JOBID": str(job.job_id),
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOB_CPUS_PER_NODE": lists.fold_counts(share.cpus for share in job.shares),
        "SLURM_JOB_NODELIST": nodelist,
        "SLURM_JOB_NUM_NODES": str(len(job.shares)),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_NODELIST": nodelist,
        "SLURM_SUBMIT_DIR": request.extra.get("submit_dir") or request.work_dir,
        "SLURM_SUBMIT_HOST": job.submit_host,
    }
    if request.name and not _nameless(request):
        variables["SLURM_JOB_NAME"] = request.name
    for name, value in (
        ("SLURM_JOB_ACCOUNT", request.account),
        ("SLURM_JOB_QOS", request.qos),
        ("SLURM_JOB_RESERVATION", request.reservation),
    ):
        if value:
            variables[name] = value
    return variables


def identity_variables(job: Job, cluster: Cluster) -> dict[str, str]:
    """Who the job belongs to and how Slurm's own programs find the cluster; not in salloc's command."""
    return {
        "SLURM_JOB_GID": str(job.gid),
        "SLURM_JOB_UID": str(job.uid),
        "SLURM_JOB_USER": job.user,
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_WORKING_CLUSTER": f"{cluster.name}:127.0.0.1:6817:9728:109",
    }


def asked_variables(job: Job) -> dict[str, str]:
    """The variables that exist only for an option that was given, but those about GPUs."""
    request = job.request
    asked: list[tuple[str, object]] = [
        ("SLURM_CPUS_PER_TASK", request.cpus_per_task),
        ("SLURM_NTASKS_PER_NODE", request.ntasks_per_node),
        ("SLURM_NTASKS_PER_SOCKET", request.ntasks_per_socket),
        ("SLURM_NTASKS_PER_CORE", request.ntasks_per_core),
        ("SLURM_NTASKS_PER_GPU", request.ntasks_per_gpu),
        ("SLURM_THREADS_PER_CORE", request.threads_per_core),
        ("SLURM_MEM_PER_NODE", request.mem_per_node or None),
        ("SLURM_MEM_PER_CPU", request.mem_per_cpu or None),
        ("SLURM_OVERCOMMIT", 1 if request.overcommit else None),
        ("SLURM_JOB_DEPENDENCY", request.extra.get("dependency") if request.kind != "alloc" else None),
        ("SLURM_OPEN_MODE", request.open_mode if request.kind == "batch" else None),
    ]
    if request.kind != "run":
        asked.extend((f"SLURM_{name}", request.extra.get(option)) for option, name in _SAMPLING)
    if request.ntasks is not None or request.ntasks_per_node or request.ntasks_per_gpu or request.gpus_per_task:
        # With --ntasks-per-node and --ntasks-per-gpu the nodes have room for more than -n.
        ntasks = request.ntasks or sum(share.tasks for share in job.shares)
        asked.extend((("SLURM_NTASKS", ntasks), ("SLURM_NPROCS", ntasks)))
    if request.distribution:
        kind, _, size = request.distribution.partition("=")
        asked.extend((("SLURM_DISTRIBUTION", kind), ("SLURM_DIST_PLANESIZE", size or None)))
    return _texts(asked)


def asked_gpu_variables(job: Job) -> dict[str, str]:
    """The GPU options as they were given. A step of srun outside a job does not get them."""
    request = job.request
    return _texts(
        [
            ("SLURM_GPUS", request.gpus),
            ("SLURM_GPUS_PER_NODE", request.gpus_per_node),
            ("SLURM_GPUS_PER_SOCKET", request.gpus_per_socket),
            ("SLURM_GPUS_PER_TASK", request.gpus_per_task),
            ("SLURM_CPUS_PER_GPU", request.cpus_per_gpu),
            ("SLURM_MEM_PER_GPU", request.mem_per_gpu or None),
            ("SLURM_GPU_BIND", request.extra.get("gpu-bind")),
        ]
    )


def _texts(pairs: Iterable[tuple[str, object]]) -> dict[str, str]:
    return {name: str(value) for name, value in pairs if value is not None}


def memory_variables(job: Job, cluster: Cluster) -> dict[str, str]:
    """The default that was charged, where the user asked for no memory; ``--mem=0`` shows nothing."""
    rule = memory_rule(job.request, cluster, cluster.partition(job.partition))
    if rule.per_cpu:
        return {"SLURM_MEM_PER_CPU": str(rule.per_cpu)}
    return {"SLURM_MEM_PER_NODE": str(rule.per_node)} if rule.per_node else {}


def _array(job: Job) -> dict[str, str]:
    if job.array_task_id is None or not job.array_spec:
        return {}
    spec = ArraySpec.parse(job.array_spec, _ANY_INDEX)
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array_job_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_task_id),
        "SLURM_ARRAY_TASK_COUNT": str(len(spec)),
        "SLURM_ARRAY_TASK_MIN": str(spec.first),
        "SLURM_ARRAY_TASK_MAX": str(spec.last),
        "SLURM_ARRAY_TASK_STEP": str(written_step(job.array_spec)),
    }


def _nameless(request: JobRequest) -> bool:
    """A script from standard input without -J: it shows as ``sbatch``, but has no SLURM_JOB_NAME."""
    return request.kind == "batch" and request.command is None and request.name == "sbatch"


def gpu_variables(indexes: Iterable[int]) -> dict[str, str]:
    """The devices for CUDA, ROCm and oneAPI programs: ``0,1``; empty values hide all."""
    text = ",".join(map(str, indexes))
    return dict.fromkeys(_GPU_VARIABLES, text)


def resize_scripts(job: Job, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """File endings and texts of the scripts that bring a shell's variables up to date when the job has given up nodes: those
    variables that ``environment`` has.
    """
    nodes, count = f'"{hostlist.fold(hosts(job))}"', str(len(job.shares))
    values = {
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NNODES": count,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_JOB_CPUS_PER_NODE": f'"{lists.fold_counts(share.cpus for share in job.shares)}"',
    }
    there = [(name, value) for name, value in values.items() if name in environment]
    gone = ("SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE")  # go where the last of them is set
    found = []
    for ending, put, equals, drop in (("csh", "setenv", " ", "unsetenv"), ("sh", "export", "=", "unset")):
        lines = [f"{put} {name}{equals}{value}\n" for name, value in there]
        lines += [f"{drop} {name}\n" for name in gone if gone[-1] in environment]
        found.append((ending, "".join(lines)))
    return found
