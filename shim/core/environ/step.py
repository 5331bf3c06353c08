"""The variables of a step and of each of its tasks.

In a task SLURM_NNODES, NTASKS, NPROCS, TASKS_PER_NODE, NODEID and GTIDS describe the step; SLURM_NODELIST, JOB_NODELIST,
JOB_NUM_NODES, JOB_CPUS_PER_NODE and NTASKS_PER_NODE stay the job's.
"""

from __future__ import annotations

from shim.core.environ.job import asked_variables, common_variables, gpu_variables, identity_variables
from shim.core.environ.skypilot import skypilot_environment
from shim.core.formats import hostlist, lists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job
    from shim.core.model.request import StepRequest
    from shim.core.placement.step_values import StepLayout

_QUIET, _NORMAL = 2, 3  # SRUN_DEBUG
# The script's values of these must not reach a step without GPUs.
_PER_TASK = ("SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURMD_TRES_BIND")
_PRESERVED = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES", "SLURM_TASKS_PER_NODE")  # by srun -E


def step_environment(
    base: Mapping[str, str],
    job: Job,
    cluster: Cluster,
    step: StepRequest,
    layout: StepLayout,
    step_id: int,
    *,
    comm_host: str = "127.0.0.1",
) -> dict[str, str]:
    """The environment that all tasks of a step share: ``base`` (srun's, after --export) under the step's variables.

    ``comm_host`` and the request's ``comm_port``: where the tasks reach srun, who answers nothing there.
    """
    environment = {"TMPDIR": "/tmp", **base}
    for name in _PER_TASK:
        environment.pop(name, None)
    variables = {**common_variables(job, cluster), **identity_variables(job, cluster)}
    named = step.name or environment.get("SLURM_JOB_NAME") or variables.get("SLURM_JOB_NAME")
    variables["SLURM_JOB_NAME"] = named or (step.argv[0].rpartition("/")[2] if step.argv else "")
    if job.request.kind == "run":
        variables.update(asked_variables(job))
    else:
        if not job.het_job_id:  # components have theirs from the batch script
            variables["SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0"] = variables["SLURM_JOB_CPUS_PER_NODE"]
        variables["SLURM_DISTRIBUTION"] = layout.distribution
    variables.update(_shape(layout))
    port = str(step.comm_port)
    variables.update(
        SLURM_STEPID=str(step_id),
        SLURM_STEP_ID=str(step_id),
        SLURM_STEP_LAUNCHER_PORT=port,
        SLURM_SRUN_COMM_HOST=comm_host,
        SLURM_SRUN_COMM_PORT=port,
        SLURM_LAUNCH_NODE_IPADDR=comm_host,
        SLURM_TOPOLOGY_ADDR_PATTERN="node",
        SLURM_UMASK=f"{job.request.umask if step.umask is None else step.umask:04o}",
        SRUN_DEBUG=str(_QUIET if step.quiet else _NORMAL + step.verbose),
    )
    for name, value in (
        ("SLURM_CPUS_PER_TASK", step.cpus_per_task),
        ("SLURM_NTASKS_PER_NODE", step.ntasks_per_node),
        ("SLURM_NTASKS_PER_TRES", step.ntasks_per_gpu),
        ("SLURM_LABELIO", 1 if step.label else None),
        ("SLURM_DIST_PLANESIZE", layout.plane_size),
    ):
        if value is not None:
            variables[name] = str(value)
    if step.preserve_env:
        for name in _PRESERVED:
            variables.pop(name, None)
    environment.update(variables)
    environment.update(skypilot_environment(job, cluster))
    return environment


def _shape(layout: StepLayout) -> dict[str, str]:
    nodes, ntasks = str(len(layout.nodes)), str(layout.ntasks)
    per_node = lists.fold_counts(layout.tasks)
    return {
        "SLURM_NNODES": nodes,
        "SLURM_NPROCS": ntasks,
        "SLURM_NTASKS": ntasks,
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_STEP_NODELIST": hostlist.fold(layout.names),
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_STEP_NUM_TASKS": ntasks,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
    }


def task_environment(
    job: Job, cluster: Cluster, step: StepRequest, layout: StepLayout, position: int, local_id: int
) -> dict[str, str]:
    """What one task has of its own: the ``local_id``-th task on the ``position``-th node of the step.

    To be laid over ``step_environment``; SLURM_TASK_PID is for the agent to add.
    """
    index = layout.nodes[position]
    name = layout.names[position]
    ranks = layout.ranks[position]
    variables = {
        "SLURMD_NODENAME": name,
        "SLURM_CPUS_ON_NODE": str(layout.cpus[position]),
        "SLURM_GTIDS": ",".join(map(str, ranks)),
        "SLURM_LOCALID": str(local_id),
        "SLURM_NODEID": str(position),
        "SLURM_PROCID": str(ranks[local_id]),
        "SLURM_TOPOLOGY_ADDR": name,
        "SKYPILOT_NODE_RANK": str(index),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(len(job.shares[index].gpus)),
    }
    if not job.shares[index].gpus:
        return variables
    if job.request.kind == "batch":
        variables["SLURM_JOB_GPUS"] = ",".join(map(str, job.shares[index].gpus))
    own = layout.task_gpus[position][local_id] if layout.task_gpus else layout.gpus[position]
    variables.update(gpu_variables(own))
    if layout.gpus[position]:
        variables["SLURM_STEP_GPUS"] = ",".join(map(str, own))
        variables["SLURM_GPUS_ON_NODE"] = str(len(layout.gpus[position]))
    if layout.task_gpus:
        variables["SLURMD_TRES_BIND"] = f"gpu:{layout.gpu_binding}"
    return variables
