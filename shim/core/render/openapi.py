"""The documents of ``squeue --json`` and ``sinfo --json``: the layout of Slurm 22.05 (openapi/v0.0.38), field for field in its order.

What is never set here has the value that Slurm gives a field that is not set. None is null; "" a text that is not set.
"""

from __future__ import annotations

from shim.core.formats.sizes import show_memory
from shim.core.formats.tres import show_gpus_field
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.job_fields import accrue_time, requeues
from shim.core.render.sinfo_fields import gres_text, gres_used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.job import Job, NodeShare
    from shim.core.render.node_state import NodeUse
    from shim.core.render.scontrol_node import Machine
    from shim.core.render.view import View

    Fields = dict[str, Any]

_YEAR = 365 * 24 * 3600
_SHOW_FLAGS = ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"]


def document(version: str, name: str, records: Iterable[Fields]) -> Fields:
    """The whole document: ``records`` under ``name`` (jobs, nodes)."""
    major, minor, micro = (int(word) for word in version.split(".")[:3])
    return {
        "meta": {
            "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
            "Slurm": {"version": {"major": major, "micro": micro, "minor": minor}, "release": version},
        },
        "errors": [],
        name: list(records),
    }


class _Record:
    """A job as it is shown, and what several fields are made of."""

    def __init__(self, job: Job, view: View) -> None:
        self.job = job
        self.view = view
        self.request = job.request
        self.shares = [share for share in job.shares if not share.planned]
        self.never_ran = job.state in states.TERMINAL and not self.shares
        self.files = facts.files_asked(job) if job.request.kind == "batch" else ("", "", "")

    def memory(self, *, per_cpu: bool) -> int | None:
        """MiB of each CPU or of each node, whichever of them was asked for."""
        amount, of_cpus = facts.min_memory(self.job, self.view)
        if of_cpus != per_cpu:
            return None
        asked = self.request.mem_per_node is not None or bool(self.request.mem_per_cpu) or bool(amount)
        return amount if asked and (amount or per_cpu) else None


def job_fields(job: Job, view: View) -> Fields:
    """A job record."""
    one = _Record(job, view)
    found = {name: value(one) if callable(value) else value for name, value in _JOB.items()}
    if not one.shares:
        del found["job_resources"]
    return found


def _end_time(job: Job, view: View) -> float:
    """A job without a limit ends in a year."""
    endless = job.state == states.RUNNING and facts.time_limit(job, view) == INFINITE
    return job.start_time + _YEAR if endless else facts.end_time(job, view)


def _throttle(job: Job) -> int:
    throttle = (job.array_tasks or "").partition("%")[2]
    return int(throttle) if throttle.isdecimal() else 0


def _flags(job: Job) -> list[str]:
    request = job.request
    found = {
        "KILL_INV_DEP": request.kill_on_invalid_dep is True,
        "NO_KILL_INV_DEP": request.kill_on_invalid_dep is False,
        "CRON_JOB": bool(request.cron),
        "SPREAD_JOB": request.spread_job,
        "USE_MIN_NODES": request.use_min_nodes,
        "TRES_STR_CALC": job.state in states.TERMINAL and bool(job.shares),
        "JOB_CPUS_SET": bool(request.cpus_per_task),
        "JOB_WAS_RUNNING": bool(job.shares) and job.state not in states.TERMINAL,
        "JOB_MEM_SET": bool(request.mem_per_node or request.mem_per_cpu),
    }
    return [name for name, is_set in found.items() if is_set]


def _shared(job: Job) -> str | None:
    word = facts.over_subscribe(job)
    return {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}.get(word)


def _prefixed(prefix: str, text: str | None) -> str:
    return prefix + text if text else ""


def _limit(one: _Record) -> int | None:
    limit = facts.time_limit(one.job, one.view)
    return None if limit == INFINITE else limit


def _resources(one: _Record) -> Fields:
    cluster = one.view.cluster
    return {
        "nodes": facts.nodelist(one.job),
        "allocated_cores": sum(share.cpus for share in one.shares),
        "allocated_hosts": len(one.shares),
        "allocated_nodes": [
            {
                "sockets": _sockets(share, cluster.node(share.name) if cluster is not None else None),
                "nodename": share.name,
                "cpus_used": 0,
                "memory_used": 0,
                "memory_allocated": share.memory,
            }
            for share in one.shares
        ],
    }


def _sockets(share: NodeShare, node: Node | None) -> Fields:
    """The cores as ``scontrol -d`` counts them: a job's CPUs of a node begin at 0."""
    threads = max(node.threads_per_core, 1) if node else 1
    cores = max(node.cores_per_socket, 1) if node else share.cpus
    found: Fields = {}
    for core in range(-(-share.cpus // threads)):
        socket = found.setdefault(str(core // cores), {"cores": {}})
        socket["cores"][str(core % cores)] = "allocated"
    return found


# What is the same of every job, or made of it.
_JOB: dict[str, Any] = {
    "account": lambda one: one.request.account or "",
    "accrue_time": lambda one: int(accrue_time(one.job)) if not one.job.held else 0,
    "admin_comment": "",
    "array_job_id": lambda one: one.job.array_job_id,
    "array_task_id": lambda one: one.job.array_task_id,
    "array_max_tasks": lambda one: _throttle(one.job),
    "array_task_string": lambda one: one.job.array_tasks or "",
    "association_id": 0,
    "batch_features": lambda one: one.request.extra.get("batch", ""),
    "batch_flag": lambda one: one.request.kind == "batch",
    "batch_host": lambda one: one.shares[0].name if one.shares else "",
    "flags": lambda one: _flags(one.job),
    "burst_buffer": lambda one: one.request.extra.get("bb", ""),
    "burst_buffer_state": "",
    "cluster": lambda one: one.job.cluster,
    "cluster_features": lambda one: one.request.extra.get("cluster-constraint", ""),
    "command": lambda one: facts.command(one.job),
    "comment": lambda one: one.job.comment or one.request.comment or "",
    "container": lambda one: one.request.container.get("container", ""),
    "contiguous": lambda one: one.request.contiguous,
    "core_spec": None,
    "thread_spec": None,
    "cores_per_socket": lambda one: one.request.cores_per_socket,
    "billable_tres": lambda one: float(one.job.cpus) if one.shares else None,
    "cpus_per_task": None,
    "cpu_frequency_minimum": None,
    "cpu_frequency_maximum": None,
    "cpu_frequency_governor": None,
    "cpus_per_tres": lambda one: f"gres:gpu:{one.request.cpus_per_gpu}" if one.request.cpus_per_gpu else "",
    "deadline": lambda one: one.request.deadline,
    "delay_boot": 0,
    "dependency": lambda one: one.job.dependency,
    "derived_exit_code": lambda one: one.job.derived_status,
    "eligible_time": lambda one: int(facts.eligible_time(one.job)),
    "end_time": lambda one: int(_end_time(one.job, one.view)),
    "excluded_nodes": lambda one: one.request.exclude or "",
    "exit_code": lambda one: one.job.exit_status,
    "features": lambda one: one.request.constraint or "",
    "federation_origin": "",
    "federation_siblings_active": "",
    "federation_siblings_viable": "",
    "gres_detail": lambda one: [facts.gres_held(share) for share in one.shares if share.gpus],
    "group_id": lambda one: one.job.gid,
    "group_name": lambda one: one.job.group,
    "job_id": lambda one: one.job.job_id,
    "job_resources": _resources,  # of a job that has nodes
    "job_state": lambda one: one.job.shown_state,
    "last_sched_evaluation": lambda one: int(one.job.last_sched or one.job.submit_time),
    "licenses": lambda one: one.request.licenses or "",
    "max_cpus": 0,
    "max_nodes": lambda one: one.request.max_nodes or 0,
    "mcs_label": "",
    "memory_per_tres": lambda one: "" if one.request.mem_per_gpu is None else f"gres:gpu:{one.request.mem_per_gpu}",
    "name": lambda one: one.job.name,
    "nodes": lambda one: facts.nodelist(one.job),
    "nice": lambda one: one.request.nice or None,
    "tasks_per_core": lambda one: one.request.ntasks_per_core,
    "tasks_per_node": lambda one: one.request.ntasks_per_node or 0,
    "tasks_per_socket": lambda one: one.request.ntasks_per_socket,
    "tasks_per_board": 0,
    "cpus": lambda one: None if one.never_ran else one.job.cpus,
    "node_count": lambda one: facts.nodes_counted(one.job, one.view),
    "tasks": lambda one: (
        None if one.never_ran and one.request.ntasks is None and one.request.ntasks_per_node is None else one.job.tasks
    ),
    "het_job_id": lambda one: one.job.het_job_id,
    "het_job_id_set": lambda one: facts.het_ids(one.job) if one.job.het_job_id else "",
    "het_job_offset": lambda one: one.job.het_offset,
    "partition": lambda one: one.job.partition,
    "prefer": lambda one: one.request.prefer or "",
    "memory_per_node": lambda one: one.memory(per_cpu=False),
    "memory_per_cpu": lambda one: one.memory(per_cpu=True),
    "minimum_cpus_per_node": lambda one: facts.min_cpus_per_node(one.job),
    "minimum_tmp_disk_per_node": lambda one: one.request.tmp_disk or 0,
    "preempt_time": 0,
    "pre_sus_time": lambda one: (
        int(facts.time_used(one.job, one.job.suspend_time)) if one.job.suspend_time and one.job.start_time else 0
    ),
    "priority": lambda one: one.job.priority,
    "profile": None,
    "qos": lambda one: one.request.qos or "",
    "reboot": False,
    "required_nodes": lambda one: one.request.node_list or "",
    "requeue": lambda one: requeues(one.job, one.view),
    "resize_time": lambda one: int(one.job.resize_time),
    "restart_cnt": lambda one: one.job.restarts,
    "resv_name": lambda one: one.request.reservation or "",
    "shared": lambda one: _shared(one.job),
    "show_flags": lambda one: list(_SHOW_FLAGS),
    "sockets_per_board": 0,
    "sockets_per_node": lambda one: one.request.sockets_per_node,
    "start_time": lambda one: int(one.job.start_time),
    "state_description": "",
    "state_reason": lambda one: one.job.reason,
    "standard_error": lambda one: one.files[1] if one.request.stderr is not None else "",
    "standard_input": lambda one: one.files[2],
    "standard_output": lambda one: one.files[0] if one.request.stdout is not None else "",
    "submit_time": lambda one: int(one.job.submit_time),
    "suspend_time": lambda one: int(one.job.suspend_time),
    "system_comment": lambda one: one.job.system_comment,
    "time_limit": lambda one: _limit(one),
    "time_minimum": lambda one: one.request.time_min or 0,
    "threads_per_core": lambda one: one.request.threads_per_core,
    "tres_bind": lambda one: _prefixed("gpu:", one.request.extra.get("gpu-bind")),
    "tres_freq": lambda one: _prefixed("gpu:", one.request.extra.get("gpu-freq")),
    "tres_per_job": lambda one: show_gpus_field(one.request.gpus) or "",
    "tres_per_node": lambda one: facts.tres_per_node(one.job),
    "tres_per_socket": lambda one: show_gpus_field(one.request.gpus_per_socket) or "",
    "tres_per_task": lambda one: show_gpus_field(one.request.gpus_per_task) or "",
    "tres_req_str": lambda one: facts.tres(one.job.replace(shares=()), one.view),
    "tres_alloc_str": lambda one: facts.tres(one.job, one.view) if one.shares else "",
    "user_id": lambda one: one.job.uid,
    "user_name": lambda one: one.job.user,
    "wckey": lambda one: one.request.wckey or "",
    "current_working_directory": lambda one: one.request.work_dir,
}


def node_fields(cluster: Cluster, use: NodeUse, machine: Machine, now: float) -> Fields:
    """A node record."""
    node = use.node
    gpus = f",gres/gpu={node.gpus}" if node.gpus and cluster.accounting else ""
    used = [f"cpu={use.cpus}"] if use.cpus else []
    used += [f"mem={show_memory(use.memory)}"] if use.memory else []
    features = ",".join(node.features)
    state, *flags = use.complete.split("+")
    return {
        "architecture": machine.arch,
        "burstbuffer_network_address": "",
        "boards": 1,
        "boot_time": int(machine.boot_time),
        "comment": node.comment,
        "cores": node.cores_per_socket,
        "cpu_binding": 0,
        "cpu_load": None if machine.load is None else round(100 * machine.load),
        "extra": node.extra,
        "free_memory": machine.free_memory,
        "cpus": node.cpus,
        "last_busy": int(now if use.jobs else machine.boot_time),
        "features": features,
        "active_features": features,
        "gres": gres_text(node),
        "gres_drained": "N/A",
        "gres_used": gres_used(use),
        "mcs_label": "",
        "name": node.name,
        "next_state_after_reboot": "invalid",
        "address": node.address or node.name,
        "hostname": node.name,
        "state": state.lower(),
        "state_flags": flags,
        "next_state_after_reboot_flags": [],
        "operating_system": machine.system,
        "owner": None,
        "partitions": [one.name for one in cluster.partitions if node.name in one.nodes],
        "port": 6818,
        "real_memory": node.memory,
        "reason": node.reason,
        "reason_changed_at": int(node.reason_time),
        "reason_set_by_user": node.reason_user or None,
        "slurmd_start_time": int(machine.boot_time),
        "sockets": node.sockets,
        "threads": node.threads_per_core,
        "temporary_disk": node.tmp_disk,
        "weight": node.weight,
        "tres": f"cpu={node.cpus},mem={show_memory(node.memory)},billing={node.cpus}{gpus}",
        "slurmd_version": cluster.version,
        "alloc_memory": use.memory,
        "alloc_cpus": use.cpus,
        "idle_cpus": node.cpus - use.cpus,
        "tres_used": ",".join(used) or None,
        "tres_weighted": float(use.cpus),
    }
