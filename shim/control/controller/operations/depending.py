"""The jobs that a job here may depend on."""

from __future__ import annotations

from shim.control.controller.world import World
from shim.core.formats.dependency import Dependency


def foreign(world: World, cluster: str, dependency: Dependency) -> str:
    """Why a job of that cluster cannot wait for what it names; "" if it can.

    A job of a real Slurm would count as one that was forgotten, which is satisfied.
    """
    store = world.book.store
    for condition in dependency.conditions:
        job_id = condition.job_id
        if not job_id or world.book.known(cluster, job_id, condition.task) or store.job(None, job_id) is not None:
            continue
        for job in store.passed_jobs(job_id):
            return f"job {job_id} is on {job.cluster}, a real Slurm: nothing here waits for it"
    return ""
