"""The variables that tell a heterogeneous job about its components: NAME_HET_GROUP_0, NAME_HET_GROUP_1 … and SLURM_HET_SIZE.

Slurm 22.05 sets each under its old suffix too, _PACK_GROUP_n. What describes the options of the first component alone
(SLURM_CPUS_PER_TASK, SLURM_GPUS_PER_NODE …) has no place beside them: a batch script finds it under the component's number only.
"""

from __future__ import annotations

from shim.core.environ.job import (
    allocation_environment,
    asked_gpu_variables,
    asked_variables,
    batch_environment,
    common_variables,
    memory_variables,
)
from shim.core.formats import lists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job

_TASKS = ("SLURM_NTASKS", "SLURM_NPROCS")
_FACTS = (
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
)
# salloc's command has these of each component, and of the job as a whole only those that are the same for all.
_FACTS_OF_ALLOC = ("SLURM_JOBID", "SLURM_NNODES", "SLURM_NODELIST", "SLURM_NODE_ALIASES")
_OF_ALLOC = ("SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_JOB_ID", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST")
_NOT_PACKED = ("SLURM_THREADS_PER_CORE",)


def het_batch_environment(components: Sequence[Job], cluster: Cluster) -> dict[str, str]:
    """Everything Slurm sets for the batch script of these components, which runs on the first one's first node."""
    leader = components[0]
    variables = batch_environment(leader, cluster)
    for name in {**asked_variables(leader), **asked_gpu_variables(leader)}:
        if name not in _TASKS:
            variables.pop(name, None)
    variables.update(memory_variables(leader, cluster))
    return {**variables, **group_variables(components, cluster)}


def het_allocation_environment(components: Sequence[Job], cluster: Cluster) -> dict[str, str]:
    """What salloc's command sees of these components."""
    whole = allocation_environment(components[0], cluster)
    variables = {name: whole[name] for name in _OF_ALLOC if name in whole}
    asked = [one for one in components if "SLURM_NTASKS" in asked_variables(one)]
    if asked:
        variables.update(dict.fromkeys(_TASKS, str(sum(share.tasks for one in asked for share in one.shares))))
    for offset, job in enumerate(components):
        of_job = allocation_environment(job, cluster)
        _put(variables, offset, {name: of_job[name] for name in _FACTS_OF_ALLOC})
    return {**variables, **group_variables(components, cluster)}


def group_variables(components: Sequence[Job], cluster: Cluster) -> dict[str, str]:
    """The variables of each component under its number."""
    size = str(len(components))
    variables = {"SLURM_HET_SIZE": size, "SLURM_PACK_SIZE": size}
    for offset, job in enumerate(components):
        facts = common_variables(job, cluster)
        own = {name: facts[name] for name in _FACTS if name in facts}
        own["SLURM_TASKS_PER_NODE"] = lists.fold_counts(share.tasks for share in job.shares)
        own.update(memory_variables(job, cluster))
        own.update(asked_variables(job))
        own.update(asked_gpu_variables(job))
        _put(variables, offset, own)
    return variables


def step_group_variables(components: Sequence[Job], cluster: Cluster) -> dict[str, str]:
    """What the tasks of srun outside a job see of its components: the old suffix alone, and little."""
    size = str(len(components))
    variables = {"SLURM_HET_SIZE": size, "SLURM_PACK_SIZE": size}
    for offset, job in enumerate(components):
        facts = common_variables(job, cluster)
        for name in ("SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION"):
            variables[f"{name}_PACK_GROUP_{offset}"] = facts[name]
    return variables


def _put(variables: dict[str, str], offset: int, own: dict[str, str]) -> None:
    for name, value in own.items():
        variables[f"{name}_HET_GROUP_{offset}"] = value
        if name not in _NOT_PACKED:
            variables[f"{name}_PACK_GROUP_{offset}"] = value
